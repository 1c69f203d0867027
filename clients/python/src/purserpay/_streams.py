"""Connections of httpx that heed a deadline. httpcore has backends for that, but httpx takes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import httpcore
import httpx

from ._until import left

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

__all__ = ["bounded"]

T = TypeVar("T", bound=httpx.BaseTransport)


def bounded(transport: T) -> T:
    """Make the connections of httpx's own transport heed deadlines. Others stay as they are."""
    if isinstance(transport, httpx.HTTPTransport):
        pool: Any = getattr(transport, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if isinstance(backend, httpcore.NetworkBackend) and not isinstance(backend, _Backend):
            pool._network_backend = _Backend(backend)  # noqa: SLF001
    return transport


def _left(timeout: float | None, kind: type[httpcore.TimeoutException]) -> float | None:
    try:
        return left(timeout)
    except TimeoutError as error:
        raise kind(str(error)) from error


class _Backend(httpcore.NetworkBackend):
    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        limit = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, limit, local_address, socket_options))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        limit = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_unix_socket(path, limit, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In parts: each has a timeout of its own for as long as the other side takes a little of it.
        part = memoryview(buffer)
        while part:
            self._stream.write(bytes(part[: 1 << 16]), _left(timeout, httpcore.WriteTimeout))
            part = part[1 << 16 :]

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        limit = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
