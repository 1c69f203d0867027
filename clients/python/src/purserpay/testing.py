"""A purser for tests of programs that pay: it listens on 127.0.0.1, signs with nothing, and moves no money.

In ``conftest.py``: ``pytest_plugins = ["purserpay.testing"]``. Then each test that asks for ``purser`` gets one::

    def test_report(purser):
        with purserpay.httpx.Client(purser.options(max_amount="0.05 USDC")) as client:
            assert client.get(purser.sells("a report", price="0.02 USDC")).text == "a report"
        assert [payment.price for payment in purser.payments] == ["0.02 USDC"]

It sells as well, so that no seller is needed; ``challenge`` is for sellers of your own. Without pytest, use
``FakePurser`` as a context manager.
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

from ._amounts import smallest, usdc_text
from ._options import Options
from ._wire import PAYMENT_HEADERS, challenge_in_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Self, Unpack

    from ._amounts import Amount
    from ._options import Given

__all__ = ["PAY_TO", "FakePayment", "FakePurser", "challenge"]

PAY_TO = "0x00000000000000000000000000000000000000aa"
_ASSET = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
_MEANS = {"protocol": "x402", "rail": "eip3009"}


def challenge(price: Amount = "0.01 USDC", pay_to: str = PAY_TO) -> str:
    """Make the value of a header ``PAYMENT-REQUIRED``, for the 402 of a seller of your own."""
    offer = {
        "scheme": "exact",
        "network": "eip155:8453",
        "amount": str(smallest("price", price)),
        "asset": _ASSET,
        "payTo": pay_to,
        "maxTimeoutSeconds": 60,
        "extra": {"name": "USD Coin", "version": "2"},
    }
    return _encoded({"x402Version": 2, "error": "payment required", "accepts": [offer]})


@dataclass
class FakePayment:
    """A payment that the double has made up. ``amount`` is in the smallest unit, ``price`` for people."""

    id: str
    idempotency_key: str
    amount: str
    pay_to: str
    url: str
    task: str | None
    settlement: str
    receipts: list[str] = field(default_factory=list)
    signature: str = field(default="", repr=False)

    @property
    def price(self) -> str:
        """The amount, such as ``"0.01 USDC"``."""
        return usdc_text(self.amount)

    @property
    def state(self) -> str:
        """``settled`` once the seller's receipt is there."""
        return "settled" if self.receipts else "open"


class FakePurser:
    """Pays for everything with payments that are worth nothing, until it is told to decline."""

    key = "pk_of_a_test"

    def __init__(self) -> None:
        self.payments: list[FakePayment] = []
        self._goods: dict[str, tuple[str, bytes]] = {}
        self._declines: dict[str, Any] | None = None
        self._lost = 0
        self._lock = threading.Lock()
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

            def do_GET(self) -> None:
                double._answer(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def options(self, **more: Unpack[Given]) -> Options:
        """Make options that name this double."""
        return Options(**{"api_key": self.key, "base_url": self.url, **more})  # type: ignore[arg-type,unused-ignore]

    def sells(self, text: str | bytes, *, price: Amount = "0.01 USDC") -> str:
        """Offer something. Returns the URL that answers 402 until it is paid for, to GET and POST."""
        with self._lock:
            path = f"/goods/{len(self._goods) + 1}"
            self._goods[path] = challenge(price), text.encode() if isinstance(text, str) else text
        return self.url + path

    def declines(self, rule: str = "payment-limit", **more: str) -> None:
        """Decline every payment from now on. ``more`` are ``detail``, ``price``, ``limit``, ``left``, ``resets``."""
        self._declines = {"error": "Payment refused by policy", "rule": rule, **more}

    def accepts(self) -> None:
        """Pay again."""
        self._declines = None

    def loses_answers(self, number: int = 1) -> None:
        """Break the connection in place of the next answers of paid goods. The payments are taken all the same."""
        self._lost = number

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it answers.

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in request.headers.items()}
        with self._lock:
            if request.path in self._goods:
                status, said, more = self._sell(request.path, headers)
            elif headers.get("x-api-key") != self.key:
                status, said, more = 401, {"error": "Unknown API key"}, {}
            else:
                status, said, more = (*self._ask(request.command, request.path, body), {})
        if status == 0:
            request.close_connection = True
            return
        text = said if isinstance(said, bytes) else json.dumps(said).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **more}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(text)

    def _sell(self, path: str, headers: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        asks, goods = self._goods[path]
        given = next((headers[name] for one in PAYMENT_HEADERS if (name := one.lower()) in headers), None)
        paid = next((payment for payment in self.payments if payment.signature == given), None)
        if paid is None:
            return 402, b"{}", {"PAYMENT-REQUIRED": asks}
        if self._lost:
            self._lost -= 1
            return 0, b"", {}
        return 200, goods, {"PAYMENT-RESPONSE": _encoded({"success": True, "transaction": f"0x{paid.id}"})}

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        match method, path.partition("?")[0].strip("/").split("/"):
            case "POST", ["v1", ("pay" | "quote") as what]:
                return self._pay(json.loads(body), quote=what == "quote")
            case "POST", ["v1", "payments", found, "receipt"] if payment := self._find(found):
                payment.receipts.append(json.loads(body)["receipt"])
                return 200, {"payment": _full(payment)}
            case "GET", ["v1", "payments", found] if payment := self._find(found):
                return 200, {"payment": _full(payment)}
            case "GET", ["v1", "payments"]:
                return 200, {"payments": [_full(payment) for payment in reversed(self.payments)]}
        return 404, {"error": "Not found"}

    def _pay(self, asked: dict[str, Any], *, quote: bool) -> tuple[int, Any]:
        key = asked.get("idempotencyKey") or f"none-{len(self.payments)}"
        payment = next((one for one in self.payments if one.idempotency_key == key), None)
        if payment is not None and payment.url != asked.get("requestUrl"):
            return 400, {"error": "idempotencyKey already used for a different request"}
        try:
            found = challenge_in_headers({"payment-required": asked["paymentRequiredHeader"]}, ())
        except ValueError:
            found = None
        if found is None or not found.offers:
            return 400, {"error": "paymentRequiredHeader (base64) required"}
        offer = found.offers[0]
        if payment is None and self._declines is not None:
            return 402, self._declines
        if quote:
            said = {"amount": offer.amount, "price": usdc_text(offer.amount), "currency": "USDC", "network": "base"}
            repeats = {"repeats": _state(payment)} if payment else {}
            return 200, {**said, **_MEANS, "asset": offer.asset, "payTo": offer.pay_to, **repeats}
        if payment is None:
            number, settlement = f"fake-{len(self.payments) + 1}", asked.get("settlement", "seller")
            url, task = asked.get("requestUrl", ""), asked.get("task")
            payment = FakePayment(number, key, offer.amount, offer.pay_to, url, task, settlement)
            terms = {"to": offer.pay_to, "value": offer.amount}
            payment.signature = _encoded({"payload": {"authorization": terms, "signature": number}})
            self.payments.append(payment)
        return 200, {"paymentSignature": payment.signature, "settled": False, "payment": _state(payment)}

    def _find(self, payment_id: str) -> FakePayment | None:
        return next((payment for payment in self.payments if payment.id == payment_id), None)


def _encoded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode("ascii")


def _state(payment: FakePayment) -> dict[str, Any]:
    return {"id": payment.id, "state": payment.state, "flags": [], "validBefore": "2100-01-01T00:00:00.000Z"}


def _full(payment: FakePayment) -> dict[str, Any]:
    return {
        **_state(payment),
        **_MEANS,
        "settlement": payment.settlement,
        "amount": payment.amount,
        "currency": "USDC",
        "network": "base",
        "payTo": payment.pay_to,
        "request_url": payment.url,
        "transaction": f"0x{payment.id}" if payment.receipts else "",
        "created_at": "2026-01-01T00:00:00.000Z",
        "task": payment.task,
    }


def _purser() -> Iterator[FakePurser]:
    with FakePurser() as double:
        yield double


try:
    import pytest
except ImportError:
    pass
else:
    purser = pytest.fixture(name="purser")(_purser)
