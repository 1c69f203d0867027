"""Callers carry calls to purser: one for each HTTP library.

A caller never follows a redirect, never looks at the environment (proxies, netrc, certificate files), keeps no cookies,
repeats nothing by itself and reads a bounded answer in bounded time. The API key therefore goes to the base URL
alone, also when the environment names purser itself as the proxy of everything.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from ._calls import MAX_ANSWER, Answer, CallError
from ._halves import Blocking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from requests.adapters import BaseAdapter

    from ._calls import Call
    from ._halves import Half

__all__ = ["Caller", "HttpxCaller", "RequestsCaller", "Urllib3Caller"]


class Caller(Protocol):
    """Makes calls. Those of blocking clients never wait, and are safe to use from several threads."""

    async def __call__(self, call: Call) -> Answer:
        """Make one call. Raise ``CallError`` when there is no whole answer in time."""

    async def close(self) -> None:
        """Close the connections."""


def _too_large() -> CallError:
    return CallError(f"its answer is larger than {MAX_ANSWER} bytes")


def _too_slow(timeout: float) -> CallError:
    return CallError(f"no whole answer within {timeout:g} s")


class HttpxCaller:
    """Calls with httpx, or with a library of the same interface, blocking or not."""

    def __init__(self, library: ModuleType, half: type[Half], transport: Any) -> None:
        self._library = library
        self._half = half
        kind = library.HTTPTransport if half is Blocking else library.AsyncHTTPTransport
        self._transport = transport or kind(trust_env=False)

    async def __call__(self, call: Call) -> Answer:
        until = time.monotonic() + call.timeout
        request = self._library.Request(
            call.method,
            call.url,
            headers=call.headers,
            content=call.body or None,
            extensions=_httpx_timeout(call.timeout),
        )
        half = self._half
        try:
            with half.within(call.timeout):
                response = await half.send(self._transport, request)
                try:
                    data, chunks = bytearray(), half.chunks(response.stream)
                    while (chunk := await half.following(chunks)) is not None:
                        data += chunk
                        if len(data) > MAX_ANSWER:
                            raise _too_large()
                        if time.monotonic() > until:
                            raise _too_slow(call.timeout)
                finally:
                    await half.close(response)
        except TimeoutError as error:
            raise _too_slow(call.timeout) from error
        except (self._library.HTTPError, self._library.InvalidURL, OSError) as error:
            raise _httpx_error(self._library, error) from error
        return Answer(response.status_code, _lower(response.headers), bytes(data))

    async def close(self) -> None:
        await self._half.close(self._transport)


class RequestsCaller:
    """Calls with requests. An adapter is used, not a session: sessions read the environment and follow redirects."""

    def __init__(self, adapter: BaseAdapter | None) -> None:
        from requests.adapters import HTTPAdapter

        self._adapter: BaseAdapter = adapter or HTTPAdapter(max_retries=0, pool_maxsize=100)

    async def __call__(self, call: Call) -> Answer:
        import requests
        import urllib3

        until = time.monotonic() + call.timeout
        request = requests.Request(call.method, call.url, headers=dict(call.headers), data=call.body or None).prepare()
        try:
            with self._adapter.send(
                request, stream=True, timeout=(call.timeout, call.timeout), verify=True, proxies={}
            ) as response:
                data = _read(response.raw, until, call.timeout)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise CallError(_said(error), reached=not _never_connected(error)) from error
        return Answer(response.status_code, _lower(response.headers), data)

    async def close(self) -> None:
        self._adapter.close()


class Urllib3Caller:
    """Calls with urllib3, which looks at nothing of the environment."""

    def __init__(self) -> None:
        import urllib3

        self._manager = urllib3.PoolManager(maxsize=100)

    async def __call__(self, call: Call) -> Answer:
        import urllib3

        until = time.monotonic() + call.timeout
        try:
            response = self._manager.urlopen(
                call.method,
                call.url,
                redirect=False,
                body=call.body or None,
                headers=dict(call.headers),
                retries=False,
                timeout=call.timeout,
                preload_content=False,
            )
            try:
                data = _read(response, until, call.timeout)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            unconnected = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
            connected = not isinstance(error, (*unconnected, urllib3.exceptions.LocationValueError))
            raise CallError(_said(error), reached=connected) from error
        return Answer(response.status, _lower(response.headers), data)

    async def close(self) -> None:
        self._manager.clear()


def _read(raw: Any, until: float, timeout: float) -> bytes:
    """Read an answer of urllib3 to its end."""
    from ._urllib3 import as_it_comes

    data = bytearray()
    for chunk in as_it_comes(raw):
        data += chunk
        if len(data) > MAX_ANSWER:
            raise _too_large()
        if time.monotonic() > until:
            raise _too_slow(timeout)
    return bytes(data)


def _httpx_timeout(timeout: float) -> dict[str, object]:
    return {"timeout": {"connect": timeout, "read": timeout, "write": timeout, "pool": timeout}}


def _httpx_error(library: ModuleType, error: Exception) -> CallError:
    unconnected = (library.ConnectError, library.ConnectTimeout, library.PoolTimeout, library.InvalidURL)
    return CallError(_said(error), reached=not isinstance(error, unconnected))


def _never_connected(error: Exception) -> bool:
    """Whether requests did not even get a connection: it wraps urllib3's reason in its own errors."""
    import requests
    import urllib3

    if isinstance(error, (requests.ConnectTimeout, requests.exceptions.InvalidURL)):
        return True
    inner = error.args[0] if error.args else None
    reason = getattr(inner, "reason", inner)
    return isinstance(reason, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError))


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _said(error: Exception) -> str:
    """Name a library's error. Its text may quote a URL, and never has the key, which is in no URL."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
