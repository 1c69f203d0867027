"""The same without blocking; three purchases at a time."""

import asyncio
import os

import purserpay
import purserpay.httpx


async def main() -> None:
    """Buy three times."""
    options = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
    async with purserpay.httpx.AsyncClient(options) as client:
        answers = await asyncio.gather(*(client.get(os.environ["SELLER"] + f"/weather?{n}") for n in range(3)))
    print([answer.json()["sky"] for answer in answers])


asyncio.run(main())
