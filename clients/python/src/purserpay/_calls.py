"""Calls of purser's API without I/O: what is sent, and what an answer means. BEHAVIOUR.md §3.4 and §9.

``_callers`` does I/O, and ``_flow`` decides which calls make up a payment.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote as quoted
from urllib.parse import urlencode

from . import _models as models
from ._amounts import usdc_text
from ._errors import (
    Advice,
    DeclinedError,
    IdempotencyConflictError,
    InvalidChallengeError,
    KeyNotResolvedError,
    LimitReachedError,
    NoWalletError,
    PurserError,
    PurserUnreachableError,
    RequestRefusedError,
    UnclearError,
)
from ._version import __version__
from ._wire import decode_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MAX_ANSWER", "Answer", "Call", "CallError", "Operation", "refusal"]

T = TypeVar("T")

# Bytes; longer than any page of 500 entries.
MAX_ANSWER = 8 << 20


class CallError(Exception):
    """A call had no whole answer. ``reached`` is false only if purser cannot have seen any of it."""

    def __init__(self, message: str, *, reached: bool = True) -> None:
        super().__init__(message)
        self.reached = reached


@dataclass(frozen=True)
class Call:
    """One HTTP request to purser."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeout: float  # seconds, for the whole of it


@dataclass(frozen=True)
class Answer:
    """What came back, whole. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Operation(Generic[T]):
    """An endpoint, what to send there, and how to read the answer. ``path`` begins with a slash."""

    method: str
    path: str
    expected: int
    read: Callable[[Mapping[str, Any]], T]
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def call(self, base_url: str, api_key: str | None, timeout: float) -> Call:
        """Make a call of it."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"purser-python/{__version__}",
        }
        body = b""
        if self.body is not None:
            body = json.dumps(self.body, separators=(",", ":")).encode()
            headers["Content-Type"] = "application/json"
        if api_key is not None:
            headers["X-Api-Key"] = api_key
        return Call(self.method, base_url + self.path, {**headers, **self.headers}, body, timeout)

    def result(self, answer: Answer) -> T:
        """Turn the answer into a result or an error."""
        if answer.status != self.expected:
            raise refusal(answer)
        try:
            return self.read(decode_object(answer.body) if answer.body else {})
        except ValueError as error:
            raise not_understood(answer, error) from None


def not_understood(answer: Answer, error: ValueError) -> PurserUnreachableError:
    """Make the error for an answer that is not purser's."""
    return PurserUnreachableError(f"purser's answer was not understood: {error}", status=answer.status)


def refusal(answer: Answer) -> PurserError:
    """Make an error of an answer that is not the wanted one."""
    try:
        data = decode_object(answer.body)
    except ValueError:
        data = {}
    text = _text(data, "error")
    payment = data.get("payment") if isinstance(data.get("payment"), dict) else {}
    assert isinstance(payment, dict)  # noqa: S101 — for the type checker
    more: dict[str, Any] = {
        "status": answer.status,
        "detail": _text(data, "detail"),
        "do": _advice(data.get("do")),
        "offers": _offers(data),
        "payment_id": _text(payment, "id"),
        "retry_after": retry_after(answer.headers),
    }
    message = f"purser: {text}" if text else f"purser answered {answer.status}"
    if more["detail"]:
        message += f" ({more['detail']})"
    status = answer.status
    if status == 401:
        return KeyNotResolvedError(message, **more)
    if status == 402:
        flags = payment.get("flags")
        if payment.get("state") == "open" and not (isinstance(flags, list) and "refused" in flags):
            return UnclearError(message, **more)
        facilitator = data.get("facilitator")
        return DeclinedError(
            message,
            rule=_text(data, "rule"),
            facilitator=facilitator if isinstance(facilitator, dict) else None,
            price=_text(data, "price"),
            limit=_text(data, "limit"),
            left=_text(data, "left"),
            resets=_text(data, "resets"),
            **more,
        )
    if status == 429:
        return LimitReachedError(message, upgrade_url=_text(data, "upgradeUrl"), **more)
    if status == 400:
        return _bad_request(text or "", message, more)
    if 400 < status < 500:
        return RequestRefusedError(message, **more)
    return PurserUnreachableError(message, **more)


def _bad_request(text: str, message: str, more: dict[str, Any]) -> PurserError:
    wallet = re.match(r"No wallet for network (\S+?)\.?(?:\s|$)", text)
    if wallet:
        return NoWalletError(message, network=wallet[1], **more)
    if text == "paymentRequiredHeader (base64) required" or text.startswith("Unsupported "):
        return InvalidChallengeError(message, **more)
    if text == "idempotencyKey already used for a different request":
        return IdempotencyConflictError(message, **more)
    return RequestRefusedError(message, **more)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the other side asks to wait; dates count as nothing said."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) and value else None


def _advice(given: object) -> Advice | None:
    if not isinstance(given, dict):
        return None
    developer, operator = _text(given, "developer"), _text(given, "operator")
    return Advice(developer, operator) if developer and operator else None


def _offers(data: Mapping[str, Any]) -> tuple[models.QuotedOffer, ...]:
    try:
        return tuple(models.listed(data, "offers", models.QuotedOffer))
    except ValueError:
        return ()


# The endpoints of BEHAVIOUR.md §9.


def create_key(
    label: str | None,
    key: str | None,
    organization_id: str | None,
    plan: str | None,
    internal_secret: str | None,
) -> Operation[models.ApiKey]:
    """``POST /api-keys``."""
    body = _given(label=label, key=key, organization_id=organization_id, plan=plan)
    headers = {"X-Internal-Secret": internal_secret} if internal_secret is not None else {}
    return Operation("POST", "/api-keys", 201, partial(models.read, models.ApiKey), body, headers)


def list_wallets() -> Operation[list[models.Wallet]]:
    """``GET /wallets/me``."""
    return Operation("GET", "/wallets/me", 200, lambda data: models.listed(data, "wallets", models.Wallet))


def create_wallet(network: str | None) -> Operation[models.Wallet]:
    """``POST /wallets``."""
    return Operation("POST", "/wallets", 201, partial(models.read, models.Wallet), _given(network=network))


def delete_wallet(wallet_id: str) -> Operation[None]:
    """``DELETE /wallets/{id}``."""
    return Operation("DELETE", f"/wallets/{_segment(wallet_id)}", 204, lambda _: None)


@dataclass(frozen=True)
class Order:
    """What ``POST /v1/pay`` and ``POST /v1/quote`` are asked for. ``max_amount`` is in the smallest unit."""

    header: str
    request_url: str | None = None
    idempotency_key: str | None = None
    settlement: str | None = None
    task: str | None = None
    max_amount: int | None = None

    @property
    def body(self) -> dict[str, str]:
        """The members of the body."""
        return _given(
            paymentRequiredHeader=self.header,
            requestUrl=self.request_url,
            idempotencyKey=self.idempotency_key,
            settlement=self.settlement,
            task=self.task,
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside those of every call."""
        return {} if self.max_amount is None else {"Purser-Max-Amount": usdc_text(self.max_amount)}


def pay(order: Order, *, taken: bool = False) -> Operation[models.PayResult]:
    """``POST /v1/pay``. ``taken``: the request has an Authorization of its own."""
    read = partial(models.read_pay_result, taken=taken)
    return Operation("POST", "/v1/pay", 200, read, order.body, order.headers)


def quote(order: Order) -> Operation[models.Quote]:
    """``POST /v1/quote``."""
    return Operation("POST", "/v1/quote", 200, partial(models.read, models.Quote), order.body, order.headers)


def limits(door: str | None) -> Operation[models.Limits]:
    """``GET /v1/limits``."""
    return Operation("GET", "/v1/limits" + _query(door=door), 200, partial(models.read, models.Limits))


def list_payments(state: str | None, limit: int | None, before: str | None) -> Operation[list[models.Payment]]:
    """``GET /v1/payments``."""
    path = "/v1/payments" + _query(state=state, limit=limit, before=before)
    return Operation("GET", path, 200, lambda data: models.listed(data, "payments", models.Payment))


def get_payment(payment_id: str) -> Operation[models.Payment]:
    """``GET /v1/payments/{id}``."""
    return Operation("GET", f"/v1/payments/{_segment(payment_id)}", 200, _payment)


def post_receipt(payment_id: str, value: str) -> Operation[models.Payment]:
    """``POST /v1/payments/{id}/receipt``."""
    path = f"/v1/payments/{_segment(payment_id)}/receipt"
    return Operation("POST", path, 200, _payment, {"receipt": value})


def list_spend(task: str | None, limit: int | None, before: str | None) -> Operation[models.SpendPage]:
    """``GET /v1/spend``."""
    return Operation(
        "GET", "/v1/spend" + _query(task=task, limit=limit, before=before), 200, partial(models.read, models.SpendPage)
    )


def _payment(data: Mapping[str, Any]) -> models.Payment:
    return models.read(models.OnePayment, data).payment


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _query(**values: str | int | None) -> str:
    text = urlencode({name: value for name, value in values.items() if value is not None})
    return f"?{text}" if text else ""


def _segment(value: str) -> str:
    """One segment of a path, whatever a caller makes of it."""
    if not value or value in (".", ".."):
        raise ValueError("an id is needed")
    return quoted(value, safe="")
