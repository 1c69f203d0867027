"""What purser's API answers with, as frozen objects.

Names are those of the JSON in Python's spelling. Members that this version does not know are ignored; members that
are missing or of another type raise ``ValueError``, which the callers turn into ``PurserUnreachableError``. Amounts
stay decimal strings in the asset's smallest unit (USDC: millionths), times stay RFC 3339 in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._amounts import usdc
from ._wire import PAYMENT_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

__all__ = [
    "ApiKey",
    "Limit",
    "Limits",
    "PayResult",
    "Payment",
    "PaymentState",
    "Pending",
    "Quota",
    "Quote",
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


def _texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = data.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} is not a list of strings")
    return tuple(value)


def _flags(data: Mapping[str, Any]) -> tuple[str, ...]:
    return _texts(data, "flags")


def _number(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is not a whole number")
    return value


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
        return cls(_number(data, "count"), _text(data, "amount"))


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


@dataclass(frozen=True)
class Quote:
    """What purser would pay now. ``price`` is for people (``"0.01 USDC"``), ``amount`` in the smallest unit.

    ``repeats`` is the earlier payment that the call would be answered with: nothing new would be paid.
    """

    amount: str
    price: str
    currency: str
    network: str
    asset: str
    pay_to: str
    wallet_id: str | None = None
    wallet_address: str | None = None
    repeats: PaymentState | None = None

    @property
    def usdc(self) -> Decimal:
        """The amount in USDC."""
        return usdc(self.amount)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Quote:
        """Read the answer of ``POST /v1/quote``."""
        wallet = member(data, "wallet") if data.get("wallet") is not None else {}
        return cls(
            amount=_text(data, "amount"),
            price=_text(data, "price"),
            currency=_text(data, "currency"),
            network=_text(data, "network"),
            asset=_text(data, "asset"),
            pay_to=_text(data, "payTo"),
            wallet_id=_optional(wallet, "id"),
            wallet_address=_optional(wallet, "address"),
            repeats=PaymentState.read(member(data, "repeats")) if data.get("repeats") is not None else None,
        )


@dataclass(frozen=True)
class Limit:
    """A limit on amounts, as texts for people: ``"0.50 USDC"``. ``of`` is the host's pattern or the task it is for."""

    rule: str
    limit: str
    of: str | None = None
    spent: str | None = None
    left: str | None = None
    resets: str | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Limit:
        """Read one of the ``limits`` of ``GET /v1/limits``."""
        more = {name: _optional(data, name) for name in ("of", "spent", "left", "resets")}
        return cls(_text(data, "rule"), _text(data, "limit"), **more)


@dataclass(frozen=True)
class Quota:
    """The payments of the month under the plan."""

    limit: int
    used: int
    resets: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Quota:
        """Read the ``quota`` of ``GET /v1/limits``."""
        return cls(_number(data, "limit"), _number(data, "used"), _text(data, "resets"))


@dataclass(frozen=True)
class Limits:
    """What a key may spend at one door. ``pays`` is false while the key is paused, or may not pay there."""

    door: str
    pays: bool
    limits: tuple[Limit, ...]
    per_minute: int | None = None
    price_guard: int | None = None
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    allow_payees: tuple[str, ...] = ()
    deny_payees: tuple[str, ...] = ()
    quota: Quota | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Limits:
        """Read the answer of ``GET /v1/limits``."""
        return cls(
            door=_text(data, "door"),
            pays=data.get("pays") is True,
            limits=tuple(listed(data, "limits", Limit.read)),
            per_minute=_number(data, "perMinute") if data.get("perMinute") is not None else None,
            price_guard=_number(data, "priceGuard") if data.get("priceGuard") is not None else None,
            allow_hosts=_texts(data, "allowHosts"),
            deny_hosts=_texts(data, "denyHosts"),
            allow_payees=_texts(data, "allowPayees"),
            deny_payees=_texts(data, "denyPayees"),
            quota=Quota.read(member(data, "quota")) if data.get("quota") is not None else None,
        )
