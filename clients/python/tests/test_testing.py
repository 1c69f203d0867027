"""The double of purser that programs test with, in tests as a program would write them."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import purserpay
import purserpay.aiohttp
import purserpay.httpx
import purserpay.requests
import purserpay.urllib3
from purserpay.testing import FakePurser, challenge, purser

__all__ = ["purser"]


def test_buys(purser: FakePurser) -> None:
    with purserpay.httpx.Client(purser.options(max_amount="0.05 USDC", task="reports")) as client:
        answer = client.get(purser.sells("a report", price="0.02 USDC"))
    assert answer.text == "a report"
    (payment,) = purser.payments
    assert (payment.price, payment.task, payment.state) == ("0.02 USDC", "reports", "settled")
    paid = purserpay.payment_of(answer)
    assert paid is not None
    assert (paid.id, paid.usdc, paid.state) == (payment.id, Decimal("0.02"), "settled")


def test_with_every_library(purser: FakePurser) -> None:
    import aiohttp

    url = purser.sells("goods")
    with purserpay.requests.Session(purser.options()) as session:
        assert session.post(url, data="x").text == "goods"
    with purserpay.urllib3.PoolManager(purser.options()) as pools:
        assert pools.request("GET", url).data == b"goods"

    async def go() -> None:
        paying: Any = purserpay.aiohttp.PurserMiddleware(purser.options())
        async with aiohttp.ClientSession(middlewares=[paying]) as session, session.get(url) as answer:
            assert await answer.text() == "goods"
        await paying.close()

    anyio.run(go)
    assert len(purser.payments) == 3


def test_declines(purser: FakePurser) -> None:
    purser.declines("daily-budget", detail="the budget is spent", left="0.00 USDC")
    with purserpay.httpx.Client(purser.options()) as client:
        with pytest.raises(purserpay.DeclinedError, match="the budget is spent") as caught:
            client.get(purser.sells("x"))
        assert (caught.value.reason, caught.value.left) == ("daily-budget", "0.00 USDC")
        purser.accepts()
        assert client.get(purser.sells("y")).text == "y"


def test_loses_answers(purser: FakePurser) -> None:
    purser.loses_answers(2)
    with purserpay.httpx.Client(purser.options()) as client:
        url = purser.sells("goods")
        with pytest.raises(purserpay.UnclearError):
            client.get(url)
        assert client.get(url).text == "goods"
    assert len(purser.payments) == 1


def test_quotes_and_lists(purser: FakePurser) -> None:
    url = purser.sells("goods")
    with purserpay.httpx.Client(purser.options()) as client, purserpay.idempotency_key("order"):
        with purserpay.terms(dry_run=True), pytest.raises(purserpay.DryRunError) as dry:
            client.get(url)
        assert (dry.value.quote.price, dry.value.quote.repeats) == ("0.01 USDC", None)
        client.get(url)
        with purserpay.terms(dry_run=True), pytest.raises(purserpay.DryRunError) as dry:
            client.get(url)
        assert dry.value.quote.repeats is not None
    with purserpay.Purser(purser.key, purser.url) as api:
        (payment,) = api.payments.all()
        assert api.payments.get(payment.id) == payment
        with pytest.raises(purserpay.IdempotencyConflictError):
            api.pay(challenge(), "https://elsewhere.example/", idempotency_key="order")
        with pytest.raises(purserpay.InvalidChallengeError):
            api.pay("e30=", "https://elsewhere.example/")
        with pytest.raises(purserpay.RequestRefusedError):
            api.limits()
    with purserpay.Purser("another", purser.url) as api, pytest.raises(purserpay.KeyNotResolvedError):
        api.wallets.list()


def test_pytest_finds_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["purserpay.testing"]\n')
    (tmp_path / "test_it.py").write_text(
        "import purserpay.httpx\n\n\n"
        "def test_it(purser):\n"
        "    with purserpay.httpx.Client(purser.options()) as client:\n"
        '        assert client.get(purser.sells("x")).text == "x"\n'
    )
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
