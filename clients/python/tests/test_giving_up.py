"""Programs that give up: cancellations, timeouts, and interrupts before and after the payment has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx
import pytest

import purserpay
import purserpay.httpx

from .clients import Says, Seen, _httpx_handler, options
from .world import FakePurser, FakeSeller, challenge, receipt


class Held:
    """A purser or seller that keeps its caller waiting."""

    def __init__(self, server: Callable[[Seen], Says], holds: Callable[[Seen], bool]) -> None:
        self.server, self.holds = server, holds
        self.reached = False
        self.then: Callable[[], None] = lambda: None  # what happens once it is reached

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = Seen(request.method, str(request.url), headers, await request.aread())
        said = self.server(seen)
        if self.holds(seen):
            self.reached = True
            self.then()
            await anyio.sleep(30)
        return httpx.Response(said.status, headers=said.headers, content=said.body)


def holding(asked: FakePurser, seller: FakeSeller, where: str, **more: Any) -> tuple[Any, Held, Held]:
    shop = Held(seller, lambda seen: where == "seller" and bool(FakeSeller.payment(seen)))
    api = Held(asked, lambda seen: where in seen.url)
    transport = purserpay.httpx.AsyncPurserTransport(
        options(**more), httpx.MockTransport(shop), purser_transport=httpx.MockTransport(api)
    )
    return transport, shop, api


URL = "https://api.example.com/paid"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_before_the_payment(backend: str) -> None:
    asked, seller = FakePurser(), FakeSeller()

    async def go() -> None:
        transport, _, api = holding(asked, seller, "/v1/pay")
        async with httpx.AsyncClient(transport=transport) as client:
            with anyio.CancelScope() as scope:
                api.then = scope.cancel
                await client.get(URL)
            assert scope.cancelled_caught
            assert transport.unclear == ()
            assert not seller.payments
            # The same request again is the same payment.
            api.holds = lambda _: False
            assert (await client.get(URL)).content == b"goods"

    anyio.run(go, backend=backend)
    assert asked.payments == 1


def test_cancelled_before_the_payment_leaves_no_trace_on_the_error() -> None:
    async def go() -> None:
        transport, _, api = holding(FakePurser(), FakeSeller(), "/v1/pay")
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.create_task(client.get(URL))
            while not api.reached:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert purserpay.unclear_of(caught.value) is None

    asyncio.run(go())


def test_cancelled_while_the_payer_settles() -> None:
    async def go() -> None:
        transport, _, api = holding(FakePurser(), FakeSeller(), "/v1/pay", settlement="payer")
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.create_task(client.get(URL))
            while not api.reached:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            unclear = purserpay.unclear_of(caught.value)
            assert unclear is not None
            api.holds = lambda _: False
            assert (await unclear.aresume(httpx.Response)).content == b"goods"

    asyncio.run(go())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_after_the_payment(backend: str) -> None:
    asked, seller = FakePurser(), FakeSeller()

    async def go() -> None:
        transport, shop, _ = holding(asked, seller, "seller")
        async with httpx.AsyncClient(transport=transport) as client:
            with anyio.CancelScope() as scope:
                shop.then = scope.cancel
                await client.get(URL)
            assert scope.cancelled_caught
            (unclear,) = transport.unclear
            assert unclear.payment_id == "019aa000-0000-7000-8000-000000000001"
            shop.holds = lambda _: False
            assert (await unclear.aresume(httpx.Response)).content == b"goods"

    anyio.run(go, backend=backend)
    assert len(set(seller.payments)) == 1
    assert asked.payments == 1


def test_timeout_after_the_payment_tells_the_payment() -> None:
    async def go() -> None:
        transport, _, _ = holding(FakePurser(), FakeSeller(), "seller")
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises((TimeoutError, asyncio.TimeoutError)) as caught:
                await asyncio.wait_for(client.get(URL), 2)
            unclear = purserpay.unclear_of(caught.value)
            assert unclear is not None
            assert unclear.payment_id is not None

    asyncio.run(go())


def test_cancelled_while_the_receipt_is_reported() -> None:
    asked = FakePurser()

    async def go() -> None:
        transport, _, api = holding(asked, FakeSeller(), "/receipt", receipt_wait=20)
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.create_task(client.get(URL))
            while not api.reached:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert purserpay.unclear_of(caught.value) is not None
            for report in transport._payer._tasks:
                report.cancel()

    asyncio.run(go())


def test_unclear_of_looks_everywhere() -> None:
    unclear = purserpay.UnclearError("x")
    error = ValueError()
    error.__context__ = unclear
    unclear.__context__ = error
    assert purserpay.unclear_of(error) is unclear
    assert purserpay.unclear_of(ValueError()) is None
    group = type("Group", (Exception,), {})("g")
    group.exceptions = (KeyError(), error)
    assert purserpay.unclear_of(group) is unclear
    with pytest.raises(RuntimeError, match="nothing to resume"):
        unclear.resume()


class Interrupted(BaseException):
    """As KeyboardInterrupt is."""


@pytest.mark.parametrize("where", ["pay", "send"])
def test_interrupted(where: str) -> None:
    asked, seller = FakePurser(), FakeSeller()

    def stop(seen: Seen) -> Says:
        if where == "send" and FakeSeller.payment(seen):
            raise Interrupted
        return seller(seen)

    def stopped(seen: Seen) -> Says:
        if where == "pay":
            raise Interrupted
        return asked(seen)

    transport = purserpay.httpx.PurserTransport(
        options(),
        httpx.MockTransport(_httpx_handler(stop)),
        purser_transport=httpx.MockTransport(_httpx_handler(stopped)),
    )
    with httpx.Client(transport=transport) as client, pytest.raises(Interrupted) as caught:
        client.get(URL)
    assert (purserpay.unclear_of(caught.value) is not None) == (where == "send")


class Watched(httpx.AsyncByteStream):
    """A body that tells whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"goods"

    async def aclose(self) -> None:
        self.closed = True


def test_an_answer_that_comes_too_late_is_closed() -> None:
    """Else its connection would stay taken, and a client that gives up often would run out of them."""
    asked, body = FakePurser(), Watched()

    def sell(request: httpx.Request) -> httpx.Response:
        if "payment-signature" in request.headers:
            return httpx.Response(200, headers={"PAYMENT-RESPONSE": receipt()}, stream=body)
        return httpx.Response(402, headers={"PAYMENT-REQUIRED": challenge()})

    async def go() -> None:
        transport, _, api = holding(asked, FakeSeller(), "/receipt", receipt_wait=20)
        transport._transport = httpx.MockTransport(sell)
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.create_task(client.get(URL))
            while not api.reached:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert body.closed
            for report in transport._payer._tasks:
                report.cancel()

    asyncio.run(go())
