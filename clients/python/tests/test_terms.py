"""Asking before paying, and what a decline tells, against a purser that is real."""

from __future__ import annotations

import base64
import json
import traceback
from decimal import Decimal, localcontext
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pytest

import purserpay
import purserpay.httpx
import purserpay.requests
from purserpay._amounts import smallest, usdc_text

from . import sandbox
from .connections import serving
from .world import encoded


def buyers(world: sandbox.World, **more: Any) -> list[Any]:
    """A function for each library that makes one request."""
    given = purserpay.Options(world.key, world.api, receipt_wait=5, **more)

    def with_httpx(url: str) -> Any:
        with purserpay.httpx.Client(given, trust_env=False, timeout=60) as client:
            return client.get(url)

    def with_requests(url: str) -> Any:
        with purserpay.requests.Session(given) as session:
            session.trust_env = False
            return session.get(url, timeout=60)

    def asynchronous(url: str) -> Any:
        async def go() -> Any:
            async with purserpay.httpx.AsyncClient(given, trust_env=False, timeout=60) as client:
                return await client.get(url)

        return anyio.run(go)

    return [with_httpx, with_requests, asynchronous]


def test_no_more_than_a_quote_has_named(world: sandbox.World) -> None:
    asked = httpx.get(world.sellers["official-v2"] + "/paid", trust_env=False)
    terms = json.loads(base64.b64decode(asked.headers["PAYMENT-REQUIRED"]))
    price = ["10000"]

    def seller(request: Any, _: bytes) -> None:
        accepts = [{**entry, "amount": price[0]} for entry in terms["accepts"]]
        request.send_response(402)
        request.send_header("PAYMENT-REQUIRED", encoded({**terms, "accepts": accepts}))
        request.send_header("Content-Length", "0")
        request.end_headers()

    for buy in buyers(world):
        price[0] = "10000"
        with serving(seller) as shop:
            with purserpay.terms(dry_run=True), pytest.raises(purserpay.DryRunError):
                buy(shop + "/paid")
            price[0] = "20000"
            with pytest.raises(purserpay.DeclinedError) as declined:
                buy(shop + "/paid")
            assert declined.value.rule == "max-amount"


def test_before_paying(world: sandbox.World) -> None:
    seller, spent, payments = world.sellers["official-v2"] + "/paid", world.spent(), world.payments()
    for buy in buyers(world, max_amount="0.05 USDC", task="reports"):
        with purserpay.terms(dry_run=True), pytest.raises(purserpay.DryRunError) as dry:
            buy(seller)
        assert dry.value.quote.usdc == Decimal("0.01")
        assert dry.value.quote.price == "0.01 USDC"
        where = f"({urlsplit(seller).netloc})"  # the amount stands in the sentence already
        assert str(dry.value) == f"dry run: 0.01 USDC on base to {dry.value.quote.pay_to} would be paid {where}"
        with purserpay.terms(max_amount="0.009 USDC"), pytest.raises(purserpay.RefusedByCallerError) as refused:
            buy(seller)
        assert "an offer asks for 0.01 USDC, and max_amount is 0.009 USDC" in str(refused.value)
        assert world.spent() == spent
        with purserpay.terms(max_amount=Decimal("0.01"), task="extra"):
            info = purserpay.payment_of(buy(seller))
        assert info is not None
        spent += 10_000
        assert (info.amount, info.usdc, info.task) == ("10000", Decimal("0.01"), "extra")
        assert info.host is not None
        assert info.host in seller
        assert world.spent() == spent
    with purserpay.Purser(world.key, world.api) as api:
        assert [payment.task for payment in api.payments.list(limit=3)] == ["extra"] * 3
    assert world.payments() - payments == 3


def test_repeat(world: sandbox.World) -> None:
    seller = world.sellers["official-v2"] + "/paid?again"
    for buy in buyers(world)[:1]:
        with purserpay.idempotency_key("order-1"):
            info = purserpay.payment_of(buy(seller))
            with purserpay.terms(dry_run=True), pytest.raises(purserpay.DryRunError) as dry:
                buy(seller)
        assert info is not None
        said = f"dry run: payment {info.id} of 0.01 USDC would be repeated, and nothing new paid"
        assert str(dry.value) == f"{said} ({urlsplit(seller).netloc})"
        assert dry.value.quote.repeats is not None


def test_api(world: sandbox.World) -> None:
    challenge = httpx.get(world.sellers["official-v2"] + "/paid", trust_env=False).headers["PAYMENT-REQUIRED"]
    spent = world.spent()
    with purserpay.Purser(world.key, world.api) as api:
        quote = api.quote(challenge, task="t", max_amount="0.01 USDC")
        assert (quote.amount, quote.currency, quote.repeats) == ("10000", "USDC", None)
        assert quote.wallet_address is not None
        limits = api.limits("proxy")
        assert limits.door == "proxy"
        assert limits.pays
        assert all(limit.limit.endswith(" USDC") for limit in limits.limits)
        for ask in (api.quote, api.pay):
            with pytest.raises(purserpay.DeclinedError) as declined:
                ask(challenge, max_amount=9_000)
            error = declined.value
            assert (error.reason, error.rule, error.price, error.limit) == (
                "max-amount",
                "max-amount",
                "0.01 USDC",
                "0.009 USDC",
            )
            said = traceback.format_exception_only(error)[-1]
            assert "0.01 USDC is above the limit of 0.009 USDC" in said

    async def go() -> tuple[purserpay.Quote, purserpay.Limits]:
        async with purserpay.AsyncPurser(world.key, world.api) as api:
            return await api.quote(challenge), await api.limits()

    again, here = anyio.run(go)
    assert again.pay_to == quote.pay_to
    assert here.door == "api"
    assert world.spent() == spent


def test_amounts() -> None:
    for given, want in [
        (5, 5),
        ("50000", 50_000),
        ("0.05 USDC", 50_000),
        ("1 USDC", 1_000_000),
        ("0.000001 USDC", 1),
        (Decimal("0.05"), 50_000),
        (Decimal(2), 2_000_000),
        (Decimal("1E+2"), 100_000_000),
    ]:
        assert smallest("it", given) == want  # type: ignore[arg-type]
    wrong: list[Any] = ["0.05", "1.0000001 USDC", "-1 USDC", "1 usdc", " 1 USDC", "", Decimal("NaN"), Decimal(-1), -1]
    for one in wrong:
        with pytest.raises(ValueError, match=r"0\.05 USDC"):
            smallest("it", one)
    for one in (0.05, True, None):
        with pytest.raises(TypeError):
            smallest("it", one)  # type: ignore[arg-type]
    assert usdc_text("10000") == "0.01 USDC"
    assert usdc_text(1) == "0.000001 USDC"
    assert usdc_text(100_000_000) == "100.00 USDC"
    assert usdc_text("-1500000") == "-1.50 USDC"
    with localcontext() as context:  # a program may round to few digits: a cap must not grow by that
        context.prec = 4
        assert usdc_text(1_999_999) == "1.999999 USDC"
        assert usdc_text(10**40) == "1" + "0" * 34 + ".00 USDC"


def test_terms_nest() -> None:
    with purserpay.terms(max_amount=10, task="a"):
        with purserpay.terms(max_amount=20, task="b", dry_run=True):
            inner = purserpay._context.given_terms()
        outer = purserpay._context.given_terms()
    assert (inner.cap, inner.task, inner.dry_run) == (10, "b", True)
    assert (outer.cap, outer.task, outer.dry_run) == (10, "a", False)
    assert purserpay._context.given_terms().cap is None
