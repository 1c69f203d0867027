"""Sellers that speak MPP, and a purser that hands out credentials for them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import purserpay
from purserpay import _asked, _finding, _flow, _mpp, _steps, _wire

from .clients import BASE, KEY, Buy, Lost, Says, Seen
from .conftest import Make
from .connections import KINDS, buy_with, played, serving
from .test_paying import no_sleep
from .test_vectors import camel
from .world import FakePurser, says_json, vectors

PROBLEM = {"type": "https://paymentauth.org/problems/verification-failed", "title": "Payment verification failed"}
EXCHANGES = {case["name"]: case for case in vectors("mpp.json")["exchanges"]}
WHOLE = EXCHANGES["the credential is sent in the header that purser names"]


@pytest.mark.parametrize("case", vectors("mpp.json")["challenges"], ids=lambda case: str(case["name"]))
def test_challenges(case: dict[str, Any]) -> None:
    headers = {"Authorization": case["authorization"]} if "authorization" in case else {}
    request = _steps.Request(
        "GET", "https://api.example.com/", None, said=_asked.said("GET", "https://api.example.com/", headers)
    )
    reply = _steps.Reply(402, {name.lower(): value for name, value in case["headers"]}, None)
    steps = _finding.find(purserpay.Options(api_key=KEY, base_url=BASE), request, reply)

    def find() -> Any:
        try:
            next(steps)  # the body
            while True:
                steps.send(case.get("body", "").encode())
        except StopIteration as end:
            return end.value

    if case["expect"]["kind"] == "refused":
        with pytest.raises(purserpay.RefusedByCallerError) as caught:
            find()
        assert caught.value.rule == "authorization-in-use"
        return
    found = find()
    if case["expect"]["kind"] == "none":
        assert found is None
        return
    assert found.header == case["expect"]["sent"]
    given = [camel(offer) for offer in found.offers]
    wanted = [dict(offer) for offer in case["expect"]["offers"]]
    for offer, want in zip(given, wanted, strict=True):
        if want["amount"] == "":  # Python says more of what is no text
            assert _wire.canonical_amount(offer.pop("amount")) is None
            del want["amount"]
    assert given == wanted


class Seller:
    """Asks by MPP, and answers credentials as a case says. Each challenge is another one."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.seen: list[Seen] = []
        self.sent: list[str] = []

    def __call__(self, seen: Seen) -> Says:
        self.seen.append(seen)
        given = seen.headers.get(self.case["paymentHeader"].lower())
        if given != self.case["paymentSignature"]:
            return self.says(402, asks=True)
        self.sent.append(str(given))
        said = self.case["seller"][len(self.sent) - 1]
        if said == "lost":
            raise Lost
        return self.says(said["status"], *said.get("headers", []), asks=said.get("asks", False))

    def says(self, status: int, *headers: list[str], asks: bool = False) -> Says:
        asked = [one.replace("%d", str(len(self.seen))) for one in self.case["asks"]] if asks else []
        more = [("WWW-Authenticate", one) for one in asked] + [(name, value) for name, value in headers]
        return Says(status, [("Content-Type", "application/problem+json"), *more], json.dumps(PROBLEM).encode())


def purser(case: dict[str, Any]) -> FakePurser:
    made = FakePurser()
    payment = {"id": "p1", "state": "open", "flags": [], "validBefore": "2026-11-22T10:00:00.000Z"}
    given = {name: case[name] for name in ("paymentHeader", "paymentSignature")}
    made.pay = lambda _: says_json(200, {**given, "settled": False, "transaction": "", "payment": payment})
    return made


def own(case: dict[str, Any]) -> list[tuple[str, str]]:
    return [("Authorization", case["authorization"])] if "authorization" in case else []


@pytest.mark.parametrize("case", EXCHANGES.values(), ids=lambda case: str(case["name"]))
def test_exchanges(make: Make, case: dict[str, Any]) -> None:
    asked, seller, expect = purser(case), Seller(case), case["expect"]
    client = make(seller, asked, max_amount=case.get("options", {}).get("maxAmount"))
    if "code" in expect:
        with pytest.raises(purserpay.PurserError) as caught:
            client.buy(Buy(headers=own(case)))
        assert caught.value.code == expect["code"]
        if "reason" in expect:
            assert isinstance(caught.value, purserpay.RejectedError)
            assert caught.value.reason == expect["reason"]
        shown = repr(caught.value) + str(caught.value)
        assert len(case["paymentSignature"]) < 60 or case["paymentSignature"][8:60] not in shown
    else:
        got = client.buy(Buy(headers=own(case)))
        assert got.status == expect["status"]
        if "amount" in expect:
            assert got.payment is not None
            assert got.payment.amount == expect["amount"]
    assert (len(seller.sent), len(asked.pays)) == (expect["sends"], expect["pays"])
    client.close()
    assert [json.loads(seen.body)["receipt"] for seen in asked.receipts] == expect["posted"]
    for seen in asked.pays[:1]:
        assert json.loads(seen.body)["paymentRequiredHeader"].startswith('Payment id="fresh-1"')
    if "authorization" in case:
        assert {seen.headers["authorization"] for seen in seller.seen} == {case["authorization"]}


def test_a_program_repeats_with_the_same_credential(make: Make) -> None:
    ask = {"status": 402, "asks": True}
    case = {**WHOLE, "seller": [ask, ask, ask, {"status": 200}]}
    asked, seller = purser(case), Seller(case)
    client = make(seller, asked)
    with pytest.raises(purserpay.RejectedError):
        client.buy(Buy())
    assert client.buy(Buy()).status == 200
    assert len(seller.sent) == 4
    assert len(set(asked.keys)) == 1


def test_an_authorization_of_its_own_stays_unpaid(make: Make) -> None:
    asked, seller = purser(WHOLE), Seller(WHOLE)
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(seller, asked).buy(Buy(headers=[("Authorization", "Bearer own")]))
    assert caught.value.rule == "authorization-in-use"
    assert caught.value.url == "https://api.example.com/paid"
    assert not asked.pays
    assert len(seller.seen) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [0, 1, 2])
def test_real_connections(kind: str, again: int) -> None:
    ask = {"status": 402, "asks": True}
    case = {**WHOLE, "seller": [ask] * again + [{"status": 200}]}
    asked, seller = purser(case), Seller(case)
    with serving(played(asked)) as api, serving(played(seller)) as shop:
        status, _ = buy_with(kind, purserpay.Options(api_key=KEY, base_url=api), shop)
    assert (status, len(seller.sent), len(asked.pays)) == (200, again + 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [302, 307])
def test_no_credential_goes_to_another_origin(kind: str, status: int) -> None:
    asked = purser(WHOLE)
    strangers: list[Seen] = []

    def stranger(seen: Seen) -> Says:
        strangers.append(seen)
        return Says(200, [], b"led here")

    with serving(played(stranger)) as end, serving(played(asked)) as api:

        def shop(seen: Seen) -> Says:
            if seen.headers.get("authorization") != WHOLE["paymentSignature"]:
                return Says(402, [("WWW-Authenticate", WHOLE["asks"][0])])
            return Says(status, [("Location", end.replace("127.0.0.1", "localhost"))])

        follow: dict[str, Any] = {"follow_redirects": True} if kind.startswith("httpx") else {}
        if kind == "urllib3":
            follow = {"retries": 3}
        with serving(played(shop)) as url:
            got, body = buy_with(kind, purserpay.Options(api_key=KEY, base_url=api), url, **follow)
    assert (got, body) == (200, b"led here")
    assert len(strangers) == 1
    assert not {"authorization", "payment-authorization"} & set(strangers[0].headers)


@pytest.mark.parametrize("value", ['Payment a="' + '\\"' * 50_000, "Payment " * 10_000, 'a="' * 30_000, '"\\' * 40_000])
def test_long_headers_are_read_in_time(value: str) -> None:
    began = time.monotonic()
    _mpp.asked({"www-authenticate": value})
    assert time.monotonic() - began < 5


def test_pauses_grow(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flow, "BEFORE_RESEND", 0.5)
    waited: list[float] = []
    no_sleep(monkeypatch, waited)
    ask = {"status": 402, "asks": True}
    for second, want in ((ask, 1.0), ({**ask, "headers": [["Retry-After", "3"]]}, 3.0)):
        case = {**WHOLE, "seller": [ask, second, {"status": 200}]}
        assert make(Seller(case), purser(case)).buy(Buy()).status == 200
        assert waited == [0.5, want]
        waited.clear()
