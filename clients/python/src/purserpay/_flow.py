"""What happens between a 402 and its paid answer, as generators that do no I/O. BEHAVIOUR.md §2 to §7.

A flow yields steps and is sent their results. ``_payers`` and the modules of the libraries do the steps, blocking or
not. So there is one order of events, and one place where money is decided about.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Any

from . import _calls as calls
from . import _caps as caps
from . import _jobs as jobs
from . import _mpp as mpp
from . import _slim
from . import _wire as wire
from ._amounts import usdc_text
from ._asked import pays_already, usable_key
from ._errors import (
    BLIND,
    ENDED,
    DryRunError,
    PurserError,
    PurserUnreachableError,
    RefusedByCallerError,
    RejectedError,
    ResumableError,
    UnclearError,
    attach_unclear,
)
from ._finding import find
from ._steps import (
    Ask,
    Client,
    Discard,
    Hold,
    PaymentInfo,
    Peek,
    Post,
    Reply,
    Report,
    Request,
    Send,
    SendError,
    Sleep,
    Step,
    Steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._jobs import Order
    from ._memory import Identities
    from ._models import PayResult

__all__ = [
    "Ask",
    "Discard",
    "Hold",
    "PaymentInfo",
    "Peek",
    "Post",
    "Purchase",
    "Reply",
    "Report",
    "Request",
    "Send",
    "SendError",
    "Sleep",
    "Step",
    "Steps",
    "pays_already",
    "usable_key",
]

LOG = logging.getLogger("purserpay")

TRIES = 3
BEFORE_TRY = (0.25, 1.0)  # seconds
BEFORE_RESEND = 0.5  # seconds, doubled each time
REPEATS = 2  # of a credential that a seller answers with a new challenge of MPP
LONGEST_WAIT = 5.0  # seconds that purser or a seller may ask for
UNCLEAR = (500, 502, 503, 504)


class Purchase:
    """One logical request from its 402 on. Its generators run one at a time."""

    def __init__(self, payer: Client, request: Request, resume: Callable[[Callable[[], Steps[Reply]]], Any]) -> None:
        self._options = payer.options
        self._memory = payer.memory
        self._answered = payer.answered  # keys that a request may have that says that it is a repeat
        self._jobs = payer.jobs
        self._budget = payer.budget
        self._request = request
        self._resume = resume  # runs a flow to its end as this client's callers expect it
        self.key = ""
        self._remembered = True  # the key is ours to remember
        self._open = False  # a payment may stand under the key
        self._earlier = False  # it stands since before this run
        self._repeats = False  # its request was answered
        self._order: Order | None = None  # that is asked about
        self._until: float | None = None  # when a key that was remembered is forgotten
        self._challenge: wire.Challenge | None = None
        self._held: Any = None
        self.held = request.size  # bytes that an error keeps
        self._result: PayResult | None = None
        self._sent = False  # the payment was, to the seller
        self.ended = False
        self._busy = threading.Lock()
        self.info: PaymentInfo | None = None
        self.unclear: UnclearError | None = None
        self.reply: Reply | None = None  # the seller's last answer, which the payer closes when this fails

    # The whole.

    def answer(self, first: Reply) -> Steps[Reply]:
        """From the first answer of the seller to the one that the program gets."""
        self.reply = first
        challenge = yield from find(self._options, self._request, first)
        if challenge is None:
            return first
        self._challenge = challenge
        if not self._request.terms.dry_run:
            self._order = self._jobs.at(url for _, url, _ in self._identities())
        yield from self._check(first)
        self.held += len((yield Hold(first)))
        self._held = first.native
        if self._request.terms.dry_run:
            yield from self._quote()
        self._choose_key()
        self._set_aside()
        return (yield from self._guarded())

    def again(self) -> Steps[Reply]:
        """Go on with this payment after it was left unclear or rejected."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("this payment is being resumed")
        try:
            if self.ended:
                raise RuntimeError("this payment was brought to an end")
            self._open = self._earlier = True
            if self._remembered:  # another request must not take the key meanwhile
                until = self._memory.drop(self.key)
                self._until = self._until if until is None else until
            return (yield from self._guarded())
        finally:
            self._busy.release()

    def lost(self) -> None:
        """Take an answer for lost that broke off on its way: the same request again gets the same payment."""
        if self._remembered and self._answered.drop(self.key) is not None:
            self._remember()

    def refuse_second(self, reply: Reply) -> Steps[Reply]:
        """Refuse a 402 at the end of redirects that began with this paid answer: a request pays once."""
        self.reply = reply
        body = yield Hold(reply)
        raise self._rejected(reply, body)

    def _guarded(self) -> Steps[Reply]:
        try:
            if self._result is None:
                yield from self._pay()
            reply = yield from self._deliver()
            yield from self._note_job(reply)
        except BaseException as error:
            self._failed(error)
            if self.unclear is not None or isinstance(error, RejectedError):
                self._paid()
            if isinstance(error, Exception) and not isinstance(error, PurserError) and self.unclear is not None:
                raise self.unclear from error
            raise
        self._paid()
        if reply.status >= 400:
            self._remember()
            return reply
        self.ended = True
        if self._remembered:
            self._answered.take(self._identities())  # the last one counts
            self._answered.put(self._identities() | self._request.numbered(self.task), self.key)
        return reply

    def _note_job(self, reply: Reply) -> Steps[None]:
        """Note where the answer says that its job can be asked about: that is paid for as well."""
        gets = self._order is None and self._request.method in ("GET", "HEAD")
        if reply.status != 202 and (gets or reply.status not in (200, 201)):
            return
        assert self._result is not None  # noqa: S101
        order = self._order or jobs.Order(self.key, self._result, self.info, self._jobs.until())
        body = (yield Peek(reply)) if jobs.is_json(reply.headers) else None
        self._jobs.note(jobs.named(reply.headers, body or b"", self._request.plain_url), order)

    def _paid(self) -> None:
        """Tell the log and the program of a payment."""
        info = self.info
        if info is None or self._order is not None:
            return
        price = usdc_text(info.amount) if info.amount is not None and info.amount.isdecimal() else info.amount
        LOG.info("payment %s of %s to %s at %s", info.id, price, info.pay_to, info.host)
        if self._options.on_payment is None:
            return
        try:
            self._options.on_payment(info)
        except Exception:
            LOG.exception("on_payment raised an exception")

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, PurserError) and not isinstance(error, ENDED):
            signed = isinstance(error, RefusedByCallerError) and self._options.settlement == "payer"
            error.money_may_have_moved = error.money_may_have_moved or self._earlier or signed
        blind = isinstance(error, BLIND)
        # What was signed is not sent to the seller now; it may have been earlier, or purser has settled it.
        refused = isinstance(error, RefusedByCallerError)
        nothing_stands = not self._open and (blind or self._options.settlement == "seller")
        unreached = isinstance(error, PurserUnreachableError) and nothing_stands
        if not self._earlier and (isinstance(error, ENDED) or ((blind or refused) and nothing_stands) or unreached):
            self._budget.settle(self.key, 0)
        if isinstance(error, ENDED) or ((blind or refused) and nothing_stands):
            self.ended = True
            return
        if self._repeats and isinstance(error, RejectedError):
            self._answered.put(self._identities() | self._request.numbered(self.task), self.key, self._until)
        else:
            self._remember(self._until if blind or refused else None)
        if isinstance(error, PurserError):
            if isinstance(error, UnclearError):
                self.unclear = error
            return
        # A cancellation has to stay what it is.
        if self._sent or self._options.settlement == "payer":
            self.unclear = self._unclear(f"given up after the payment may have left: {type(error).__name__}")
            attach_unclear(error, self.unclear)

    def _identities(self) -> Identities:
        return self._request.identities(self.task)

    def _remember(self, until: float | None = None) -> None:
        if self._remembered:
            self._memory.put(self._identities(), self.key, until)

    def _choose_key(self) -> None:
        given = usable_key(self._request.idempotency_key)
        again = self._answered.take(self._request.numbered(self.task))
        last = again or self._answered.take(self._identities())
        if self._order is not None:
            self.key, self._result, self.info, _ = self._order
            self._remembered, self._open, self._earlier = False, True, True
        elif given is not None:
            self.key, self._remembered = given, False
        else:
            taken = self._memory.take(self._identities())
            if taken is None and (again or self._request.said.repeats):
                taken, self._repeats = last, last is not None
            self._open = self._earlier = taken is not None
            self.key, self._until = taken or (f"client-{uuid.uuid4()}", None)

    def _set_aside(self) -> None:
        """Take the price from the client's budget. A key that stands for a payment already costs nothing more."""
        if self._order is not None:
            return
        assert self._challenge is not None  # noqa: S101
        asked = [wire.canonical_amount(offer.amount) for offer in self._challenge.offers]
        price = max((amount for amount in asked if amount is not None), default=0)
        if self._budget.take(self.key, price):
            return
        if self._earlier:
            self._remember(self._until)
        self.ended = True
        left, total = self._budget.left or 0, self._options.total or 0
        text = f"{usdc_text(price)} would pass this client's budget of {usdc_text(total)}; {usdc_text(left)} left"
        raise self._told(RefusedByCallerError(text, rule="budget"))

    # Whether it is ours, and may be paid for.

    def _check(self, reply: Reply) -> Steps[None]:
        try:
            assert self._challenge is not None  # noqa: S101
            yield from caps.check(self._options, self._request, self._challenge, paid=self._order is not None)
        except PurserError as error:
            yield Hold(reply)
            error.url, error.response, error.amount = self._request.shown_url, reply.native, self._amount
            raise

    # Asking purser.

    @property
    def task(self) -> str | None:
        """What the payment is booked under."""
        given = self._request.terms.task
        return self._options.task if given is None else given

    @property
    def host(self) -> str:
        """The seller's host, with its port if the URL has one."""
        return self._request.host

    @property
    def _pay_timeout(self) -> float:
        given = self._request.terms.pay_timeout
        return self._options.pay_timeout if given is None else given

    def _ordered(self, key: str | None) -> calls.Order:
        assert self._challenge is not None  # noqa: S101
        cap = caps.smaller(self._options, self._request.terms)
        return calls.Order(self._challenge.header, self._request.booked, key, self._options.settlement, self.task, cap)

    def _quote(self) -> Steps[None]:
        """End a dry run."""
        operation = calls.quote(self._ordered(usable_key(self._request.idempotency_key)))
        try:
            quote = operation.result((yield Post(operation, self._pay_timeout)))
        except calls.CallError as error:
            raise self._told(PurserUnreachableError(f"purser could not be asked: {error}")) from error
        except PurserError as error:
            raise self._told(error) from None
        what = f"{quote.price} on {quote.network} to {quote.pay_to} would be paid"
        if quote.repeats is not None:
            what = f"payment {quote.repeats.id} of {quote.price} would be repeated, and nothing new paid"
        raise self._told(DryRunError(f"dry run: {what}", quote=quote))

    def _pay(self) -> Steps[None]:
        operation = calls.pay(self._ordered(self.key), taken=self._request.said.authorized)
        reached = False
        failure: PurserError
        attempt = 0
        while True:
            wait: float | None = None
            try:
                answer = yield Post(operation, self._pay_timeout)
            except calls.CallError as error:
                reached = reached or error.reached
                self._open = self._open or reached
                failure = PurserUnreachableError(f"purser could not be asked: {error}")
                failure.__cause__ = error
            else:
                try:
                    self._result = operation.result(answer)
                except (PurserUnreachableError, UnclearError) as error:
                    reached = self._open = True
                    failure, wait = error, calls.retry_after(answer.headers)
                except PurserError as error:
                    if reached and isinstance(error, BLIND) and self._options.settlement == "payer":
                        raise self._unclear(f"{error}; it may have paid before") from error
                    raise self._told(error) from None
                else:
                    self._accept(self._result)
                    return
            if attempt == TRIES - 1 or (wait is not None and wait > LONGEST_WAIT):
                break
            yield Sleep(BEFORE_TRY[attempt] if wait is None else wait)
            attempt += 1
        if isinstance(failure, PurserUnreachableError) and reached and self._options.settlement == "payer":
            raise self._unclear(f"{failure}; it may have paid all the same") from failure
        raise self._told(failure) from failure.__cause__

    def _accept(self, result: PayResult) -> None:
        payment = result.payment
        self.info = PaymentInfo(
            id=payment.id or None if payment else None,
            state=payment.state if payment else None,
            transaction=result.transaction,
            settled=result.settled,
            idempotency_key=self.key,
            host=self.host,
            task=self.task,
        )
        try:
            signed = mpp.signed_terms(result.payment_signature)
            self.info.amount, self.info.pay_to = signed
            self._budget.settle(self.key, wire.canonical_amount(signed[0]) or 0)
        except ValueError:
            signed = None
        if not caps.any_of(self._options, self._request.terms):
            return
        assert self._challenge is not None  # noqa: S101
        if signed not in [(offer.amount, offer.pay_to.lower()) for offer in self._challenge.offers]:
            raise self._told(
                RefusedByCallerError("purser signed for other terms than were offered", rule="signed-terms")
            )

    # Sending the payment to the seller.

    def _deliver(self) -> Steps[Reply]:
        result = self._result
        assert result is not None  # noqa: S101
        pause = BEFORE_RESEND
        left = self._options.resends
        given = self._request.terms.paid_timeout
        timeout = max(self._options.paid_timeout if given is None else given, self._request.said.waits)
        signature = result.payment_signature
        again = 0  # a seller of MPP has asked once more
        while True:
            self._sent = True
            wait: float | None = None
            cause: BaseException | None = None
            reply: Reply | None = None
            try:
                reply = self.reply = yield Send(result.payment_header, signature, timeout)
            except SendError as error:
                cause = error.__cause__
            else:
                assert reply is not None  # noqa: S101
                if reply.status == 402:
                    wait = calls.retry_after(reply.headers)
                    wait = BEFORE_RESEND * 2**again if wait is None else wait
                    if again < REPEATS and wait <= LONGEST_WAIT and mpp.asks_again(signature, reply.headers):
                        yield Discard(reply)
                        yield Sleep(wait)
                        again += 1
                        continue
                    body = yield Hold(reply)
                    yield from self._report(reply)
                    raise self._rejected(reply, body)
                less = _slim.slim(signature) if signature == result.payment_signature else None
                if less is not None and (yield from self._too_large(reply)):
                    signature = less
                    yield Discard(reply)
                    continue
                if reply.status not in UNCLEAR or wire.receipt_in(reply.headers) is not None:
                    break
                wait = calls.retry_after(reply.headers)
            if left == 0 or (wait is not None and wait > LONGEST_WAIT):
                break
            if reply is not None:
                yield Discard(reply)
            yield Sleep(pause if wait is None else wait)
            pause *= 2
            left -= 1
        if reply is None:
            raise self._unclear(f"the paid request had no answer: {type(cause).__name__}") from cause
        yield from self._report(reply)
        return reply

    def _too_large(self, reply: Reply) -> Steps[bool]:
        """Whether a front has found the header too large, and nothing says that the seller has seen the payment."""
        if _slim.seen(reply.headers) or reply.status not in _slim.TOO_LARGE + _slim.MAY_BE_TOO_LARGE:
            return False
        if reply.status in _slim.TOO_LARGE:
            return True
        return _slim.short(reply.headers) and _slim.says_too_large((yield Hold(reply)))

    def _report(self, reply: Reply) -> Steps[None]:
        receipt = wire.receipt_in(reply.headers)
        if receipt is not None and self.info is not None and self.info.id is not None:
            yield Report(self.info, receipt)

    # Errors.

    def _about(self, reply: Reply | None = None) -> dict[str, Any]:
        return {
            "url": self._request.shown_url,
            "response": reply.native if reply else self._held,
            "payment_id": self.info.id if self.info else None,
            "idempotency_key": self.key or None,
            "amount": self._amount,
        }

    @property
    def _amount(self) -> str | None:
        """What was signed for, else what all offers ask for."""
        if self.info is not None and self.info.amount is not None:
            return self.info.amount
        asked = {offer.amount for offer in self._challenge.offers} if self._challenge else set()
        return asked.pop() if len(asked) == 1 else None

    def _told(self, error: PurserError) -> PurserError:
        """Add what is known here to an error that was made elsewhere."""
        for name, value in self._about().items():
            if getattr(error, name) is None:
                setattr(error, name, value)
        if isinstance(error, ResumableError):
            self._resumable(error)
        return error

    def _unclear(self, message: str) -> UnclearError:
        error = UnclearError(message, **self._about())
        self._resumable(error)
        return error

    def _rejected(self, reply: Reply, body: bytes) -> RejectedError:
        reason = wire.reason_in(reply.headers, body)
        said = f": {reason[:200]}" if reason else ""
        error = RejectedError(
            f"the seller did not take the payment{said}",
            reason=reason,
            status=reply.status,
            **self._about(reply),
        )
        self._resumable(error)
        return error

    def _resumable(self, error: ResumableError) -> None:
        error._resume = lambda: self._resume(self.again)  # noqa: SLF001
