"""What programs can do with errors: print them, send them to other processes, find them behind other errors."""

from __future__ import annotations

import pickle
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import httpx
import pytest

import purserpay

from .clients import AsyncHttpxClient, Buy, Client, HttpxClient, Lost, Refused, Says, Seen, options
from .conftest import Make
from .world import PAYMENT_ID, FakePurser, FakeSeller, says_json


def unclear(make: Make) -> purserpay.UnclearError:
    with pytest.raises(purserpay.UnclearError) as caught:
        make(FakeSeller(Lost), FakePurser()).buy(Buy(url="https://api.example.com/paid?secret"))
    return caught.value


def test_str_names_payment_amount_and_host(make: Make) -> None:
    error = unclear(make)
    assert str(error).endswith(f"(payment {PAYMENT_ID}, 0.01 USDC, api.example.com)")
    assert (error.amount, error.host) == ("10000", "api.example.com")


def test_tracebacks_name_what_programs_import(make: Make) -> None:
    (said,) = traceback.format_exception_only(unclear(make))
    assert said.startswith("purserpay.UnclearError: ")


def test_nothing_stands_twice() -> None:
    known: dict[str, Any] = {"url": "https://api.example.com/paid", "amount": "10000"}
    for said, ends in (
        ("0.01 USDC would pass the budget", "budget (api.example.com)"),
        ("10.01 USDC would pass the budget", "budget (0.01 USDC, api.example.com)"),
        ("api.example.com takes 0.01 USDC", "takes 0.01 USDC"),
        ("see https://www.api.example.com", "(0.01 USDC, api.example.com)"),
    ):
        assert str(purserpay.DeclinedError(said, **known)).endswith(ends)


def test_refusals_name_amount_and_host(make: Make) -> None:
    with pytest.raises(purserpay.RefusedByCallerError) as caught:
        make(FakeSeller(), FakePurser(), before_payment=lambda _: False).buy(Buy())
    assert str(caught.value).endswith("(0.01 USDC, api.example.com)")


def test_pickled(make: Make) -> None:
    error = unclear(make)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is purserpay.UnclearError
    assert str(again) == str(error)
    assert (again.payment_id, again.idempotency_key) == (PAYMENT_ID, error.idempotency_key)
    assert again.money_may_have_moved
    with pytest.raises(RuntimeError, match="only the client that paid"):
        again.resume()


def kinds() -> list[purserpay.PurserError]:
    about: dict[str, Any] = {"payment_id": PAYMENT_ID, "url": "https://api.example.com/paid", "response": object()}
    quote: Any = {"price": "0.01 USDC"}
    with_more: dict[type[purserpay.PurserError], dict[str, Any]] = {
        purserpay.NoWalletError: {"network": "base"},
        purserpay.LimitReachedError: {"upgrade_url": "https://example.com"},
        purserpay.DeclinedError: {"rule": "daily-budget", "facilitator": {"valid": False}, "left": "0.00 USDC"},
        purserpay.DryRunError: {"quote": quote},
        purserpay.RefusedByCallerError: {"rule": "host"},
        purserpay.RejectedError: {"reason": "nonce"},
    }
    known = [kind for kind in vars(purserpay).values() if isinstance(kind, type)]
    errors = [kind for kind in known if issubclass(kind, purserpay.PurserError)]
    return [kind("why", **with_more.get(kind, {}), **about) for kind in errors]


@pytest.mark.parametrize("error", kinds(), ids=lambda error: type(error).__name__)
def test_every_kind_is_pickled(error: purserpay.PurserError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert {**again.__dict__, "response": error.response} == error.__dict__
    assert again.response is None
    assert str(again) == str(error)


def buys_elsewhere() -> None:
    client = HttpxClient(options(), FakeSeller(Lost), FakePurser())
    try:
        client.buy(Buy())
    finally:
        client.close()


@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12: this process has threads
def test_processes_hand_errors_on(start: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context(start)) as pool:
        with pytest.raises(purserpay.UnclearError) as caught:
            pool.submit(buys_elsewhere).result(60)
    assert caught.value.payment_id == PAYMENT_ID


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        (says_json(402, {"error": "no", "payment": {"state": "void"}}), purserpay.DeclinedError, False),
        (says_json(429, {"error": "slow"}), purserpay.LimitReachedError, False),
        (Says(429, [("Retry-After", "7")], b"{}"), purserpay.LimitReachedError, True),
        (says_json(401, {"error": "who"}), purserpay.KeyNotResolvedError, False),
        (Says(500), purserpay.PurserUnreachableError, True),
    ],
)
def test_what_may_be_repeated(make: Make, answer: Says, kind: type[purserpay.PurserError], retryable: bool) -> None:
    asked = FakePurser()
    asked.pay = lambda _: answer
    with pytest.raises(kind) as caught:
        make(FakeSeller(), asked).buy(Buy())
    assert (caught.value.retryable, caught.value.money_may_have_moved) == (retryable, False)


def test_money_may_have_moved(make: Make) -> None:
    """A rate limit after a lost answer does not mean that nothing was paid."""
    asked = FakePurser()
    client = make(FakeSeller(Lost), asked)
    with pytest.raises(purserpay.UnclearError) as lost:
        client.buy(Buy())
    asked.pay = lambda _: says_json(429, {"error": "slow"})
    with pytest.raises(purserpay.LimitReachedError) as limited:
        client.buy(Buy())
    assert lost.value.retryable
    assert lost.value.money_may_have_moved
    assert limited.value.money_may_have_moved


def test_only_unclear_leaves_after_a_payment(make: Make) -> None:
    """Whatever an HTTP library raises after purser has settled, money may have moved."""

    class Odd(Exception):
        pass

    def breaks(seen: Seen) -> Says:
        if FakeSeller.payment(seen):
            raise Odd
        return seller(seen)

    seller, asked = FakeSeller(), FakePurser()
    with pytest.raises(purserpay.UnclearError) as caught:
        make(breaks, asked, settlement="payer").buy(Buy())
    assert caught.value.payment_id == PAYMENT_ID
    assert isinstance(caught.value.__cause__, Odd)


class Torn(bytes):
    """A body that breaks while it is read."""

    def __getitem__(self, at: Any) -> Any:
        raise httpx.ReadError("torn")


@pytest.mark.parametrize("kind", [HttpxClient, AsyncHttpxClient])
def test_a_torn_402_after_the_payment_is_unclear(kind: type[Client]) -> None:
    asked, seller = FakePurser(), FakeSeller(Says(402, [], Torn(b"{ torn")), Says(200, [], b"goods"))
    client = kind(options(), seller, asked)
    with pytest.raises(purserpay.UnclearError) as caught:
        client.buy(Buy())
    assert caught.value.payment_id == PAYMENT_ID
    assert client.resume(caught.value).body == b"goods"
    client.close()


@pytest.mark.parametrize("fault", [Lost, Refused])
def test_large_bodies_are_paid_once(make: Make, fault: type[Exception]) -> None:
    seller, asked = FakeSeller(fault, fault, Says(200, [], b"goods")), FakePurser()
    client, what = make(seller, asked), Buy(method="POST", body=b"x" * (17 << 20))
    with pytest.raises(purserpay.UnclearError):
        client.buy(what)
    assert client.buy(what).body == b"goods"
    assert asked.payments == 1


def test_found_behind_others() -> None:
    ours = purserpay.DeclinedError("no")
    wrapped = RuntimeError("Connection error.")
    wrapped.__cause__ = ValueError()
    wrapped.__cause__.__context__ = ours
    assert purserpay.purser_error_of(wrapped) is ours
    assert purserpay.purser_error_of(ours) is ours
    assert purserpay.purser_error_of(ValueError()) is None
    assert purserpay.purser_error_of(None) is None
