"""Payments of which the outcome is not known: resumed, and repeated by the program."""

from __future__ import annotations

from typing import Any

import pytest

import purserpay
from purserpay import _memory

from .clients import Buy, Lost, Refused, Says, Seen
from .conftest import Make
from .world import (
    BUSY,
    FINE,
    FakePurser,
    FakeSeller,
    says_json,
    signature,
)


def test_unclear_and_resumed(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, BUSY, FINE)
    client = make(seller, asked)
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy())
    error = caught.value
    assert error.payment_id is not None
    assert error.__cause__ is not None
    assert error.idempotency_key == asked.keys[0]
    assert client.unclear == (error,)
    assert signature() not in f"{error!r} {error} {error.__dict__}"
    got = client.resume(error)
    assert (got.status, got.body) == (200, b"goods")
    assert got.payment is not None
    assert len(asked.pays) == 1
    assert len(set(seller.payments)) == 1
    with pytest.raises(RuntimeError, match="brought to an end"):
        client.resume(error)
    # It was brought to an end: the same request is a new purchase.
    seller._paid = [FINE]
    client.buy(Buy())
    assert asked.payments == 2


def test_resume_may_be_unclear_again(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost)
    client = make(seller, asked)
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy())
    with pytest.raises(purserpay.UnclearError) as again:
        client.resume(caught.value)
    assert again.value.payment_id == caught.value.payment_id
    assert len(seller.payments) == 4
    assert len(set(seller.payments)) == 1


def test_resume_of_what_was_never_handed_out(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    pay = asked.pay

    def lost(_: Seen) -> Says:
        raise Lost

    asked.pay = lost
    client = make(seller, asked, settlement="payer")
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy())
    assert caught.value.payment_id is None
    assert len(asked.pays) == 3
    asked.pay = pay
    assert client.resume(caught.value).body == b"goods"
    assert len(set(asked.keys)) == 1


def test_resume_under_the_programs_key(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, FINE)
    client = make(seller, asked)
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy(headers=[("Idempotency-Key", "mine")]))
    assert client.resume(caught.value).body == b"goods"
    assert asked.keys == ["mine"]


def test_payer_that_was_never_reached(make: Make) -> None:
    def refused(_: Seen) -> Says:
        raise Refused

    asked = FakePurser()
    asked.pay = refused
    with pytest.raises(purserpay.PurserUnreachableError) as caught:
        make(FakeSeller(), asked, settlement="payer").buy(Buy())
    assert caught.value.__cause__ is not None
    assert len(asked.pays) == 3


def test_lost_answer_of_purser_is_asked_for_again(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    pay = asked.pay

    def lost_once(seen: Seen) -> Says:
        said = pay(seen)
        if len(asked.pays) == 1:
            raise Lost
        return said

    asked.pay = lost_once
    assert make(seller, asked).buy(Buy()).body == b"goods"
    assert len(asked.pays) == 2
    assert asked.payments == 1
    assert asked.pays[0].body == asked.pays[1].body


# Repeats by the program.


@pytest.mark.parametrize("outcome", [Lost, Says(402, [], b""), BUSY, Says(404, [], b"")])
def test_repeats_are_the_same_payment(make: Make, outcome: Any) -> None:
    asked, seller = FakePurser(), FakeSeller(outcome)
    client = make(seller, asked)
    for _ in range(3):
        _bought(client, Buy(method="POST", body=b"order"))
    assert asked.payments == 1
    _bought(client, Buy(method="POST", body=b"another order"))
    assert asked.payments == 2
    seller._paid = [FINE]
    assert client.buy(Buy(method="POST", body=b"order")).body == b"goods"
    assert asked.payments == 2
    assert client.buy(Buy(method="POST", body=b"order")).body == b"goods"
    assert asked.payments == 3


def _bought(client: Any, what: Buy) -> None:
    try:
        client.buy(what)
    except purserpay.PurserError:
        return


def test_refusals_end_it(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(FINE)
    pay = asked.pay
    asked.pay = lambda _: says_json(402, {"error": "Payment refused by policy", "rule": "host"})
    client = make(seller, asked)
    with pytest.raises(purserpay.DeclinedError):
        client.buy(Buy())
    asked.pay = pay
    client.buy(Buy())
    assert len(set(asked.keys)) == 2


def test_a_rate_limit_does_not_end_an_open_payment(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost)
    pay = asked.pay
    client = make(seller, asked)
    with pytest.raises(purserpay.UnclearError):
        client.buy(Buy())
    asked.pay = lambda _: says_json(429, {"error": "Too many requests", "upgradeUrl": "x"})
    with pytest.raises(purserpay.LimitReachedError):
        client.buy(Buy())
    asked.pay, seller._paid = pay, [FINE]
    assert client.buy(Buy()).body == b"goods"
    assert asked.payments == 1


def test_the_programs_keys_are_not_remembered(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost)
    client = make(seller, asked)
    with pytest.raises(purserpay.UnclearError):
        client.buy(Buy(headers=[("Idempotency-Key", "mine")]))
    with pytest.raises(purserpay.UnclearError), purserpay.idempotency_key("around"):
        client.buy(Buy())
    with pytest.raises(purserpay.UnclearError):
        client.buy(Buy())
    assert asked.keys[:2] == ["mine", "around"]
    assert asked.keys[2].startswith("client-")


def test_memory_forgets() -> None:
    now = [0.0]
    memory = _memory.Memory(lambda: now[0])
    one = frozenset({("GET", "https://a.example/", b"")})
    memory.put(one, "k1")
    memory.put(one, "k2")
    assert memory.take(one) == ("k1", _memory.KEPT)
    assert memory.take(one) == ("k2", _memory.KEPT)
    assert memory.take(one) is None
    memory.put(one, "k3")
    now[0] = _memory.KEPT - 1
    memory.put(one, "k4")
    now[0] = _memory.KEPT + 1
    assert memory.take(one) == ("k4", 2 * _memory.KEPT - 1)
    many = [frozenset({("GET", str(n), b"")}) for n in range(_memory.MOST + 1)]
    for n, which in enumerate(many):
        memory.put(which, f"k{n}")
    assert memory.take(many[0]) is None
    assert memory.take(many[1]) == ("k1", 2 * _memory.KEPT + 1)
    memory.put(one, "one")
    assert memory.drop("one") == now[0] + _memory.KEPT
    assert memory.drop("one") is None
    assert memory.take(one) is None
    memory = _memory.Memory(lambda: now[0])
    memory.put(one, "k6")
    memory.put(one, "k7", now[0] + 5)
    memory.put(one, "k8", now[0])
    assert memory.take(one) == ("k7", now[0] + 5)
    now[0] += 6
    assert memory.take(one) == ("k6", now[0] - 6 + _memory.KEPT)


def test_one_identity_in_common_is_enough() -> None:
    memory = _memory.Memory()
    asked, first, second = (("GET", f"https://a.example/{n}", b"") for n in range(3))
    memory.put(frozenset({asked, first}), "k")
    assert memory.take(frozenset({second})) is None
    taken = memory.take(frozenset({asked, second}))
    assert taken is not None
    memory.put(frozenset({asked, first}), "k", taken[1])
    memory.put(frozenset({asked, first}), "k", taken[1])
    assert memory.take(frozenset({first})) == ("k", taken[1])
    assert memory.take(frozenset({first})) is None, "a key serves one request at a time"
