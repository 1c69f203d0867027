"""What was spent, from purserpay's books."""

import os

import purserpay

with purserpay.Purser(os.environ["PURSER_KEY"], os.environ["PURSER_URL"]) as api:
    total = 0
    for event in api.spend.all():
        print(event.created_at, event.amount, event.currency, event.request_url)
        total += int(event.amount)
    print("total", total, "pending", api.spend.list(limit=1).pending)
