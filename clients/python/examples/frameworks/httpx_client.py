"""httpx: an existing client pays."""

import os

import httpx

import purserpay
import purserpay.httpx

with purserpay.httpx.wrap(httpx.Client(), purserpay.from_env()) as client:
    answer = client.get(os.environ["SELLER"] + "/weather")
    print(answer.json(), purserpay.payment_of(answer))
