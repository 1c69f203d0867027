"""aiohttp: an existing session pays."""

import asyncio
import os

import aiohttp

import purserpay
import purserpay.aiohttp


async def main() -> None:
    """Buy once."""
    async with aiohttp.ClientSession() as session:
        purserpay.aiohttp.wrap(session, purserpay.from_env())
        async with session.get(os.environ["SELLER"] + "/weather") as answer:
            print(await answer.json(), purserpay.payment_of(answer))


asyncio.run(main())
