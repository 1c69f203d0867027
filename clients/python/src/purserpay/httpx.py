"""Paying with httpx: transports for any client of it, and clients that have them.

A transport sees each hop of a redirect by itself, so the payment, which is added to a copy of one hop's request, can go
nowhere else, and every hop has its own rules. BEHAVIOUR.md says what happens; here is only how httpx does it.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx

from . import _bodies as bodies
from . import _flow as flow
from ._callers import HttpxAsyncCaller, HttpxCaller
from ._context import given_key
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._payers import AsyncPayer, Payer
from ._streams import bounded
from ._until import within
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ._errors import UnclearError
    from ._memory import Identity
    from ._options import Options

__all__ = ["AsyncClient", "AsyncPurserTransport", "Client", "PurserTransport", "wrap"]

# Where a request remembers what it paid, so that a redirect of its answer knows; and where an answer tells.
_MARK = MARK
# Where a request that was redirected remembers what was asked for at first.
_ASKED = f"{MARK}.asked"


class PurserTransport(httpx.BaseTransport):
    """Pays the 402s of another transport: ``httpx.Client(transport=PurserTransport(options))``.

    ``transport`` carries the requests to the sellers (httpx's own by default), ``purser_transport`` the calls to
    purser (by default one that ignores the environment's proxies). Closing closes both.
    """

    def __init__(
        self,
        options: Options,
        transport: httpx.BaseTransport | None = None,
        *,
        purser_transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport: httpx.BaseTransport = bounded(transport or httpx.HTTPTransport())
        self._payer = Payer(options, HttpxCaller(httpx, purser_transport))
        self._shared = False

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._payer.unclear

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and pay for it if that is asked for."""
        if flow.pays_already(request.headers):
            return self._transport.handle_request(request)
        before = _paid_before(request)
        body = self._body(request)
        response = self._transport.handle_request(request)
        if response.status_code != 402:
            _led_on(request, body, response)
            return response
        wire = _Wire(self._transport, request, self._payer.options)

        def resume(again: Any) -> httpx.Response:
            response = _finished(request, purchase, self._payer.run(purchase, again(), wire))
            response.request = request
            response.read()
            return response

        purchase = flow.Purchase(self._payer.options, self._payer.memory, _described(request, body), resume)
        first = _reply(response)
        steps = before.refuse_second(first) if before else purchase.answer(first)
        try:
            return _finished(request, purchase, self._payer.run(purchase, steps, wire))
        except PurserError as error:
            return _in_place_of(error, self._payer.options)

    def _body(self, request: httpx.Request) -> bytes | None:
        """The body, if it can be sent again; else the request gets a stream of the same bytes."""
        stream = request.stream
        if isinstance(stream, httpx.ByteStream):
            return b"".join(stream)
        limit = self._payer.options.body_limit
        if limit == 0 or not isinstance(stream, httpx.SyncByteStream):
            return None
        chunks = iter(stream)
        start, whole = bodies.read_start(chunks, limit)
        if whole:
            request.stream = httpx.ByteStream(start)
            return start
        request.stream = _Rest(start, chunks, stream)
        return None

    def close(self) -> None:
        """Close both transports."""
        self._transport.close()
        if not self._shared:
            self._payer.close()


class AsyncPurserTransport(httpx.AsyncBaseTransport):
    """Pays the 402s of another transport: ``httpx.AsyncClient(transport=AsyncPurserTransport(options))``."""

    def __init__(
        self,
        options: Options,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        purser_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport: httpx.AsyncBaseTransport = transport or httpx.AsyncHTTPTransport()
        self._payer = AsyncPayer(options, HttpxAsyncCaller(httpx, purser_transport))
        self._shared = False

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._payer.unclear

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and pay for it if that is asked for."""
        if flow.pays_already(request.headers):
            return await self._transport.handle_async_request(request)
        before = _paid_before(request)
        body = await self._body(request)
        response = await self._transport.handle_async_request(request)
        if response.status_code != 402:
            _led_on(request, body, response)
            return response
        wire = _AsyncWire(self._transport, request, self._payer.options)

        async def resume(again: Any) -> httpx.Response:
            response = _finished(request, purchase, await self._payer.run(purchase, again(), wire))
            response.request = request
            await response.aread()
            return response

        purchase = flow.Purchase(self._payer.options, self._payer.memory, _described(request, body), resume)
        first = _reply(response)
        steps = before.refuse_second(first) if before else purchase.answer(first)
        try:
            return _finished(request, purchase, await self._payer.run(purchase, steps, wire))
        except PurserError as error:
            return _in_place_of(error, self._payer.options)

    async def _body(self, request: httpx.Request) -> bytes | None:
        stream = request.stream
        if isinstance(stream, httpx.ByteStream):
            return b"".join(stream)
        limit = self._payer.options.body_limit
        if limit == 0 or not isinstance(stream, httpx.AsyncByteStream):
            return None
        chunks = aiter(stream)
        start, whole = await bodies.aread_start(chunks, limit)
        if whole:
            request.stream = httpx.ByteStream(start)
            return start
        request.stream = _AsyncRest(start, chunks, stream)
        return None

    async def aclose(self) -> None:
        """Close both transports."""
        await self._transport.aclose()
        if not self._shared:
            await self._payer.aclose()


class Client(httpx.Client):
    """An ``httpx.Client`` that pays 402s. Takes all of httpx's own arguments as well."""

    def __init__(self, options: Options, *, purser_transport: httpx.BaseTransport | None = None, **more: Any) -> None:
        super().__init__(**more)
        paying = PurserTransport(options, self._transport, purser_transport=purser_transport)
        self._purser: Payer = _pays(self, paying)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._purser.unclear


class AsyncClient(httpx.AsyncClient):
    """An ``httpx.AsyncClient`` that pays 402s. Takes all of httpx's own arguments as well."""

    def __init__(
        self, options: Options, *, purser_transport: httpx.AsyncBaseTransport | None = None, **more: Any
    ) -> None:
        super().__init__(**more)
        paying = AsyncPurserTransport(options, self._transport, purser_transport=purser_transport)
        self._purser: AsyncPayer = _pays(self, paying)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._purser.unclear


C = TypeVar("C", httpx.Client, httpx.AsyncClient)


def wrap(client: C, options: Options) -> C:
    """Make a client pay that exists already, such as that of an SDK, and return it. Once for each client."""
    plain: Any = client
    own = plain._transport  # noqa: SLF001
    if isinstance(own, (PurserTransport, AsyncPurserTransport)):
        raise ValueError("this client pays already")
    kind: Any = PurserTransport if isinstance(plain, httpx.Client) else AsyncPurserTransport
    _pays(plain, kind(options, own))
    return client


def _pays(client: Any, paying: Any) -> Any:
    """Put a paying transport into a client. Returns its payer."""
    client._transport = paying  # noqa: SLF001
    # Proxies, of the environment too, are mounted transports.
    for pattern, mounted in client._mounts.items():  # noqa: SLF001
        if mounted is not None:
            client._mounts[pattern] = _sharing(type(paying), mounted, paying)  # noqa: SLF001
    return paying._payer  # noqa: SLF001


def _sharing(kind: Any, mounted: Any, paying: Any) -> Any:
    """Make a paying transport that pays with another one's payer, so that one memory serves a whole client."""
    made = kind.__new__(kind)
    made._transport, made._payer, made._shared = bounded(mounted), paying._payer, True  # noqa: SLF001
    return made


class _Wire:
    """How a flow reaches the seller."""

    def __init__(self, transport: httpx.BaseTransport, request: httpx.Request, options: Options) -> None:
        self._transport = transport
        self.request = request
        self._options = options

    def send(self, step: flow.Send) -> flow.Reply:
        request, timeouts = _paid(self.request, step, self._options)
        try:
            with within(self._options.paid_timeout):
                response = self._transport.handle_request(request)
        except Exception as error:
            raise flow.SendError from error
        _as_asked(self.request, timeouts)
        return _reply(response)

    def peek(self, reply: flow.Reply) -> bytes | None:
        response: httpx.Response = reply.native
        stream = response.stream
        assert isinstance(stream, httpx.SyncByteStream)  # noqa: S101
        chunks, peeked = iter(stream), _peeked(response)
        for chunk in chunks:
            if not peeked.add(chunk):
                response.stream = _Rest(bytes(peeked.start), chunks, stream)
                return None
        start = bytes(peeked.start)
        response.stream = _Rest(start, iter(()), stream)
        return _decoded(response, start, MAX_BODY)

    def hold(self, reply: flow.Reply) -> bytes:
        response: httpx.Response = reply.native
        if not response.is_stream_consumed:
            stream = response.stream
            assert isinstance(stream, httpx.SyncByteStream)  # noqa: S101
            try:
                raw, _ = bodies.read_start(iter(stream), bodies.MAX_HELD, bodies.HELD_FOR)
            finally:
                stream.close()
            _keep(response, self.request, raw)
        return response.read()

    def discard(self, reply: flow.Reply) -> None:
        reply.native.close()


class _AsyncWire:
    """How a flow reaches the seller."""

    def __init__(self, transport: httpx.AsyncBaseTransport, request: httpx.Request, options: Options) -> None:
        self._transport = transport
        self.request = request
        self._options = options

    async def send(self, step: flow.Send) -> flow.Reply:
        request, timeouts = _paid(self.request, step, self._options)
        try:
            with anyio.fail_after(self._options.paid_timeout):
                response = await self._transport.handle_async_request(request)
        except Exception as error:
            raise flow.SendError from error
        _as_asked(self.request, timeouts)
        return _reply(response)

    async def peek(self, reply: flow.Reply) -> bytes | None:
        response: httpx.Response = reply.native
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101
        chunks, peeked = aiter(stream), _peeked(response)
        async for chunk in chunks:
            if not peeked.add(chunk):
                response.stream = _AsyncRest(bytes(peeked.start), chunks, stream)
                return None
        start = bytes(peeked.start)
        response.stream = _AsyncRest(start, None, stream)
        return _decoded(response, start, MAX_BODY)

    async def hold(self, reply: flow.Reply) -> bytes:
        response: httpx.Response = reply.native
        if not response.is_stream_consumed:
            stream = response.stream
            assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101
            chunks = aiter(stream)
            try:
                raw, _ = await bodies.aread_start(chunks, bodies.MAX_HELD, bodies.HELD_FOR)
            finally:
                await _end(chunks)
                await stream.aclose()
            _keep(response, self.request, raw)
        return await response.aread()

    async def discard(self, reply: flow.Reply) -> None:
        await reply.native.aclose()


class _Rest(httpx.SyncByteStream):
    """A stream whose start was read already."""

    def __init__(self, start: bytes, chunks: Iterator[bytes], stream: httpx.SyncByteStream) -> None:
        self._start = start
        self._chunks = chunks
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        if self._start:
            yield self._start
        yield from self._chunks

    def close(self) -> None:
        self._stream.close()


class _AsyncRest(httpx.AsyncByteStream):
    """A stream whose start was read already; without chunks that was all."""

    def __init__(self, start: bytes, chunks: AsyncIterator[bytes] | None, stream: httpx.AsyncByteStream) -> None:
        self._start = start
        self._chunks = chunks
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._start:
            yield self._start
        if self._chunks is not None:
            async for chunk in self._chunks:
                yield chunk

    async def aclose(self) -> None:
        if self._chunks is not None:
            await _end(self._chunks)
        await self._stream.aclose()


async def _end(chunks: AsyncIterator[bytes]) -> None:
    """End what may be a generator that was not read to its end: trio does not like them lying about."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


def _described(request: httpx.Request, body: bytes | None) -> flow.Request:
    key = flow.usable_key(request.headers.get("idempotency-key")) or given_key()
    return flow.Request(request.method, str(request.url), body, key, _asked(request))


def _reply(response: httpx.Response) -> flow.Reply:
    headers: dict[str, str] = {}
    for name, value in response.headers.raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return flow.Reply(response.status_code, headers, response)


def _paid(request: httpx.Request, step: flow.Send, options: Options) -> tuple[httpx.Request, dict[str, Any]]:
    """Make a copy of a request with a payment, which may take longer than the program usually waits."""
    headers = httpx.Headers(request.headers)
    headers[step.name] = step.value
    timeouts = {**(request.extensions.get("timeout") or {}), "read": options.paid_timeout}
    extensions = {**request.extensions, "timeout": timeouts}
    return httpx.Request(
        request.method, request.url, headers=headers, stream=request.stream, extensions=extensions
    ), timeouts


def _as_asked(request: httpx.Request, timeouts: dict[str, Any]) -> None:
    """Let the program's own timeout hold for the answer's body: httpcore looks it up when it begins to read."""
    timeouts["read"] = (request.extensions.get("timeout") or {}).get("read")


def _peeked(response: httpx.Response) -> bodies.Peeked:
    return bodies.Peeked(encoded="content-encoding" in response.headers)


def _decoded(response: httpx.Response, raw: bytes, limit: int) -> bytes:
    """Decode a body as far as a limit allows."""
    encoding = response.headers.get("content-encoding")
    if encoding is None or "," in encoding:  # layer upon layer may unfold without bound
        return raw
    scratch = httpx.Response(200, headers={"content-encoding": encoding}, content=bodies.slices(raw))
    try:
        return bodies.bounded(scratch.iter_bytes(), limit)
    except httpx.DecodingError:
        return raw


def _keep(response: httpx.Response, request: httpx.Request, raw: bytes) -> None:
    """Make an answer readable that is closed, for an error."""
    text = _decoded(response, raw, bodies.MAX_HELD)
    response.headers.pop("content-encoding", None)
    response.stream = httpx.ByteStream(text[: bodies.MAX_HELD])
    response.request = request


def _finished(request: httpx.Request, purchase: flow.Purchase, reply: flow.Reply) -> httpx.Response:
    """Write down what was paid for an answer, where the program and the next hop find it."""
    response: httpx.Response = reply.native
    if purchase.info is not None:
        response.extensions = {**response.extensions, _MARK: purchase.info}
        request.extensions[_MARK] = (weakref.ref(request), purchase)
    return response


def _in_place_of(error: PurserError, options: Options) -> httpx.Response:
    """Answer with an error that the program does not want raised."""
    if not options.return_402:
        raise error
    headers, body = in_place_of(error)
    return httpx.Response(402, headers=headers, content=body, extensions={ERROR_MARK: error})


def _paid_before(request: httpx.Request) -> flow.Purchase | None:
    """Find the purchase of an earlier hop: httpx hands a request's extensions on to where it is redirected."""
    made_by, purchase = request.extensions.get(_MARK) or (None, None)
    return purchase if made_by is not None and made_by() is not request else None


def _led_on(request: httpx.Request, body: bytes | None, response: httpx.Response) -> None:
    """Write down what was asked for before a redirect, where the next hop finds it."""
    if response.has_redirect_location and _asked(request) is None:
        first = flow.Request(request.method, str(request.url), body).identity
        request.extensions[_ASKED] = (weakref.ref(request), first)


def _asked(request: httpx.Request) -> Identity | None:
    """Find what was asked for at first, if this is a later hop."""
    made_by, first = request.extensions.get(_ASKED) or (None, None)
    return first if made_by is not None and made_by() is not request else None
