"""Paying with urllib3: a pool manager that does, and ``wrap`` for pool managers that exist already.

A connection pool sees each hop of a redirect by itself, so the payment, which is added to a copy of one hop's headers,
can go nowhere else. BEHAVIOUR.md says what happens; here is only how urllib3 does it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import urllib3

from . import _bodies as bodies
from . import _flow as flow
from ._asked import said
from ._callers import Urllib3Caller
from ._context import given_key
from ._coroutines import ran
from ._errors import ERROR_MARK, PurserError, in_place_of
from ._paid import MARK
from ._payers import Payer
from ._receipts import CLOSE_WITHIN
from ._urllib3 import decoded, expect, hold, made, one_shot, peek
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._errors import UnclearError
    from ._memory import Identity
    from ._options import Options

__all__ = ["PoolManager", "wrap"]


@dataclass
class _Hops:
    """What later hops of a request have to know: what was asked for at first, and what was paid."""

    asked: Identity | None = None
    paid: flow.Purchase | None = None
    body: Any = None  # what the program gave, which is read by now
    start: list[bytes] | None = None  # and what was in it


_hops: ContextVar[_Hops | None] = ContextVar("purser_hops", default=None)


class PoolManager(urllib3.PoolManager):
    """A ``urllib3.PoolManager`` that pays 402s. Takes all of urllib3's own arguments as well."""

    def __init__(self, options: Options, num_pools: int = 10, **more: Any) -> None:
        super().__init__(num_pools, **more)
        self._purser = _pays(self, options)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and not resumed since, the newest last."""
        return self._purser.unclear

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close all connections."""
        self._purser.close(timeout)
        self.clear()

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False


def wrap(manager: urllib3.PoolManager, options: Options) -> urllib3.PoolManager:
    """Make a pool manager pay that exists already, and return it. Once for each; it forgets its connections."""
    if any(issubclass(kind, _Pool) for kind in manager.pool_classes_by_scheme.values()):
        raise ValueError("this pool manager pays already")
    _pays(manager, options)
    return manager


def _pays(manager: Any, options: Options) -> Payer:
    payer = Payer(options, Urllib3Caller())
    manager.pool_classes_by_scheme = {
        scheme: type(f"Paying{kind.__name__}", (_Pool, kind), {"_payer": payer})
        for scheme, kind in manager.pool_classes_by_scheme.items()
    }
    manager.clear()
    own = manager.urlopen

    def urlopen(method: str, url: str, redirect: bool = True, **more: Any) -> Any:
        if _hops.get() is not None:  # a later hop: urllib3 calls this again for each
            return own(method, url, redirect, **more)
        hops = _Hops()
        token = _hops.set(hops)
        try:
            response = own(method, url, redirect, **more)
        finally:
            _hops.reset(token)
        if hops.paid is not None:  # also at the end of redirects
            setattr(response, MARK, hops.paid.info)
        return response

    manager.urlopen = urlopen
    return payer


class _Pool:
    """Pays the 402s of a connection pool, of which ``wrap`` derives a class."""

    _payer: Payer

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, *args: Any, **more: Any) -> Any:
        """Send a request, and pay for it if that is asked for."""
        pool: Any = super()
        headers = urllib3.HTTPHeaderDict(self.headers if headers is None else headers)  # type: ignore[attr-defined]
        if flow.pays_already(headers) or args:
            return pool.urlopen(method, url, body, headers, *args, **more)
        preload = more.pop("preload_content", True)
        hops = _hops.get() or _Hops()
        again, body = self._body(body, hops)
        wire = _Wire(pool, self._url(url), method, url, body, headers, again, more)
        with self._payer.first(method, wire.address, headers) as came:
            response = wire.open(headers)
            came(response.status)
        if response.status == 402:
            response = self._buy(wire, response, hops)
        elif response.get_redirect_location() and hops.asked is None:
            hops.asked = wire.described(None).identity
        if preload:
            _ = response.data
            response.release_conn()
        return response

    def _url(self, url: str) -> str:
        host: Any = self
        return url if "://" in url else f"{host.scheme}://{_netloc(host.host, host.port, host.scheme)}{url}"

    def _buy(self, wire: _Wire, response: Any, hops: _Hops) -> Any:
        def go(steps: flow.Steps[flow.Reply]) -> Any:
            token = _hops.set(None)  # what the program does in its hooks is another request
            try:
                paid = self._payer.run(purchase, steps, wire).native
            finally:
                _hops.reset(token)
            if purchase.info is not None:
                setattr(paid, MARK, purchase.info)
                hops.paid = purchase
            return paid

        def again(steps: flow.Steps[flow.Reply]) -> Any:
            paid = go(steps)
            _ = paid.data
            return paid

        purchase = flow.Purchase(self._payer, wire.described(hops.asked), lambda steps: again(steps()))
        first = _reply(response)
        try:
            return go(hops.paid.refuse_second(first) if hops.paid else purchase.answer(first))
        except PurserError as error:
            if not self._payer.options.return_402:
                raise
            said, text = in_place_of(error, wire.headers)
            answer = made(402, said, text, "Payment Required")
            setattr(answer, ERROR_MARK, error)
            return answer

    def _body(self, body: Any, hops: _Hops) -> tuple[Iterable[bytes] | None, Any]:
        """Return the body if it can be sent again, and what to send."""
        if hops.start is not None and body is hops.body:
            return hops.start, hops.start
        if body is None or isinstance(body, (bytes, bytearray, str)):
            return [body.encode("utf-8") if isinstance(body, str) else bytes(body or b"")], body
        file = bodies.File.of(body)
        if file is not None:
            return file, body
        limit = self._payer.options.body_limit
        if limit == 0:
            return None, body
        chunks = one_shot(body)
        start, whole = ran(bodies.read_start(bodies.following(chunks), limit))
        if not whole:
            return None, chain([start], chunks)
        hops.body, hops.start = body, [start]
        return hops.start, hops.start


class _Wire:
    """How a flow reaches the seller."""

    def __init__(
        self,
        pool: Any,
        address: str,
        method: str,
        url: str,
        body: Any,
        headers: urllib3.HTTPHeaderDict,
        again: Iterable[bytes] | None,
        more: dict[str, Any],
    ) -> None:
        self._pool = pool
        self.address = address
        self._method = method
        self._url = url
        self._body = body
        self.headers = headers
        self._again = again
        self._more = more

    def open(self, headers: urllib3.HTTPHeaderDict, **more: Any) -> Any:
        """Send the request once."""
        how = {**self._more, **more, "preload_content": False}
        return self._pool.urlopen(self._method, self._url, self._body, headers, **how)

    def described(self, asked: Identity | None) -> flow.Request:
        """Describe the request for a flow."""
        key = flow.usable_key(self.headers.get("idempotency-key")) or given_key()
        again, headers = self._again, self.headers
        content = None if again is None else bodies.content(self._method, self.address, again, headers)
        spoken = said(self._method, self.address, self.headers)
        return flow.Request(self._method, self.address, content, bodies.size(self._again), key, asked, spoken)

    async def send(self, step: flow.Send) -> flow.Reply:
        headers = self.headers.copy()
        for name, value in step.headers(headers.get("cache-control")).items():
            headers[name] = value
        if isinstance(self._again, bodies.File):
            self._again.rewind()
        # What the program, or else the pool, says of times.
        pool = self._pool.__self__
        own = pool._get_timeout(self._more.get("timeout", pool.timeout))  # noqa: SLF001
        connect, read = own.connect_timeout, own.read_timeout
        connect = connect if isinstance(connect, (int, float)) else step.timeout
        patience = max(step.timeout, read) if isinstance(read, (int, float)) else step.timeout
        timeout = urllib3.Timeout(connect=connect, read=patience)
        try:
            response = self.open(headers, timeout=timeout)
        except Exception as error:
            raise flow.SendError from error
        expect(response, read if isinstance(read, (int, float)) else None)
        return _reply(response)

    async def peek(self, reply: flow.Reply) -> bytes | None:
        reply.native, start = await peek(reply.native)
        return None if start is None else decoded(reply.headers.get("content-encoding"), start, MAX_BODY)

    async def hold(self, reply: flow.Reply) -> bytes:
        if reply.native._body is None:  # noqa: SLF001 — not read so far
            reply.native = await hold(reply.native)
        data: bytes = reply.native.data
        return data

    async def discard(self, reply: flow.Reply) -> None:
        reply.native.close()
        reply.native.release_conn()


def _netloc(host: str, port: int | None, scheme: str) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, {"http": 80, "https": 443}.get(scheme)) else f"{name}:{port}"


def _reply(response: Any) -> flow.Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return flow.Reply(response.status, headers, response)
