"""Asks again and again for what it does not get, as many programs tell urllib3 to."""

import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

retry = Retry(
    total=3,
    backoff_factor=0.05,
    status_forcelist=[402, 500, 502, 503, 504],
    allowed_methods=None,
    raise_on_status=False,
)
session = requests.Session()
for scheme in ("http://", "https://"):
    session.mount(scheme, HTTPAdapter(max_retries=retry))
print(session.post(sys.argv[1], json={"question": "how much is the fish?"}, timeout=60).status_code)
