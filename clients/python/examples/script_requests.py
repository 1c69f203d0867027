"""Buy with requests, and handle what can go wrong with money."""

import os

import purser
import purser.requests

options = purser.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purser.requests.Session(options) as session:
    try:
        answer = session.post(os.environ["SELLER"] + "/echo", data="hello")
    except (purser.UnclearError, purser.RejectedError) as error:
        # Money may have moved. The same payment once more, never a new one:
        answer = error.resume()
    except purser.PurserError as error:
        raise SystemExit(f"nothing was paid: {error.code}") from error
    print(answer.text, purser.payment_of(answer))
