"""urllib3: an existing pool manager pays."""

import os

import urllib3

import purserpay
import purserpay.urllib3

with purserpay.urllib3.wrap(urllib3.PoolManager(), purserpay.from_env()) as pools:
    answer = pools.request("GET", os.environ["SELLER"] + "/weather")
    print(answer.json(), purserpay.payment_of(answer))
