"""Buy with requests, and handle what can go wrong with money."""

import os

import requests

import purserpay
import purserpay.requests

options = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.requests.Session(options) as session:
    try:
        answer = session.post(os.environ["SELLER"] + "/echo", data="hello")
    except (purserpay.UnclearError, purserpay.RejectedError) as error:
        # Money may have moved. The same payment once more, never a new one:
        answer = error.resume(requests.Response)
    except purserpay.PurserError as error:
        raise SystemExit(f"nothing was paid: {error}") from error
    print(answer.text, purserpay.payment_of(answer))
