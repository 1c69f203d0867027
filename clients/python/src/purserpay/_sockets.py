"""Connections of requests that heed a deadline.

urllib3 sets a socket's timeout once, and http.client then reads a header in as many reads as it comes in. So what
http.client reads from asks for the time that is left before each read. Sending needs nothing: a socket's timeout
is that of the whole of it there.
"""

from __future__ import annotations

import functools
import http.client
import io
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from requests.adapters import BaseAdapter, HTTPAdapter

from ._until import left

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bounded"]


def bounded(adapter: BaseAdapter) -> BaseAdapter:
    """Make the connections of an adapter of requests heed deadlines, also those by proxies. Others stay as they are."""
    if isinstance(adapter, HTTPAdapter) and "proxy_manager_for" not in vars(adapter):
        by_proxy = adapter.proxy_manager_for

        def proxy_manager_for(proxy: Any, **more: Any) -> Any:
            return _managed(by_proxy(proxy, **more))

        _managed(adapter.poolmanager)
        adapter.proxy_manager_for = proxy_manager_for  # type: ignore[method-assign]
    return adapter


def _managed(manager: Any) -> Any:
    classes = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _pool(kind) for scheme, kind in classes.items()}
    return manager


@functools.cache
def _pool(kind: Any) -> Any:
    """Make a class of pools whose connections heed deadlines."""
    if getattr(kind, "_purser", False):
        return kind

    class Pool(kind):  # type: ignore[misc]
        _purser = True

        def _new_conn(self) -> Any:
            connection = super()._new_conn()
            if getattr(connection, "response_class", None) is http.client.HTTPResponse:
                connection.response_class = _Response
            return connection

    return Pool


class _Response(http.client.HTTPResponse):
    """http.client's, reading through ``_Reads``."""

    def __init__(self, sock: Any, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        if hasattr(sock, "gettimeout"):
            self.fp: Any = io.BufferedReader(_Reads(sock, self.fp.detach()))


class _Reads(io.RawIOBase):
    def __init__(self, sock: Any, raw: Any) -> None:
        super().__init__()
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        number: int = self._raw.fileno()
        return number

    def readinto(self, into: Any) -> int | None:
        with _timeout(self._sock):
            got: int | None = self._raw.readinto(into)
            return got

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()


@contextmanager
def _timeout(sock: Any) -> Iterator[None]:
    own = sock.gettimeout()
    rest = left(own)
    if rest == own:
        yield
        return
    sock.settimeout(rest)
    try:
        yield
    finally:
        with suppress(OSError):  # closed meanwhile
            sock.settimeout(own)
