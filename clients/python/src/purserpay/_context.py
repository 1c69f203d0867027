"""What a program says around a request, for any HTTP library."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ._amounts import smallest
from ._options import check_timeouts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._amounts import Amount

__all__ = ["Terms", "given_key", "given_terms", "idempotency_key", "terms"]


@dataclass(frozen=True)
class Terms:
    """What a program says of the payments of the requests around which it says it."""

    cap: int | None = None  # in the smallest unit
    task: str | None = None
    dry_run: bool = False
    pay_timeout: float | None = None  # seconds
    paid_timeout: float | None = None  # seconds


_KEY: ContextVar[str | None] = ContextVar("purser_idempotency_key", default=None)
_TERMS: ContextVar[Terms | None] = ContextVar("purser_terms", default=None)


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


@contextmanager
def terms(
    *,
    max_amount: Amount | None = None,
    task: str | None = None,
    dry_run: bool | None = None,
    pay_timeout: float | None = None,
    paid_timeout: float | None = None,
) -> Iterator[None]:
    """Say more of the payments of the requests that are made inside.

    ``max_amount`` caps each, beside the cap of the client: the smaller one holds. They are booked under
    ``task``. With ``dry_run`` nothing is paid: a request that would be paid for raises ``DryRunError`` with the quote,
    and one that purser would decline raises ``DeclinedError``. ``pay_timeout`` and ``paid_timeout`` replace those of
    ``Options``.
    """
    check_timeouts(pay_timeout=pay_timeout, paid_timeout=paid_timeout)
    old = given_terms()
    cap = None if max_amount is None else smallest("max_amount", max_amount)
    new = replace(
        old,
        cap=min((one for one in (cap, old.cap) if one is not None), default=None),
        task=old.task if task is None else task,
        dry_run=old.dry_run if dry_run is None else dry_run,
        pay_timeout=old.pay_timeout if pay_timeout is None else pay_timeout,
        paid_timeout=old.paid_timeout if paid_timeout is None else paid_timeout,
    )
    token = _TERMS.set(new)
    try:
        yield
    finally:
        _TERMS.reset(token)


def given_terms() -> Terms:
    """Return what the program says around this request."""
    return _TERMS.get() or Terms()
