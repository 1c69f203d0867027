"""What a program says around a request, for any HTTP library."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["given_key", "idempotency_key"]

_KEY: ContextVar[str | None] = ContextVar("purser_idempotency_key", default=None)


@contextmanager
def idempotency_key(key: str) -> Iterator[None]:
    """Pay for the one request that is made inside under a key of the program's own.

    The same request under the same key, whenever it is made, is paid once. The key is told to purser and not to the
    seller; a header ``Idempotency-Key`` of the request, which is told to both, comes first.
    """
    if not 1 <= len(key) <= 255:
        raise ValueError("an idempotency key has 1 to 255 characters")
    token = _KEY.set(key)
    try:
        yield
    finally:
        _KEY.reset(token)


def given_key() -> str | None:
    """Return the key that the program gave around this request."""
    return _KEY.get()
