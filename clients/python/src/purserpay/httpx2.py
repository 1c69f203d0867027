"""Paying with httpx2: transports for any client of it, clients that have them, and ``wrap`` for existing clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import httpx2

from . import _httpx as both
from ._callers import HttpxCaller
from ._coroutines import ran
from ._halves import Awaiting, Blocking
from ._payers import AsyncPayer, Payer
from ._receipts import CLOSE_WITHIN

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from httpx2._types import (
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


class _Rest(both.Rest, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    pass


class _Repeated(both.Repeated, httpx2.SyncByteStream):
    pass


class PurserTransport(both.Transport, httpx2.BaseTransport):
    """Pays the 402s of another transport: ``httpx2.Client(transport=PurserTransport(options))``.

    ``transport`` carries the requests to the sellers (httpx2's own by default), ``purser_transport`` the calls to
    purser (by default one that ignores the environment's proxies). Closing closes both.
    """

    library, half, rest, repeated = httpx2, Blocking, _Rest, _Repeated

    def __init__(
        self,
        options: Options,
        transport: httpx2.BaseTransport | None = None,
        *,
        purser_transport: httpx2.BaseTransport | None = None,
    ) -> None:
        payer = Payer(options, HttpxCaller(httpx2, Blocking, purser_transport))
        super().__init__(transport or httpx2.HTTPTransport(), payer)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and pay for it if that is asked for."""
        response: httpx2.Response = ran(self._handle(request))
        return response

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close both transports."""
        ran(self._close(timeout))


class AsyncPurserTransport(both.Transport, httpx2.AsyncBaseTransport):
    """Pays the 402s of another transport: ``httpx2.AsyncClient(transport=AsyncPurserTransport(options))``."""

    library, half, rest, repeated = httpx2, Awaiting, _Rest, _Repeated

    def __init__(
        self,
        options: Options,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        purser_transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        payer = AsyncPayer(options, HttpxCaller(httpx2, Awaiting, purser_transport))
        super().__init__(transport or httpx2.AsyncHTTPTransport(), payer)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and pay for it if that is asked for."""
        response: httpx2.Response = await self._handle(request)
        return response

    async def aclose(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for receipts that are being reported, and close both transports."""
        await self._close(timeout)


class Arguments(TypedDict, total=False):
    """The arguments of httpx2's own clients, blocking or not."""

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
    limits: httpx2.Limits
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None
    base_url: httpx2.URL | str
    default_encoding: str | Callable[[bytes], str]


class BlockingArguments(Arguments, total=False):
    """The arguments of ``httpx2.Client``."""

    mounts: Mapping[str, httpx2.BaseTransport | None] | None
    transport: httpx2.BaseTransport | None


class AsyncArguments(Arguments, total=False):
    """The arguments of ``httpx2.AsyncClient``."""

    mounts: Mapping[str, httpx2.AsyncBaseTransport | None] | None
    transport: httpx2.AsyncBaseTransport | None


class Client(httpx2.Client):
    """An ``httpx2.Client`` that pays 402s. Takes all of httpx2's own arguments as well."""

    def __init__(
        self,
        options: Options,
        *,
        purser_transport: httpx2.BaseTransport | None = None,
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


class AsyncClient(httpx2.AsyncClient):
    """An ``httpx2.AsyncClient`` that pays 402s. Takes all of httpx2's own arguments as well."""

    def __init__(
        self,
        options: Options,
        *,
        purser_transport: httpx2.AsyncBaseTransport | None = None,
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


C = TypeVar("C", httpx2.Client, httpx2.AsyncClient)


def wrap(client: C, options: Options) -> C:
    """Make a client pay that exists already, such as that of an SDK, and return it. Once for each client."""
    plain: object = client
    both.wrap(plain, options, PurserTransport if isinstance(plain, httpx2.Client) else AsyncPurserTransport)
    return client
