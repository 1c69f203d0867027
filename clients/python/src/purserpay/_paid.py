"""Asking an answer what was paid for it."""

from __future__ import annotations

from typing import Any

from ._flow import PaymentInfo

__all__ = ["MARK", "PaymentInfo", "payment_of"]

MARK = "purser"


def payment_of(response: Any) -> PaymentInfo | None:
    """Tell the payment behind an answer of any of the HTTP libraries, or ``None`` if it cost nothing.

    An answer at the end of redirects tells the payment of the hop that was paid.
    """
    for answer in (response, *reversed(getattr(response, "history", ()))):
        marks = getattr(answer, "extensions", None)
        info = marks.get(MARK) if isinstance(marks, dict) else getattr(answer, MARK, None)
        if isinstance(info, PaymentInfo):
            return info
    return None
