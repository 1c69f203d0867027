"""Reading as much of a body as is needed, and no more."""

from __future__ import annotations

import hashlib
import math
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ._toolcalls import may_be_call, tool_call
from ._wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

__all__ = [
    "HELD_FOR",
    "MAX_HELD",
    "PEEKED_FOR",
    "SLICE",
    "Content",
    "File",
    "Peeked",
    "bounded",
    "content",
    "following",
    "read_start",
    "size",
    "slices",
]

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


def following(chunks: Iterator[bytes]) -> Callable[[], Awaitable[bytes | None]]:
    """Return what gives the next chunk, as ``read_start`` wants it, of what blocks."""

    async def one() -> bytes | None:
        return next(chunks, None)

    return one


async def read_start(
    following: Callable[[], Awaitable[bytes | None]], limit: int, seconds: float = math.inf
) -> tuple[bytes, bool]:
    """Read until more than ``limit`` bytes are there, or time is up. Tells whether that was all.

    ``following`` gives the next chunk, and ``None`` at the end.
    """
    start, until = bytearray(), time.monotonic() + seconds
    while (chunk := await following()) is not None:
        start += chunk
        if len(start) > limit or time.monotonic() > until:
            return bytes(start), False
    return bytes(start), True


class Content(NamedTuple):
    """What a request is recognized by."""

    digest: bytes  # of the body, or of the call in it
    site: str = ""  # under which a call of MCP is booked
    call: bytes = b""  # the same for repeats of that call in its session
    number: str = ""  # its id


def content(method: str, url: str, chunks: Iterable[bytes], headers: Mapping[str, Any]) -> Content:
    """Read a body for what a repeat has as well, and clients do not make anew for each request."""

    def header(name: str) -> str:
        value = headers.get(name)
        return value.decode("latin-1") if isinstance(value, bytes) else value or ""

    if may_be_call(method, header) and isinstance(chunks, (list, tuple)):
        chunks = [b"".join(chunks)]
        call = tool_call(url, header("mcp-session-id"), chunks[0])
        if call is not None:
            return Content(_hash(call.content), call.site, call.id and _hash(call.content + call.id), call.number)
    found = re.match(r'multipart/.*boundary="?([^";]+)', header("content-type"), re.IGNORECASE)
    boundary = found[1].encode("latin-1") if found else b""
    total = hashlib.sha256()
    for chunk in chunks:
        total.update(chunk.replace(boundary, b"") if boundary else chunk)
    return Content(total.digest())


def _hash(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def size(body: Iterable[bytes] | None) -> int:
    """Tell what a body takes in memory, in bytes. Files take none."""
    return sum(map(len, body)) if isinstance(body, (list, tuple)) else 0


class File:
    """A file of the program that can be read again from where it stands. ``of`` makes one, or ``None``."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.start = file.tell()

    @classmethod
    def of(cls, file: Any) -> File | None:
        """Return a ``File`` if this is one, and can be rewound."""
        try:
            return cls(file) if hasattr(file, "read") and file.seekable() is True else None
        except (AttributeError, OSError, ValueError):
            return None

    def rewind(self) -> None:
        """Go back to where the file stood."""
        self._file.seek(self.start)

    def __iter__(self) -> Iterator[bytes]:
        self.rewind()
        while chunk := self._file.read(1 << 16):
            yield chunk.encode("utf-8") if isinstance(chunk, str) else chunk


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
