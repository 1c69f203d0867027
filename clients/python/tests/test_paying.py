"""What becomes of money when things go wrong, with every client."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import urllib3

import purserpay
from purserpay import _flow, _payers

from .clients import Buy, Lost, Says, Seen, held, status
from .conftest import Make
from .world import (
    BUSY,
    FINE,
    PAYMENT_ID,
    FakePurser,
    FakeSeller,
    challenge,
    encoded,
    journaled,
    paid_answer,
    receipt,
    requirement,
    says_json,
    signature,
)


def test_pays_once_and_reports(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    got = make(seller, asked).buy(Buy(url="https://user:pw@api.example.com/paid?q=1#part"))
    assert (got.status, got.body) == (200, b"goods")
    assert len(seller.seen) == 2
    assert seller.payments == [signature()]
    sent = json.loads(asked.pays[0].body)
    assert sent["requestUrl"] == "https://api.example.com/paid?q=1"
    assert sent["settlement"] == "seller"
    assert [json.loads(seen.body) for seen in asked.receipts] == [{"receipt": receipt()}]
    assert got.payment is not None
    assert got.payment.id == "019aa000-0000-7000-8000-000000000001"
    assert (got.payment.state, got.payment.settled) == ("settled", True)
    assert got.payment.transaction == "0x" + "ab" * 32
    assert got.payment.idempotency_key == asked.keys[0]


def test_free_things_stay_free(make: Make) -> None:
    asked = FakePurser()
    got = make(FakeSeller(unpaid=Says(200, [], b"free")), asked).buy(Buy())
    assert (got.body, got.payment) == (b"free", None)
    assert not asked.pays


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_unclear_status_is_sent_again(make: Make, status: int) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(status), FINE)
    assert make(seller, asked).buy(Buy()).body == b"goods"
    assert len(seller.payments) == 2
    assert len(set(seller.payments)) == 1
    assert len(asked.pays) == 1


def test_lost_answer_is_sent_again(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, FINE)
    assert make(seller, asked).buy(Buy(method="POST", body=b"order")).body == b"goods"
    assert [seen.body for seen in seller.seen] == [b"order"] * 3
    assert len(set(seller.payments)) == 1
    assert len(asked.pays) == 1


def test_last_busy_answer_is_the_programs(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(BUSY)
    client = make(seller, asked, resends=2)
    got = client.buy(Buy())
    assert (got.status, got.body) == (503, b"busy")
    assert len(seller.payments) == 3
    # The repeat is the same purchase.
    client.buy(Buy())
    assert len(set(asked.keys)) == 1
    assert asked.payments == 1


@pytest.mark.parametrize(("retry_after", "sends"), [("0", 2), ("5", 2), ("6", 1), ("60", 1), ("soon", 2), ("-1", 2)])
def test_sellers_may_ask_to_wait(make: Make, monkeypatch: pytest.MonkeyPatch, retry_after: str, sends: int) -> None:
    waited: list[float] = []
    no_sleep(monkeypatch, waited)
    seller = FakeSeller(Says(503, [("Retry-After", retry_after)]))
    assert make(seller, FakePurser()).buy(Buy()).status == 503
    assert len(seller.payments) == sends
    if retry_after == "5":
        assert waited == [5.0]


def no_sleep(monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    import time

    import anyio

    async def asleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(anyio, "sleep", asleep)


def test_waits_double(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flow, "BEFORE_RESEND", 0.5)
    waited: list[float] = []
    no_sleep(monkeypatch, waited)
    make(FakeSeller(BUSY), FakePurser(), resends=3).buy(Buy())
    assert waited == [0.5, 1.0, 2.0]


def test_second_402_is_never_paid(make: Make) -> None:
    refused = Says(402, [("PAYMENT-REQUIRED", challenge(error="nonce_already_used"))], b"{}")
    asked, seller = FakePurser(), FakeSeller(refused)
    client = make(seller, asked)
    with pytest.raises(purserpay.RejectedError) as caught:
        client.buy(Buy())
    error = caught.value
    assert error.reason == "nonce_already_used"
    assert error.payment_id == "019aa000-0000-7000-8000-000000000001"
    assert status(error.response) == 402
    assert len(asked.pays) == 1
    assert len(seller.payments) == 1
    assert signature() not in f"{error!r} {error} {error.__dict__}"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Says(402, [("PAYMENT-RESPONSE", receipt(success=False, errorReason="settle_failed"))]), "settle_failed"),
        (Says(402, [("PAYMENT-RESPONSE", "%%%")], b'{"x402Version":1,"error":"why","accepts":[]}'), "why"),
        (Says(402, [("PAYMENT-REQUIRED", "%%%")]), None),
        (Says(402, [], b"<html>"), None),
        (Says(402, [("Content-Encoding", "gzip")], b"not gzip"), None),
        (
            Says(402, [("Content-Encoding", "gzip")], gzip.compress(b'{"x402Version":1,"error":"zip","accepts":[]}')),
            "zip",
        ),
        (Says(402, [], b"x" * (3 << 20)), None),
        (Says(402, [("Content-Encoding", "gzip")], gzip.compress(b" " * (64 << 20))), None),
    ],
)
def test_reasons(make: Make, said: Says, reason: str | None) -> None:
    with pytest.raises(purserpay.RejectedError) as caught:
        make(FakeSeller(said), FakePurser()).buy(Buy())
    assert caught.value.reason == reason
    assert len(held(caught.value.response)) <= 1 << 20


def test_rejected_reports_its_receipt(make: Make) -> None:
    asked = FakePurser()
    with pytest.raises(purserpay.RejectedError):
        make(FakeSeller(Says(402, [("PAYMENT-RESPONSE", receipt(success=False))])), asked).buy(Buy())
    assert len(asked.receipts) == 1


# Bodies.


def test_one_shot_bodies_are_kept(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    got = make(seller, asked).buy(Buy(method="POST", body=b"once", stream=True))
    assert got.body == b"goods"
    assert [seen.body for seen in seller.seen] == [b"once", b"once"]


@pytest.mark.parametrize("limit", [0, 3])
def test_long_one_shot_bodies_are_not_paid_for(make: Make, limit: int) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    client = make(seller, asked, body_limit=limit)
    with pytest.raises(purserpay.NotReplayableError) as caught:
        client.buy(Buy(method="POST", body=b"once", stream=True))
    assert [seen.body for seen in seller.seen] == [b"once"]
    assert not asked.pays
    assert status(caught.value.response) == 402
    assert client.buy(Buy(method="POST", body=b"often")).body == b"goods"


def test_long_one_shot_bodies_are_sent_on(make: Make) -> None:
    seller = FakeSeller(unpaid=Says(200, [], b"free"))
    assert make(seller, FakePurser(), body_limit=3).buy(Buy(method="POST", body=b"once", stream=True)).body == b"free"
    assert [seen.body for seen in seller.seen] == [b"once"]


def test_other_402s_come_back_whole(make: Make) -> None:
    long = b'{"plan": "gold", "more": "' + b"x" * 200_000 + b'"}'
    for said in (
        Says(402, [], b"please subscribe"),
        Says(402, [], long),
        Says(402, [("Content-Encoding", "gzip")], gzip.compress(long)),
        Says(402, [("Set-Cookie", "a=b")], b""),
    ):
        body = gzip.decompress(said.body) if said.headers[:1] == [("Content-Encoding", "gzip")] else said.body
        assert make(FakeSeller(unpaid=said), FakePurser()).buy(Buy()).body == body


def test_compressed_v1_challenge(make: Make) -> None:
    v1 = {"x402Version": 1, "accepts": [{**requirement(), "network": "base", "maxAmountRequired": "10000"}]}
    text = json.dumps(v1).encode()
    asked = FakePurser()
    seller = FakeSeller(FINE, unpaid=Says(402, [("Content-Encoding", "gzip")], gzip.compress(text)))
    assert make(seller, asked, max_amount=10000).buy(Buy()).body == b"goods"
    assert json.loads(asked.pays[0].body)["paymentRequiredHeader"] == encoded(v1)


# Caps and callbacks.


def test_before_payment_is_told(make: Make) -> None:
    told: list[purserpay.BeforePayment] = []

    def approve(info: purserpay.BeforePayment) -> bool:
        told.append(info)
        return True

    two = challenge(requirement("5"), requirement("70", payTo="0x2222222222222222222222222222222222222222"))
    seller, asked = FakeSeller(FINE, unpaid=Says(402, [("PAYMENT-REQUIRED", two)])), FakePurser()
    asked.pay = lambda _: says_json(200, paid_answer(signature("5")))
    make(seller, asked, before_payment=approve).buy(Buy(url="https://api.example.com:8443/paid?q#f"))
    assert len(told) == 1
    info = told[0]
    assert (info.method, info.host, info.amount) == ("GET", "api.example.com:8443", "70")
    assert info.url == "https://api.example.com:8443/paid?q"
    assert [offer.amount for offer in info.offers] == ["5", "70"]
    assert info.pay_to == info.offers[0].pay_to


def test_no_amount_that_is_a_number(make: Make) -> None:
    told: list[purserpay.BeforePayment] = []

    def approve(info: purserpay.BeforePayment) -> bool:
        told.append(info)
        return True

    seller = FakeSeller(FINE, unpaid=Says(402, [("PAYMENT-REQUIRED", challenge(requirement("many")))]))
    asked = FakePurser()
    asked.pay = lambda _: says_json(200, paid_answer(signature("many")))
    make(seller, asked, before_payment=approve).buy(Buy())
    assert told[0].amount is None


class Truth:
    def __bool__(self) -> bool:
        return True


@pytest.mark.parametrize("said", [None, 0, 1, "", "no", Truth(), {"abort": True}], ids=repr)
def test_only_true_allows(make: Make, said: Any) -> None:
    asked = FakePurser()
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(FakeSeller(FINE), asked, before_payment=lambda _: said).buy(Buy())
    assert caught.value.rule == "callback"
    assert isinstance(caught.value.__cause__, TypeError)
    assert not asked.pays


def test_coroutine_callbacks(make: Make) -> None:
    async def refuse(_: purserpay.BeforePayment) -> bool:
        return False

    seller, asked = FakeSeller(FINE), FakePurser()
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(seller, asked, before_payment=refuse).buy(Buy())
    assert caught.value.rule == "callback"
    assert not asked.pays


def test_offers_that_are_nonsense(make: Make) -> None:
    accepts: list[Any] = [1, None, {"network": 1}, {"network": "base", "asset": []}, requirement(scheme=7)]
    seller = FakeSeller(FINE, unpaid=Says(402, [("PAYMENT-REQUIRED", encoded({"x402Version": 2, "accepts": accepts}))]))
    assert make(seller, FakePurser(), max_amount="10000").buy(Buy()).body == b"goods"


@pytest.mark.parametrize("signed", [encoded({}), encoded({"payload": {"authorization": {"to": 1, "value": 2}}})])
def test_signed_terms_that_are_nonsense(make: Make, signed: str) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    asked.pay = lambda _: says_json(200, paid_answer(signed))
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(seller, asked, max_amount=10000).buy(Buy())
    assert (caught.value.rule, caught.value.payment_id) == ("signed-terms", PAYMENT_ID)
    assert not seller.payments


@pytest.mark.parametrize(
    "header",
    [
        "{" * 5000,
        '{"x402Version":true,"accepts":[]}',
        '{"x402Version":NaN,"accepts":[]}',
        '{"accepts":[7]}',
        "A" * (129 << 10),
        encoded([1])[:-3] + "!",
        "a",
        "e" * 5,
        encoded("x") + "====",
    ],
)
def test_hostile_challenges(make: Make, header: str) -> None:
    asked = FakePurser()
    with pytest.raises(purserpay.InvalidChallengeError):
        make(FakeSeller(unpaid=Says(402, [("PAYMENT-REQUIRED", header)])), asked).buy(Buy())
    assert not asked.pays


def test_deeply_nested_body_is_not_ours(make: Make) -> None:
    body = b'{"a":' * 10_000 + b"1"
    assert make(FakeSeller(unpaid=Says(402, [], body)), FakePurser()).buy(Buy()).body == body


# Receipts.


def test_receipts_are_tried_twice_and_never_matter(make: Make) -> None:
    for report in (_raise(Lost), lambda _: Says(500), lambda _: Says(200, [], b"nonsense")):
        asked, seller = FakePurser(), FakeSeller(FINE)
        asked.report = report
        got = make(seller, asked).buy(Buy())
        assert got.body == b"goods"
        assert len(asked.receipts) == 2
        assert got.payment is not None
        assert got.payment.state == "open"


def _raise(kind: type[Exception]) -> Callable[[Seen], Says]:
    def raising(_: Seen) -> Says:
        raise kind

    return raising


def test_second_try_of_a_receipt(make: Make) -> None:
    asked = FakePurser()
    asked.report = lambda _: says_json(200, {"payment": journaled()}) if len(asked.receipts) == 2 else _raise(Lost)(_)
    got = make(FakeSeller(FINE), asked).buy(Buy())
    assert got.payment is not None
    assert got.payment.state == "settled"


def test_no_receipt_without_a_payment_id(make: Make) -> None:
    asked = FakePurser()
    asked.pay = lambda _: says_json(200, {"paymentSignature": signature()})
    assert make(FakeSeller(FINE), asked).buy(Buy()).body == b"goods"
    assert not asked.receipts


def test_waits_of_the_payers() -> None:
    assert _payers.RECEIPT_TRIES == 2


# Redirects.


def test_redirects_never_carry_the_payment(make: Make) -> None:
    moved = Says(302, [("Location", "https://other.example/there"), ("PAYMENT-RESPONSE", receipt())])
    asked = FakePurser()
    seen: list[Seen] = []

    def server(request: Seen) -> Says:
        seen.append(request)
        if request.url.startswith("https://other.example"):
            return Says(200, [], b"there")
        return moved if FakeSeller.payment(request) else Says(402, [("PAYMENT-REQUIRED", challenge())])

    got = make(server, asked).buy(Buy(follow=True, headers=[("Authorization", "Bearer x")]))
    assert got.body == b"there"
    assert got.payment is not None
    assert len(asked.receipts) == 1
    last = seen[-1].headers
    assert not {"payment-signature", "x-payment", "x-api-key", "authorization"} & set(last)


@pytest.mark.parametrize("where", ["https://other.example/there", "/there"])
def test_a_request_is_paid_once_through_all_redirects(make: Make, where: str) -> None:
    asked = FakePurser()
    seen: list[Seen] = []

    def server(request: Seen) -> Says:
        seen.append(request)
        if FakeSeller.payment(request):
            return Says(307, [("Location", where)])
        return Says(402, [("PAYMENT-REQUIRED", challenge(error="again"))])

    with pytest.raises(purserpay.RejectedError) as caught:
        make(server, asked).buy(Buy(follow=True))
    assert caught.value.payment_id is not None
    assert caught.value.reason == "again"
    assert asked.payments == 1
    assert len([request for request in seen if FakeSeller.payment(request)]) == 1


def test_the_end_of_redirects_is_paid(make: Make) -> None:
    asked = FakePurser()

    def server(request: Seen) -> Says:
        if request.url.startswith("https://api.example.com"):
            return Says(307, [("Location", "https://other.example/there")])
        if FakeSeller.payment(request):
            return Says(200, [], request.body)
        return Says(402, [("PAYMENT-REQUIRED", challenge())])

    for stream in (False, True):
        got = make(server, asked).buy(Buy(method="POST", body=b"order", stream=stream, follow=True))
        assert got.body == b"order"
    assert json.loads(asked.pays[0].body)["requestUrl"] == "https://other.example/there"


def test_no_answer_says_where_the_payment_went(make: Make) -> None:
    got = make(FakeSeller(FINE), FakePurser()).buy(Buy())
    # Answers of urllib3 do not tell their request.
    request = getattr(got.native, "request", None) or getattr(got.native, "request_info", None)
    assert request is not None or isinstance(got.native, urllib3.HTTPResponse)
    assert "payment-signature" not in {name.lower() for name in getattr(request, "headers", ())}
