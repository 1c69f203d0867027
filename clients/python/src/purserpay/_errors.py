"""What can go wrong, as exceptions with a stable ``code``.

No message, attribute or printed form holds an API key or a payment header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._models import Quote

__all__ = [
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
    "unclear_of",
]


class PurserError(Exception):
    """What all errors of this package derive from.

    ``status`` and ``detail`` are those of purser's answer, ``retry_after`` the seconds after which it may answer
    otherwise, ``url`` is the request's without query, ``response`` the
    seller's answer as the HTTP library's own object, read and closed. Each is ``None`` where it is not known.
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        payment_id: str | None = None,
        idempotency_key: str | None = None,
        url: str | None = None,
        status: int | None = None,
        detail: str | None = None,
        response: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.payment_id = payment_id
        self.idempotency_key = idempotency_key
        self.url = url
        self.status = status
        self.detail = detail
        self.response = response


class KeyNotResolvedError(PurserError):
    """Purser does not know the API key."""

    code = "key-not-resolved"


class NoWalletError(PurserError):
    """The key has no wallet for the network. ``wallets.create()`` makes one."""

    code = "no-wallet"

    def __init__(self, message: str, *, network: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.network = network


class LimitReachedError(PurserError):
    """A limit of the plan, or a rate, is reached. ``upgrade_url`` is where to get more."""

    code = "limit-reached"

    def __init__(self, message: str, *, upgrade_url: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.upgrade_url = upgrade_url


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
        **more: Any,
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

    def __init__(self, message: str, *, quote: Quote, **more: Any) -> None:
        super().__init__(message, **more)
        self.quote = quote


class RefusedByCallerError(PurserError):
    """The program's own caps refused: ``rule`` is plain-http, host, amount, callback or signed-terms."""

    code = "refused-by-caller"

    def __init__(self, message: str, *, rule: str, **more: Any) -> None:
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

    It returns the seller's answer, or raises as the request itself would. The asynchronous clients' is to be awaited.
    """

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        self._resume: Callable[[], Any] | None = None

    def resume(self) -> Any:
        """Send the same payment again, or ask purser for it again if it was never handed out."""
        if self._resume is None:
            raise RuntimeError("there is nothing to resume")
        return self._resume()


class UnclearError(ResumableError):
    """Nobody knows whether the money moved: the connection broke, or time was up."""

    code = "unclear"


class RejectedError(ResumableError):
    """The seller answered the payment with another 402, which is never paid. ``reason`` is the seller's word."""

    code = "rejected"

    def __init__(self, message: str, *, reason: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.reason = reason


class PurserUnreachableError(PurserError):
    """Purser could not be asked, or its answer was not understood."""

    code = "purser-unreachable"


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
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, UnclearError):
            return at
        attached = getattr(at, "__purser_unclear__", None)
        if isinstance(attached, UnclearError):
            return attached
        todo += [at.__cause__, at.__context__, *getattr(at, "exceptions", ())]
    return None
