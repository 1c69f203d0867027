"""Whether the program lets a challenge be paid for, before purser is asked. BEHAVIOUR.md §2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _wire as wire
from ._amounts import usdc_text
from ._errors import InvalidChallengeError, NotReplayableError, RefusedByCallerError
from ._options import BeforePayment, host_allowed, is_loopback, origin
from ._steps import Ask

if TYPE_CHECKING:
    from ._context import Terms
    from ._options import Options
    from ._steps import Request, Steps

__all__ = ["any_of", "check", "smaller"]


def smaller(options: Options, terms: Terms) -> int | None:
    """Return the smaller one of the client's cap and the request's."""
    return min((one for one in (options.cap, terms.cap) if one is not None), default=None)


def any_of(options: Options, terms: Terms) -> bool:
    """Report whether the program limits what is signed for."""
    return options.guarded or terms.cap is not None


def check(options: Options, request: Request, challenge: wire.Challenge, *, paid: bool) -> Steps[None]:
    """Raise the error of the first rule that is broken. ``paid``: nothing more is to be paid."""
    if request.said.unasked:
        raise RefusedByCallerError(
            f"nobody reads what {request.said.unasked} would buy, so it was not paid for", rule="unasked"
        )
    if request.content is None:
        raise NotReplayableError("the request's body cannot be sent again, so nothing was paid")
    if paid:
        return
    url, allowed = request.plain_url, options.allow_hosts
    if origin(url)[0] != "https" and not is_loopback(url) and not host_allowed(allowed or (), url, by_name=True):
        raise RefusedByCallerError(
            "plain http is paid only to loopback and to hosts that allow_hosts names", rule="plain-http"
        )
    if allowed is not None and not host_allowed(allowed, url):
        raise RefusedByCallerError(f"allow_hosts does not name {origin(url)[1]}", rule="host")
    if not any_of(options, request.terms):
        return
    if not challenge.offers:
        raise InvalidChallengeError("the challenge has no offer that purser could pay")
    cap = smaller(options, request.terms)
    amounts = [wire.canonical_amount(offer.amount) for offer in challenge.offers]
    wrong = next((offer.shown_amount for offer in challenge.offers if wire.canonical_amount(offer.amount) is None), "")
    if options.budget is not None and wrong:
        raise RefusedByCallerError(f"an offer asks for {wrong}, and there is a budget", rule="budget")
    known = [amount for amount in amounts if amount is not None]
    if cap is not None and (wrong or max(known) > cap):
        raise RefusedByCallerError(
            f"an offer asks for {wrong or usdc_text(max(known))}, and max_amount is {usdc_text(cap)}", rule="amount"
        )
    if options.before_payment is not None:
        yield from _ask(request, challenge, known)


def _ask(request: Request, challenge: wire.Challenge, amounts: list[int]) -> Steps[None]:
    info = BeforePayment(
        url=request.plain_url,
        host=request.host,
        method=request.method,
        offers=challenge.offers,
        amount=str(max(amounts)) if amounts else None,
        pay_to=challenge.offers[0].pay_to,
    )
    try:
        verdict = yield Ask(info)
    except Exception as error:
        raise RefusedByCallerError("before_payment raised an exception", rule="callback") from error
    if verdict is True:
        return
    if verdict is False:
        raise RefusedByCallerError("before_payment refused", rule="callback")
    # A hook that forgets to answer, or answers in a type of its own, must not pay.
    what = "nothing" if verdict is None else f"a {type(verdict).__name__}"
    wrong = TypeError(f"before_payment returned {what}; only True allows a payment")
    raise RefusedByCallerError(str(wrong), rule="callback") from wrong
