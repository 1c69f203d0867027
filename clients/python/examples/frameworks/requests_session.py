"""requests: an existing session pays."""

import os

import requests

import purserpay
import purserpay.requests

with purserpay.requests.wrap(requests.Session(), purserpay.from_env()) as session:
    answer = session.get(os.environ["SELLER"] + "/weather")
    print(answer.json(), purserpay.payment_of(answer))
