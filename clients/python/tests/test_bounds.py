"""What is bounded: closing, the interpreter's end, memory. And what is not: uploads that can be read again."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import requests
import trio

import purserpay
import purserpay.httpx
import purserpay.httpx2
import purserpay.requests
from purserpay import _memory

from .clients import (
    AsyncHttpx2Client,
    AsyncHttpxClient,
    Buy,
    Client,
    FakeAdapter,
    Httpx2Client,
    HttpxClient,
    Lost,
    Says,
    Seen,
    options,
)
from .conftest import Make
from .connections import played, serving
from .world import FakePurser, FakeSeller, challenge

URL = "https://api.example.com/upload"
LARGE = b"0123456789abcdef" * (1 << 17)  # 2 MiB, more than body_limit


# Receipts that hang.


@contextmanager
def hung() -> Iterator[tuple[str, str, FakePurser]]:
    """A seller, and a purser that pays and then never answers to a receipt."""
    asked, over = FakePurser(), threading.Event()
    asked.report = lambda _: Says(200) if over.wait(60) else Says(500)
    with serving(played(FakeSeller())) as shop, serving(played(asked)) as api:
        try:
            yield shop, api, asked
        finally:
            over.set()


@pytest.mark.parametrize("kind", [purserpay.httpx.Client, purserpay.httpx2.Client, purserpay.requests.Session])
def test_close_waits_only_so_long(kind: Any) -> None:
    with hung() as (shop, api, asked):
        client = kind(options(base_url=api, receipt_wait=0))
        for n in range(20):
            client.get(f"{shop}/{n}")
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("purser")]
        assert names == ["purser-receipts"]
        began = time.monotonic()
        client.close(timeout=0.2)
        assert time.monotonic() - began < 5
    assert asked.payments == 20


@pytest.mark.parametrize("run", [anyio.run, trio.run])
def test_aclose_waits_only_so_long(run: Any) -> None:
    async def go() -> None:
        client = purserpay.httpx.AsyncClient(options(base_url=api, receipt_wait=0), timeout=60)
        for n in range(20):
            await client.get(f"{shop}/{n}")
        began = time.monotonic()
        await client.aclose(timeout=0.2)
        assert time.monotonic() - began < 5

    with hung() as (shop, api, _):
        run(go)


PROGRAM = """
import sys, purserpay, purserpay.requests
session = purserpay.requests.Session(purserpay.Options("pk_tests", sys.argv[2], receipt_wait=0))
for n in range(20):
    assert session.get(f"{sys.argv[1]}/{n}").text == "goods"
"""


def test_the_interpreters_end_waits_only_so_long() -> None:
    with hung() as (shop, api, asked):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", PROGRAM, shop, api], check=True, timeout=60)
        assert time.monotonic() - began < 20
    assert asked.payments == 20


def test_the_interpreters_end_reports_what_it_can() -> None:
    with serving(played(FakeSeller())) as shop, serving(played(asked := FakePurser())) as api:
        subprocess.run([sys.executable, "-c", PROGRAM, shop, api], check=True, timeout=60)
    assert len(asked.receipts) == 20


def test_receipts_that_are_too_many_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purserpay._receipts, "MOST", 3)
    with hung() as (shop, api, _):
        client = purserpay.requests.Session(options(base_url=api, receipt_wait=0))
        for n in range(10):
            client.get(f"{shop}/{n}")
        assert len(client._purser._payer._receipts._jobs) <= 3
        client.close(timeout=0)


# What is remembered.


def test_unclear_shrinks_when_it_is_resumed(make: Make) -> None:
    client = make(FakeSeller(Lost, Lost, Says(200, [], b"goods")), FakePurser())
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy())
    assert [error.payment_id for error in client.unclear] == [caught.value.payment_id]
    client.resume(caught.value)
    assert not client.unclear


def test_unclear_shrinks_when_it_is_repeated(make: Make) -> None:
    client = make(FakeSeller(Lost, Lost, Says(200, [], b"goods")), FakePurser())
    with pytest.raises(purserpay.UnclearError):
        client.buy(Buy())
    assert client.buy(Buy()).body == b"goods"
    assert not client.unclear


def test_one_payment_is_listed_once(make: Make) -> None:
    client = make(FakeSeller(Lost), FakePurser())
    errors = []
    for _ in range(3):
        with pytest.raises(purserpay.UnclearError) as caught:
            client.buy(Buy())
        errors.append(caught.value)
    assert client.unclear == (errors[-1],)


def test_unclear_is_bounded_by_bytes(make: Make) -> None:
    client = make(FakeSeller(Lost), FakePurser(), resends=0)
    for n in range(40):
        with pytest.raises(purserpay.UnclearError):
            client.buy(Buy(method="POST", url=f"https://api.example.com/{n}", body=b"x" * (1 << 20)))
    assert 10 < len(client.unclear) <= 16
    assert client.unclear[-1].url == "https://api.example.com/39"


def test_the_newest_is_listed_however_large() -> None:
    listed = _memory.Listed()
    listed.put("a", purserpay.UnclearError("a"), 5)
    listed.put("b", last := purserpay.UnclearError("b"), _memory.MOST_BYTES + 1)
    assert listed.all() == (last,)


# Uploads.


def form() -> Any:
    return {"order": ("order.bin", io.BytesIO(LARGE), "application/octet-stream")}


def uploads(client: Client, **more: Any) -> httpx.Response:
    """Upload with a client of httpx or httpx2, blocking or not."""
    native: Any = client.client  # type: ignore[attr-defined]
    if isinstance(client, (HttpxClient, Httpx2Client)):
        blocking: httpx.Response = native.post(URL, **more)
        return blocking

    async def go() -> httpx.Response:
        response: httpx.Response = await native.post(URL, **more)
        return response

    return anyio.run(go)


@pytest.mark.parametrize("kind", [HttpxClient, AsyncHttpxClient, Httpx2Client, AsyncHttpx2Client])
def test_large_forms_are_sent_again(kind: type[Any]) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, Lost, Lost, Says(200, [], b"goods"))
    client = kind(options(), seller, asked)
    for _ in range(2):  # each time with another boundary
        with pytest.raises(purserpay.UnclearError):
            uploads(client, files=form())
    assert uploads(client, files=form()).content == b"goods"
    assert asked.payments == 1
    assert all(LARGE in seen.body for seen in seller.seen)
    client.close()


@pytest.mark.parametrize("kind", [HttpxClient, Httpx2Client])
def test_large_files_with_httpx_are_sent_again(kind: type[Any], tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(b"skipped" + LARGE)
    asked, seller = FakePurser(), FakeSeller(Lost, Says(200, [], b"goods"))
    client = kind(options(body_limit=0), seller, asked)
    with path.open("rb") as file:
        file.seek(7)
        assert uploads(client, content=file).content == b"goods"
    assert [seen.body for seen in seller.seen] == [LARGE] * 3
    client.close()


def test_large_files_with_requests_are_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(b"skipped" + LARGE)
    asked, seller = FakePurser(), FakeSeller(Lost, Says(200, [], b"goods"))
    session = purserpay.requests.Session(options(), FakeAdapter(seller), purser_adapter=FakeAdapter(asked))
    with session, path.open("rb") as file:
        file.seek(7)
        assert session.post(URL, data=file).content == b"goods"
    assert [seen.body for seen in seller.seen] == [LARGE] * 3


def test_forms_with_requests_are_the_same_with_another_boundary() -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, Says(200, [], b"goods"))
    session = purserpay.requests.Session(options(), FakeAdapter(seller), purser_adapter=FakeAdapter(asked))
    with session:
        with pytest.raises(purserpay.UnclearError):
            session.post(URL, files=form())
        assert session.post(URL, files=form()).content == b"goods"
        session.post(URL, files={"order": b"another"})
    assert asked.payments == 2


def test_a_large_file_is_redirected(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(LARGE)

    def server(seen: Seen) -> Says:
        if seen.url == URL:
            return Says(307, [("Location", "https://other.example/there")])
        return Says(200, [], seen.body) if FakeSeller.payment(seen) else Says(402, [("PAYMENT-REQUIRED", challenge())])

    client = HttpxClient(options(), server, FakePurser())
    with path.open("rb") as file:
        assert client.client.post(URL, content=file, follow_redirects=True).content == LARGE
    client.close()


class Pipe(io.RawIOBase):
    """A file that can be read once."""

    def __init__(self) -> None:
        super().__init__()
        self.left = LARGE

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        part, self.left = self.left[: len(into)], self.left[len(into) :]
        into[: len(part)] = part
        return len(part)


def test_what_cannot_be_rewound_is_refused_before_paying() -> None:
    asked, seller = FakePurser(), FakeSeller()
    session = purserpay.requests.Session(options(), FakeAdapter(seller), purser_adapter=FakeAdapter(asked))
    client = HttpxClient(options(), seller, asked)
    with session, pytest.raises(purserpay.NotReplayableError):
        session.post(URL, data=Pipe())
    for more in ({"content": Pipe()}, {"files": {"order": Pipe()}}):
        with pytest.raises(purserpay.NotReplayableError):
            uploads(client, **more)
    client.close()
    assert not asked.pays


@pytest.mark.anyio
async def test_streams_of_the_other_half() -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"x"

    client: Any = HttpxClient(options(), FakeSeller(), FakePurser())
    with pytest.raises(RuntimeError, match="async"):
        client.client.post(URL, content=stream())
    client.close()


def test_files_that_requests_rewinds() -> None:
    with requests.Session() as session:
        asked, seller = FakePurser(), FakeSeller()
        own, to_purser = FakeAdapter(seller), FakeAdapter(asked)
        session.mount("https://", purserpay.requests.PurserAdapter(options(), own, purser_adapter=to_purser))
        assert session.post(URL, data=io.BytesIO(LARGE)).content == b"goods"
    assert asked.payments == 1
