"""Paying with aiohttp: a middleware for any session of it, and ``wrap`` for sessions that exist already.

A middleware sees each hop of a redirect by itself, so the payment, which is added to one hop's request for as long as
that is sent, can go nowhere else. BEHAVIOUR.md says what happens; here is only how aiohttp does it.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
from aiohttp.payload import AsyncIterablePayload
from multidict import CIMultiDict, CIMultiDictProxy

from . import _bodies as bodies
from . import _flow as flow
from ._asked import said
from ._calls import MAX_ANSWER, Answer, CallError
from ._context import given_key
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._payers import AsyncPayer
from ._receipts import CLOSE_WITHIN
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from ._calls import Call
    from ._errors import UnclearError
    from ._memory import Identity
    from ._options import Options

__all__ = ["PurserMiddleware", "wrap"]

# How many redirected requests are known at once.
MOST_HOPS = 1024
_LEADS = (301, 302, 303, 307, 308)  # to another URL


class PurserMiddleware:
    """Pays the 402s of a session: ``aiohttp.ClientSession(middlewares=[PurserMiddleware(options)])``.

    Put it last, so that it sees what is really sent. Calls to purser are made by connections of its own.
    """

    def __init__(self, options: Options) -> None:
        self._payer = AsyncPayer(options, _Caller())
        # aiohttp has nothing public that two hops of one request share; the list of its traces is.
        self._hops: OrderedDict[int, _Hops] = OrderedDict()

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and not resumed since, the newest last."""
        return self._payer.unclear

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request, and pay for it if that is asked for."""
        if flow.pays_already(request.headers):
            return await handler(request)
        hops = self._hops.get(id(request._traces))  # noqa: SLF001
        repeatable = await self._prepare(request)
        with self._payer.first(request.method, str(request.url), request.headers) as came:
            response = await handler(request)
            came(response.status)
        if response.status in _LEADS and hops is None:
            described = await _described(request, repeatable=repeatable, asked=None)
            self._leave(request, _Hops(request._traces, described.identity))  # noqa: SLF001
        if response.status != 402:
            return response
        return await self._buy(request, handler, response, hops, repeatable=repeatable)

    async def _buy(
        self,
        request: ClientRequest,
        handler: ClientHandlerType,
        response: ClientResponse,
        hops: _Hops | None,
        *,
        repeatable: bool,
    ) -> ClientResponse:
        wire = _Wire(request, handler)
        described = await _described(request, repeatable=repeatable, asked=hops.asked if hops else None)

        async def go(steps: flow.Steps[flow.Reply]) -> ClientResponse:
            reply = await self._payer.perform(purchase, steps, wire)
            paid: ClientResponse = reply.native
            if purchase.info is not None:
                setattr(paid, MARK, purchase.info)
            if purchase.info is not None and paid.status in _LEADS:
                self._leave(request, _Hops(request._traces, described.identity, purchase))  # noqa: SLF001
            return paid

        async def again(steps: flow.Steps[flow.Reply]) -> ClientResponse:
            paid = await go(steps)
            await paid.read()
            return paid

        purchase = flow.Purchase(self._payer, described, lambda steps: again(steps()))
        first = _reply(response)
        before = hops.paid if hops else None
        try:
            return await go(before.refuse_second(first) if before else purchase.answer(first))
        except PurserError as error:
            if not self._payer.options.return_402:
                raise
            return _in_place_of(error, request, response)

    async def _prepare(self, request: ClientRequest) -> bool:
        """Make a body one that can be sent again. Tells whether it is."""
        body: Any = request.body
        limit = self._payer.options.body_limit
        if not isinstance(body, AsyncIterablePayload):
            return not getattr(body, "consumed", False)
        own: Any = body._iter  # noqa: SLF001
        if own is None:
            return not body.consumed
        if limit == 0:
            return False

        async def following() -> bytes | None:
            return await anext(own, None)

        start, whole = await bodies.read_start(following, limit)
        payload: Any = body
        if whole:
            payload._iter, payload._cached_chunks = None, [start]  # noqa: SLF001
            return True

        async def joined() -> AsyncIterator[bytes]:
            yield start
            async for chunk in own:
                yield chunk

        payload._iter = joined()  # noqa: SLF001
        return False

    def _leave(self, request: ClientRequest, hops: _Hops) -> None:
        """Leave something for the next hop. Holding the list keeps its ``id`` from being given away."""
        self._hops[id(request._traces)] = hops  # noqa: SLF001
        while len(self._hops) > MOST_HOPS:
            self._hops.popitem(last=False)

    async def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported."""
        await self._payer.close(timeout)


def wrap(session: aiohttp.ClientSession, options: Options) -> aiohttp.ClientSession:
    """Make a session pay that exists already, and return it. Once for each session."""
    plain: Any = session
    own = tuple(plain._middlewares)  # noqa: SLF001
    if any(isinstance(one, PurserMiddleware) for one in own):
        raise ValueError("this session pays already")
    plain._middlewares = (*own, PurserMiddleware(options))  # noqa: SLF001
    return session


@dataclass
class _Hops:
    """What later hops of a request have to know: what was asked for at first, and what was paid."""

    traces: Any
    asked: Identity
    paid: flow.Purchase | None = None


class _Wire:
    """How a flow reaches the seller."""

    def __init__(self, request: ClientRequest, handler: ClientHandlerType) -> None:
        self._request = request
        self._handler = handler

    async def send(self, step: flow.Send) -> flow.Reply:
        request: Any = self._request
        own = request.send
        protocol, timeout = None, None

        async def patient(connection: Any) -> Any:
            """Send as ever, but wait for the headers as long as a payment may take."""
            nonlocal protocol, timeout
            protocol = connection.protocol
            timeout = protocol.read_timeout
            longer = max(step.timeout, timeout or 0)
            protocol.read_timeout = longer
            limit.deadline += longer - step.timeout
            return await own(connection)

        given = request.headers.copy()
        request.headers.update(step.headers(", ".join(given.getall("Cache-Control", []))))
        request.send = patient
        try:
            with anyio.fail_after(step.timeout) as limit:
                response = await self._handler(request)
        except Exception as error:
            raise flow.SendError from error
        finally:  # the payment is not to be sent again by anything else
            request.headers.clear()
            request.headers.extend(given)
            request.send = own
            if protocol is not None:
                protocol.read_timeout = timeout
                protocol._reschedule_timeout()  # noqa: SLF001 — the clock runs already
        # Where programs and errors look for what was sent.
        response._request_info = request.request_info  # noqa: SLF001
        return _reply(response)

    async def peek(self, reply: flow.Reply) -> bytes | None:
        content, peeked = reply.native.content, bodies.Peeked(encoded=False)  # aiohttp has decoded it
        worth = True
        while worth and (chunk := await content.readany()):
            worth = peeked.add(chunk)
        start = bytes(peeked.start)
        if start:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                content.unread_data(start)
        return start[:MAX_BODY] if worth else None

    async def hold(self, reply: flow.Reply) -> bytes:
        response = reply.native
        if response._body is None:  # noqa: SLF001
            content = response.content

            async def following() -> bytes | None:
                return await content.readany() or None

            text, _ = await bodies.read_start(following, bodies.MAX_HELD, bodies.HELD_FOR)
            response.close()
            response._body, response._released = text[: bodies.MAX_HELD], False  # noqa: SLF001 — still readable
        body: bytes = response._body  # noqa: SLF001
        return body

    async def discard(self, reply: flow.Reply) -> None:
        if reply.native._body is None:  # noqa: SLF001 — what was read for an error stays readable
            reply.native.close()


async def _described(request: ClientRequest, *, repeatable: bool, asked: Identity | None) -> flow.Request:
    key = flow.usable_key(request.headers.get("idempotency-key")) or given_key()
    content, size, url = None, 0, str(request.url)
    if repeatable:
        body: Any = request.body
        data = (body or b"") if body is None or isinstance(body, bytes) else await body.as_bytes()
        content, size = bodies.content(request.method, url, [data], request.headers), len(data)
    return flow.Request(request.method, url, content, size, key, asked, said(request.method, url, request.headers))


def _reply(response: ClientResponse) -> flow.Reply:
    headers: dict[str, str] = {}
    for name, value in response.raw_headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return flow.Reply(response.status, headers, response)


def _in_place_of(error: PurserError, request: ClientRequest, response: Any) -> ClientResponse:
    """Make the seller's 402 an answer with an error that the program does not want raised."""
    headers, body = in_place_of(error, request.headers)
    response._headers = CIMultiDictProxy(CIMultiDict(headers))  # noqa: SLF001
    response._body, response._cache, response._released = body, {}, False  # noqa: SLF001
    setattr(response, ERROR_MARK, error)
    answer: ClientResponse = response
    return answer


class _Caller:
    """Calls to purser. Each has a session of its own, so that no cookie, proxy or connector of the program is used."""

    async def __call__(self, call: Call) -> Answer:
        until = time.monotonic() + call.timeout
        timeout = aiohttp.ClientTimeout(total=call.timeout)
        try:
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout) as session,
                session.request(
                    call.method, call.url, headers=call.headers, data=call.body or None, allow_redirects=False
                ) as response,
            ):
                data = bytearray()
                while chunk := await response.content.readany():
                    data += chunk
                    if len(data) > MAX_ANSWER:
                        raise CallError(f"its answer is larger than {MAX_ANSWER} bytes")
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            if time.monotonic() >= until:
                raise CallError(f"no whole answer within {call.timeout:g} s") from error
            connected = not isinstance(error, (aiohttp.ClientConnectorError, aiohttp.InvalidURL))
            raise CallError(f"{type(error).__name__}: {error}", reached=connected) from error
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(data))

    async def close(self) -> None:
        pass
