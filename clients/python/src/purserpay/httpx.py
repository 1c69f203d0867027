"""Paying with httpx: transports for any client of it, clients that have them, and ``wrap`` for existing clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import httpx

from . import _httpx as both
from ._callers import HttpxCaller
from ._coroutines import ran
from ._halves import Awaiting, Blocking
from ._payers import AsyncPayer, Payer
from ._receipts import CLOSE_WITHIN

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from httpx._types import (
        AuthTypes,
        CertTypes,
        CookieTypes,
        HeaderTypes,
        ProxyTypes,
        QueryParamTypes,
        TimeoutTypes,
    )
    from typing_extensions import Unpack

    from ._errors import UnclearError
    from ._options import Options

__all__ = ["AsyncClient", "AsyncPurserTransport", "Client", "PurserTransport", "wrap"]


class _Rest(both.Rest, httpx.SyncByteStream, httpx.AsyncByteStream):
    pass


class _Repeated(both.Repeated, httpx.SyncByteStream):
    pass


class PurserTransport(both.Transport, httpx.BaseTransport):
    """Pays the 402s of another transport: ``httpx.Client(transport=PurserTransport(options))``.

    ``transport`` carries the requests to the sellers (httpx's own by default), ``purser_transport`` the calls to
    purser (by default one that ignores the environment's proxies). Closing closes both.
    """

    library, half, rest, repeated = httpx, Blocking, _Rest, _Repeated

    def __init__(
        self,
        options: Options,
        transport: httpx.BaseTransport | None = None,
        *,
        purser_transport: httpx.BaseTransport | None = None,
    ) -> None:
        payer = Payer(options, HttpxCaller(httpx, Blocking, purser_transport))
        super().__init__(transport or httpx.HTTPTransport(), payer)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and pay for it if that is asked for."""
        response: httpx.Response = ran(self._handle(request))
        return response

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close both transports."""
        ran(self._close(timeout))


class AsyncPurserTransport(both.Transport, httpx.AsyncBaseTransport):
    """Pays the 402s of another transport: ``httpx.AsyncClient(transport=AsyncPurserTransport(options))``."""

    library, half, rest, repeated = httpx, Awaiting, _Rest, _Repeated

    def __init__(
        self,
        options: Options,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        purser_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        payer = AsyncPayer(options, HttpxCaller(httpx, Awaiting, purser_transport))
        super().__init__(transport or httpx.AsyncHTTPTransport(), payer)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and pay for it if that is asked for."""
        response: httpx.Response = await self._handle(request)
        return response

    async def aclose(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close both transports."""
        await self._close(timeout)


class Arguments(TypedDict, total=False):
    """The arguments of httpx's own clients, blocking or not."""

    auth: AuthTypes | None
    params: QueryParamTypes | None
    headers: HeaderTypes | None
    cookies: CookieTypes | None
    verify: ssl.SSLContext | str | bool
    cert: CertTypes | None
    trust_env: bool
    http1: bool
    http2: bool
    proxy: ProxyTypes | None
    timeout: TimeoutTypes
    follow_redirects: bool
    limits: httpx.Limits
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None
    base_url: httpx.URL | str
    default_encoding: str | Callable[[bytes], str]


class BlockingArguments(Arguments, total=False):
    """The arguments of ``httpx.Client``."""

    mounts: Mapping[str, httpx.BaseTransport | None] | None
    transport: httpx.BaseTransport | None


class AsyncArguments(Arguments, total=False):
    """The arguments of ``httpx.AsyncClient``."""

    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None
    transport: httpx.AsyncBaseTransport | None


class Client(httpx.Client):
    """An ``httpx.Client`` that pays 402s. Takes all of httpx's own arguments as well."""

    def __init__(
        self,
        options: Options,
        *,
        purser_transport: httpx.BaseTransport | None = None,
        **more: Unpack[BlockingArguments],
    ) -> None:
        super().__init__(**more)
        paying = PurserTransport(options, self._transport, purser_transport=purser_transport)
        self._purser: Payer = both.mount(self, paying)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and not resumed since, the newest last."""
        return self._purser.unclear

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close the client."""
        self._purser.close(timeout)
        super().close()


class AsyncClient(httpx.AsyncClient):
    """An ``httpx.AsyncClient`` that pays 402s. Takes all of httpx's own arguments as well."""

    def __init__(
        self,
        options: Options,
        *,
        purser_transport: httpx.AsyncBaseTransport | None = None,
        **more: Unpack[AsyncArguments],
    ) -> None:
        super().__init__(**more)
        paying = AsyncPurserTransport(options, self._transport, purser_transport=purser_transport)
        self._purser: AsyncPayer = both.mount(self, paying)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and not resumed since, the newest last."""
        return self._purser.unclear

    async def aclose(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close the client."""
        await self._purser.close(timeout)
        await super().aclose()


C = TypeVar("C", httpx.Client, httpx.AsyncClient)


def wrap(client: C, options: Options) -> C:
    """Make a client pay that exists already, such as that of an SDK, and return it. Once for each client."""
    plain: object = client
    both.wrap(plain, options, PurserTransport if isinstance(plain, httpx.Client) else AsyncPurserTransport)
    return client
