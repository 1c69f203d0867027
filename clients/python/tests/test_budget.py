"""What a client may spend in its life, what is told of payments, and times of a single request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import purserpay
from purserpay._budget import Budget

from .clients import Buy, Lost, Refused, Says
from .conftest import Make
from .world import PAY_TO, PAYMENT_ID, FakePurser, FakeSeller, challenge, requirement, says_json, signature


def at(n: int) -> Buy:
    return Buy(url=f"https://api.example.com/{n}")


def test_a_budget_is_not_passed(make: Make) -> None:
    asked = FakePurser()
    client = make(FakeSeller(), asked, budget="0.025 USDC")
    for n in range(2):
        assert client.buy(at(n)).body == b"goods"
    with pytest.raises(purserpay.RefusedByCallerError, match=r"budget of 0\.025 USDC; 0\.005 USDC left") as caught:
        client.buy(at(2))
    assert caught.value.rule == "budget"
    assert not caught.value.money_may_have_moved
    assert asked.payments == 2


def test_a_repeat_costs_nothing_more(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, Says(200, [], b"goods"))
    client = make(seller, asked, budget="0.01 USDC")
    with pytest.raises(purserpay.UnclearError):
        client.buy(at(1))
    assert client.buy(at(1)).body == b"goods"
    with pytest.raises(purserpay.RefusedByCallerError, match=r"0\.00 USDC left"):
        client.buy(at(1))
    assert asked.payments == 1


@pytest.mark.parametrize("fault", ["declined", "unreachable"])
def test_what_was_not_paid_is_not_counted(make: Make, fault: str) -> None:
    asked = FakePurser()
    own = asked.pay

    def refuse(_: Any) -> Says:
        if fault == "declined":
            return says_json(402, {"error": "Payment refused by policy"})
        raise Refused

    client = make(FakeSeller(), asked, budget=10_000)
    for _ in range(3):
        asked.pay = refuse
        with pytest.raises(purserpay.PurserError):
            client.buy(at(1))
    asked.pay = own
    assert client.buy(at(1)).body == b"goods"
    assert asked.payments == 1


def test_what_is_unclear_is_counted(make: Make) -> None:
    client = make(FakeSeller(Lost), FakePurser(), budget=10_000)
    with pytest.raises(purserpay.UnclearError):
        client.buy(at(1))
    with pytest.raises(purserpay.RefusedByCallerError):
        client.buy(at(2))


def test_what_was_signed_for_counts(make: Make) -> None:
    dear = Says(402, [("PAYMENT-REQUIRED", challenge(requirement("10000"), requirement("20000")))])
    asked = FakePurser()
    client = make(FakeSeller(unpaid=dear), asked, budget=30_000)
    for n in range(2):  # purser takes the cheaper offer each time
        assert client.buy(at(n)).body == b"goods"
    with pytest.raises(purserpay.RefusedByCallerError):  # the dearer one would not fit
        client.buy(at(3))


def test_more_than_offered_is_refused_with_a_budget(make: Make) -> None:
    asked = FakePurser()
    asked.pay = lambda _: says_json(200, {"paymentSignature": signature("20000")})
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(FakeSeller(), asked, budget=100_000).buy(at(1))
    assert caught.value.rule == "signed-terms"


def test_an_offer_without_amount_is_refused_with_a_budget(make: Make) -> None:
    unpaid = Says(402, [("PAYMENT-REQUIRED", challenge(requirement("0x10")))])
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(FakeSeller(unpaid=unpaid), FakePurser(), budget=100_000).buy(at(1))
    assert caught.value.rule == "budget"


def test_many_keys() -> None:
    budget = Budget(10_000)
    assert all(budget.take(str(n), 1) for n in range(10_000))
    assert not budget.take("last", 1)
    assert budget.take("9999", 1)
    assert budget.left == 0


# Spans.


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    return memory


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


def test_a_payment_has_a_span(make: Make, spans: InMemorySpanExporter) -> None:
    make(FakeSeller(), FakePurser(), task="reports").buy(Buy())
    (span,) = spans.get_finished_spans()
    assert span.name == "purser.payment"
    known = dict(span.attributes or {})
    assert known["purser.payment.id"] == PAYMENT_ID
    assert (known["purser.amount"], known["purser.pay_to"]) == ("10000", PAY_TO.lower())
    assert (known["server.address"], known["purser.task"]) == ("api.example.com", "reports")
    assert "error.type" not in known


def test_an_error_is_in_its_span(make: Make, spans: InMemorySpanExporter) -> None:
    with pytest.raises(purserpay.UnclearError):
        make(FakeSeller(Lost), FakePurser()).buy(Buy())
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "unclear"
    assert span.status.status_code is trace.StatusCode.ERROR
    assert PAYMENT_ID in (span.status.description or "")


def test_other_402s_have_no_span(make: Make, spans: InMemorySpanExporter) -> None:
    assert make(FakeSeller(unpaid=Says(402, [], b"no")), FakePurser()).buy(Buy()).status == 402
    assert not spans.get_finished_spans()


# Times of one request.


def test_times_of_one_request(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    done, own = list[Any](), purserpay._payers._Base._do

    async def do(self: Any, step: Any, wire: Any) -> Any:
        done.append(step)
        return await own(self, step, wire)

    monkeypatch.setattr(purserpay._payers._Base, "_do", do)
    client = make(FakeSeller(), FakePurser(), pay_timeout=8, paid_timeout=9)
    with purserpay.terms(pay_timeout=2, paid_timeout=3):
        client.buy(at(1))
    client.buy(at(2))
    assert [step.timeout for step in done if isinstance(step, purserpay._flow.Post)] == [2, 8]
    assert [step.timeout for step in done if isinstance(step, purserpay._flow.Send)] == [3, 9]


def test_times_are_checked_when_they_are_given() -> None:
    for name in ("pay_timeout", "paid_timeout"):
        for value in (0, -1, float("nan"), 1e9):
            more: Any = {name: value}
            with pytest.raises(ValueError, match=name), purserpay.terms(**more):
                pass


def test_nothing_of_it_is_sent(make: Make) -> None:
    asked = FakePurser()
    make(FakeSeller(), asked, budget=10_000).buy(Buy())
    assert "budget" not in json.loads(asked.pays[0].body)
