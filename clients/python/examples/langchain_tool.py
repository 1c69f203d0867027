"""A tool for agents that buys, with a limit for each purchase and a list of who may be paid."""

import os
from urllib.parse import urlsplit

from langchain_core.tools import tool

import purser
import purser.httpx

SELLER = os.environ["SELLER"]
options = purser.Options(
    os.environ["PURSER_KEY"],
    os.environ["PURSER_URL"],
    max_amount=50_000,
    allow_hosts=[urlsplit(SELLER).netloc],
    before_payment=lambda info: print("paying", info.amount, "to", info.host),
)
client = purser.httpx.Client(options)


@tool
def weather(city: str) -> str:
    """Look up the weather of a city. Costs a cent."""
    try:
        answer = client.get(SELLER + "/weather", params={"city": city})
    except purser.PurserError as error:
        return f"not bought: {error.code}"
    return answer.text


print(weather.invoke({"city": "Lisbon"}))
client.close()
