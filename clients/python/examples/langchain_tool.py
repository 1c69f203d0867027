"""A tool for agents that buys, with a limit for each purchase and a list of who may be paid."""

import os
from urllib.parse import urlsplit

from langchain_core.tools import tool

import purserpay
import purserpay.httpx

SELLER = os.environ["SELLER"]


def approve(info: purserpay.BeforePayment) -> bool:
    """Say what is about to be paid. Only True pays."""
    print("paying", info.amount, "to", info.host)
    return True


options = purserpay.Options(
    os.environ["PURSER_KEY"],
    os.environ["PURSER_URL"],
    max_amount=50_000,
    allow_hosts=[urlsplit(SELLER).netloc],
    before_payment=approve,
)
client = purserpay.httpx.Client(options)


@tool
def weather(city: str) -> str:
    """Look up the weather of a city. Costs a cent."""
    try:
        answer = client.get(SELLER + "/weather", params={"city": city})
    except purserpay.PurserError as error:
        return f"not bought: {error}"
    return answer.text


print(weather.invoke({"city": "Lisbon"}))
client.close()
