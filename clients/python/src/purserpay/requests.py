"""Paying with requests: an adapter for any session of it, and a session that has it.

An adapter sees each hop of a redirect by itself, so the payment, which is added to a copy of one hop's request, can go
nowhere else, and every hop has its own rules. BEHAVIOUR.md says what happens; here is only how requests does it.
"""

from __future__ import annotations

import io
import weakref
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter

from . import _bodies as bodies
from . import _flow as flow
from ._callers import RequestsCaller
from ._context import given_key
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._payers import Payer
from ._sockets import bounded
from ._until import within
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ._errors import UnclearError
    from ._memory import Identity
    from ._options import Options

__all__ = ["PurserAdapter", "Session", "wrap"]

# Where a request that was redirected remembers what was asked for at first.
_ASKED = f"{MARK}.asked"


class PurserAdapter(BaseAdapter):
    """Pays the 402s of another adapter: ``session.mount("https://", PurserAdapter(options))``.

    ``adapter`` carries the requests to the sellers (an ``HTTPAdapter`` by default; one with ``max_retries`` repeats a
    paid request with the same payment), ``purser_adapter`` the calls to purser. Closing closes both.
    """

    def __init__(
        self,
        options: Options,
        adapter: BaseAdapter | None = None,
        *,
        purser_adapter: BaseAdapter | None = None,
    ) -> None:
        super().__init__()
        self._adapter = bounded(adapter or HTTPAdapter())
        self._payer = Payer(options, RequestsCaller(purser_adapter))

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._payer.unclear

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and pay for it if that is asked for."""
        how = {"stream": stream, "timeout": timeout, "verify": verify, "cert": cert, "proxies": proxies}
        if flow.pays_already(request.headers):
            return self._adapter.send(request, **how)
        before = _paid_before(request)
        body, sent = self._body(request)
        response = self._adapter.send(sent, **how)
        response.request = request
        # What sends again by itself, as digest authentication does, is to pay as well.
        response.connection = self  # type: ignore[assignment]
        if response.status_code != 402:
            _led_on(request, body, response)
            return response
        wire = _Wire(self._adapter, request, sent, how, self._payer.options)
        described = _described(request, body)
        try:
            reply = self._buy(described, wire, _reply(response), before)
        except PurserError as error:
            reply = _in_place_of(error, request, self._payer.options)
        reply.connection = self  # type: ignore[assignment]
        return reply

    def _buy(
        self, described: flow.Request, wire: _Wire, first: flow.Reply, before: flow.Purchase | None
    ) -> requests.Response:
        def resume(again: Any) -> requests.Response:
            response = _finished(wire.request, purchase, self._payer.run(purchase, again(), wire))
            _ = response.content
            return response

        purchase = flow.Purchase(self._payer.options, self._payer.memory, described, resume)
        steps = before.refuse_second(first) if before else purchase.answer(first)
        return _finished(wire.request, purchase, self._payer.run(purchase, steps, wire))

    def _body(self, request: requests.PreparedRequest) -> tuple[bytes | None, requests.PreparedRequest]:
        """The body if it can be sent again, and the request that sends it."""
        body: Any = request.body
        if body is None or isinstance(body, (bytes, str)):
            return body.encode("utf-8") if isinstance(body, str) else body or b"", request
        limit = self._payer.options.body_limit
        if limit == 0:
            return None, request
        chunks = _chunks(body)
        start, whole = bodies.read_start(chunks, limit)
        copy = request.copy()
        if whole and not hasattr(body, "tell"):  # requests itself rewinds what can tell where it is
            request.body = start
        # The headers stay as they are: they say how long the body is, or that it comes in chunks.
        copy.body = start if whole else cast("Any", chain([start], chunks))
        return start if whole else None, copy

    def close(self) -> None:
        """Close both adapters."""
        self._adapter.close()
        self._payer.close()


class Session(requests.Session):
    """A ``requests.Session`` that pays 402s."""

    def __init__(
        self, options: Options, adapter: BaseAdapter | None = None, *, purser_adapter: BaseAdapter | None = None
    ) -> None:
        super().__init__()
        self._purser = PurserAdapter(options, adapter, purser_adapter=purser_adapter)
        for scheme in ("https://", "http://"):
            self.mount(scheme, self._purser)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return self._purser.unclear


def wrap(session: requests.Session, options: Options) -> requests.Session:
    """Make a session pay that exists already, and return it. Once for each session."""
    if any(isinstance(adapter, PurserAdapter) for adapter in session.adapters.values()):
        raise ValueError("this session pays already")
    first: PurserAdapter | None = None
    for prefix, adapter in list(session.adapters.items()):
        paying = PurserAdapter(options, adapter)
        if first is not None:  # one memory serves a whole session
            paying._payer.close()  # noqa: SLF001
            paying._payer = first._payer  # noqa: SLF001
        first = first or paying
        session.mount(prefix, paying)
    return session


class _Wire:
    """How a flow reaches the seller."""

    def __init__(
        self,
        adapter: BaseAdapter,
        request: requests.PreparedRequest,
        sent: requests.PreparedRequest,
        how: dict[str, Any],
        options: Options,
    ) -> None:
        self._adapter = adapter
        self.request = request
        self._sent = sent
        timeout = how["timeout"]
        connect = timeout[0] if isinstance(timeout, tuple) else getattr(timeout, "connect_timeout", timeout)
        self._options = options
        # urllib3 sends with the first of them.
        self._how = {**how, "timeout": (options.paid_timeout if connect is None else connect, options.paid_timeout)}

    def send(self, step: flow.Send) -> flow.Reply:
        request = self._sent.copy()
        request.headers[step.name] = step.value
        try:
            with within(self._options.paid_timeout):
                response = self._adapter.send(request, **self._how)
        except Exception as error:
            raise flow.SendError from error
        # The copy has the payment, which is not to follow a redirect or to be sent again by anybody else.
        response.request = self.request
        return _reply(response)

    def peek(self, reply: flow.Reply) -> bytes | None:
        response: requests.Response = reply.native
        chunks = _raw_chunks(response)
        peeked = bodies.Peeked(encoded="content-encoding" in response.headers)
        for chunk in chunks:
            if not peeked.add(chunk):
                _put_back(response, chain([bytes(peeked.start)], chunks))
                return None
        start = bytes(peeked.start)
        _put_back(response, [start])
        return _decoded(response, start, MAX_BODY)

    def hold(self, reply: flow.Reply) -> bytes:
        response: requests.Response = reply.native
        if not getattr(response, "_content_consumed", False):
            try:
                raw, _ = bodies.read_start(_raw_chunks(response), bodies.MAX_HELD, bodies.HELD_FOR)
            finally:
                response.close()
            text = _decoded(response, raw, bodies.MAX_HELD)[: bodies.MAX_HELD]
            response.headers.pop("content-encoding", None)
            response.raw = urllib3.HTTPResponse(io.BytesIO(text), status=response.status_code, preload_content=False)
            response.request = self.request
        return response.content

    def discard(self, reply: flow.Reply) -> None:
        reply.native.close()


class _Stream(io.RawIOBase):
    """Chunks as a file; closing it closes the connection's answer."""

    def __init__(self, chunks: Iterable[bytes], response: Any) -> None:
        super().__init__()
        self._chunks = iter(chunks)
        self._left = b""
        self._response = response

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        part = self._left[: len(into)]
        self._left = self._left[len(part) :]
        into[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._response.close()
            self._response.release_conn()


def _chunks(body: Any) -> Iterator[bytes]:
    """What a one-shot body consists of, as http.client would send it."""
    if hasattr(body, "read"):
        parts: Iterable[Any] = iter(lambda: body.read(1 << 16), None)
    else:
        parts = body
    for part in parts:
        if not part and hasattr(body, "read"):
            return
        yield part.encode("utf-8") if isinstance(part, str) else bytes(part)


def _raw_chunks(response: requests.Response) -> Iterator[bytes]:
    """The body as it comes, not decoded."""
    raw = response.raw
    read = getattr(raw, "read1", None)
    while True:
        if read is not None:
            chunk = read(1 << 16, decode_content=False)
        else:  # urllib3 before version 2
            chunk = raw.read(bodies.SLICE, decode_content=False)
        if not chunk:
            return
        yield chunk


def _put_back(response: requests.Response, chunks: Iterable[bytes]) -> None:
    """Make a body unread again of which a part was read."""
    raw = response.raw
    response.raw = urllib3.HTTPResponse(
        body=io.BufferedReader(_Stream(chunks, raw)),
        headers=raw.headers,
        status=raw.status,
        version=raw.version,
        reason=raw.reason,
        preload_content=False,
        original_response=raw._original_response,  # noqa: SLF001 — where sessions find cookies
        request_method=response.request.method,
    )


def _decoded(response: requests.Response, raw: bytes, limit: int) -> bytes:
    """Decode a body as far as a limit allows."""
    encoding = response.headers.get("content-encoding")
    if encoding is None or "," in encoding:  # layer upon layer may unfold without bound
        return raw
    scratch = urllib3.HTTPResponse(io.BytesIO(raw), headers={"content-encoding": encoding}, preload_content=False)
    try:
        return bodies.bounded(scratch.stream(bodies.SLICE, decode_content=True), limit)
    except urllib3.exceptions.HTTPError:
        return raw


def _described(request: requests.PreparedRequest, body: bytes | None) -> flow.Request:
    key: Any = request.headers.get("idempotency-key")
    text = key.decode("latin-1") if isinstance(key, bytes) else key
    return flow.Request(
        request.method or "", request.url or "", body, flow.usable_key(text) or given_key(), _asked(request)
    )


def _reply(response: requests.Response) -> flow.Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return flow.Reply(response.status_code, headers, response)


def _finished(request: requests.PreparedRequest, purchase: flow.Purchase, reply: flow.Reply) -> requests.Response:
    """Write down what was paid for an answer, where the program and the next hop find it."""
    response: requests.Response = reply.native
    if purchase.info is not None:
        setattr(response, MARK, purchase.info)
        # Hooks are the only thing of a request's that sessions copy to the next hop; they look up only "response".
        request.hooks = {**request.hooks, MARK: (weakref.ref(request), purchase)}
    return response


def _in_place_of(error: PurserError, request: requests.PreparedRequest, options: Options) -> requests.Response:
    """Answer with an error that the program does not want raised."""
    if not options.return_402:
        raise error
    headers, body = in_place_of(error)
    raw = urllib3.HTTPResponse(
        io.BytesIO(body), headers=headers, status=402, reason="Payment Required", preload_content=False
    )
    response = HTTPAdapter().build_response(request, raw)
    setattr(response, ERROR_MARK, error)
    return response


def _paid_before(request: requests.PreparedRequest) -> flow.Purchase | None:
    """Find the purchase of an earlier hop."""
    mark: Any = request.hooks.get(MARK)
    return mark[1] if mark and mark[0]() is not request else None


def _led_on(request: requests.PreparedRequest, body: bytes | None, response: requests.Response) -> None:
    """Write down what was asked for before a redirect, where the next hop finds it."""
    if response.is_redirect and _asked(request) is None:
        first = flow.Request(request.method or "", request.url or "", body).identity
        request.hooks = {**request.hooks, _ASKED: (weakref.ref(request), first)}


def _asked(request: requests.PreparedRequest) -> Identity | None:
    """Find what was asked for at first, if this is a later hop."""
    mark: Any = request.hooks.get(_ASKED)
    return mark[1] if mark and mark[0]() is not request else None
