"""The client of the package mcp, the first generation.

It calls tools one after the other, and prints a line of JSON for each. Environment: SERVER is a URL; CALLS is a JSON list of
{name, arguments}.
"""

import asyncio
import json
import os

import paying
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def ignore(*_):
    pass


async def main():
    how = {"httpx_client_factory": paying.first_generation} if paying.pays() else {}
    async with streamablehttp_client(os.environ["SERVER"], **how) as (reading, writing, _), ClientSession(reading, writing) as client:
        await client.initialize()
        for call in json.loads(os.environ["CALLS"]):
            try:
                result = await client.call_tool(call["name"], call["arguments"], progress_callback=ignore)
                got = {
                    "isError": result.isError,
                    "text": "".join(part.text for part in result.content if part.type == "text"),
                    "structured": result.structuredContent,
                    "meta": result.meta,
                }
            except Exception as error:
                got = {"failure": repr(error)}
            print(json.dumps(got), flush=True)


asyncio.run(main())
