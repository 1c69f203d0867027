# Written by tests/twins.py from _streams.py.
"""Connections of httpx2 that heed a deadline. httpcore2 has backends for that, but httpx2 takes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import httpcore2
import httpx2

from ._until import left

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

__all__ = ["bounded"]

T = TypeVar("T", bound=httpx2.BaseTransport)


def bounded(transport: T) -> T:
    """Make the connections of httpx2's own transport heed deadlines. Others stay as they are."""
    if isinstance(transport, httpx2.HTTPTransport):
        pool: Any = getattr(transport, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if isinstance(backend, httpcore2.NetworkBackend) and not isinstance(backend, _Backend):
            pool._network_backend = _Backend(backend)  # noqa: SLF001
    return transport


def _left(timeout: float | None, kind: type[httpcore2.TimeoutException]) -> float | None:
    try:
        return left(timeout)
    except TimeoutError as error:
        raise kind(str(error)) from error


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, backend: httpcore2.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, limit, local_address, socket_options))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._backend.connect_unix_socket(path, limit, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In parts: each has a timeout of its own for as long as the other side takes a little of it.
        part = memoryview(buffer)
        while part:
            self._stream.write(bytes(part[: 1 << 16]), _left(timeout, httpcore2.WriteTimeout))
            part = part[1 << 16 :]

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        limit = _left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
