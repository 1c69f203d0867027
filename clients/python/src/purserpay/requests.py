"""Paying with requests: an adapter for any session of it, and a session that has it.

An adapter sees each hop of a redirect by itself, so the payment, which is added to a copy of one hop's request, can go
nowhere else, and every hop has its own rules. BEHAVIOUR.md says what happens; here is only how requests does it.
"""

from __future__ import annotations

import weakref
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter

from . import _bodies as bodies
from . import _flow as flow
from ._asked import said
from ._callers import RequestsCaller
from ._context import given_key
from ._coroutines import ran
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._payers import Payer
from ._receipts import CLOSE_WITHIN
from ._urllib3 import decoded, expect, hold, made, one_shot, peek
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        self._adapter = adapter or HTTPAdapter()
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
        with self._payer.first(request.method or "", request.url or "", request.headers) as came:
            response = self._adapter.send(sent, **how)
            came(response.status_code)
        response.request = request
        # What sends again by itself, as digest authentication does, is to pay as well.
        response.connection = self  # type: ignore[assignment]
        if response.status_code != 402:
            _led_on(request, body, response)
            return response
        wire = _Wire(self._adapter, request, sent, how, body)
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

        purchase = flow.Purchase(self._payer, described, resume)
        steps = before.refuse_second(first) if before else purchase.answer(first)
        return _finished(wire.request, purchase, self._payer.run(purchase, steps, wire))

    def _body(self, request: requests.PreparedRequest) -> tuple[Iterable[bytes] | None, requests.PreparedRequest]:
        """Return the body if it can be sent again, and the request that sends it."""
        body: Any = request.body
        if body is None or isinstance(body, (bytes, str)):
            return [body.encode("utf-8") if isinstance(body, str) else body or b""], request
        file = bodies.File.of(body)
        if file is not None:
            return file, request
        limit = self._payer.options.body_limit
        if limit == 0:
            return None, request
        chunks = one_shot(body)
        start, whole = ran(bodies.read_start(bodies.following(chunks), limit))
        copy = request.copy()
        if whole and not hasattr(body, "tell"):  # requests itself rewinds what can tell where it is
            request.body = start
        # The headers stay as they are: they say how long the body is, or that it comes in chunks.
        copy.body = start if whole else cast("Any", chain([start], chunks))
        return [start] if whole else None, copy

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close both adapters."""
        self._payer.close(timeout)
        self._adapter.close()


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

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close the session."""
        self._purser.close(timeout)
        super().close()


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
        body: Iterable[bytes] | None,
    ) -> None:
        self._adapter = adapter
        self.request = request
        self._sent = sent
        self._body = body
        timeout = how["timeout"]
        if isinstance(timeout, urllib3.Timeout):
            timeout = (timeout.connect_timeout, timeout.read_timeout)
        self._connect, self._read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        self._how = how

    async def send(self, step: flow.Send) -> flow.Reply:
        request = self._sent.copy()
        request.headers.update(step.headers(_text(request.headers.get("cache-control"))))
        if isinstance(self._body, bodies.File):
            self._body.rewind()
        # urllib3 sends with the first of them.
        patience = max(step.timeout, self._read) if isinstance(self._read, (int, float)) else step.timeout
        timeout = (step.timeout if self._connect is None else self._connect, patience)
        try:
            response = self._adapter.send(request, **{**self._how, "timeout": timeout})
        except Exception as error:
            raise flow.SendError from error
        expect(response.raw, self._read)
        # The copy has the payment, which is not to follow a redirect or to be sent again by anybody else.
        response.request = self.request
        return _reply(response)

    async def peek(self, reply: flow.Reply) -> bytes | None:
        response: requests.Response = reply.native
        response.raw, start = await peek(response.raw)
        return None if start is None else decoded(response.headers.get("content-encoding"), start, MAX_BODY)

    async def hold(self, reply: flow.Reply) -> bytes:
        response: requests.Response = reply.native
        if not getattr(response, "_content_consumed", False):
            response.raw = await hold(response.raw)
            response.headers.pop("content-encoding", None)
            response.request = self.request
        return response.content

    async def discard(self, reply: flow.Reply) -> None:
        reply.native.close()


def _described(request: requests.PreparedRequest, body: Iterable[bytes] | None) -> flow.Request:
    key = flow.usable_key(_text(request.headers.get("idempotency-key"))) or given_key()
    method, url = request.method or "", request.url or ""
    content = None if body is None else bodies.content(method, url, body, request.headers)
    spoken = said(method, url, request.headers)
    return flow.Request(method, url, content, bodies.size(body), key, _asked(request), spoken)


def _text(header: str | bytes | None) -> str | None:
    return header.decode("latin-1") if isinstance(header, bytes) else header


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
    headers, body = in_place_of(error, request.headers)
    response = HTTPAdapter().build_response(request, made(402, headers, body, "Payment Required"))
    setattr(response, ERROR_MARK, error)
    return response


def _paid_before(request: requests.PreparedRequest) -> flow.Purchase | None:
    """Find the purchase of an earlier hop."""
    mark: Any = request.hooks.get(MARK)
    return mark[1] if mark and mark[0]() is not request else None


def _led_on(request: requests.PreparedRequest, body: Iterable[bytes] | None, response: requests.Response) -> None:
    """Write down what was asked for before a redirect, where the next hop finds it."""
    if response.is_redirect and _asked(request) is None:
        request.hooks = {**request.hooks, _ASKED: (weakref.ref(request), _described(request, body).identity)}


def _asked(request: requests.PreparedRequest) -> Identity | None:
    """Find what was asked for at first, if this is a later hop."""
    mark: Any = request.hooks.get(_ASKED)
    return mark[1] if mark and mark[0]() is not request else None
