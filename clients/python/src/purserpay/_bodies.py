"""Reading as much of a body as is needed, and no more."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

__all__ = ["HELD_FOR", "MAX_HELD", "PEEKED_FOR", "SLICE", "Peeked", "aread_start", "bounded", "read_start", "slices"]

# How much of an answer is kept for an error, in bytes.
MAX_HELD = 1 << 20
# How long an answer is read for an error, in seconds.
HELD_FOR = 5.0
# How long a 402 is read for a challenge, in seconds.
PEEKED_FOR = 10.0
# Compressed bytes are decoded in slices, so that a small body cannot unfold into a huge one at once.
SLICE = 1 << 10


class Peeked:
    """The start of a 402's body, piece by piece, as long as it may be a challenge. Pieces may be many and tiny."""

    def __init__(self, *, encoded: bool) -> None:
        self.start = bytearray()
        self._begun = encoded  # the first byte says nothing then
        self._until = time.monotonic() + PEEKED_FOR

    def add(self, piece: bytes) -> bool:
        """Take a piece. Tells whether the body is worth reading on."""
        self.start += piece
        if not self._begun:
            rest = piece.lstrip(b" \t\r\n")
            if rest and not rest.startswith(b"{"):
                return False
            self._begun = bool(rest)
        return len(self.start) <= MAX_BODY and time.monotonic() <= self._until


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
