"""httpx2: an existing client pays."""

import os

import httpx2

import purserpay
import purserpay.httpx2

with purserpay.httpx2.wrap(httpx2.Client(), purserpay.from_env()) as client:
    answer = client.get(os.environ["SELLER"] + "/weather")
    print(answer.json(), purserpay.payment_of(answer))
