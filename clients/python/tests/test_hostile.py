"""Real connections that break, dawdle and lie; giving up; many threads."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
import requests
import trio
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth
from urllib3.util import Retry

import purserpay
import purserpay.aiohttp
import purserpay.httpx
import purserpay.requests
import purserpay.urllib3
from purserpay import _bodies as bodies

from .clients import Buy, FakeAdapter, HttpxClient, RequestsClient, Says, Seen, _httpx_handler, options
from .connections import KINDS, answer, buy_with, played, serving
from .world import FakePurser, FakeSeller, challenge, paid_answer, receipt, says_json

URL = "https://api.example.com/paid"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "urllib3"])  # which has no such proxy
def test_the_environments_proxy_is_not_for_purser(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seller = FakePurser(), FakeSeller()
    through: list[str] = []

    def proxy(request: BaseHTTPRequestHandler, body: bytes) -> None:
        through.append(request.path)
        assert "x-api-key" not in {name.lower() for name in request.headers}
        played(seller)(request, body)

    with serving(proxy) as proxied, serving(played(asked)) as api:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxied)
            monkeypatch.setenv(name.lower(), proxied)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        given = options(base_url=api, allow_hosts=["seller.test"])
        assert buy_with(kind, given, "http://seller.test/paid") == (200, b"goods")
    assert through == ["http://seller.test/paid"] * 2
    assert asked.payments == 1


def test_mounts_share_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(404))
    monkeypatch.setenv("NO_PROXY", "none.example")

    def mounted() -> httpx.MockTransport:
        return httpx.MockTransport(_httpx_handler(seller))

    with purserpay.httpx.Client(
        options(),
        transport=mounted(),
        mounts={"https://": mounted(), "all://none.example": None},
        purser_transport=httpx.MockTransport(_httpx_handler(asked)),
    ) as client:
        assert client.get(URL).status_code == 404
        assert client.get("http://localhost/paid").status_code == 404
        assert client.get(URL).status_code == 404
        assert client.unclear == ()
    assert asked.payments == 2

    async def go() -> None:
        async with purserpay.httpx.AsyncClient(
            options(),
            transport=mounted(),
            mounts={"https://": mounted(), "all://none.example": None},
            purser_transport=httpx.MockTransport(_httpx_handler(asked)),
        ) as other:
            assert (await other.get(URL)).status_code == 404
            assert other.unclear == ()

    anyio.run(go)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dawdling_purser_is_given_up(kind: str) -> None:
    calls: list[str] = []
    over = threading.Event()

    def dawdle(request: BaseHTTPRequestHandler, _: bytes) -> None:
        calls.append(request.path)
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        for _tick in range(3000):  # a minute
            request.wfile.write(b" ")
            request.wfile.flush()
            if over.wait(0.02):
                return

    with serving(dawdle) as api, serving(played(FakeSeller())) as shop:
        began = time.monotonic()
        try:
            with pytest.raises(purserpay.PurserUnreachableError):
                buy_with(kind, options(base_url=api, pay_timeout=1.0), shop + "/paid")
        finally:
            over.set()
        assert time.monotonic() - began < 20
    assert calls == ["/v1/pay"] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_listens(kind: str) -> None:
    with socket.socket() as deaf:  # it has the port, so that nobody else comes by it, and does not listen
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with serving(played(FakeSeller())) as shop, pytest.raises(purserpay.PurserUnreachableError):
            buy_with(kind, options(base_url=f"http://127.0.0.1:{port}", settlement="payer"), shop + "/paid")


@pytest.mark.parametrize("kind", KINDS)
def test_purser_hangs_up(kind: str) -> None:
    with serving(lambda *_: None) as api, serving(played(FakeSeller())) as shop, pytest.raises(purserpay.UnclearError):
        buy_with(kind, options(base_url=api, settlement="payer"), shop + "/paid")


@pytest.mark.parametrize("kind", KINDS)
def test_a_paid_answer_may_take_longer_than_others(kind: str) -> None:
    asked, seller = FakePurser(), FakeSeller()

    def slow(request: BaseHTTPRequestHandler, body: bytes) -> None:
        if request.headers.get("PAYMENT-SIGNATURE"):
            time.sleep(3)
        played(seller)(request, body)

    with serving(slow) as shop, serving(played(asked)) as api:
        assert buy_with(kind, options(base_url=api), shop + "/paid", timeout=1.5) == (200, b"goods")
        assert len(seller.payments) == 1
        with pytest.raises(purserpay.UnclearError) as caught:
            buy_with(kind, options(base_url=api, paid_timeout=0.2, resends=0), shop + "/paid", timeout=2)
        assert caught.value.payment_id is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_timeout_holds_for_the_body(kind: str) -> None:
    over = threading.Event()
    slow: dict[str, Any] = {
        "httpx": httpx.ReadTimeout,
        "httpx-async": httpx.ReadTimeout,
        "requests": requests.ConnectionError,
        "urllib3": urllib3.exceptions.ReadTimeoutError,
        "aiohttp": aiohttp.SocketTimeoutError,
    }

    def stalls(request: BaseHTTPRequestHandler, body: bytes) -> None:
        if not request.headers.get("PAYMENT-SIGNATURE"):
            return played(FakeSeller())(request, body)
        request.send_response(200)
        request.send_header("Content-Length", "10")
        request.end_headers()
        request.wfile.write(b"x")
        request.wfile.flush()
        over.wait(60)
        return None

    with serving(stalls) as shop, serving(played(FakePurser())) as api:
        began = time.monotonic()
        try:
            with pytest.raises(slow[kind]):
                timeout: Any = httpx.Timeout(60, read=1.5) if kind.startswith("httpx") else 1.5
                buy_with(kind, options(base_url=api), shop + "/paid", timeout=timeout)
        finally:
            over.set()
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_seller_hangs_up_after_the_payment(kind: str) -> None:
    asked = FakePurser()
    payments: list[str] = []

    def cut(request: BaseHTTPRequestHandler, body: bytes) -> None:
        payment = request.headers.get("PAYMENT-SIGNATURE")
        if payment:
            payments.append(payment)
        else:
            played(FakeSeller())(request, body)

    with serving(cut) as shop, serving(played(asked)) as api, pytest.raises(purserpay.UnclearError):
        buy_with(kind, options(base_url=api), shop + "/paid")
    assert len(payments) == 2
    assert len(set(payments)) == 1
    assert asked.payments == 1


def test_retries_of_urllib3_do_not_pay_again() -> None:
    asked, payments = FakePurser(), list[str]()

    def busy(request: BaseHTTPRequestHandler, body: bytes) -> None:
        payment = request.headers.get("PAYMENT-SIGNATURE")
        if not payment:
            return played(FakeSeller())(request, body)
        payments.append(payment)
        return None if len(payments) % 2 else answer(request, Says(503))

    retry = Retry(total=4, status_forcelist=[500, 503], allowed_methods=None, raise_on_status=False, backoff_factor=0)
    with serving(busy) as shop, serving(played(asked)) as api:
        with purserpay.requests.Session(options(base_url=api), HTTPAdapter(max_retries=retry)) as session:
            for _ in range(2):
                with pytest.raises((purserpay.UnclearError, requests.RequestException)):
                    session.get(shop + "/paid").raise_for_status()
    assert len(payments) > 4
    assert len(set(payments)) == 1
    assert asked.payments == 1


def test_streams_are_not_held_up() -> None:
    go_on = threading.Event()

    def streams(request: BaseHTTPRequestHandler, body: bytes) -> None:
        if not request.headers.get("PAYMENT-SIGNATURE"):
            return played(FakeSeller())(request, body)
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        for event in (b"data: 1\n\n", b"data: 2\n\n"):
            request.wfile.write(event)
            request.wfile.flush()
            assert go_on.wait(30)
        return None

    with serving(streams) as shop, serving(played(FakePurser())) as api:
        with (
            purserpay.httpx.Client(options(base_url=api), timeout=60) as client,
            client.stream("GET", shop + "/paid") as response,
        ):
            chunks = response.iter_raw()
            assert next(chunks) == b"data: 1\n\n"
            go_on.set()
            assert b"".join(chunks) == b"data: 2\n\n"
        go_on.clear()
        with purserpay.requests.Session(options(base_url=api)) as session:
            got = session.get(shop + "/paid", stream=True)
            lines = got.iter_lines(chunk_size=1)
            assert next(lines) == b"data: 1"
            go_on.set()
            assert b"data: 2" in list(lines)


# Receipts in the background.


@pytest.mark.parametrize("wait", [0, 0.1])
def test_an_answer_is_held_back_only_so_long(wait: float) -> None:
    asked, go_on = FakePurser(), threading.Event()
    done = asked.report

    def slow(seen: Seen) -> Says:
        go_on.wait(30)
        return done(seen)

    asked.report = slow
    with serving(played(FakeSeller())) as shop, serving(played(asked)) as api:
        with purserpay.httpx.Client(options(base_url=api, receipt_wait=wait), timeout=60) as client:
            info = purserpay.payment_of(client.get(shop + "/paid"))
            assert info is not None
            assert info.state == "open"
            go_on.set()
        assert info.state == "settled"

        async def go() -> None:
            go_on.clear()
            async with purserpay.httpx.AsyncClient(options(base_url=api, receipt_wait=wait), timeout=60) as other:
                info = purserpay.payment_of(await other.get(shop + "/paid"))
                assert info is not None
                assert info.state == "open"
                go_on.set()
            assert info.state == "settled"

        anyio.run(go)
        trio.run(go)
    assert len(asked.receipts) == 3


def test_resume_after_close() -> None:
    asked, seller = FakePurser(), FakeSeller(Says(402, [("PAYMENT-RESPONSE", receipt())]))
    session = purserpay.requests.Session(options(), FakeAdapter(seller), purser_adapter=FakeAdapter(asked))
    with session, pytest.raises(purserpay.RejectedError) as caught:
        session.get(URL)
    seller._paid = [Says(200, [("PAYMENT-RESPONSE", receipt())], b"goods")]
    assert caught.value.resume(requests.Response).content == b"goods"


# Many at once.


@pytest.mark.parametrize("kind", ["httpx", "requests"])
def test_many_threads(kind: str) -> None:
    asked, seller, lock = FakePurser(), FakeSeller(), threading.Lock()

    def one_at_a_time(server: Callable[[Seen], Says]) -> Callable[[Seen], Says]:
        def locked(seen: Seen) -> Says:
            with lock:
                return server(seen)

        return locked

    with serving(played(one_at_a_time(seller))) as shop, serving(played(one_at_a_time(asked))) as api:
        given = options(base_url=api)
        client: Any = (
            purserpay.httpx.Client(given, timeout=60) if kind == "httpx" else purserpay.requests.Session(given)
        )
        statuses: list[int] = []

        def buy() -> None:
            for _ in range(3):
                statuses.append(client.get(shop + "/paid").status_code)

        threads = [threading.Thread(target=buy) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
    assert statuses == [200] * 24
    # Equal requests at the same time are separate purchases.
    assert asked.payments == 24
    assert len(asked.receipts) == 24


def test_one_resume_at_a_time() -> None:
    asked, seller = FakePurser(), FakeSeller(Says(402, [], b""))
    inside, go_on = threading.Event(), threading.Event()

    def waits(seen: Seen) -> Says:
        if len(seller.payments) == 1 and FakeSeller.payment(seen):
            inside.set()
            assert go_on.wait(30)
        return seller(seen)

    session = purserpay.requests.Session(options(), FakeAdapter(waits), purser_adapter=FakeAdapter(asked))
    with session:
        with pytest.raises(purserpay.RejectedError) as caught:
            session.get(URL)
        seller._paid = [Says(200, [], b"goods")]
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(caught.value.resume(requests.Response).content))
        thread.start()
        assert inside.wait(30)
        with pytest.raises(RuntimeError, match="being resumed"):
            caught.value.resume()
        go_on.set()
        thread.join()
    assert got == [b"goods"]
    assert asked.payments == 1


# What else the libraries do by themselves.


def test_digest_authentication_pays() -> None:
    asked = FakePurser()

    def server(seen: Seen) -> Says:
        if "authorization" not in seen.headers:
            return Says(401, [("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')])
        return Says(200, [], b"in") if FakeSeller.payment(seen) else Says(402, [("PAYMENT-REQUIRED", challenge())])

    session = purserpay.requests.Session(options(), FakeAdapter(server), purser_adapter=FakeAdapter(asked))
    with session:
        assert session.get(URL, auth=HTTPDigestAuth("u", "p")).content == b"in"
    transport = purserpay.httpx.PurserTransport(
        options(),
        httpx.MockTransport(_httpx_handler(server)),
        purser_transport=httpx.MockTransport(_httpx_handler(asked)),
    )
    with httpx.Client(transport=transport, auth=httpx.DigestAuth("u", "p")) as client:
        assert client.get(URL).content == b"in"
    assert asked.payments == 2


def test_files_and_forms(tmp_path: Any) -> None:
    path = tmp_path / "order.txt"
    path.write_bytes(b"a file")
    asked, seller = FakePurser(), FakeSeller()
    session = purserpay.requests.Session(options(), FakeAdapter(seller), purser_adapter=FakeAdapter(asked))
    transport = purserpay.httpx.PurserTransport(
        options(),
        httpx.MockTransport(_httpx_handler(seller)),
        purser_transport=httpx.MockTransport(_httpx_handler(asked)),
    )
    with session, httpx.Client(transport=transport) as client:
        with path.open("rb") as file:
            assert session.post(URL, data=file).content == b"goods"
        with path.open("rb") as file:
            assert client.post(URL, content=file).content == b"goods"
        with path.open("rb") as file:
            assert client.post(URL, files={"order": file}, data={"a": "b"}).content == b"goods"
        assert session.post(URL, data=(part for part in [b"text", b"more"])).content == b"goods"
        assert session.post(URL, json={"a": 1}).content == b"goods"
        assert session.post(URL, data="text").content == b"goods"
    bodies = [seen.body for seen in seller.seen]
    assert bodies[:4] == [b"a file"] * 4
    assert bodies[4] == bodies[5]
    assert b"a file" in bodies[4]
    assert bodies[6:] == [b"textmore"] * 2 + [b'{"a": 1}'] * 2 + [b"text"] * 2
    assert [json.loads(seen.body)["requestUrl"] for seen in asked.pays] == [URL] * 6


def test_a_file_is_redirected(tmp_path: Any) -> None:
    path = tmp_path / "order.txt"
    path.write_bytes(b"a file")
    asked = FakePurser()

    def server(seen: Seen) -> Says:
        if seen.url == URL:
            return Says(307, [("Location", "https://other.example/there")])
        return Says(200, [], seen.body) if FakeSeller.payment(seen) else Says(402, [("PAYMENT-REQUIRED", challenge())])

    session = purserpay.requests.Session(options(), FakeAdapter(server), purser_adapter=FakeAdapter(asked))
    with session, path.open("rb") as file:
        assert session.post(URL, data=file).content == b"a file"


@pytest.mark.parametrize("kind", ["httpx", "httpx-async", "requests"])
def test_a_402_that_unfolds_without_end_is_not_unfolded(kind: str) -> None:
    layers = gzip.compress(gzip.compress(b'{"x402Version": 1' + b" " * (256 << 20), 9), 9)
    assert len(layers) < 8 << 10
    said = Says(402, [("PAYMENT-REQUIRED", "%%%"), ("Content-Encoding", "gzip, gzip")], layers)
    peeked = Says(402, [("Content-Encoding", "gzip, gzip")], layers)
    tracemalloc.start()
    try:
        with serving(played(FakeSeller(unpaid=said))) as url:
            with pytest.raises(purserpay.InvalidChallengeError):
                buy_with(kind, options(), url)
        with serving(played(FakeSeller(unpaid=peeked))) as url:
            given = options()
            if kind == "httpx":
                with purserpay.httpx.Client(given, timeout=60) as client, client.stream("GET", url) as response:
                    assert response.status_code == 402
            elif kind == "requests":
                with purserpay.requests.Session(given) as session, session.get(url, stream=True) as got:
                    assert got.status_code == 402
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["httpx", "httpx-async", "requests"])
def test_a_402_that_drips_holds_nothing_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "HELD_FOR", 0.2)
    over = threading.Event()

    def drip(to: BaseHTTPRequestHandler, _: bytes) -> None:
        to.send_response(402)
        to.send_header("PAYMENT-REQUIRED", "%%%")
        to.send_header("Content-Length", "1000000")
        to.end_headers()
        for _tick in range(1200):  # a minute
            if over.wait(0.05):
                return
            to.wfile.write(b"x")

    with serving(drip) as url:
        began = time.monotonic()
        try:
            with pytest.raises(purserpay.InvalidChallengeError):
                buy_with(kind, options(), url)
        finally:
            over.set()
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_payment_id_that_is_none(backend: str, name: str) -> None:
    asked = FakePurser()
    asked.pay = lambda _: says_json(200, paid_answer(payment_id=name))
    transport = purserpay.httpx.AsyncPurserTransport(
        options(),
        httpx.MockTransport(_httpx_handler(FakeSeller())),
        purser_transport=httpx.MockTransport(_httpx_handler(asked)),
    )

    async def go() -> None:
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get(URL)).content == b"goods"

    anyio.run(go, backend=backend)
    assert not asked.receipts


@pytest.mark.parametrize("kind", ["httpx", "requests"])
def test_a_redirected_post_is_paid_where_it_arrives(kind: str) -> None:
    asked, shop = FakePurser(), FakeSeller(Says(200, [("PAYMENT-RESPONSE", receipt())], b"goods"))

    def sell(seen: Seen) -> Says:
        return Says(307, [("Location", "/there")]) if seen.url.endswith("/here") else shop(seen)

    client = {"httpx": HttpxClient, "requests": RequestsClient}[kind](options(), sell, asked)
    got = client.buy(Buy(method="POST", url="https://api.example.com/here", body=b"order", follow=True))
    client.close()
    assert got.body == b"goods"
    assert [(seen.method, seen.url, seen.body) for seen in shop.seen] == [
        ("POST", "https://api.example.com/there", b"order")
    ] * 2
    assert [json.loads(seen.body)["requestUrl"] for seen in asked.pays] == ["https://api.example.com/there"]
