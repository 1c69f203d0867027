"""What a request says of itself. BEHAVIOUR.md §2, §4, §6."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ._wire import PAYMENT_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Said", "pays_already", "said", "usable_key"]

# Where libraries count the tries of a request: from 0, or from 1.
_REPEATS = ("X-Stainless-Retry-Count", "Retry-Attempt", "X-Retry-Count", "Retry-Count")
_TRIES = ("Amz-Sdk-Request", "X-Goog-Api-Client", "X-Envoy-Attempt-Count")
_COUNT = re.compile(r"(?:^|[ ;,])(?:attempt=|gccl-attempt-count/)?([0-9]{1,15})(?![^ ;,])")
_AHEAD = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
_ICON = re.compile(r"/(favicon\.ico|apple-touch-icon.*\.png)")
_WAIT = re.compile(r"\bwait *= *\"?([0-9.]+)", re.IGNORECASE)


class Said(NamedTuple):
    """What a request says of itself. ``waits`` is how long its program waits for an answer, in seconds."""

    unasked: str = ""  # what it is, if no program asked for its content
    repeats: bool = False  # it is no first try
    waits: float = 0.0
    authorized: bool = False  # it has an Authorization of its own


def said(method: str, url: str, headers: Mapping[str, Any]) -> Said:
    """Read the headers of a request, whatever the letter case of their names."""

    def header(name: str) -> str:
        value = headers.get(name)
        return value.decode("latin-1") if isinstance(value, bytes) else value or ""

    def above(least: int, name: str) -> bool:
        found = _COUNT.search(header(name))
        return found is not None and int(found[1]) > least

    repeats = any(above(0, name) for name in _REPEATS) or any(above(1, name) for name in _TRIES)
    return Said(_unasked(method, url, header), repeats, _waits(header), headers.get("Authorization") is not None)


def pays_already(headers: Mapping[str, Any]) -> bool:
    """Whether a request carries a payment of its own, so that it is none of our business."""
    own = headers.get("Authorization") or ""
    credential = re.match(r"payment\s+\S", own.decode("latin-1") if isinstance(own, bytes) else own, re.IGNORECASE)
    carrying = (*PAYMENT_HEADERS, "PAYMENT-AUTHORIZATION")
    return credential is not None or any(name.upper() in carrying for name in headers)


def usable_key(value: str | None) -> str | None:
    """A program's idempotency key, if purser takes it."""
    return value if value and len(value) <= 255 else None


def _unasked(method: str, url: str, header: Callable[[str], str]) -> str:
    """Name a request for whose content no program asked, such as those that browsers make by themselves."""
    meant = header("Sec-Fetch-Dest")
    if method == "HEAD":
        return "a HEAD"
    if method == "OPTIONS" and header("Origin") and header("Access-Control-Request-Method"):
        return "a CORS preflight"
    if re.search(r"\b(prefetch|prerender|preview)\b", ",".join(map(header, _AHEAD)), re.IGNORECASE):
        return "a prefetch"
    if meant == "image" and _ICON.fullmatch(urlsplit(url).path):
        return "an icon"
    return "a report" if meant == "report" else ""


def _waits(header: Callable[[str], str]) -> float:
    """Tell how long a program waits, as its SDK tells the seller."""
    prefers = _WAIT.search(header("Prefer"))
    given = [header("X-Stainless-Timeout"), header("X-Stainless-Read-Timeout"), prefers[1] if prefers else ""]
    return max(_seconds(text) for text in given)


def _seconds(text: str) -> float:
    try:
        return min(float(text), 86400.0) if re.fullmatch(r"\s*[0-9.]{1,15}\s*", text) else 0.0
    except ValueError:
        return 0.0
