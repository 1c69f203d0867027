"""Answers of urllib3, which requests has inside: reading a part of them, and putting it back."""

from __future__ import annotations

import io
from itertools import chain
from typing import TYPE_CHECKING, Any

import urllib3

from . import _bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["as_it_comes", "decoded", "expect", "hold", "made", "one_shot", "peek"]


async def peek(raw: Any) -> tuple[Any, bytes | None]:
    """Read a body as far as it may be a challenge. Returns an answer of which nothing is read, and that part."""
    chunks = as_it_comes(raw)
    peeked = bodies.Peeked(encoded="content-encoding" in raw.headers)
    for chunk in chunks:
        if not peeked.add(chunk):
            return _unread(raw, chain([bytes(peeked.start)], chunks)), None
    start = bytes(peeked.start)
    return _unread(raw, [start]), start


async def hold(raw: Any) -> urllib3.HTTPResponse:
    """Read an answer for an error, and close it. Returns one with the same body, decoded."""
    try:
        text, _ = await bodies.read_start(bodies.following(as_it_comes(raw)), bodies.MAX_HELD, bodies.HELD_FOR)
    finally:
        raw.close()
        raw.release_conn()
    headers = urllib3.HTTPHeaderDict(raw.headers)
    encoding = headers.pop("content-encoding", None)
    headers.pop("content-length", None)  # of a body that was cut, or is decoded now
    return made(raw.status, headers, decoded(encoding, text, bodies.MAX_HELD)[: bodies.MAX_HELD], raw.reason)


def made(status: int, headers: Any, body: bytes, reason: str | None) -> urllib3.HTTPResponse:
    """Make an answer that no connection brings."""
    return urllib3.HTTPResponse(io.BytesIO(body), headers=headers, status=status, reason=reason, preload_content=False)


def expect(raw: Any, timeout: float | None) -> None:
    """Give the reads of a body a timeout of their own: urllib3 leaves the socket with that of the headers."""
    reader = getattr(getattr(getattr(raw, "_fp", None), "fp", None), "raw", None)
    sock: Any = getattr(reader, "_sock", None)
    if hasattr(sock, "settimeout"):
        sock.settimeout(timeout)


def decoded(encoding: str | None, raw: bytes, limit: int) -> bytes:
    """Decode a body as far as a limit allows."""
    if encoding is None or "," in encoding:  # layer upon layer may unfold without bound
        return raw
    scratch = urllib3.HTTPResponse(io.BytesIO(raw), headers={"content-encoding": encoding}, preload_content=False)
    try:
        return bodies.bounded(scratch.stream(bodies.SLICE, decode_content=True), limit)
    except urllib3.exceptions.HTTPError:
        return raw


def one_shot(body: Any) -> Iterator[bytes]:
    """What a one-shot body consists of, as http.client would send it."""
    if hasattr(body, "read"):
        parts: Iterable[Any] = iter(lambda: body.read(1 << 16), None)
    else:
        parts = body
    for part in parts:
        if not part and hasattr(body, "read"):
            return
        yield part.encode("utf-8") if isinstance(part, str) else bytes(part)


def as_it_comes(raw: Any) -> Iterator[bytes]:
    """Read a body in whatever pieces it comes, not decoded, so that a slow one is noticed."""
    if hasattr(raw, "read1"):
        while chunk := raw.read1(1 << 16, decode_content=False):
            yield chunk
        return
    while chunk := raw.read(bodies.SLICE, decode_content=False):  # urllib3 2.0 and before: it waits for so much
        yield chunk


def _unread(raw: Any, chunks: Iterable[bytes]) -> urllib3.HTTPResponse:
    """Make an answer whose body is not read yet, of one of which a part was."""
    return urllib3.HTTPResponse(
        body=io.BufferedReader(_Stream(chunks, raw)),
        headers=raw.headers,
        status=raw.status,
        version=raw.version,
        reason=raw.reason,
        preload_content=False,
        original_response=raw._original_response,  # noqa: SLF001 — where sessions of requests find cookies
        retries=raw.retries,
        request_method=getattr(raw, "_request_method", None),
        request_url=getattr(raw, "_request_url", None),
    )


class _Stream(io.RawIOBase):
    """Chunks as a file; closing it closes the connection's answer."""

    def __init__(self, chunks: Iterable[bytes], response: Any) -> None:
        super().__init__()
        self._chunks = iter(chunks)
        self._left = b""
        self._response = response

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        part = self._left[: len(into)]
        self._left = self._left[len(part) :]
        into[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._response.close()
            self._response.release_conn()
