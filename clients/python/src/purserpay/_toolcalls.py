"""Calls of MCP, which purser's proxy knows by the same rules. BEHAVIOUR.md §6."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_CALL", "ToolCall", "tool_call"]

MAX_CALL = 1 << 20  # bytes

_KINDS = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}
_JSON = re.compile(r"application/json *(;|$)", re.IGNORECASE)
# Members of _meta that say nothing about what is called.
_ASIDE = re.compile(r"io\.modelcontextprotocol/.*|progressToken|traceparent|tracestate|baggage|sentry-trace", re.DOTALL)
# Members that carry a payment of the client's own.
_PAYS = ("x402/payment", "x402.payment", "org.paymentauth/credential")


class ToolCall(NamedTuple):
    """A call that may be paid for."""

    site: str  # under which it is booked, such as mcp://api.example.com/tool/get_weather
    content: bytes  # the same for all calls that ask for the same thing
    id: bytes  # its session and its number there; empty without a session
    number: str  # its id, as text


class _Number(str):
    """A number as it is written: readers round numbers differently."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self}>"


def may_be_call(method: str, header: Callable[[str], str]) -> bool:
    """Whether the headers of a request are those of a call."""
    accepted = header("accept").lower()
    return (
        method == "POST"
        and "application/json" in accepted
        and "text/event-stream" in accepted
        and not header("content-encoding")
        and _JSON.match(header("content-type")) is not None
    )


def tool_call(url: str, session: str, body: bytes) -> ToolCall | None:
    """Read the body of a request that may be a call. ``None``: it is none, or its client pays for it."""
    if len(body) > MAX_CALL:
        return None
    try:
        return _read(url, session, body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _read(url: str, session: str, text: str) -> ToolCall | None:
    top = json.loads(
        text, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant, object_pairs_hook=_sorted
    )
    if not isinstance(top, dict):
        return None
    method, number, params = top.get("method"), top.get("id"), top.get("params")
    kind = _KINDS.get(method) if isinstance(method, str) else None
    if kind is None or not isinstance(number, str) or not isinstance(params, dict):
        return None
    meta = params.pop("_meta", {})
    name, given = params.get("uri" if kind == "resource" else "name"), params.get("arguments")
    if not isinstance(meta, dict) or not name or not isinstance(name, str) or isinstance(name, _Number):
        return None
    if any(key in meta for key in _PAYS) or (isinstance(given, dict) and "x402_payment" in given):
        return None
    kept = {key: value for key, value in meta.items() if not _ASIDE.fullmatch(key)}
    content = repr((method, params, kept)).encode("utf-8", "surrogatepass")
    known = repr((session, number)).encode("utf-8", "surrogatepass") if session else b""
    return ToolCall(f"mcp://{_host(url)}/{kind}/{_segment(name)}", content, known, str(number))


class Coming:
    """The answer to a call, as it comes. A stream that breaks off has lost it, unless its client can resume that."""

    def __init__(self, content_type: str, number: str) -> None:
        self._number = number
        self._stream = content_type.lower().startswith("text/event-stream")
        self._resumable = False
        self._line = bytearray()
        self._seen = 0
        self.came = False

    def add(self, piece: bytes) -> None:
        """Take a piece of the body."""
        if self.came or not self._stream:
            return
        self._seen += len(piece)
        if self._seen > MAX_CALL:  # it is not looked for any further
            self.came, self._line = True, bytearray()
            return
        self._line += piece
        if b"\n" not in piece and b"\r" not in piece:
            return
        *lines, rest = re.split(rb"\r\n|\n|\r", bytes(self._line))
        self._line = bytearray(rest)
        for line in lines:
            self._resumable = self._resumable or line.startswith(b"id:")
            self.came = self.came or (line.startswith(b"data:") and self._answers(line[5:]))

    def _answers(self, data: bytes) -> bool:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return False
        told = isinstance(message, dict) and ("result" in message or "error" in message)
        return told and str(message.get("id")) == self._number

    def lost(self, *, whole: bool) -> bool:
        """Whether the answer did not come. ``whole``: the body came to its end."""
        return not (self.came or self._resumable or (whole and not self._stream))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _sorted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(sorted(pairs, key=lambda pair: pair[0]))
    if len(made) != len(pairs):
        raise ValueError("a name is there twice")
    return made


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    if parts.scheme == "https":
        return host.removesuffix(":443")
    return host if parts.port is not None else f"{host}:80"


def _segment(name: str) -> str:
    """Write a name as a segment of a path, as Go does."""
    escaped = quote(name, safe="$&+=:@~")
    return escaped if name.strip(".") else escaped.replace(".", "%2E")
