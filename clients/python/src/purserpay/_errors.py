"""What can go wrong, as exceptions with a stable ``code``.

No message, attribute or printed form holds an API key or a payment header.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypedDict, TypeVar, overload
from urllib.parse import urlsplit

from ._amounts import usdc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Unpack

    from ._models import Quote, QuotedOffer

__all__ = [
    "Advice",
    "DeclinedError",
    "DryRunError",
    "IdempotencyConflictError",
    "InvalidChallengeError",
    "KeyNotResolvedError",
    "LimitReachedError",
    "NoWalletError",
    "NotReplayableError",
    "PurserError",
    "PurserUnreachableError",
    "RefusedByCallerError",
    "RejectedError",
    "RequestRefusedError",
    "ResumableError",
    "UnclearError",
    "purser_error_of",
    "unclear_of",
]


# Where an answer that stands for an error has it.
ERROR_MARK = "purser_error"
_JSON_RPC = -32000  # the first number that JSON-RPC leaves to servers


R = TypeVar("R")

Code = Literal[
    "declined",
    "dry-run",
    "idempotency-conflict",
    "invalid-challenge",
    "key-not-resolved",
    "limit-reached",
    "no-wallet",
    "not-replayable",
    "purser-unreachable",
    "refused-by-caller",
    "rejected",
    "request-refused",
    "unclear",
]


CallerRule = Literal[
    "unasked", "authorization-in-use", "plain-http", "host", "amount", "callback", "signed-terms", "budget"
]


class Advice(NamedTuple):
    """What to do about an error, in a sentence each."""

    developer: str
    """For the developer of the agent."""
    operator: str
    """For the operator of purser."""


class About(TypedDict, total=False):
    """What every error can say of its payment."""

    payment_id: str | None
    idempotency_key: str | None
    url: str | None
    status: int | None
    detail: str | None
    do: Advice | None
    offers: tuple[QuotedOffer, ...]
    response: Any
    retry_after: float | None
    amount: str | None


class PurserError(Exception):
    """What all errors of this package derive from.

    ``status``, ``detail``, ``do`` (what to do about it) and ``offers`` (those of the challenge, with why none is paid)
    come from purser's answer. ``retry_after`` holds the seconds after which purser may answer otherwise. ``url`` has no
    query. ``response`` holds the seller's answer, read and closed, as the HTTP library's own object. ``amount`` counts
    the smallest unit: it was signed for, or else all offers ask for it. Each is ``None``, or empty, where it is not
    known.

    ``money_may_have_moved`` is false only if nothing left the wallet for this request, nor for an earlier one that it
    repeats. An error that is pickled leaves ``response`` and what ``resume`` needs behind in its process.
    """

    code: ClassVar[Code]

    def __init__(
        self,
        message: str,
        *,
        payment_id: str | None = None,
        idempotency_key: str | None = None,
        url: str | None = None,
        status: int | None = None,
        detail: str | None = None,
        do: Advice | None = None,
        offers: tuple[QuotedOffer, ...] = (),
        response: Any = None,
        retry_after: float | None = None,
        amount: str | None = None,
    ) -> None:
        super().__init__(message)
        self.amount = amount
        self.money_may_have_moved = False
        self.retry_after = retry_after
        self.payment_id = payment_id
        self.idempotency_key = idempotency_key
        self.url = url
        self.status = status
        self.detail = detail
        self.do = do
        self.offers = offers
        self.response = response

    @property
    def host(self) -> str | None:
        """The seller's host, with its port if the URL has one."""
        return urlsplit(self.url).netloc.rpartition("@")[2] or None if self.url else None

    @property
    def retryable(self) -> bool:
        """Whether the same client may repeat the request as it is. A repeat is the same payment, or the first."""
        return False

    def __str__(self) -> str:
        amount = None if self.amount is None or not self.amount.isdecimal() else usdc_text(self.amount)
        payment = None if self.payment_id is None else f"payment {self.payment_id}"
        said = super().__str__()
        known = ", ".join(part for part in (payment, amount, self.host) if part and not _names(said, part))
        return f"{said} ({known})" if known else said

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("response", "_resume")}
        return _unpickled, (type(self), self.args, kept)


def _names(said: str, part: str) -> bool:
    """Report whether a message has a part as words of its own, so that it need not stand twice."""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", said) is not None


def _unpickled(kind: type[PurserError], args: tuple[Any, ...], kept: dict[str, Any]) -> PurserError:
    """Make an error of another process again, without the constructor, which wants more than the message."""
    error = kind.__new__(kind, *args)
    error.__dict__.update({"response": None, **kept})
    return error


class KeyNotResolvedError(PurserError):
    """Purser does not know the API key."""

    code = "key-not-resolved"


class NoWalletError(PurserError):
    """The key has no wallet for the network. ``wallets.create()`` makes one."""

    code = "no-wallet"

    def __init__(self, message: str, *, network: str | None = None, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.network = network


class LimitReachedError(PurserError):
    """A limit of the plan, or a rate, is reached. ``upgrade_url`` leads to a larger plan."""

    code = "limit-reached"

    def __init__(self, message: str, *, upgrade_url: str | None = None, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.upgrade_url = upgrade_url

    @property
    def retryable(self) -> bool:
        """Whether purser said when to ask again."""
        return self.retry_after is not None


class DeclinedError(PurserError):
    """Purser does not pay this. Its message and ``detail`` say why, in words and amounts.

    ``rule`` (also as ``reason``) names the rule of policy, ``facilitator`` is the word of the facilitator. Where a rule
    counts, ``price``, ``limit`` and ``left`` are texts such as ``"0.05 USDC"``, and ``resets`` is the time from which
    the same payment may pass, in RFC 3339.
    """

    code = "declined"

    def __init__(
        self,
        message: str,
        *,
        rule: str | None = None,
        facilitator: Mapping[str, Any] | None = None,
        price: str | None = None,
        limit: str | None = None,
        left: str | None = None,
        resets: str | None = None,
        **more: Unpack[About],
    ) -> None:
        super().__init__(message, **more)
        self.rule = rule
        self.facilitator = facilitator
        self.price = price
        self.limit = limit
        self.left = left
        self.resets = resets

    @property
    def reason(self) -> str | None:
        """The rule, by the name that the proxy's ``Purser-Declined`` has."""
        return self.rule


class DryRunError(PurserError):
    """The request was a dry run, and would be paid for: ``quote`` says what would be paid. Nothing was."""

    code = "dry-run"

    def __init__(self, message: str, *, quote: Quote, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.quote = quote


class RefusedByCallerError(PurserError):
    """The program's own caps refused: ``rule`` names the cap."""

    code = "refused-by-caller"

    def __init__(self, message: str, *, rule: CallerRule, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.rule = rule


class InvalidChallengeError(PurserError):
    """The 402 asks for something that cannot be read or cannot be paid."""

    code = "invalid-challenge"


class NotReplayableError(PurserError):
    """The request's body is gone, so that nothing was paid: it could not be sent again."""

    code = "not-replayable"


class IdempotencyConflictError(PurserError):
    """The idempotency key was used for something else before."""

    code = "idempotency-conflict"


class ResumableError(PurserError):
    """Money may have moved. ``resume`` goes on with the same payment and never makes a new one.

    It returns the seller's answer, or raises as the request itself would. ``aresume`` does so for asynchronous clients.
    Both take the class of the answer, ``httpx.Response`` for example, for type checkers.
    """

    def __init__(self, message: str, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.money_may_have_moved = True

    # Not of the constructor: it stays behind when the error goes to another process.
    _resume: Callable[[], Any] | None = None

    @overload
    def resume(self) -> object: ...

    @overload
    def resume(self, kind: type[R]) -> R: ...

    def resume(self, kind: type[R] | None = None) -> object:  # noqa: ARG002 — not checked: the answer is paid for
        """Send the same payment again, or ask purser for it again if it was never handed out."""
        if self._resume is None:
            raise RuntimeError("there is nothing to resume here: only the client that paid can go on")
        return self._resume()

    @overload
    async def aresume(self) -> object: ...

    @overload
    async def aresume(self, kind: type[R]) -> R: ...

    async def aresume(self, kind: type[R] | None = None) -> object:  # noqa: ARG002
        """Do what ``resume`` does, with an asynchronous client."""
        going: Any = self.resume()
        return await going


class UnclearError(ResumableError):
    """The money may have moved, or not: the connection broke, or time was up."""

    code = "unclear"

    @property
    def retryable(self) -> bool:
        """Whether the request may be repeated: yes, that goes on with the same payment."""
        return True


class RejectedError(ResumableError):
    """The seller answered the payment with another 402, which is never paid. ``reason`` is the seller's word."""

    code = "rejected"

    def __init__(self, message: str, *, reason: str | None = None, **more: Unpack[About]) -> None:
        super().__init__(message, **more)
        self.reason = reason


class PurserUnreachableError(PurserError):
    """Purser could not be asked, or its answer was not understood."""

    code = "purser-unreachable"

    @property
    def retryable(self) -> bool:
        """Whether the request may be repeated: yes, under the same key."""
        return True


class RequestRefusedError(PurserError):
    """Purser refused a call for another reason: see ``status`` and ``detail``."""

    code = "request-refused"


def attach_unclear(error: BaseException, unclear: UnclearError) -> None:
    """Hang what is known of a payment onto an exception that has to stay what it is."""
    try:
        error.__purser_unclear__ = unclear  # type: ignore[attr-defined]
    except AttributeError:  # an exception with slots: it is listed by the transport all the same
        return


def unclear_of(error: BaseException) -> UnclearError | None:
    """Find the payment that a cancellation or a timeout left unclear, or ``None`` if nothing was sent.

    Looks at the exception, at what caused it and into exception groups, so that it also finds the payment behind the
    ``TimeoutError`` of ``asyncio.timeout``.
    """
    return next((one for one in _behind(error) if isinstance(one, UnclearError)), None)


def purser_error_of(error: object) -> PurserError | None:
    """Find the error of this package behind another one, or ``None``.

    Libraries wrap what their HTTP client raises. Looks where ``unclear_of`` does, and at the ``response`` of the
    error, which tells what ``return_402`` kept from being raised. Takes such an answer itself, too.
    """
    return next(_behind(error), None)


def in_place_of(error: PurserError, asked: Iterable[str]) -> tuple[dict[str, str], bytes]:
    """Make headers and body of the 402 that stands for an error. SDKs repeat what is raised, and not this.

    ``asked`` are the names of the request's headers: MCP's SDK shows only errors of JSON-RPC.
    """
    about = {"type": "purser_error", "code": error.code}
    said: dict[str, Any] = {"error": {"message": str(error), **about, "param": None}}
    if any(name.lower() == "mcp-protocol-version" for name in asked):
        said = {"jsonrpc": "2.0", "id": None, "error": {"code": _JSON_RPC, "message": str(error), "data": about}}
    headers = {"Content-Type": "application/json", "Purser-Error": error.code, "x-should-retry": "false"}
    return headers, json.dumps(said).encode()


def _behind(error: object) -> Iterator[PurserError]:
    todo, seen = [error], set[int]()
    while todo:
        at = todo.pop(0)
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, PurserError):
            yield at
        extensions = getattr(at, "extensions", None)
        told = extensions.get(ERROR_MARK) if isinstance(extensions, dict) else getattr(at, ERROR_MARK, None)
        hung = (getattr(at, "__purser_unclear__", None), told)
        todo += [one for one in hung if isinstance(one, PurserError)]
        if isinstance(at, BaseException):
            group = getattr(at, "exceptions", None)
            todo += [at.__cause__, at.__context__, getattr(at, "response", None)]
            todo += group if isinstance(group, (list, tuple)) else ()


# Refusals before anything was signed: the next request that is the same is a new one.
ENDED = (NoWalletError, InvalidChallengeError, DeclinedError)
# These say nothing about what the key stands for already: purser may not have looked.
BLIND = (KeyNotResolvedError, LimitReachedError, RequestRefusedError, IdempotencyConflictError)
