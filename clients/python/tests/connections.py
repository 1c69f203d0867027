"""Real connections: servers that are functions, and clients that buy from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import aiohttp
import anyio

import purserpay
import purserpay.aiohttp
import purserpay.httpx
import purserpay.requests
import purserpay.urllib3

from .clients import Says, Seen

Handle = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def serving(handle: Handle) -> Iterator[str]:
    """A server on a real socket."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def do_GET(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                handle(self, body)
            except (BrokenPipeError, ConnectionResetError):
                return

        do_POST = do_CONNECT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(to: BaseHTTPRequestHandler, said: Says) -> None:
    to.send_response(said.status)
    for name, value in said.headers:
        to.send_header(name, value)
    to.send_header("Content-Length", str(len(said.body)))
    to.send_header("Connection", "close")
    to.end_headers()
    to.wfile.write(said.body)


def played(server: Callable[[Seen], Says]) -> Handle:
    """A server that is a function, on a real socket."""

    def handle(request: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer(request, server(Seen(request.command, request.path, headers, body)))

    return handle


def buy_with(kind: str, given: purserpay.Options, url: str, **more: Any) -> tuple[int, bytes]:
    """Buy over real connections."""
    if kind == "urllib3":
        with purserpay.urllib3.PoolManager(given, retries=False) as pools:
            answered = pools.request("GET", url, **more)
            return answered.status, answered.data
    if kind == "aiohttp":

        async def get() -> tuple[int, bytes]:
            paying = purserpay.aiohttp.PurserMiddleware(given)
            timeout = aiohttp.ClientTimeout(sock_read=more.get("timeout", 60))
            try:
                async with aiohttp.ClientSession(middlewares=[paying], timeout=timeout, trust_env=True) as session:
                    async with session.get(url) as response:
                        return response.status, await response.read()
            finally:
                await paying.close()

        return anyio.run(get)
    if kind != "requests":
        more = {"timeout": 60, **more}  # httpx's own is 5 s
    if kind == "httpx":
        with purserpay.httpx.Client(given, **more) as client:
            response: Any = client.get(url)
            return response.status_code, response.content
    if kind == "requests":
        with purserpay.requests.Session(given) as session:
            response = session.get(url, **more)
            return response.status_code, response.content

    async def go() -> tuple[int, bytes]:
        async with purserpay.httpx.AsyncClient(given, **more) as client:
            response = await client.get(url)
            return response.status_code, response.content

    return anyio.run(go)


KINDS = ["httpx", "httpx-async", "requests", "urllib3", "aiohttp"]
