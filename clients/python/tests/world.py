"""A seller and a purser that do as they are told, and count."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .clients import Lost, Refused, Says, Seen

TESTDATA = Path(__file__).parents[2] / "testdata"

PAY_TO = "0x1111111111111111111111111111111111111111"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PAYMENT_ID = "019aa000-0000-7000-8000-000000000001"


def vectors(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((TESTDATA / name).read_text())
    return data


def encoded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def requirement(amount: str = "10000", **more: Any) -> dict[str, Any]:
    return {
        "scheme": "exact",
        "network": "eip155:8453",
        "amount": amount,
        "asset": USDC,
        "payTo": PAY_TO,
        "maxTimeoutSeconds": 60,
        "extra": {"name": "USD Coin", "version": "2"},
        **more,
    }


def challenge(*accepts: dict[str, Any], error: str = "Payment required") -> str:
    return encoded({"x402Version": 2, "error": error, "accepts": list(accepts) or [requirement()]})


def signature(value: str = "10000", to: str = PAY_TO) -> str:
    return encoded({"x402Version": 2, "payload": {"signature": "0x00", "authorization": {"to": to, "value": value}}})


def receipt(**more: Any) -> str:
    return encoded({"success": True, "transaction": "0x" + "ab" * 32, "network": "eip155:8453", **more})


def paid_answer(
    signed: str | None = None, header: str = "PAYMENT-SIGNATURE", payment_id: str = PAYMENT_ID
) -> dict[str, Any]:
    return {
        "paymentSignature": signed or signature(),
        "settled": False,
        "transaction": "",
        "paymentHeader": header,
        "payment": {"id": payment_id, "state": "open", "flags": [], "validBefore": "2026-11-22T10:00:00.000Z"},
    }


def journaled(**more: Any) -> dict[str, Any]:
    return {
        "id": PAYMENT_ID,
        "state": "settled",
        "flags": [],
        "validBefore": "2026-11-22T10:00:00.000Z",
        "settlement": "seller",
        "amount": "10000",
        "currency": "USDC",
        "network": "base",
        "payTo": PAY_TO,
        "request_url": "https://api.example.com/paid",
        "transaction": "0x" + "ab" * 32,
        "created_at": "2026-11-22T09:59:00.000Z",
        **more,
    }


def says_json(status: int, value: Any, *headers: tuple[str, str]) -> Says:
    return Says(status, [("Content-Type", "application/json"), *headers], json.dumps(value).encode())


FINE = Says(200, [("PAYMENT-RESPONSE", receipt())], b"goods")
BUSY = Says(503, [], b"busy")


class FakePurser:
    """Pays for everything, unless ``pay`` says otherwise: a function of the request and how often it was asked."""

    def __init__(self) -> None:
        self.pays: list[Seen] = []
        self.receipts: list[Seen] = []
        self.others: list[Seen] = []
        self.pay: Callable[[Seen], Says] = self._pay
        self.report: Callable[[Seen], Says] = lambda _: says_json(200, {"payment": journaled()})
        self._payments: dict[str, str] = {}

    def __call__(self, seen: Seen) -> Says:
        if seen.url.endswith("/v1/pay"):
            self.pays.append(seen)
            return self.pay(seen)
        if seen.url.endswith("/receipt"):
            self.receipts.append(seen)
            return self.report(seen)
        self.others.append(seen)
        return says_json(404, {"error": "Not found"})

    def _pay(self, seen: Seen) -> Says:
        """One payment for each idempotency key, as purser does."""
        key = json.loads(seen.body)["idempotencyKey"]
        made = self._payments.setdefault(key, f"019aa000-0000-7000-8000-{len(self._payments) + 1:012}")
        return says_json(200, paid_answer(payment_id=made))

    @property
    def payments(self) -> int:
        """How many there are."""
        return len(self._payments)

    @property
    def keys(self) -> list[str]:
        return [json.loads(seen.body)["idempotencyKey"] for seen in self.pays]


class FakeSeller:
    """Wants to be paid. ``paid`` are its answers to paid requests, the last for all further ones."""

    def __init__(self, *paid: Says | type[Exception], unpaid: Says | None = None) -> None:
        self.seen: list[Seen] = []
        self.unpaid = unpaid or Says(402, [("PAYMENT-REQUIRED", challenge())], b"{}")
        self._paid: list[Says | type[Exception]] = list(paid) or [
            Says(200, [("PAYMENT-RESPONSE", receipt())], b"goods")
        ]

    def __call__(self, seen: Seen) -> Says:
        self.seen.append(seen)
        if not self.payment(seen):
            return self.unpaid
        said = self._paid.pop(0) if len(self._paid) > 1 else self._paid[0]
        if isinstance(said, Says):
            return said
        raise said

    @staticmethod
    def payment(seen: Seen) -> str:
        return seen.headers.get("payment-signature") or seen.headers.get("x-payment") or ""

    @property
    def payments(self) -> list[str]:
        """The payments that it got, in order."""
        return [payment for seen in self.seen if (payment := self.payment(seen))]


def names(headers: Iterable[str]) -> set[str]:
    return {name.lower() for name in headers}


__all__ = ["Lost", "Refused"]
