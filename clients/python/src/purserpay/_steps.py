"""The steps of a purchase, which a flow asks for one after the other. ``_payers`` does them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from ._amounts import usdc
from ._asked import Said
from ._context import Terms, given_terms
from ._slim import not_cached

if TYPE_CHECKING:
    from decimal import Decimal

    from . import _calls as calls
    from ._bodies import Content
    from ._budget import Budget
    from ._jobs import Jobs
    from ._memory import Identities, Identity, Memory
    from ._options import BeforePayment, Options

__all__ = [
    "Ask",
    "Client",
    "Discard",
    "Hold",
    "PaymentInfo",
    "Peek",
    "Post",
    "Reply",
    "Report",
    "Request",
    "Send",
    "SendError",
    "Sleep",
    "Step",
    "Steps",
]

T = TypeVar("T")


class Client(Protocol):
    """What outlives a request, as far as purchases are concerned."""

    options: Options
    memory: Memory
    answered: Memory
    jobs: Jobs
    budget: Budget


@dataclass(frozen=True)
class Request:
    """A logical request, as far as paying is concerned.

    ``content`` is ``None`` if the body cannot be sent again. ``size`` counts the bytes that it takes in memory.
    """

    method: str
    url: str
    content: Content | None = field(repr=False)
    size: int = 0
    idempotency_key: str | None = None
    asked: Identity | None = None  # the request that was redirected here, if any
    said: Said = field(default_factory=Said)
    terms: Terms = field(default_factory=given_terms)

    @property
    def identity(self) -> Identity:
        """What makes this request, as it is, the same as another."""
        return self.method, self.plain_url, self.content.digest if self.content else b""

    def identities(self, task: str | None) -> Identities:
        """Return all that makes this request the same as another."""
        # Either is enough: a seller that leads each repeat to a new URL is not to be paid for each.
        known = (one for one in (self.identity, self.asked) if one)
        of = (task or "").encode() if self.content and self.content.site else b""
        return frozenset((method, url, digest + of) for method, url, digest in known)

    def numbered(self, task: str | None) -> Identities:
        """Return what makes a call of MCP a repeat: its number in its session, which no client uses twice."""
        call = self.content.call if self.content else b""
        return frozenset((method, url, call) for method, url, _ in self.identities(task) if call)

    @property
    def booked(self) -> str:
        """The URL for purser's books."""
        return (self.content and self.content.site) or self.plain_url

    @property
    def plain_url(self) -> str:
        """The URL without fragment, and without user and password, which neither purser nor a log may have."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))

    @property
    def host(self) -> str:
        """The host, with its port if the URL has one."""
        return urlsplit(self.plain_url).netloc

    @property
    def shown_url(self) -> str:
        """The URL without query, for errors."""
        return urlunsplit((*urlsplit(self.plain_url)[:3], "", ""))


@dataclass
class Reply:
    """An answer of the seller: names of headers in lower case, values as Latin-1, and the library's own object.

    A library whose answers cannot be made unread again puts another object there.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    native: Any = field(repr=False)


class SendError(Exception):
    """The paid request had no answer. The cause is the HTTP library's error."""


@dataclass(frozen=True)
class Send:
    """Send the request with a payment. Gives a ``Reply``, raises ``SendError``."""

    name: str
    value: str = field(repr=False)
    timeout: float  # seconds, to the headers of the answer

    def headers(self, given: str | None) -> dict[str, str]:
        """What goes with the request beside its own: the payment, and that no cache is to answer it.

        ``given`` is what the program says to caches.
        """
        return {self.name: self.value, "Cache-Control": not_cached(given), "Pragma": "no-cache"}


@dataclass(frozen=True)
class Peek:
    """Read the body of an answer as long as it may be a challenge, and leave it unread. Gives bytes or ``None``."""

    reply: Reply


@dataclass(frozen=True)
class Hold:
    """Read an answer, for an error, and close it. Gives its body."""

    reply: Reply


@dataclass(frozen=True)
class Discard:
    """Close an answer."""

    reply: Reply


@dataclass(frozen=True)
class Ask:
    """Call ``before_payment``. Gives what it returns."""

    info: BeforePayment


@dataclass(frozen=True)
class Sleep:
    """Wait for seconds."""

    seconds: float


@dataclass(frozen=True)
class Post:
    """Call ``POST /v1/pay`` or ``POST /v1/quote``. Gives an ``Answer``, raises ``CallError``."""

    operation: calls.Operation[Any]
    timeout: float  # seconds, for all of it


@dataclass(frozen=True)
class Report:
    """Tell purser about the seller's receipt, as long as that takes no longer than it may. Never fails."""

    payment: PaymentInfo
    receipt: str = field(repr=False)


Step = Send | Peek | Hold | Discard | Ask | Sleep | Post | Report
Steps = Generator[Step, Any, T]


@dataclass
class PaymentInfo:
    """The payment behind an answer. ``state`` and ``transaction`` follow the receipt once purser has seen it.

    Purser signed for ``amount``, in the smallest unit, to the address ``pay_to``, in lower case. Both are ``None`` if
    the payment does not say.
    """

    id: str | None
    state: str | None
    transaction: str
    settled: bool
    idempotency_key: str
    amount: str | None = None
    host: str | None = None
    task: str | None = None
    pay_to: str | None = None

    @property
    def usdc(self) -> Decimal | None:
        """The amount in USDC."""
        return None if self.amount is None else usdc(self.amount)
