"""An MCP server that sells a tool with x402.mcp of the package x402.

Environment: STREAMS (it serves its standard streams alone); FACILITATOR_URL, PAY_TO; TLS_CERT, TLS_KEY; SESSION, JSON, EVENTS (answers can be resumed), PROGRESS and CUT are
on if they are not empty. It prints its addresses as one line of JSON, and ends with its standard input.
"""

import asyncio
import json
import os
import socket
import sys

import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from x402 import ResourceConfig, x402ResourceServer
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.mcp import create_payment_wrapper
from x402.mechanisms.evm.exact import ExactEvmServerScheme

env = os.environ.get


class Events(EventStore):
    """The events of streams, which a client asks for again after its connection broke."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        after = int(last_event_id)
        stream = self.events[after][0]
        for number, (of, message) in enumerate(self.events[after + 1 :], after + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


server = FastMCP(
    "x402",
    log_level="WARNING",
    json_response=bool(env("JSON")),
    stateless_http=not env("SESSION"),
    event_store=Events() if env("EVENTS") else None,
    retry_interval=100,
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
)

resources = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=env("FACILITATOR_URL"))))
resources.register("eip155:8453", ExactEvmServerScheme())
resources.initialize()
paid = create_payment_wrapper(
    resources,
    accepts=resources.build_payment_requirements(
        ResourceConfig(scheme="exact", network="eip155:8453", pay_to=env("PAY_TO"), price="$0.01")
    ),
)
runs = {}  # by city


@server.tool()
@paid
async def get_weather(city: str) -> str:
    """The weather in a city"""
    runs[city] = runs.get(city, 0) + 1
    context = server.get_context()
    if env("PROGRESS"):
        await context.report_progress(1, 2)
    if env("CUT"):
        await context.close_sse_stream()
    return f"sunny in {city}"


@server.tool()
def hello(name: str) -> str:
    """A greeting"""
    return f"hello {name}"


@server.custom_route("/runs", methods=["GET"])
async def count(_request):
    return JSONResponse(runs)


def listener():
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    return sock, sock.getsockname()[1]


async def main():
    if env("STREAMS"):
        await server.run_stdio_async()
        return
    app = server.streamable_http_app()
    common = {"log_level": "warning", "timeout_keep_alive": 3600, "timeout_graceful_shutdown": 1}
    sock, port = listener()
    at = {"url": f"http://127.0.0.1:{port}"}
    servers = [(uvicorn.Server(uvicorn.Config(app, lifespan="on", **common)), sock)]
    if env("TLS_CERT"):
        sock, port = listener()
        at["tls"] = f"https://127.0.0.1:{port}"
        files = {"ssl_certfile": env("TLS_CERT"), "ssl_keyfile": env("TLS_KEY")}
        servers.append((uvicorn.Server(uvicorn.Config(app, lifespan="off", **files, **common)), sock))
    tasks = [asyncio.create_task(one.serve(sockets=[sock])) for one, sock in servers]
    while not all(one.started for one, _ in servers):
        await asyncio.sleep(0.01)
    print(json.dumps(at), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for one, _ in servers:
        one.should_exit = True
    await asyncio.gather(*tasks)


asyncio.run(main())
