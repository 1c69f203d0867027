"""Sellers and pursers that say a little now and then, so that no timeout of a read ever passes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
import urllib3

import purserpay
import purserpay.httpx
import purserpay.requests
from purserpay import _bodies as bodies
from purserpay import _httpx, _urllib3
from purserpay._coroutines import ran

from .clients import options
from .connections import KINDS, buy_with, played, serving
from .world import FakePurser, FakeSeller, challenge, requirement

BLOCKING = ["httpx", "requests"]
Talk = Callable[[socket.socket, threading.Event], None]

ASKS = f"HTTP/1.1 402 Payment Required\r\nPAYMENT-REQUIRED: {challenge()}\r\nContent-Length: 0\r\n\r\n".encode()

FREE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def talking(paid: Talk, unpaid: bytes = ASKS) -> Iterator[str]:
    """A seller that answers requests with payment as it is told, on the connection where it asked for money."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while head := _head(connection):
                    if b"payment-signature:" in head.lower():
                        paid(connection, over)
                        return
                    connection.sendall(FREE if b" /free " in head else unpaid)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join()


def _head(connection: socket.socket) -> bytes:
    """The head of a request, whose body is read as well if there is no payment."""
    head = b""
    while b"\r\n\r\n" not in head:
        more = connection.recv(1)
        if not more:
            return b""
        head += more
    lower = head.lower()
    if b"payment-signature:" not in lower and b"content-length:" in lower:
        left = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        while left > 0:
            more = connection.recv(left)
            if not more:
                return b""
            left -= len(more)
    return head


def drips(start: bytes, drop: bytes) -> Talk:
    def drip(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        for _ in range(3000):  # it ends after a minute, so that a client that would wait for ever fails
            if over.wait(0.02):
                return
            connection.sendall(drop)

    return drip


def deaf(_: socket.socket, over: threading.Event) -> None:
    """It takes the head of a request, and no byte of the body."""
    over.wait(60)


ENDLESS = {
    "status line": drips(b"HTTP/1.1 200 ", b"O"),
    "header": drips(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    "continue": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


def unclear_soon(buy: Callable[[], Any]) -> None:
    """It is given up, and nobody goes on waiting for it."""
    threads = set(threading.enumerate())
    began = time.monotonic()
    with pytest.raises(purserpay.UnclearError) as caught:
        buy()
    assert time.monotonic() - began < 20
    assert caught.value.payment_id is not None
    assert not {thread.name for thread in set(threading.enumerate()) - threads if "purser" in thread.name}


@pytest.mark.parametrize("where", ENDLESS)
def test_a_paid_answer_whose_header_never_ends_is_unclear(where: str) -> None:
    """Blocking clients have the timeouts of their sockets, which hold for each read."""
    kind = "httpx-async"
    with talking(ENDLESS[where]) as shop, serving(played(FakePurser())) as api:
        given = options(base_url=api, paid_timeout=0.4, resends=1)
        unclear_soon(lambda: buy_with(kind, given, shop + "/paid", timeout=4))


@pytest.mark.parametrize("kind", KINDS)
def test_a_payment_waits_no_less_than_the_program(kind: str) -> None:
    def later(connection: socket.socket, over: threading.Event) -> None:
        over.wait(1)
        connection.sendall(FREE)

    with talking(later) as shop, serving(played(FakePurser())) as api:
        given = options(base_url=api, paid_timeout=0.2, resends=0)
        assert buy_with(kind, given, shop + "/paid", timeout=30) == (200, b"ok")


@pytest.mark.parametrize("kind", ["httpx-async", "requests"])
def test_a_payment_waits_as_long_as_its_request_says(kind: str) -> None:
    def later(connection: socket.socket, over: threading.Event) -> None:
        over.wait(6)
        connection.sendall(FREE)

    with talking(later) as shop, serving(played(FakePurser())) as api:
        given = options(base_url=api, paid_timeout=0.2, resends=0)
        more: dict[str, Any] = {"headers": {"X-Stainless-Timeout": "30"}, "timeout": 4}
        assert buy_with(kind, given, shop + "/paid", **more) == (200, b"ok")


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_seller_that_does_not_read(kind: str) -> None:
    body = b"x" * (32 << 20)

    def buy(given: purserpay.Options, url: str) -> None:
        if kind == "httpx":
            with purserpay.httpx.Client(given, timeout=None) as client:
                client.post(url, content=body)
        else:
            with purserpay.requests.Session(given) as session:
                # Two connections that are kept, of which the payment gets one: its socket has no timeout so far.
                for answer in [session.get(url + "/free", stream=True) for _ in range(2)]:
                    assert answer.text == "ok"
                session.post(url, data=body)

    with talking(deaf) as shop, serving(played(FakePurser())) as api:
        given = options(base_url=api, paid_timeout=0.4, resends=0)
        unclear_soon(lambda: buy(given, shop))


def test_a_purser_whose_header_never_ends() -> None:
    kind = "httpx-async"
    over = threading.Event()
    asked: list[str] = []

    def drip(request: Any, _: bytes) -> None:
        asked.append(request.path)
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        for _tick in range(3000):  # a minute
            if over.wait(0.02):
                return
            request.wfile.write(b"x")

    with serving(drip) as api, serving(played(FakeSeller())) as shop:
        began = time.monotonic()
        try:
            with pytest.raises(purserpay.PurserUnreachableError):
                buy_with(kind, options(base_url=api, pay_timeout=1.0), shop + "/paid")
        finally:
            over.set()
        assert time.monotonic() - began < 20
    assert asked == ["/v1/pay"] * 3


@pytest.mark.parametrize("kind", BLOCKING)
def test_the_deadline_ends_with_the_header(kind: str) -> None:
    def slowly(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
        for _ in range(12):
            over.wait(0.25)
            connection.sendall(b"x")

    with talking(slowly) as shop, serving(played(FakePurser())) as api:
        given = options(base_url=api, paid_timeout=2)
        assert buy_with(kind, given, shop + "/paid", timeout=10) == (200, b"x" * 12)


# 402s in tiny pieces.


def tiny(body: bytes) -> Iterator[bytes]:
    return (body[at : at + 1] for at in range(len(body)))


def padded(size: int) -> bytes:
    entry = requirement(network="base", maxAmountRequired="10000")
    body = json.dumps({"x402Version": 1, "error": "pay", "accepts": [entry]}).encode()
    return b" " * (size // 2) + body + b" " * (size - size // 2 - len(body))


class Trickle(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self.body = body

    def __iter__(self) -> Iterator[bytes]:
        return tiny(self.body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in tiny(self.body):
            yield piece


def peeked(kind: str, body: bytes) -> bytes | None:
    """What a client finds in the body of a 402 that comes byte by byte."""
    if kind == "urllib3":
        raw = urllib3.HTTPResponse(iter(()), status=402, preload_content=False)
        pieces = tiny(body)
        raw.read1 = lambda *_, **__: next(pieces, b"")  # type: ignore[method-assign]
        return ran(_urllib3.peek(raw))[1]
    response = httpx.Response(402, stream=Trickle(body))
    request, reply = httpx.Request("GET", "https://api.example.com/"), _httpx._reply(response)
    if kind == "httpx":
        return ran(_httpx._Wire(purserpay.httpx.PurserTransport(options()), request).peek(reply))
    return anyio.run(_httpx._Wire(purserpay.httpx.AsyncPurserTransport(options()), request).peek, reply)


@pytest.mark.parametrize("kind", ["httpx", "httpx-async", "urllib3"])  # requests and httpx2 read as these do
def test_a_402_of_tiny_pieces_takes_time_in_proportion(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY", 1 << 20)  # as it is, the copies would cost little enough to be overlooked
    monkeypatch.setattr(bodies, "PEEKED_FOR", 60)

    def takes(size: int) -> float:
        body, times = padded(size), list[float]()
        for _ in range(2):
            began = time.thread_time()
            assert peeked(kind, body) == body
            times.append(time.thread_time() - began)
        return min(times)

    small, large = takes(8_000), takes(256_000)
    assert large < 100 * small, f"{large} s for 32 times as much as {small} s"


@pytest.mark.parametrize("kind", KINDS)
def test_a_402_is_read_only_so_long(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PEEKED_FOR", 0.2)
    body = padded(2000)
    asks = b"HTTP/1.1 402 Payment Required\r\nContent-Length: %d\r\n\r\n" % len(body)
    began = threading.Event()

    class Peeked(bodies.Peeked):
        def __init__(self, *, encoded: bool) -> None:
            super().__init__(encoded=encoded)
            began.set()

    monkeypatch.setattr(bodies, "Peeked", Peeked)

    def slowly(to: Any, _: bytes) -> None:
        to.wfile.write(asks)
        assert began.wait(30)  # only then does its time run
        for at in range(len(body)):
            if at % 100 == 0 and at <= 1500:
                time.sleep(0.05)
            to.wfile.write(body[at : at + 1])

    with serving(slowly) as url, serving(played(asked := FakePurser())) as api:
        assert buy_with(kind, options(base_url=api), url, timeout=10) == (402, body)
    assert not asked.pays


def test_times_that_sockets_do_not_have() -> None:
    for name in ("pay_timeout", "paid_timeout", "receipt_wait"):
        for value in (float("inf"), float("nan"), 1e9, -1):
            with pytest.raises(ValueError, match=name):
                options(**{name: value})
