"""The four ways to buy, behind one interface, with sellers and pursers that are functions."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import httpx2
import requests
import urllib3

import purserpay
import purserpay.httpx
import purserpay.httpx2
import purserpay.requests

KEY = "pk_secret_of_the_tests"
BASE = "http://purser.test:8402/base"


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    raw: Any = None


@dataclass
class Says:
    """An answer."""

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class Lost(Exception):
    """The connection breaks instead of an answer."""


class Refused(Exception):
    """There is not even a connection."""


Server = Callable[[Seen], Says]


@dataclass
class Got:
    """What the program got."""

    status: int
    headers: dict[str, str]
    body: bytes
    native: Any

    @property
    def payment(self) -> purserpay.PaymentInfo | None:
        return purserpay.payment_of(self.native)


@dataclass
class Buy:
    """What the program asks for."""

    method: str = "GET"
    url: str = "https://api.example.com/paid"
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | None = None
    stream: bool = False
    follow: bool = False


class Client:
    """A paying client. ``unclear`` lists what it left so."""

    name = ""

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        raise NotImplementedError

    def buy(self, what: Buy) -> Got:
        raise NotImplementedError

    def resume(self, error: purserpay.PurserError) -> Got:
        raise NotImplementedError

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def options(**more: Any) -> purserpay.Options:
    return purserpay.Options(**{"api_key": KEY, "base_url": BASE, **more})


def _httpx_handler(server: Server, library: Any = httpx) -> Callable[[Any], Any]:
    def handle(request: Any) -> Any:
        try:
            said = server(_seen(request, request.read()))
        except Lost as error:
            raise library.ReadError("lost") from error
        except Refused as error:
            raise library.ConnectError("refused") from error
        return library.Response(said.status, headers=said.headers, stream=_Body(said.body))

    return handle


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body as a connection has it: it can be read once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.read = False
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        assert not self.read, "read twice"
        assert not self.closed, "read after it was closed"
        self.read = True
        for at in range(0, len(self._body), 20_000):
            yield self._body[at : at + 20_000]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


def _seen(request: httpx.Request, body: bytes) -> Seen:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Seen(request.method, str(request.url), headers, body, request)


def _got(response: Any, body: bytes) -> Got:
    return Got(response.status_code, {n.lower(): v for n, v in response.headers.items()}, body, response)


class HttpxClient(Client):
    name = "httpx"
    library: Any = httpx
    paying: Any = purserpay.httpx

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        library, paying = self.library, self.paying
        self.transport = paying.PurserTransport(
            given,
            library.MockTransport(_httpx_handler(seller, library)),
            purser_transport=library.MockTransport(_httpx_handler(asked, library)),
        )
        self.client = library.Client(transport=self.transport)

    def buy(self, what: Buy) -> Got:
        content: Any = iter([what.body or b""]) if what.stream else what.body
        response = self.client.request(
            what.method, what.url, headers=what.headers, content=content, follow_redirects=what.follow
        )
        return _got(response, response.content)

    def resume(self, error: purserpay.PurserError) -> Got:
        assert isinstance(error, purserpay.ResumableError)
        response = error.resume()
        return _got(response, response.content)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        listed: tuple[purserpay.UnclearError, ...] = self.transport.unclear
        return listed

    def close(self) -> None:
        self.client.close()


class AsyncHttpxClient(Client):
    name = "httpx-async"
    backend = "asyncio"
    library: Any = httpx
    paying: Any = purserpay.httpx

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        library, paying = self.library, self.paying
        self.transport = paying.AsyncPurserTransport(
            given,
            library.MockTransport(_httpx_handler(seller, library)),
            purser_transport=library.MockTransport(_httpx_handler(asked, library)),
        )
        self.client = library.AsyncClient(transport=self.transport)

    def buy(self, what: Buy) -> Got:
        async def go() -> Got:
            async def stream() -> AsyncIterator[bytes]:
                yield what.body or b""

            content: Any = stream() if what.stream else what.body
            response = await self.client.request(
                what.method, what.url, headers=what.headers, content=content, follow_redirects=what.follow
            )
            return _got(response, response.content)

        return anyio.run(go, backend=self.backend)

    def resume(self, error: purserpay.PurserError) -> Got:
        assert isinstance(error, purserpay.ResumableError)

        async def go() -> Got:
            response = await error.resume()
            return _got(response, response.content)

        return anyio.run(go, backend=self.backend)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        listed: tuple[purserpay.UnclearError, ...] = self.transport.unclear
        return listed

    def close(self) -> None:
        anyio.run(self.client.aclose, backend=self.backend)


class TrioHttpxClient(AsyncHttpxClient):
    name = "httpx-trio"
    backend = "trio"


class Httpx2Client(HttpxClient):
    name = "httpx2"
    library = httpx2
    paying = purserpay.httpx2


class AsyncHttpx2Client(AsyncHttpxClient):
    name = "httpx2-async"
    library = httpx2
    paying = purserpay.httpx2


class FakeAdapter(requests.adapters.BaseAdapter):
    """A server for requests that is a function."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server
        self.calls: list[dict[str, Any]] = []

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:  # type: ignore[override]
        self.calls.append(how)
        body: Any = request.body
        if body is None:
            body = b""
        elif isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = body.read() if hasattr(body, "read") else b"".join(body)
        try:
            said = self.server(
                Seen(
                    request.method or "",
                    request.url or "",
                    {n.lower(): v for n, v in request.headers.items()},
                    body,
                    request,
                )
            )
        except Lost as error:
            raise requests.ConnectionError("lost") from error
        except Refused as error:
            pool: Any = None
            raise requests.ConnectionError(
                urllib3.exceptions.MaxRetryError(pool, "/", urllib3.exceptions.NewConnectionError(pool, "refused"))
            ) from error
        raw = urllib3.HTTPResponse(
            io.BytesIO(said.body),
            headers=urllib3.HTTPHeaderDict(said.headers),
            status=said.status,
            preload_content=False,
        )
        return requests.adapters.HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        pass


class RequestsClient(Client):
    name = "requests"

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        self.session = purserpay.requests.Session(given, FakeAdapter(seller), purser_adapter=FakeAdapter(asked))

    def buy(self, what: Buy) -> Got:
        data: Any = iter([what.body or b""]) if what.stream else what.body
        response = self.session.request(
            what.method, what.url, headers=dict(what.headers), data=data, allow_redirects=what.follow
        )
        return _got(response, response.content)

    def resume(self, error: purserpay.PurserError) -> Got:
        assert isinstance(error, purserpay.ResumableError)
        response = error.resume()
        return _got(response, response.content)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        return self.session.unclear

    def close(self) -> None:
        self.session.close()


CLIENTS: list[type[Any]] = [
    HttpxClient,
    AsyncHttpxClient,
    TrioHttpxClient,
    RequestsClient,
    Httpx2Client,
    AsyncHttpx2Client,
]
