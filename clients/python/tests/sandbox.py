"""A real world to buy in: purser-sandbox, official sellers, and relays in front of them that lose things.

The sandbox is the program that PURSER_SANDBOX_BIN names; the sellers are those of e2e/peers, and need Node.
"""

from __future__ import annotations

import http.client
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest

from .clients import Says
from .connections import answer

PEERS = Path(__file__).parents[3] / "e2e" / "peers"
# keccak-256 of Transfer(address,address,uint256)
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
SELLER = "0x00000000000000000000000000000000000000ff"


@dataclass
class World:
    """The sandbox, and where the sellers are."""

    api: str
    key: str
    wallet: str
    rpc: str
    token: str
    sellers: dict[str, str]

    def spent(self) -> int:
        """What left the wallet on chain so far, in the smallest unit."""
        topics = [TRANSFER, "0x" + self.wallet[2:].lower().rjust(64, "0")]
        query = {"address": self.token, "fromBlock": "0x0", "toBlock": "latest", "topics": topics}
        call = {"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [query]}
        logs = httpx.post(self.rpc, json=call, trust_env=False, timeout=60).json()["result"]
        return sum(int(log["data"], 16) for log in logs)

    def payments(self) -> int:
        """How many payments purser has journaled."""
        import purserpay

        with purserpay.Purser(self.key, self.api) as api:
            return sum(1 for _ in api.payments.all())


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run a program that prints a line of JSON when it is ready, and ends when its standard input does."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    process = subprocess.Popen(
        command, env={**kept, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{command} ended with {process.wait(10)}"
        yield json.loads(line)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def need(module: str | None = None) -> None:
    """Skip the test if something is missing, or a module. With CI=true that is a failure."""
    lacks = missing()
    if module is not None:
        lacks = None if importlib.util.find_spec(module) else f"{module} is not installed"
    if lacks:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(lacks)


def missing() -> str | None:
    """What is missing to run all this."""
    if not os.environ.get("PURSER_SANDBOX_BIN"):
        return "PURSER_SANDBOX_BIN does not name the program purser-sandbox"
    if shutil.which("node") is None or not (PEERS / "node_modules").is_dir():
        return "the official sellers need Node and e2e/peers/node_modules"
    return None


@contextmanager
def world() -> Iterator[World]:
    """Start everything."""
    program = os.environ["PURSER_SANDBOX_BIN"]
    with _running([program, "-json", "-port", "0"], {}) as about:
        how = {"FACILITATOR_URL": about["facilitator"], "PAY_TO": SELLER}
        with (
            _running(["node", str(PEERS / "seller-v1.mjs")], how) as v1,
            _running(["node", str(PEERS / "seller-v2.mjs")], how) as v2,
        ):
            port = urlsplit(about["seller"]).port
            yield World(
                api=about["api"],
                key=about["key"],
                wallet=about["wallet"],
                rpc=about["rpc"],
                token=about["token"],
                sellers={
                    "sandbox": f"http://127.0.0.1:{port}",
                    "official-v1": v1["url"],
                    "official-v2": v2["url"],
                },
            )


class Relay:
    """Hands requests on to a server, and loses what ``fault`` says (BEHAVIOUR.md §10). Each relay has one fault.

    With ``moves`` it leads each request to a URL of its own first.
    """

    def __init__(self, target: str, fault: str = "", *, moves: bool = False) -> None:
        self.target = urlsplit(target)
        kind, _, times = fault.partition(":")
        self.fault, self.left = kind, int(times or 0)
        self.led = itertools.count(1) if moves else None
        self.lock = threading.Lock()
        self.payments: list[tuple[str, str]] = []  # header and value of each request with a payment
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

            def do_GET(self) -> None:
                relay.handle(self)

            do_POST = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def _strikes(self, request: BaseHTTPRequestHandler) -> str:
        paid = next((name for name in ("PAYMENT-SIGNATURE", "X-PAYMENT") if request.headers.get(name)), "")
        applies = request.path == "/v1/pay" if self.fault == "pay-answer-lost" else bool(paid)
        with self.lock:
            if paid:
                self.payments.append((paid, request.headers[paid]))
            if not applies or self.left == 0:
                return ""
            self.left -= 1
        return self.fault

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Hand one request on."""
        body = self._body(request)
        strike = self._strikes(request)
        request.close_connection = True
        if self.led is not None and "led=" not in request.path:
            led = f"{request.path}{'&' if '?' in request.path else '?'}led={next(self.led)}"
            return answer(request, Says(302, [("Location", led)]))
        if strike == "paid-request-lost":
            return None
        if strike == "paid-503":
            return answer(request, Says(503))
        said = self.ask(request, request.path, body)
        if strike in ("paid-answer-lost", "pay-answer-lost"):
            return None
        return answer(request, said)

    def ask(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> Says:
        """Ask the server."""
        connection = http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=60)
        own = ("host", "connection", "transfer-encoding", "content-length", "date", "server")  # of each connection
        headers = {n: v for n, v in request.headers.items() if n.lower() not in own}
        connection.request(request.command, path, body or None, {**headers, "Host": self.target.netloc})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return Says(response.status, [(n, v) for n, v in response.getheaders() if n.lower() not in own], text)

    @staticmethod
    def _body(request: BaseHTTPRequestHandler) -> bytes:
        if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return request.rfile.read(int(request.headers.get("Content-Length") or 0))
        body = b""
        while size := int(request.rfile.readline().split(b";")[0], 16):
            body += request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return body
