"""What makes the library fit into a program: SDKs that repeat, existing clients, the environment, what was paid."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

import purserpay
import purserpay.httpx
import purserpay.requests
from purserpay._callers import HttpxCaller, RequestsCaller

from .clients import BASE, KEY, Buy, FakeAdapter, Lost, Says, _httpx_handler, options
from .conftest import Make
from .world import PAY_TO, PAYMENT_ID, FakePurser, FakeSeller, says_json


def test_return_402(make: Make) -> None:
    asked = FakePurser()
    asked.pay = lambda _: says_json(402, {"error": "Payment refused by policy", "detail": "the budget is spent"})
    got = make(FakeSeller(), asked, return_402=True).buy(Buy())
    assert got.status == 402
    assert got.headers["x-should-retry"] == "false"
    assert got.headers["purser-error"] == "declined"
    error = json.loads(got.body)["error"]
    assert error["code"] == "declined"
    assert "the budget is spent" in error["message"]
    assert isinstance(purserpay.purser_error_of(got.native), purserpay.DeclinedError)


def test_return_402_of_what_is_unclear(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, Says(200, [], b"goods"))
    client = make(seller, asked, return_402=True)
    got = client.buy(Buy())
    assert PAYMENT_ID in got.body.decode()
    error = purserpay.purser_error_of(got.native)
    assert error is not None
    assert error.money_may_have_moved
    assert client.resume(error).body == b"goods"
    assert asked.payments == 1


def test_resume_raises_all_the_same(make: Make) -> None:
    client = make(FakeSeller(Lost), FakePurser(), return_402=True)
    error = purserpay.purser_error_of(client.buy(Buy()).native)
    assert error is not None
    with pytest.raises(purserpay.UnclearError):
        client.resume(error)


def test_on_payment(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    told: list[purserpay.PaymentInfo] = []

    def note(info: purserpay.PaymentInfo) -> None:
        told.append(info)
        raise ValueError("the program's own fault")

    with caplog.at_level(logging.INFO, "purserpay"):
        got = make(FakeSeller(), FakePurser(), on_payment=note).buy(Buy())
    assert got.body == b"goods"
    assert [(info.id, info.amount, info.pay_to) for info in told] == [(PAYMENT_ID, "10000", PAY_TO.lower())]
    assert got.payment is told[0]
    assert f"payment {PAYMENT_ID} of 0.01 USDC to {PAY_TO} at api.example.com" in caplog.text
    assert "on_payment raised" in caplog.text


def test_on_payment_of_what_is_unclear(make: Make) -> None:
    told: list[purserpay.PaymentInfo] = []
    with pytest.raises(purserpay.UnclearError):
        make(FakeSeller(Lost), FakePurser(), on_payment=told.append).buy(Buy())
    assert [info.id for info in told] == [PAYMENT_ID]


def test_free_things_are_not_told(make: Make) -> None:
    told: list[purserpay.PaymentInfo] = []
    make(FakeSeller(unpaid=Says(200)), FakePurser(), on_payment=told.append).buy(Buy())
    assert not told


def test_from_env(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PURSER_KEY", "PURSER_URL", "PURSER_MAX_AMOUNT", "PURSER_ALLOW_HOSTS", "PURSER_TASK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="PURSER_KEY is not set"):
        purserpay.from_env()
    monkeypatch.setenv("PURSER_KEY", KEY)
    with pytest.raises(ValueError, match="PURSER_URL is not set"):
        purserpay.from_env()
    monkeypatch.setenv("PURSER_URL", BASE)
    assert purserpay.from_env() == options()
    monkeypatch.setenv("PURSER_MAX_AMOUNT", "0.05 USDC")
    monkeypatch.setenv("PURSER_ALLOW_HOSTS", "api.example.com, *.example.org")
    monkeypatch.setenv("PURSER_TASK", "reports")
    read = purserpay.from_env(task="mine", resends=2)
    assert (read.cap, read.allow_hosts, read.task, read.resends) == (
        50_000,
        ("api.example.com", "*.example.org"),
        "mine",
        2,
    )


def pays_into(asked: FakePurser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the calls to purser of a wrapped client arrive here."""
    transport = httpx.MockTransport(_httpx_handler(asked))
    monkeypatch.setattr(purserpay.httpx, "HttpxCaller", lambda _, half, __: HttpxCaller(httpx, half, transport))
    monkeypatch.setattr(purserpay.requests, "RequestsCaller", lambda *_: RequestsCaller(FakeAdapter(asked)))


def test_wrap_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seller = FakePurser(), FakeSeller()
    pays_into(asked, monkeypatch)
    with httpx.Client(transport=httpx.MockTransport(_httpx_handler(seller))) as client:
        assert purserpay.httpx.wrap(client, options()) is client
        assert client.get("https://api.example.com/paid").content == b"goods"
        with pytest.raises(ValueError, match="already"):
            purserpay.httpx.wrap(client, options())
    assert asked.payments == 1


@pytest.mark.anyio
async def test_wrap_async_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seller = FakePurser(), FakeSeller()
    pays_into(asked, monkeypatch)
    async with httpx.AsyncClient(transport=httpx.MockTransport(_httpx_handler(seller))) as client:
        purserpay.httpx.wrap(client, options())
        assert (await client.get("https://api.example.com/paid")).content == b"goods"
    assert asked.payments == 1


def test_wrap_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seller = FakePurser(), FakeSeller()
    pays_into(asked, monkeypatch)
    session: Any = requests.Session()
    for prefix in ("https://", "http://"):
        session.mount(prefix, FakeAdapter(seller))
    with purserpay.requests.wrap(session, options()):
        assert session.get("https://api.example.com/paid").content == b"goods"
        with pytest.raises(ValueError, match="already"):
            purserpay.requests.wrap(session, options())
    assert asked.payments == 1


def test_httpx_and_httpx2_are_declared_alike() -> None:
    package = Path(purserpay.__file__).parent
    assert re.sub(r"\bhttpx\b", "httpx2", (package / "httpx.py").read_text()) == (package / "httpx2.py").read_text()
