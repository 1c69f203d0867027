"""The vectors that both languages share."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
import re
from typing import Any

import pytest

import purserpay
from purserpay import _asked, _calls, _models, _wire

from .clients import Buy, Lost, Says, Seen, held, status
from .conftest import Make
from .world import FakePurser, FakeSeller, paid_answer, receipt, says_json, signature, vectors


def cases(name: str, part: str = "cases") -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in vectors(name)[part]]


def camel(offer: _wire.Offer) -> dict[str, str]:
    return {
        "network": offer.network,
        "scheme": offer.scheme,
        "amount": offer.amount,
        "asset": offer.asset,
        "payTo": offer.pay_to,
    }


@pytest.mark.parametrize("case", cases("challenges.json"))
def test_challenges(make: Make, case: dict[str, Any]) -> None:
    asked = FakePurser()
    seller = FakeSeller(unpaid=Says(402, [(n, v) for n, v in case["headers"]], case["body"].encode()))
    client = make(seller, asked, challenge_headers=case["extraHeaders"])
    expect = case["expect"]
    if expect["kind"] == "invalid":
        with pytest.raises(purserpay.InvalidChallengeError) as caught:
            client.buy(Buy())
        assert held(caught.value.response) == case["body"].encode()
        assert not asked.pays
        return
    got = client.buy(Buy())
    if expect["kind"] == "none":
        assert (got.status, got.body) == (402, case["body"].encode())
        assert got.payment is None
        assert not asked.pays
        return
    assert got.body == b"goods"
    assert [json.loads(seen.body)["paymentRequiredHeader"] for seen in asked.pays] == [expect["sent"]]


@pytest.mark.parametrize("case", cases("challenges.json"))
def test_offers(case: dict[str, Any]) -> None:
    headers = {name.lower(): value for name, value in case["headers"]}
    if _wire.dealt_with(headers):
        assert case["expect"]["kind"] == "none"
        return
    try:
        found = _wire.challenge_in_headers(headers, case["extraHeaders"])
        found = found or _wire.challenge_in_body(case["body"].encode())
    except ValueError:
        assert case["expect"]["kind"] == "invalid"
        return
    if found is None:
        assert case["expect"]["kind"] == "none"
        return
    assert found.version == case["expect"]["version"]
    assert [camel(offer) for offer in found.offers] == case["expect"]["offers"]


@pytest.mark.parametrize("case", cases("caps.json"))
def test_caps(make: Make, case: dict[str, Any]) -> None:
    asked, seller = FakePurser(), FakeSeller(unpaid=Says(402, [("PAYMENT-REQUIRED", case["challenge"])]))
    signed = signature(**case["signed"]) if case["signed"] else base64.b64encode(b"no payload").decode()
    asked.pay = lambda _: says_json(200, paid_answer(signed))
    given: dict[str, Any] = {}
    if "maxAmount" in case["options"]:
        given["max_amount"] = case["options"]["maxAmount"]
    if "allowHosts" in case["options"]:
        given["allow_hosts"] = case["options"]["allowHosts"]
    if "beforePayment" in case["options"]:
        given["before_payment"] = {
            "false": lambda _: False,
            "true": lambda _: True,
            "nothing": lambda _: None,
            "throw": lambda _: 1 // 0,
        }[case["options"]["beforePayment"]]
    client, what = make(seller, asked, **given), Buy(url=case["url"])
    if case["expect"] == "pay":
        assert client.buy(what).body == b"goods"
        assert seller.payments == [signed]
        return
    with pytest.raises(purserpay.PurserError) as caught:
        client.buy(what)
    assert not seller.payments
    if case["expect"] == "invalid-challenge":
        assert caught.value.code == "invalid-challenge"
        return
    assert isinstance(caught.value, purserpay.RefusedByCallerError)
    assert caught.value.rule == case["expect"]
    assert (caught.value.payment_id is not None) == (case["expect"] == "signed-terms")
    assert bool(asked.pays) == (case["expect"] == "signed-terms")
    assert status(caught.value.response) == 402


@pytest.mark.parametrize("case", cases("answers.json"))
def test_answers(make: Make, case: dict[str, Any]) -> None:
    asked, seller = FakePurser(), FakeSeller()
    asked.pay = lambda _: Says(case["status"], [(n, v) for n, v in case["headers"]], case["body"].encode())
    client = make(seller, asked, settlement=case.get("settlement", "seller"))
    expect = case["expect"]
    if "header" in expect:
        got = client.buy(Buy())
        assert got.body == b"goods"
        assert seller.seen[-1].headers[expect["header"].lower()] == expect["value"]
        assert got.payment is not None
        assert got.payment.id == expect["paymentId"]
    else:
        with pytest.raises(purserpay.PurserError) as caught:
            client.buy(Buy())
        error: Any = caught.value
        assert error.code == expect["code"]
        for name, attribute in {
            "status": "status",
            "network": "network",
            "detail": "detail",
            "rule": "rule",
            "facilitator": "facilitator",
            "paymentId": "payment_id",
            "upgradeUrl": "upgrade_url",
        }.items():
            if name in expect:
                assert getattr(error, attribute) == expect[name]
        assert error.do == (tuple(expect["do"].values()) if "do" in expect else None)
        assert not seller.payments
        assert status(error.response) == 402
        assert error.url == "https://api.example.com/paid"
    assert len(asked.pays) == expect["tries"]
    assert len(set(asked.keys)) == 1
    assert len({seen.body for seen in asked.pays}) == 1


@pytest.mark.parametrize("case", cases("headers.json", "requests"))
def test_request_headers(make: Make, case: dict[str, Any]) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(402, [], b"again"))
    client = make(seller, asked)
    what = Buy(headers=[(n, v) for n, v in case["headers"]])
    if not case["touched"]:
        client.buy(what)
        assert len(seller.seen) == 1
        assert not asked.pays
        return
    with pytest.raises(purserpay.RejectedError):
        client.buy(what)
    if case.get("idempotencyKey"):
        assert asked.keys == [case["idempotencyKey"]]
    else:
        assert asked.keys[0].startswith("client-")


@pytest.mark.parametrize("case", cases("headers.json", "receipts"))
def test_receipt_headers(make: Make, case: dict[str, Any]) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(200, [(n, v) for n, v in case["headers"]], b"goods"))
    make(seller, asked).buy(Buy())
    posted = [json.loads(seen.body)["receipt"] for seen in asked.receipts]
    assert posted == ([case["posted"]] if case["posted"] else [])


def said(what: Any) -> Says:
    if what == "lost":
        raise Lost
    if what == "pays":
        return says_json(200, paid_answer())
    if isinstance(what, int):
        return Says(what)
    return Says(what["status"], [(n, v) for n, v in what["headers"]], what.get("body", "").encode())


def one_by_one(answers: list[Any]) -> Any:
    left = list(answers)

    def answer(_: Seen) -> Says:
        return said(left.pop(0))

    return answer


def sold(answers: list[Any]) -> tuple[FakeSeller, Any]:
    seller, paid = FakeSeller(), one_by_one(answers)

    def serve(seen: Seen) -> Says:
        first = seller(seen)
        return paid(seen) if seller.payment(seen) else first

    return seller, serve


def leading(serve: Any) -> Any:
    """A seller that leads each request to a URL of its own before it asks for money."""
    led = iter(range(1000))

    def answer(seen: Seen) -> Says:
        return serve(seen) if "led=" in seen.url else Says(302, [("Location", f"{seen.url}?led={next(led)}")])

    return answer


@pytest.mark.parametrize("case", cases("repeats.json"))
def test_repeats(make: Make, case: dict[str, Any]) -> None:
    asked, (_, serve) = FakePurser(), sold(case["seller"])
    asked.pay = one_by_one(case["purser"])
    cap = case.get("options", {}).get("maxAmount")
    serve = leading(serve) if case.get("moves") else serve
    first = iter(case.get("first", []))

    def answer(seen: Seen) -> Says:
        free = 402 if FakeSeller.payment(seen) else next(first, 402)
        return serve(seen) if free == 402 else Says(free)

    client = make(answer, asked, settlement=case["settlement"], max_amount=cap)
    codes: list[str | None] = []
    for n in range(len(case["expect"]["codes"])):
        headers = [(name, value) for name, value in case["says"][n]] if "says" in case else []
        try:
            client.buy(Buy(follow=True, headers=headers))
        except purserpay.PurserError as error:
            codes.append(error.code)
        else:
            codes.append(None)
    assert codes == case["expect"]["codes"]
    seen = list(dict.fromkeys(asked.keys))
    assert [seen.index(key) for key in asked.keys] == case["expect"]["keys"]


@pytest.mark.parametrize("case", cases("asked.json", "unasked"))
def test_unasked_requests(make: Make, case: dict[str, Any]) -> None:
    asked = FakePurser()
    client = make(FakeSeller(), asked)
    what = Buy(case["method"], case["url"], [(n, v) for n, v in case["headers"]])
    if case["expect"]:
        with pytest.raises(purserpay.RefusedByCallerError) as caught:
            client.buy(what)
        assert (caught.value.rule, caught.value.money_may_have_moved) == ("unasked", False)
        assert status(caught.value.response) == 402
    else:
        assert client.buy(what).status == 200
    assert len(asked.pays) == (0 if case["expect"] else 1)


@pytest.mark.parametrize("case", cases("asked.json", "waits"))
def test_waits(case: dict[str, Any]) -> None:
    headers = {name: value for name, value in case["headers"]}  # noqa: C416
    assert _asked.said("GET", "https://api.example.com/", headers).waits == case["seconds"]


@pytest.mark.parametrize("case", cases("jobs.json"))
def test_jobs(make: Make, case: dict[str, Any]) -> None:
    asked, told = FakePurser(), list[purserpay.PaymentInfo]()
    _, serve = sold([step["answer"] for step in case["steps"]])
    client = make(serve, asked, resends=0, on_payment=told.append, max_amount="0.01 USDC")
    codes, moved = list[str | None](), list[bool]()
    for step in case["steps"]:
        try:
            got = client.buy(Buy(step["method"], step["url"]))
        except purserpay.PurserError as error:
            codes.append(error.code)
            moved.append(error.money_may_have_moved)
        else:
            assert got.payment is not None
            assert got.body == step["answer"]["body"].encode()
            codes.append(None)
    expect = case["expect"]
    assert (codes, len(asked.pays), len(told)) == (expect["codes"], expect["pays"], expect["pays"])
    assert all(moved)


@pytest.mark.parametrize("case", cases("paid.json"))
def test_paid_answers(make: Make, case: dict[str, Any]) -> None:
    asked, (seller, serve) = FakePurser(), sold(case["answers"])
    client, expect = make(serve, asked), case["expect"]
    common = json.loads(base64.b64decode(signature()))
    signed = base64.b64encode(json.dumps({**common, **case.get("payment", {})}).encode()).decode()
    asked.pay = lambda _: says_json(200, paid_answer(signed))
    if "code" in expect:
        with pytest.raises(purserpay.PurserError) as caught:
            client.buy(Buy())
        assert caught.value.code == expect["code"]
        if "reason" in expect:
            assert getattr(caught.value, "reason") == expect["reason"]  # noqa: B009
    else:
        assert client.buy(Buy()).status == expect["status"]
    assert len(seller.payments) == expect["sends"]
    assert [json.loads(seen.body)["receipt"] for seen in asked.receipts] == expect["posted"]
    last = json.loads(base64.b64decode(seller.payments[-1]))
    assert last == {**common, **expect.get("slim", case.get("payment", {}))}
    for seen in seller.seen:
        asks = "no-cache" if seller.payment(seen) else None
        assert [seen.headers.get(name) for name in ("cache-control", "pragma")] == [asks, asks]


@pytest.mark.parametrize("case", cases("urls.json"))
def test_urls(make: Make, case: dict[str, Any]) -> None:
    asked, shown = FakePurser(), list[str]()
    asked.pay = lambda _: Says(403)

    def approve(info: purserpay.BeforePayment) -> bool:
        shown.append(info.url)
        return True

    client = make(FakeSeller(), asked, before_payment=approve)
    with pytest.raises(purserpay.RequestRefusedError) as caught:
        client.buy(Buy(url=case["url"]))
    assert caught.value.url == case["shown"]
    assert [json.loads(seen.body)["requestUrl"] for seen in asked.pays] == [case["requestUrl"]]
    assert shown == [case["requestUrl"]]


def members(value: Any) -> Any:
    """Write an object of the API as its JSON is, but for names and lists."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: members(one) for name, one in fields.items() if one is not None}
    return [members(one) for one in value] if isinstance(value, tuple) else value


def snake(value: Any) -> Any:
    if isinstance(value, list):
        return [snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", name): snake(one) for name, one in value.items()}


def test_objects() -> None:
    api = vectors("api.json")
    for kind, name in ((purserpay.Quote, "quote"), (purserpay.Payment, "payment")):
        read: Any = _models.read(kind, api[name])
        assert members(read) == snake(api[name])
        assert {field.name for field in dataclasses.fields(read)} == set(snake(api[name]))


@pytest.mark.parametrize("case", cases("api.json", "refusals"))
def test_offers_of_refusals(case: dict[str, Any]) -> None:
    answer = _calls.Answer(case["status"], {}, json.dumps(case["body"]).encode())
    error = _calls.refusal(answer)
    assert error.code == case["code"]
    assert members(error.offers) == snake(case["offers"] or [])
    assert pickle.loads(pickle.dumps(error)).offers == error.offers


def test_names() -> None:
    names = vectors("headers.json")["names"]
    assert names["challenge"].lower() == _wire.REQUIRED_HEADER
    assert tuple(names["payment"]) == _wire.PAYMENT_HEADERS
    assert tuple(name.lower() for name in names["receipt"]) == _wire.RECEIPT_HEADERS


def test_the_key_goes_to_purser_alone(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(200, [("PAYMENT-RESPONSE", receipt())], b"goods"))
    got = make(seller, asked).buy(Buy())
    assert got.body == b"goods"

    def shown(seen: Seen) -> str:
        return repr((seen.url, seen.headers, seen.body))

    assert not [seen for seen in seller.seen if "pk_secret" in shown(seen)]
    for seen in asked.pays + asked.receipts:
        assert seen.headers["x-api-key"] == "pk_secret_of_the_tests"
        assert seen.url.startswith("http://purser.test:8402/base/v1/")
