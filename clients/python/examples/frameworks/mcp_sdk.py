"""MCP SDK: a tool that is paid by the call."""

import asyncio
import os

import mcp
from mcp.client.streamable_http import streamable_http_client

import purserpay
import purserpay.httpx2


async def main() -> None:
    """Call the tool."""
    async with (
        purserpay.httpx2.AsyncClient(purserpay.from_env(return_402=True)) as paying,
        mcp.Client(streamable_http_client(os.environ["MCP_URL"], http_client=paying)) as client,
    ):
        print(await client.call_tool("weather", {"city": "Lisbon"}))


asyncio.run(main())
