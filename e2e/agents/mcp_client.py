"""The official MCP client for Python. It calls tools one after the other, and prints one line of JSON.

Environment: SERVER is the URL of a streamable HTTP server, or a JSON list with the command of a stdio server; CALLS is a
JSON list of {name, arguments}.
"""

import asyncio
import json
import os

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main():
    server = os.environ["SERVER"]
    if server.startswith("["):
        command, *args = json.loads(server)
        server = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))
    async with Client(server) as client:
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        results = []
        for call in json.loads(os.environ["CALLS"]):
            result = await client.call_tool(call["name"], call["arguments"])
            results.append(
                {
                    "error": result.is_error,
                    "text": "".join(part.text for part in result.content if part.type == "text"),
                    "structured": result.structured_content,
                }
            )
    print(json.dumps({"tools": tools, "results": results}))


asyncio.run(main())
