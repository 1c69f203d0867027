"""The four ways to buy, behind one interface, with sellers and pursers that are functions."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import httpx
import httpx2
import requests
import urllib3
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDict, CIMultiDictProxy

import purserpay
import purserpay.aiohttp
import purserpay.httpx
import purserpay.httpx2
import purserpay.requests
import purserpay.urllib3
from purserpay._calls import Answer, Call, CallError
from purserpay._urllib3 import one_shot

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


def held(response: Any) -> bytes:
    """Read the answer that an error holds."""
    if isinstance(response, aiohttp.ClientResponse):
        return anyio.run(response.read)
    data: bytes = response.data if isinstance(response, urllib3.HTTPResponse) else response.content
    return data


def status(response: Any) -> int:
    """Tell the status of the answer that an error holds."""
    found: int = response.status if hasattr(response, "status") else response.status_code
    return found


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
        response: Any = error.resume()
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
            response: Any = await error.aresume()
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
        response: Any = error.resume()
        return _got(response, response.content)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        return self.session.unclear

    def close(self) -> None:
        self.session.close()


def _fails_like(error: Exception) -> CallError:
    return CallError(str(error), reached=isinstance(error, Lost))


class FakeCaller:
    """Calls to a purser that is a function."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def __call__(self, call: Call) -> Answer:
        headers = {name.lower(): value for name, value in call.headers.items()}
        try:
            said = self.server(Seen(call.method, call.url, headers, call.body))
        except (Lost, Refused) as error:
            raise _fails_like(error) from error
        return Answer(said.status, {name.lower(): value for name, value in said.headers}, said.body)

    async def close(self) -> None:
        pass


class Urllib3Client(Client):
    name = "urllib3"

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        base: Any = urllib3.HTTPSConnectionPool

        class Pool(base):  # type: ignore[misc]
            def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **more: Any) -> Any:
                data = b"".join(one_shot(body)) if not isinstance(body, (bytes, str, type(None))) else body or b""
                data = data.encode() if isinstance(data, str) else data
                seen = Seen(
                    method, f"{self.scheme}://{self.host}{url}", {n.lower(): v for n, v in headers.items()}, data
                )
                try:
                    said = seller(seen)
                except (Lost, Refused) as error:
                    raise urllib3.exceptions.ProtocolError(str(error)) from error
                return urllib3.HTTPResponse(
                    io.BytesIO(said.body),
                    headers=urllib3.HTTPHeaderDict(said.headers),
                    status=said.status,
                    preload_content=False,
                )

        self.manager = urllib3.PoolManager()
        self.manager.pool_classes_by_scheme = {"http": type("Http", (Pool,), {"scheme": "http"}), "https": Pool}
        self.payer = purserpay.urllib3._pays(self.manager, given)
        self.payer._caller = FakeCaller(asked)

    def buy(self, what: Buy) -> Got:
        body: Any = iter([what.body or b""]) if what.stream else what.body
        headers = urllib3.HTTPHeaderDict(what.headers)
        return self._got(self.manager.request(what.method, what.url, body=body, headers=headers, redirect=what.follow))

    def resume(self, error: purserpay.PurserError) -> Got:
        assert isinstance(error, purserpay.ResumableError)
        return self._got(error.resume())

    def _got(self, response: Any) -> Got:
        return Got(response.status, {n.lower(): v for n, v in response.headers.items()}, response.data, response)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        return self.payer.unclear

    def close(self) -> None:
        self.payer.close()


class AiohttpClient(Client):
    name = "aiohttp"

    def __init__(self, given: purserpay.Options, seller: Server, asked: Server) -> None:
        self.paying = purserpay.aiohttp.PurserMiddleware(given)
        self.paying._payer._caller = FakeCaller(asked)
        self.seller = seller

    async def _sent(self, request: Any, _: Any) -> Any:
        body = b"" if request.body is None else request.body
        if not isinstance(body, bytes):
            iterator = getattr(body, "_iter", None)
            body = await body.as_bytes() if iterator is None else b"".join([chunk async for chunk in iterator])
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            said = self.seller(Seen(request.method, str(request.url), headers, body, request))
        except Lost as error:
            raise aiohttp.ServerDisconnectedError from error
        except Refused as error:
            raise aiohttp.ClientConnectionError from error
        response: Any = aiohttp.ClientResponse(
            request.method,
            request.url,
            writer=None,
            continue100=None,
            timer=TimerNoop(),
            request_info=request.request_info,
            traces=[],
            loop=asyncio.get_running_loop(),
            session=request.session,
            stream_writer=SimpleNamespace(output_size=0),  # type: ignore[arg-type]
        )
        response.status, response.reason, response._closed = said.status, "", False
        response._headers = CIMultiDictProxy(CIMultiDict(said.headers))
        response._raw_headers = tuple((name.encode(), value.encode("latin-1")) for name, value in said.headers)
        protocol: Any = SimpleNamespace(
            _reading_paused=False, resume_reading=lambda **_: None, pause_reading=lambda: None
        )
        content = aiohttp.StreamReader(protocol, 1 << 30, loop=asyncio.get_running_loop())
        content.feed_data(_plain(said))
        content.feed_eof()
        response.content = content
        return response

    def buy(self, what: Buy) -> Got:
        async def stream() -> AsyncIterator[bytes]:
            yield what.body or b""

        async def go() -> Got:
            async with aiohttp.ClientSession(middlewares=[self.paying, self._sent]) as session:
                # It warns of large bytes.
                plain = io.BytesIO(what.body) if what.body and len(what.body) > 1 << 20 else what.body
                data: Any = stream() if what.stream else plain
                headers = CIMultiDict(what.headers)
                return await self._got(
                    await session.request(
                        what.method, what.url, headers=headers, data=data, allow_redirects=what.follow
                    )
                )

        return anyio.run(go)

    async def _got(self, response: Any) -> Got:
        body = await response.read()
        return Got(response.status, {n.lower(): v for n, v in response.headers.items()}, body, response)

    def resume(self, error: purserpay.PurserError) -> Got:
        assert isinstance(error, purserpay.ResumableError)

        async def go() -> Got:
            return await self._got(await error.aresume(aiohttp.ClientResponse))

        return anyio.run(go)

    @property
    def unclear(self) -> tuple[purserpay.UnclearError, ...]:
        return self.paying.unclear

    def close(self) -> None:
        anyio.run(self.paying.close)


def _plain(said: Says) -> bytes:
    """The body as aiohttp decodes it while it comes in."""
    encoding = {name.lower(): value for name, value in said.headers}.get("content-encoding")
    try:
        return urllib3.HTTPResponse(io.BytesIO(said.body), headers={"content-encoding": encoding or ""}).data
    except urllib3.exceptions.DecodeError:
        return b""


CLIENTS: list[type[Any]] = [
    HttpxClient,
    AsyncHttpxClient,
    TrioHttpxClient,
    RequestsClient,
    Httpx2Client,
    AsyncHttpx2Client,
    Urllib3Client,
    AiohttpClient,
]
