"""The API objects, and what options are refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

import purserpay
from purserpay import _models, _options
from purserpay._callers import HttpxCaller, RequestsCaller
from purserpay._calls import MAX_ANSWER, CallError

from .clients import BASE, KEY, FakeAdapter, Lost, Says, Seen, _httpx_handler, options
from .connections import played, serving
from .world import PAYMENT_ID, journaled, paid_answer, says_json, signature

EVENT = {
    "id": "019aa000-0000-7000-8000-00000000000e",
    "amount": "-10000",
    "currency": "USDC",
    "request_url": "https://api.example.com/paid",
    "created_at": "2026-11-22T09:59:00.000Z",
    "payment_id": PAYMENT_ID,
    "corrects": "other",
    "unknown": {},
}
WALLET = {"id": "w", "wallet_id": "local_w", "network": "base", "address": None}


class Both:
    """The same calls, blocking and not."""

    def __init__(self, server: Callable[[Seen], Says], kind: str, key: str | None = KEY) -> None:
        self.kind = kind
        self.sync: purserpay.Purser | None = None
        if kind == "async":
            handler = _httpx_handler(server)
            self.asynchronous = purserpay.AsyncPurser(key, BASE, transport=httpx.MockTransport(handler))
        elif kind == "httpx":
            self.sync = purserpay.Purser(key, BASE, transport=httpx.MockTransport(_httpx_handler(server)))
        else:
            self.sync = purserpay.Purser(key, BASE, adapter=FakeAdapter(server))

    def __call__(self, what: Callable[[Any], Any]) -> Any:
        if self.sync is not None:
            result = what(self.sync)
            return list(result) if hasattr(result, "__next__") else result

        async def go() -> Any:
            async with self.asynchronous as api:
                result = what(api)
                if isinstance(result, Awaitable):
                    return await result
                return [one async for one in result]

        return anyio.run(go)


@pytest.fixture(params=["httpx", "requests", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def one(answer: Says) -> tuple[list[Seen], Callable[[Seen], Says]]:
    seen: list[Seen] = []

    def server(request: Seen) -> Says:
        seen.append(request)
        return answer

    return seen, server


def test_keys(kind: str) -> None:
    seen, server = one(says_json(201, {"id": "1", "label": "", "key": "pk_new"}))
    made = Both(server, kind, None)(
        lambda api: api.keys.create("l", organization_id="o", plan="FREE", internal_secret="s")
    )
    assert made.key == "pk_new"
    assert "pk_new" not in repr(made)
    assert json.loads(seen[0].body) == {"label": "l", "organization_id": "o", "plan": "FREE"}
    assert "x-api-key" not in seen[0].headers
    assert seen[0].headers["x-internal-secret"] == "s"


def test_wallets(kind: str) -> None:
    seen, server = one(says_json(200, {"wallets": [WALLET]}))
    assert Both(server, kind)(lambda api: api.wallets.list())[0].address is None
    seen, server = one(says_json(201, {**WALLET, "address": "0x1"}))
    assert Both(server, kind)(lambda api: api.wallets.create("base")).address == "0x1"
    assert json.loads(seen[0].body) == {"network": "base"}
    seen, server = one(Says(204))
    assert Both(server, kind)(lambda api: api.wallets.delete("../v1/pay?x")) is None
    assert (seen[0].method, seen[0].url) == ("DELETE", f"{BASE}/wallets/..%2Fv1%2Fpay%3Fx")
    with pytest.raises(ValueError, match="id"):
        Both(server, kind)(lambda api: api.wallets.delete(".."))


def test_pay_is_called_once(kind: str) -> None:
    seen, server = one(says_json(200, paid_answer()))
    result = Both(server, kind)(lambda api: api.pay("e30=", "https://a.example/", idempotency_key="k"))
    assert result.payment_signature == signature()
    assert signature() not in repr(result)
    assert json.loads(seen[0].body) == {
        "paymentRequiredHeader": "e30=",
        "requestUrl": "https://a.example/",
        "idempotencyKey": "k",
    }
    seen, server = one(Says(503))
    with pytest.raises(purserpay.PurserUnreachableError):
        Both(server, kind)(lambda api: api.pay("e30=", settlement="payer"))
    assert len(seen) == 1


def test_payments(kind: str) -> None:
    seen, server = one(says_json(200, {"payment": journaled(reason="r", flags=["refused"])}))
    got = Both(server, kind)(lambda api: api.payments.get(PAYMENT_ID))
    assert (got.amount, got.reason, got.flags, got.pay_to[:3]) == ("10000", "r", ("refused",), "0x1")
    Both(server, kind)(lambda api: api.payments.receipt(PAYMENT_ID, "abc"))
    assert seen[1].url == f"{BASE}/v1/payments/{PAYMENT_ID}/receipt"
    assert json.loads(seen[1].body) == {"receipt": "abc"}
    with pytest.raises(purserpay.RequestRefusedError) as caught:
        Both(lambda _: says_json(404, {"error": "Payment not found"}), kind)(lambda api: api.payments.get("x"))
    assert caught.value.status == 404


def pages(name: str, entry: dict[str, Any], total: int) -> tuple[list[str], Callable[[Seen], Says]]:
    """A list of which a page is shown at a time."""
    asked: list[str] = []

    def server(request: Seen) -> Says:
        query = httpx.URL(request.url).params
        asked.append(str(httpx.URL(request.url).query.decode()))
        start = int(query.get("before", -1)) + 1
        shown = range(start, min(total, start + int(query["limit"])))
        body: dict[str, Any] = {name: [{**entry, "id": str(n)} for n in shown]}
        if name == "events":
            body["pending"] = {"count": 12345678901234567890, "amount": "5"}
        return says_json(200, body)

    return asked, server


@pytest.mark.parametrize(("total", "asks"), [(0, 1), (2, 1), (3, 2), (4, 2), (7, 3)])
def test_all_pages(kind: str, total: int, asks: int) -> None:
    asked, server = pages("payments", journaled(), total)
    found = Both(server, kind)(lambda api: api.payments.all("settled", page_size=3))
    assert [payment.id for payment in found] == [str(n) for n in range(total)]
    assert len(asked) == asks
    assert asked[0] == "state=settled&limit=3"
    asked, server = pages("events", EVENT, total)
    found = Both(server, kind)(lambda api: api.spend.all("t", page_size=3))
    assert [event.id for event in found] == [str(n) for n in range(total)]
    assert len(asked) == asks
    assert asked[-1].startswith("task=t&limit=3")


def test_spend(kind: str) -> None:
    _, server = pages("events", EVENT, 1)
    page = Both(server, kind)(lambda api: api.spend.list(limit=5))
    assert page.events[0].amount == "-10000"
    assert page.events[0].corrects == "other"
    assert (page.pending.count, page.pending.amount) == (12345678901234567890, "5")
    assert Both(lambda _: says_json(200, {"events": []}), kind)(lambda api: api.spend.list()).pending is None
    assert Both(lambda _: says_json(200, {"payments": []}), kind)(lambda api: api.payments.list()) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"events": {}},
        {"events": [1]},
        {"events": [{**EVENT, "amount": 1}]},
        {"events": [{**EVENT, "payment_id": 1}]},
        {"events": [], "pending": {"count": 1.5, "amount": "1"}},
        {"events": [], "pending": {"count": True, "amount": "1"}},
        {"events": [], "pending": []},
        [],
    ],
)
def test_answers_that_are_not_pursers(kind: str, body: Any) -> None:
    with pytest.raises(purserpay.PurserUnreachableError):
        Both(lambda _: says_json(200, body), kind)(lambda api: api.spend.list())


def test_flags_that_are_nonsense() -> None:
    with pytest.raises(ValueError, match="flags"):
        _models.read(purserpay.PaymentState, {"id": "1", "state": "open", "flags": [1], "validBefore": ""})
    assert _models.read(purserpay.PaymentState, {"id": "1", "state": "open", "validBefore": ""}).flags == ()


def test_lost(kind: str) -> None:
    def lost(_: Seen) -> Says:
        raise Lost

    with pytest.raises(purserpay.PurserUnreachableError) as caught:
        Both(lost, kind)(lambda api: api.wallets.list())
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_answers_are_bounded(kind: str) -> None:
    with pytest.raises(purserpay.PurserUnreachableError, match="larger"):
        Both(lambda _: Says(200, [], b" " * (MAX_ANSWER + 1)), kind)(lambda api: api.wallets.list())


def test_closes(kind: str) -> None:
    _, server = one(Says(204))
    both = Both(server, kind)
    if both.sync is not None:
        with both.sync as api:
            api.wallets.delete("x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": ""},
        {"api_key": "a\nb"},
        {"base_url": "ftp://x"},
        {"base_url": "http://user@x"},
        {"base_url": "http://x?y"},
        {"base_url": "http://x#y"},
        {"base_url": "http://"},
        {"base_url": "http://x:99999"},
        {"base_url": "http://x/\n"},
        {"base_url": None},
        {"settlement": "nobody"},
        {"max_amount": 1.0},
        {"max_amount": True},
        {"max_amount": -1},
        {"max_amount": "1.5"},
        {"max_amount": "01"},
        {"allow_hosts": "api.example.com"},
        {"allow_hosts": ["https://api.example.com"]},
        {"allow_hosts": ["*.*.example.com"]},
        {"allow_hosts": [""]},
        {"challenge_headers": "X-Pay"},
        {"challenge_headers": ["X Pay"]},
        {"body_limit": -1},
        {"body_limit": 1.5},
        {"resends": True},
        {"pay_timeout": 0},
        {"paid_timeout": float("nan")},
        {"receipt_wait": -1},
    ],
)
def test_options_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        options(**wrong)
    assert "a\nb" not in str(caught.value)


def test_options_do_not_show_the_key() -> None:
    assert KEY not in repr(options())
    assert options(allow_hosts=["a.example"], max_amount=5).cap == 5
    assert options().cap is None
    with pytest.raises(ValueError, match="key"):
        purserpay.Purser("", BASE)
    with pytest.raises(ValueError, match="characters"), purserpay.idempotency_key(""):
        pass


def test_patterns() -> None:
    assert _options.host_allowed(["[::1]"], "https://[::1]/")
    assert not _options.host_allowed(["*.example.com:1"], "https://a.example.com/")
    assert not _options.is_loopback("http://[::2]/")
    assert not _options.is_loopback("http://[::ffff:10.0.0.1]/")


def test_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    purserpay.AsyncPurser(KEY, BASE)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r"pip install httpx, httpx2$"):
        purserpay.AsyncPurser(KEY, BASE)
    purserpay.Purser(KEY, BASE).close()
    monkeypatch.setitem(sys.modules, "requests", None)
    monkeypatch.setitem(sys.modules, "requests.adapters", None)
    with serving(played(lambda _: says_json(200, {"wallets": []}))) as url, purserpay.Purser(KEY, url) as api:
        assert api.wallets.list() == []
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with pytest.raises(ImportError, match=r"or urllib3$"):
        purserpay.Purser(KEY, BASE)


__all__ = ["CallError", "HttpxCaller", "RequestsCaller"]
