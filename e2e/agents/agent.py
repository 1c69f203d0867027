"""Fetches a report and prints it. It has never heard of payments."""

import sys

import requests

response = requests.get(sys.argv[1], params={"city": "Kiel"}, timeout=60)
response.raise_for_status()
print(response.json()["report"])
