"""What goes with a payment so that it gets through caches and fronts. BEHAVIOUR.md §4."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from . import _wire as wire

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PAGE = 16 << 10  # bytes

TOO_LARGE = (431, 494)  # 494 is nginx's own
MAY_BE_TOO_LARGE = (400, 413)

# What programs say that allows a kept answer.
_KEPT = re.compile(r"(no-cache|max-age|max-stale|min-fresh|only-if-cached|stale-if-error)\b", re.IGNORECASE)


def seen(headers: Mapping[str, str]) -> bool:
    """Whether an answer shows that the seller has seen the payment."""
    return wire.receipt_in(headers) is not None or bool(headers.get(wire.REQUIRED_HEADER))


def short(headers: Mapping[str, str]) -> bool:
    """Whether an answer says that its body is so short that it may be read, and stays readable."""
    length = headers.get("content-length", "")
    return length.isdecimal() and int(length) <= MAX_PAGE


def says_too_large(page: bytes) -> bool:
    """Whether a front says that it has found the header too large."""
    text = page.decode("latin-1").lower()
    return ("header" in text or "cookie" in text) and re.search("too (large|long|big)|exceed", text) is not None


def slim(signature: str) -> str | None:
    """Return the same payment with no more than a seller needs, ``None`` when that is not less."""
    try:
        payload = wire.decode_object(wire.decode_base64(signature))
    except ValueError:
        return None
    resource, extensions = payload.pop("resource", None), payload.pop("extensions", None)
    named: Any = extensions.get("payment-identifier") if isinstance(extensions, dict) else None
    info = named.get("info") if isinstance(named, dict) else None
    needed = isinstance(info, dict) and bool(info.get("required"))
    if resource is None and (needed or extensions is None):
        return None
    if needed:
        payload["extensions"] = {"payment-identifier": named}
    text = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(text.encode()).decode()


def not_cached(given: str | None) -> str:
    """Ask caches not to answer, beside what the program says to them."""
    own = [directive.strip() for directive in (given or "").split(",")]
    return ", ".join(["no-cache", *(directive for directive in own if directive and not _KEPT.match(directive))])
