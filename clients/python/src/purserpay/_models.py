"""What purser's API answers with, as frozen objects.

Names are those of the JSON in Python's spelling. Members that this version does not know are ignored; members that
are missing or of another type raise ``ValueError``, which the callers turn into ``PurserUnreachableError``. Amounts
stay decimal strings in the asset's smallest unit (USDC: millionths), times stay RFC 3339 in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._wire import PAYMENT_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ApiKey",
    "PayResult",
    "Payment",
    "PaymentState",
    "Pending",
    "SpendEvent",
    "SpendPage",
    "Wallet",
]

_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _optional(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value or None


def _flags(data: Mapping[str, Any]) -> tuple[str, ...]:
    value = data.get("flags")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(flag, str) for flag in value):
        raise ValueError("flags is not a list of strings")
    return tuple(value)


def listed(data: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    """The members of a list, each read by a function."""
    value = data.get(name)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"{name} is not a list of objects")
    return [read(entry) for entry in value]


def member(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A member that is an object."""
    value = data.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


@dataclass(frozen=True)
class ApiKey:
    """An API key as it was created. ``key`` is the secret, which purser shows only once."""

    id: str
    label: str
    key: str = field(repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> ApiKey:
        """Read the answer of ``POST /api-keys``."""
        return cls(_text(data, "id"), _text(data, "label"), _text(data, "key"))


@dataclass(frozen=True)
class Wallet:
    """A wallet of a key. ``address`` is ``None`` when purser has no wallet provider."""

    id: str
    wallet_id: str
    network: str
    address: str | None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Wallet:
        """Read a wallet of ``/wallets``."""
        return cls(_text(data, "id"), _text(data, "wallet_id"), _text(data, "network"), _optional(data, "address"))


@dataclass(frozen=True)
class PaymentState:
    """How a payment stands: ``state`` is ``open``, ``settled`` or ``void``."""

    id: str
    state: str
    flags: tuple[str, ...]
    valid_before: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> PaymentState:
        """Read the ``payment`` member of an answer of ``POST /v1/pay``."""
        return cls(_text(data, "id"), _text(data, "state"), _flags(data), _text(data, "validBefore"))


@dataclass(frozen=True)
class PayResult:
    """What ``POST /v1/pay`` answers: the header to send to the seller.

    ``payment_signature`` is worth money until it is settled or expires, so it is left out of ``repr``.
    """

    payment_signature: str = field(repr=False)
    payment_header: str
    settled: bool
    transaction: str
    payment: PaymentState | None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> PayResult:
        """Read the answer of ``POST /v1/pay``. A purser that knows only SPEC.md leaves some members out."""
        signature = _text(data, "paymentSignature")
        header = data.get("paymentHeader")
        header = PAYMENT_HEADERS[0] if header is None else header
        if not _SIGNATURE.fullmatch(signature):
            raise ValueError("paymentSignature is not base64")
        if header not in PAYMENT_HEADERS:
            raise ValueError("paymentHeader is not one for payments")
        try:
            payment = PaymentState.read(member(data, "payment"))
        except ValueError:
            payment = None
        return cls(
            payment_signature=signature,
            payment_header=header,
            settled=data.get("settled") is True,
            transaction=_optional(data, "transaction") or "",
            payment=payment,
        )


@dataclass(frozen=True)
class Payment:
    """A payment in full, as ``/v1/payments`` lists it."""

    id: str
    state: str
    flags: tuple[str, ...]
    valid_before: str
    settlement: str
    amount: str
    currency: str
    network: str
    pay_to: str
    request_url: str
    transaction: str
    created_at: str
    reason: str | None = None
    task: str | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Payment:
        """Read a payment of ``/v1/payments``."""
        return cls(
            id=_text(data, "id"),
            state=_text(data, "state"),
            flags=_flags(data),
            valid_before=_text(data, "validBefore"),
            settlement=_text(data, "settlement"),
            amount=_text(data, "amount"),
            currency=_text(data, "currency"),
            network=_text(data, "network"),
            pay_to=_text(data, "payTo"),
            request_url=_text(data, "request_url"),
            transaction=_text(data, "transaction"),
            created_at=_text(data, "created_at"),
            reason=_optional(data, "reason"),
            task=_optional(data, "task"),
        )


@dataclass(frozen=True)
class SpendEvent:
    """One payment in the books. A correcting entry has a negative amount and names in ``corrects`` what it undoes."""

    id: str
    amount: str
    currency: str
    request_url: str
    created_at: str
    payment_id: str | None = None
    task: str | None = None
    corrects: str | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> SpendEvent:
        """Read an event of ``/v1/spend``."""
        return cls(
            id=_text(data, "id"),
            amount=_text(data, "amount"),
            currency=_text(data, "currency"),
            request_url=_text(data, "request_url"),
            created_at=_text(data, "created_at"),
            payment_id=_optional(data, "payment_id"),
            task=_optional(data, "task"),
            corrects=_optional(data, "corrects"),
        )


@dataclass(frozen=True)
class Pending:
    """What a key's open payments amount to."""

    count: int
    amount: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Pending:
        """Read the ``pending`` member of ``/v1/spend``."""
        count = data.get("count")
        if not isinstance(count, int) or isinstance(count, bool):
            raise ValueError("count is not a whole number")
        return cls(count, _text(data, "amount"))


@dataclass(frozen=True)
class SpendPage:
    """One page of ``/v1/spend``, newest first."""

    events: tuple[SpendEvent, ...]
    pending: Pending | None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> SpendPage:
        """Read the answer of ``GET /v1/spend``."""
        pending = Pending.read(member(data, "pending")) if data.get("pending") is not None else None
        return cls(tuple(listed(data, "events", SpendEvent.read)), pending)
