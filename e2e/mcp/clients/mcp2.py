"""The client of the package mcp, the second generation.

It calls tools one after the other, and prints a line of JSON for each. Environment: SERVER is a URL; CALLS is a JSON list of
{name, arguments}; MODE is auto or legacy.
"""

import asyncio
import json
import os

import paying
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def ignore(*_):
    pass


async def main():
    server = os.environ["SERVER"]
    if paying.pays():
        server = streamable_http_client(server, http_client=paying.second_generation())
    async with Client(server, mode=os.environ["MODE"]) as client:
        for call in json.loads(os.environ["CALLS"]):
            try:
                result = await client.call_tool(call["name"], call["arguments"], progress_callback=ignore)
                got = {
                    "isError": result.is_error,
                    "text": "".join(part.text for part in result.content if part.type == "text"),
                    "structured": result.structured_content,
                    "meta": result.meta,
                }
            except Exception as error:
                got = {"failure": repr(error)}
            print(json.dumps(got), flush=True)


asyncio.run(main())
