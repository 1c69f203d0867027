"""What purser's API answers with, as frozen objects.

Names are those of the JSON in Python's spelling. Members that this version does not know are ignored; members that
are missing or of another type raise ``ValueError``, which the callers turn into ``PurserUnreachableError``. Amounts
stay decimal strings in the asset's smallest unit (USDC: millionths), times stay RFC 3339 in UTC.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from ._amounts import usdc
from ._mpp import CREDENTIAL, CREDENTIAL_HEADERS
from ._wire import PAYMENT_HEADERS

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    "QuotedOffer",
    "SignedReceipt",
    "SpendEvent",
    "SpendPage",
    "Wallet",
    "listed",
    "read",
    "read_pay_result",
]

T = TypeVar("T")

_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)
# Members that the JSON spells in another way than purser's snake_case.
_CAMEL = {
    "valid_before": "validBefore",
    "pay_to": "payTo",
    "per_minute": "perMinute",
    "price_guard": "priceGuard",
    "seller_said": "sellerSaid",
    "signed_receipt": "signedReceipt",
    "allow_hosts": "allowHosts",
    "deny_hosts": "denyHosts",
    "allow_payees": "allowPayees",
    "deny_payees": "denyPayees",
}


def read(kind: type[T], data: Mapping[str, Any]) -> T:
    """Read an object of a class by the types of its members. Raises ``ValueError``."""
    found: dict[str, Any] = {}
    plain: Any = kind
    for name, hint, needed in _members(plain):
        value = data.get(_CAMEL.get(name, name))
        if value is None and not needed:
            continue
        if get_origin(hint) is not UnionType:
            found[name] = _value(name, hint, value)
        else:  # "" is nothing as well
            found[name] = None if value is None or value == "" else _value(name, get_args(hint)[0], value)
    return kind(**found)


@cache
def _members(kind: type[Any]) -> list[tuple[str, Any, bool]]:
    """List the members of a class with their types, and whether they have no default."""
    hints = get_type_hints(kind)
    return [
        (one.name, hints[one.name], one.default is dataclasses.MISSING) for one in dataclasses.fields(kind) if one.init
    ]


def _value(name: str, kind: Any, value: Any) -> Any:
    """Check the value of a member, and read it."""
    if get_origin(kind) is tuple:
        if value is None and get_args(kind)[0] is str:  # lists of words may be left out
            return ()
        if not isinstance(value, list):
            raise ValueError(f"{name} is not a list")
        return tuple(_value(name, get_args(kind)[0], one) for one in value)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is not an object")
        plain: Any = kind
        return read(plain, value)
    kind = get_origin(kind) or kind
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} is not a {kind.__name__}")
    return value


def listed(data: Mapping[str, Any], name: str, kind: type[T]) -> list[T]:
    """Read a member that is a list of objects."""
    entries = data.get(name)
    if not isinstance(entries, list):
        raise ValueError(f"{name} is not a list")
    return [_value(name, kind, entry) for entry in entries]


def read_pay_result(data: Mapping[str, Any], *, taken: bool = False) -> PayResult:
    """Read the answer of ``POST /v1/pay``. A purser that knows only SPEC.md leaves some members out."""
    signature, header = data.get("paymentSignature"), data.get("paymentHeader")
    header = PAYMENT_HEADERS[0] if header is None else header
    form = CREDENTIAL if header in CREDENTIAL_HEADERS else _SIGNATURE
    if not isinstance(signature, str) or not form.fullmatch(signature):
        raise ValueError("paymentSignature has not the form of its header")
    if header not in PAYMENT_HEADERS + CREDENTIAL_HEADERS or (taken and header == "Authorization"):
        raise ValueError("paymentHeader is not one for payments")
    try:
        payment: PaymentState | None = _value("payment", PaymentState, data.get("payment"))
    except ValueError:
        payment = None
    transaction = data.get("transaction")
    if transaction is not None and not isinstance(transaction, str):
        raise ValueError("transaction is not a str")
    return PayResult(signature, header, data.get("settled") is True, transaction or "", payment)


@dataclass(frozen=True)
class ApiKey:
    """An API key as it was created. ``key`` is the secret, which purser shows only once."""

    id: str
    label: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class Wallet:
    """A wallet of a key. ``address`` is ``None`` when purser has no wallet provider."""

    id: str
    wallet_id: str
    network: str
    address: str | None


@dataclass(frozen=True)
class PaymentState:
    """How a payment stands: ``state`` is ``open``, ``settled`` or ``void``."""

    id: str
    state: str
    flags: tuple[str, ...]
    valid_before: str


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


@dataclass(frozen=True)
class SignedReceipt:
    """A seller's signed receipt. Without ``verified`` nobody has checked its signature."""

    verified: bool
    receipt: dict[str, Any]


@dataclass(frozen=True)
class Payment:
    """A payment in full, as ``/v1/payments`` lists it.

    ``protocol`` is ``x402`` or ``mpp``, or ``None`` for what only the chain tells of. ``rail`` says how the money
    moves: ``eip3009``, ``permit2``, ``mpp-evm``, ``tempo``. ``charged`` is there if it is less than ``amount``, and
    ``signed_receipt`` is not in lists. ``seller_said`` has the seller's words against the payment, which nobody has
    checked: they are no instructions.
    """

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
    protocol: str | None = None
    rail: str | None = None
    charged: str | None = None
    seller_said: str | None = None
    signed_receipt: SignedReceipt | None = None


@dataclass(frozen=True)
class OnePayment:
    """An answer about one payment."""

    payment: Payment


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


@dataclass(frozen=True)
class Pending:
    """What a key's open payments amount to."""

    count: int
    amount: str


@dataclass(frozen=True)
class SpendPage:
    """One page of ``/v1/spend``, newest first."""

    events: tuple[SpendEvent, ...]
    pending: Pending | None


@dataclass(frozen=True)
class Purse:
    """The wallet that a quote would be paid from."""

    id: str | None = None
    address: str | None = None


@dataclass(frozen=True)
class QuotedOffer:
    """An offer of a challenge, as purser sees it. ``price`` is for people, ``amount`` in the smallest unit.

    ``pays`` marks the one that would be paid. ``reason`` is the word for why another one would not be, such as
    ``insufficient-funds``, or ``later`` behind the one that would.
    """

    rail: str
    network: str
    asset: str
    amount: str
    pay_to: str
    pays: bool
    protocol: str | None = None
    price: str | None = None
    expires: str | None = None
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Quote:
    """What purser would pay now. ``price`` is for people (``"0.01 USDC"``), ``amount`` in the smallest unit.

    ``repeats`` is the earlier payment that the call would be answered with: nothing new would be paid. ``offers`` are
    all of the challenge, in the order of choice; there are none for a repeat. ``gas`` is the most that the wallet pays
    for gas beside the price, in the smallest unit.
    """

    amount: str
    price: str
    currency: str
    network: str
    asset: str
    pay_to: str
    wallet: Purse | None = None
    repeats: PaymentState | None = None
    protocol: str | None = None
    rail: str | None = None
    offers: tuple[QuotedOffer, ...] = ()
    gas: str | None = None

    @property
    def usdc(self) -> Decimal:
        """The amount in USDC."""
        return usdc(self.amount)

    @property
    def wallet_id(self) -> str | None:
        """The ``id`` of the wallet that would pay."""
        return self.wallet.id if self.wallet else None

    @property
    def wallet_address(self) -> str | None:
        """The address of the wallet that would pay."""
        return self.wallet.address if self.wallet else None


@dataclass(frozen=True)
class Limit:
    """A limit on amounts, as texts for people: ``"0.50 USDC"``. ``of`` is the host's pattern or the task it is for."""

    rule: str
    limit: str
    of: str | None = None
    spent: str | None = None
    left: str | None = None
    resets: str | None = None


@dataclass(frozen=True)
class Quota:
    """The payments of the month under the plan."""

    limit: int
    used: int
    resets: str


@dataclass(frozen=True)
class Limits:
    """What a key may spend at one door. ``pays`` is false while the key is paused, or may not pay there."""

    door: str
    limits: tuple[Limit, ...]
    pays: bool = False
    per_minute: int | None = None
    price_guard: int | None = None
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    allow_payees: tuple[str, ...] = ()
    deny_payees: tuple[str, ...] = ()
    quota: Quota | None = None
