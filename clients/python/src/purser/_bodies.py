"""Reading as much of a body as is needed, and no more."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

__all__ = ["HELD_FOR", "MAX_HELD", "SLICE", "aread_start", "bounded", "read_start", "slices"]

# How much of an answer is kept for an error, in bytes.
MAX_HELD = 1 << 20
# How long an answer is read for an error, in seconds.
HELD_FOR = 5.0
# Compressed bytes are decoded in slices, so that a small body cannot unfold into a huge one at once.
SLICE = 1 << 10


def read_start(chunks: Iterator[bytes], limit: int, seconds: float = math.inf) -> tuple[bytes, bool]:
    """Read until more than ``limit`` bytes are there, or time is up. Tells whether that was all."""
    start, until = bytearray(), time.monotonic() + seconds
    for chunk in chunks:
        start += chunk
        if len(start) > limit or time.monotonic() > until:
            return bytes(start), False
    return bytes(start), True


async def aread_start(chunks: AsyncIterator[bytes], limit: int, seconds: float = math.inf) -> tuple[bytes, bool]:
    """Do what ``read_start`` does."""
    start, until = bytearray(), time.monotonic() + seconds
    async for chunk in chunks:
        start += chunk
        if len(start) > limit or time.monotonic() > until:
            return bytes(start), False
    return bytes(start), True


def slices(data: bytes) -> Iterator[bytes]:
    """Cut bytes into slices."""
    return (data[at : at + SLICE] for at in range(0, len(data), SLICE))


def bounded(chunks: Iterable[bytes], limit: int) -> bytes:
    """Join chunks until there is more than ``limit``."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > limit:
            break
    return bytes(data)
