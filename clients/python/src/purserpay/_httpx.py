"""Paying with httpx and httpx2, which have one interface. The modules of their names add the types.

A transport sees each hop of a redirect by itself, so the payment, which is added to a copy of one hop's request, can go
nowhere else, and every hop has its own rules. BEHAVIOUR.md says what happens; here is only how the libraries do it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import _bodies as bodies
from . import _flow as flow
from ._asked import said
from ._context import given_key
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._toolcalls import Coming
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from ._errors import UnclearError
    from ._halves import Half
    from ._memory import Identity
    from ._options import Options
    from ._payers import AsyncPayer, Payer

__all__ = ["Repeated", "Rest", "Transport", "mount", "wrap"]

# Where a request remembers what it paid, so that a redirect of its answer knows; and where an answer tells.
_MARK = MARK
# Where a request that was redirected remembers what was asked for at first.
_ASKED = f"{MARK}.asked"


class Transport:
    """Pays the 402s of another transport. Both libraries and both halves have one that is derived from this."""

    library: Any  # the module
    half: type[Half]
    rest: type[Rest]
    repeated: type[Repeated]

    _payer: Any

    def __init__(self, transport: Any, payer: Payer | AsyncPayer) -> None:
        self._transport = transport
        self._payer = payer
        self._shared = False

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and not resumed since, the newest last."""
        listed: tuple[UnclearError, ...] = self._payer.unclear
        return listed

    def sharing(self, transport: Any) -> Transport:
        """Make a transport for a proxy that pays with this one's payer: one memory serves a whole client."""
        made = type(self).__new__(type(self))
        made._transport, made._payer, made._shared = transport, self._payer, True
        return made

    async def _handle(self, request: Any) -> Any:
        half, options = self.half, self._payer.options
        if flow.pays_already(request.headers):
            return await half.send(self._transport, request)
        before = _earlier(request, _MARK)
        body = await self._body(request)
        with self._payer.first(request.method, str(request.url), request.headers) as came:
            response = await half.send(self._transport, request)
            came(response.status_code)
        if response.status_code != 402:
            if response.has_redirect_location and _earlier(request, _ASKED) is None:
                _leave(request, _ASKED, _described(request, body).identity)
            return response
        wire = _Wire(self, request)

        async def go(steps: flow.Steps[flow.Reply]) -> Any:
            reply = await self._payer.perform(purchase, steps, wire)
            return self._watched(described, purchase, _finished(request, purchase, reply))

        async def again(steps: flow.Steps[flow.Reply]) -> Any:
            response = await go(steps)
            response.request = request
            await half.read(response)
            return response

        described = _described(request, body)
        purchase = flow.Purchase(self._payer, described, lambda steps: half.begin(again(steps())))
        first = _reply(response)
        try:
            return await go(before.refuse_second(first) if before else purchase.answer(first))
        except PurserError as error:
            if not options.return_402:
                raise
            headers, said = in_place_of(error, request.headers)
            return self.library.Response(402, headers=headers, content=said, extensions={ERROR_MARK: error})

    def _watched(self, request: flow.Request, purchase: flow.Purchase, response: Any) -> Any:
        """Look on while the answer to a call of MCP comes: a stream is begun long before that."""
        content = request.content
        if content and content.number and purchase.ended and not response.is_stream_consumed and not _encoded(response):
            coming = Coming(response.headers.get("content-type", ""), content.number)
            chunks = self.half.watched(self.half.chunks(response.stream), coming, purchase.lost)
            response.stream = self.rest(b"", chunks, response.stream)
        return response

    async def _body(self, request: Any) -> Iterable[bytes] | None:
        """Make the body one that can be sent again. Returns it, or nothing."""
        stream: Any = request.stream
        half, limit = self.half, self._payer.options.body_limit
        file = bodies.File.of(getattr(stream, "_stream", None))
        if file is not None and isinstance(stream, self.library.SyncByteStream):
            request.stream = self.repeated(file)
            return file
        if isinstance(stream, self.library.ByteStream):
            data: tuple[bytes, ...] = tuple(stream)
            return data
        if _rewinds(stream):
            form: Iterable[bytes] = stream
            return form
        try:
            chunks = half.chunks(stream) if limit else None
        except TypeError:  # a stream of the other half, which the transport refuses
            chunks = None
        if chunks is None:
            return None
        start, whole = await bodies.read_start(lambda: half.following(chunks), limit)
        request.stream = self.library.ByteStream(start) if whole else self.rest(start, chunks, stream)
        return (start,) if whole else None

    async def _close(self, timeout: float) -> None:
        if not self._shared:
            closed = self._payer.close(timeout)
            if closed is not None:
                await closed
        await self.half.close(self._transport)


class _Wire:
    """How a flow reaches the seller."""

    def __init__(self, transport: Transport, request: Any) -> None:
        self._half = transport.half
        self._kind = transport
        self._library = transport.library
        self._request = request

    async def send(self, step: flow.Send) -> flow.Reply:
        request, timeouts = self._paid(step)
        try:
            with self._half.within(timeouts["read"]):
                response = await self._half.send(self._kind._transport, request)
        except Exception as error:
            raise flow.SendError from error
        # The program's own timeout holds for the answer's body: httpcore looks it up when it begins to read.
        timeouts["read"] = (self._request.extensions.get("timeout") or {}).get("read")
        return _reply(response)

    def _paid(self, step: flow.Send) -> tuple[Any, dict[str, Any]]:
        """Make a copy of the request with a payment, which may take longer than the program usually waits."""
        headers = self._library.Headers(self._request.headers)
        headers.update(step.headers(headers.get("cache-control")))
        given = self._request.extensions.get("timeout") or {}
        timeouts = {name: given.get(name) or step.timeout for name in ("connect", "pool", "write")}
        timeouts["read"] = max(step.timeout, given.get("read") or 0)
        return self._library.Request(
            self._request.method,
            self._request.url,
            headers=headers,
            stream=self._request.stream,
            extensions={**self._request.extensions, "timeout": timeouts},
        ), timeouts

    async def peek(self, reply: flow.Reply) -> bytes | None:
        response = reply.native
        chunks, peeked = self._half.chunks(response.stream), bodies.Peeked(encoded=_encoded(response) is not None)
        while (chunk := await self._half.following(chunks)) is not None:
            if not peeked.add(chunk):
                response.stream = self._kind.rest(bytes(peeked.start), chunks, response.stream)
                return None
        start = bytes(peeked.start)
        response.stream = self._kind.rest(start, None, response.stream)
        return self._decoded(response, start, MAX_BODY)

    async def hold(self, reply: flow.Reply) -> bytes:
        response = reply.native
        if not response.is_stream_consumed:
            stream = response.stream
            chunks = self._half.chunks(stream)
            try:
                raw, _ = await bodies.read_start(lambda: self._half.following(chunks), bodies.MAX_HELD, bodies.HELD_FOR)
            finally:
                await self._half.end(chunks)
                await self._half.close(stream)
            text = self._decoded(response, raw, bodies.MAX_HELD)
            response.headers.pop("content-encoding", None)
            response.stream = self._library.ByteStream(text[: bodies.MAX_HELD])
            response.request = self._request
        return await self._half.read(response)

    async def discard(self, reply: flow.Reply) -> None:
        await self._half.close(reply.native)

    def _decoded(self, response: Any, raw: bytes, limit: int) -> bytes:
        """Decode a body as far as a limit allows."""
        encoding = _encoded(response)
        if encoding is None or "," in encoding:  # layer upon layer may unfold without bound
            return raw
        headers = {"content-encoding": encoding}
        scratch = self._library.Response(200, headers=headers, content=bodies.slices(raw))
        try:
            return bodies.bounded(scratch.iter_bytes(), limit)
        except self._library.DecodingError:
            return raw


class Rest:
    """A stream whose start was read already; without chunks that was all. Both libraries derive theirs from it."""

    def __init__(self, start: bytes, chunks: Any, stream: Any) -> None:
        self._start = start
        self._chunks = chunks
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        if self._start:
            yield self._start
        yield from self._chunks or ()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._start:
            yield self._start
        if self._chunks is not None:
            async for chunk in self._chunks:
                yield chunk

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        if hasattr(self._chunks, "aclose"):
            await self._chunks.aclose()
        await self._stream.aclose()


class Repeated:
    """A file as a body, from where it stood, as often as it is sent. Both libraries derive theirs from it."""

    def __init__(self, file: bodies.File) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)


def _rewinds(stream: Any) -> bool:
    """Report whether a body is a form whose files can be read again. The library itself rewinds them."""
    fields = getattr(stream, "fields", None)
    if not isinstance(fields, list):
        return False
    files = [field.file for field in fields if hasattr(field, "file")]
    return all(isinstance(file, (str, bytes)) or bodies.File.of(file) is not None for file in files)


def wrap(client: Any, options: Options, kind: type[Any]) -> None:
    """Make a client pay that exists already."""
    own = client._transport
    if isinstance(own, Transport):
        raise ValueError("this client pays already")
    mount(client, kind(options, own))


def mount(client: Any, paying: Transport) -> Any:
    """Put a paying transport into a client, for its proxies too. Returns its payer."""
    client._transport = paying
    for pattern, mounted in client._mounts.items():
        if mounted is not None:
            client._mounts[pattern] = paying.sharing(mounted)
    return paying._payer


def _described(request: Any, body: Iterable[bytes] | None) -> flow.Request:
    key = flow.usable_key(request.headers.get("idempotency-key")) or given_key()
    url = str(request.url)
    content = None if body is None else bodies.content(request.method, url, body, request.headers)
    asked: Identity | None = _earlier(request, _ASKED)
    spoken = said(request.method, url, request.headers)
    return flow.Request(request.method, url, content, bodies.size(body), key, asked, spoken)


def _reply(response: Any) -> flow.Reply:
    headers: dict[str, str] = {}
    for name, value in response.headers.raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return flow.Reply(response.status_code, headers, response)


def _encoded(response: Any) -> str | None:
    encoding: str | None = response.headers.get("content-encoding")
    return encoding


def _finished(request: Any, purchase: flow.Purchase, reply: flow.Reply) -> Any:
    """Write down what was paid for an answer, where the program and the next hop find it."""
    response = reply.native
    if purchase.info is not None:
        response.extensions = {**response.extensions, _MARK: purchase.info}
        _leave(request, _MARK, purchase)
    return response


def _leave(request: Any, mark: str, what: Any) -> None:
    """Leave something for the next hop: the libraries hand a request's extensions on to where it is redirected."""
    request.extensions[mark] = (weakref.ref(request), what)


def _earlier(request: Any, mark: str) -> Any:
    """Find what an earlier hop left, or ``None``."""
    made_by, what = request.extensions.get(mark) or (None, None)
    return what if made_by is not None and made_by() is not request else None
