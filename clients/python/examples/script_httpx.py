"""Buy with httpx: ten lines, whatever the seller charges up to 5 cents."""

import os

import purserpay
import purserpay.httpx

options = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.httpx.Client(options) as client:
    answer = client.get(os.environ["SELLER"] + "/weather")
    print(answer.json()["sky"], purserpay.payment_of(answer))
