"""A deadline over many reads of blocking sockets, whose own timeouts begin anew with each byte.

It holds for what the thread does inside ``within``. Who reads and writes asks ``left`` each time: ``_streams`` for
httpx, ``_sockets`` for requests.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["left", "within"]

_until: ContextVar[float | None] = ContextVar("purser_until", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let everything inside take this long at most."""
    token = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def left(timeout: float | None) -> float | None:
    """How long one more read or write may take. Raises ``TimeoutError`` when time is up."""
    until = _until.get()
    if until is None:
        return timeout
    rest = until - time.monotonic()
    if rest <= 0:
        raise TimeoutError("timed out")
    return rest if timeout is None else min(timeout, rest)
