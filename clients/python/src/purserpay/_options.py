"""What a program tells its paying clients, checked when it says so. BEHAVIOUR.md §2."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Literal, TypedDict
from urllib.parse import urlsplit

from ._amounts import smallest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from typing_extensions import Unpack

    from ._amounts import Amount
    from ._flow import PaymentInfo
    from ._wire import Offer

__all__ = ["BeforePayment", "Options", "from_env"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_LONGEST = 2_147_483  # seconds
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class BeforePayment:
    """What ``before_payment`` is asked about. Purser chooses one of the offers.

    ``amount`` is the largest of them, a decimal string in the asset's smallest unit (``None`` if none is a number),
    ``pay_to`` the recipient of the first.
    """

    url: str
    host: str
    method: str
    offers: tuple[Offer, ...]
    amount: str | None
    pay_to: str


class Given(TypedDict, total=False):
    """The options of ``from_env``, as ``Options`` describes them."""

    api_key: str
    base_url: str
    settlement: Literal["seller", "payer"]
    max_amount: Amount | None
    budget: Amount | None
    allow_hosts: Sequence[str] | None
    before_payment: Callable[[BeforePayment], bool | Awaitable[bool]] | None
    challenge_headers: Sequence[str]
    body_limit: int
    pay_timeout: float
    paid_timeout: float
    resends: int
    receipt_wait: float
    task: str | None
    return_402: bool
    on_payment: Callable[[PaymentInfo], object] | None


@dataclass(frozen=True)
class Options:
    """How a client pays, and what it refuses to.

    ``api_key`` and ``base_url`` are purser's; the key goes nowhere else.
    ``settlement`` is ``seller`` for ordinary sellers, ``payer`` for those that expect a settled payment.
    ``max_amount`` caps one payment: ``"0.05 USDC"``, ``Decimal("0.05")``, or a whole number or decimal string in the
    asset's smallest unit (USDC has 6 decimals). ``budget`` caps all payments of a client together.
    Payments are booked under ``task``, and limited by it.
    ``allow_hosts`` are the hosts that may be paid (``api.example.com``, ``*.example.com``, ``*``, each maybe
    with ``:port``). ``before_payment`` is asked before every payment. Only ``True`` allows it: everything else,
    nothing returned and exceptions too, refuses. It may be a coroutine function for the asynchronous clients.
    ``challenge_headers`` are further names of headers that carry challenges.
    ``body_limit`` bounds how much of a one-shot body is kept to be sent again, in bytes.
    ``pay_timeout`` bounds each of at most three tries to ask purser, ``paid_timeout`` the wait for the headers of a
    paid answer, in seconds. An unclear paid request is sent again, with the same payment, ``resends`` times.
    With ``return_402`` errors are not raised: the program gets a 402 that SDKs do not repeat, with the reason in it.
    ``on_payment`` is called with what was paid, for each answer that was, and for payments that were left open.
    An answer is held back ``receipt_wait`` seconds at most for its receipt to be reported.
    """

    api_key: str = field(repr=False)
    base_url: str
    settlement: Literal["seller", "payer"] = "seller"
    max_amount: Amount | None = None
    allow_hosts: Sequence[str] | None = None
    before_payment: Callable[[BeforePayment], bool | Awaitable[bool]] | None = None
    challenge_headers: Sequence[str] = ()
    body_limit: int = 1 << 20
    pay_timeout: float = 75.0
    paid_timeout: float = 300.0
    resends: int = 1
    receipt_wait: float = 1.0
    task: str | None = None
    return_402: bool = False
    on_payment: Callable[[PaymentInfo], object] | None = None
    budget: Amount | None = None

    def __post_init__(self) -> None:
        """Refuse what would only be noticed when money is at stake."""
        check_api_key(self.api_key)
        check_base_url(self.base_url)
        if self.settlement not in ("seller", "payer"):
            raise ValueError('settlement is "seller" or "payer"')
        _ = self.cap, self.total
        for name in ("allow_hosts", "challenge_headers"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} is a list of strings, not one")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        for pattern in self.allow_hosts or ():
            _pattern(pattern)
        for name in self.challenge_headers:
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"challenge_headers: {name!r} is no header name")
        for name, least in (("body_limit", 0), ("resends", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is a whole number, at least {least}")
        check_timeouts(pay_timeout=self.pay_timeout, paid_timeout=self.paid_timeout)
        if not 0 <= self.receipt_wait <= _LONGEST:
            raise ValueError(f"receipt_wait is a number of seconds, or 0, at most {_LONGEST}")

    @property
    def cap(self) -> int | None:
        """``max_amount`` as a number."""
        return None if self.max_amount is None else smallest("max_amount", self.max_amount)

    @property
    def total(self) -> int | None:
        """``budget`` as a number."""
        return None if self.budget is None else smallest("budget", self.budget)

    @property
    def guarded(self) -> bool:
        """Whether the program limits what is signed for."""
        return self.max_amount is not None or self.before_payment is not None or self.budget is not None


def from_env(**given: Unpack[Given]) -> Options:
    """Make options of the environment: ``PURSER_KEY``, ``PURSER_URL``, and what else is set of ``PURSER_MAX_AMOUNT``,
    ``PURSER_ALLOW_HOSTS`` (commas between) and ``PURSER_TASK``. What the call gives comes first.
    """
    read: Given = {}
    if key := os.environ.get("PURSER_KEY"):
        read["api_key"] = key
    if url := os.environ.get("PURSER_URL"):
        read["base_url"] = url
    if amount := os.environ.get("PURSER_MAX_AMOUNT"):
        read["max_amount"] = amount
    if hosts := os.environ.get("PURSER_ALLOW_HOSTS"):
        read["allow_hosts"] = tuple(host.strip() for host in hosts.split(","))
    if task := os.environ.get("PURSER_TASK"):
        read["task"] = task
    read.update(given)
    for name, variable in (("api_key", "PURSER_KEY"), ("base_url", "PURSER_URL")):
        if name not in read:
            raise ValueError(f"{variable} is not set")
    return Options(**read)  # type: ignore[typeddict-item,unused-ignore]


def check_timeouts(**given: float | None) -> None:
    """Refuse times that sockets do not take: what was paid for would not even be asked for."""
    for name, value in given.items():
        if value is not None and not 0 < value <= _LONGEST:
            raise ValueError(f"{name} is a number of seconds above 0, at most {_LONGEST}")


def check_api_key(key: str) -> None:
    """Refuse keys that could not be sent as a header."""
    if not re.fullmatch(r"[!-~]{1,256}", key, re.ASCII):
        raise ValueError("api_key is not an API key")


def check_base_url(url: str) -> str:
    """Check purser's address, and return it without a slash at its end."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        sound = False
    else:
        sound = sound and "@" not in parts.netloc and "?" not in url and "#" not in url
        sound = sound and re.fullmatch("[!-~]+", url, re.ASCII) is not None
    if not sound:
        raise ValueError("base_url is not an http or https URL without user, query and fragment")
    return url.rstrip("/")


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host (lower case, without a final dot) and port of an http or https URL."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    return parts.scheme.lower(), host, parts.port or _PORTS.get(parts.scheme.lower(), 0)


def _pattern(pattern: str) -> tuple[str, int | None]:
    """Host (maybe ``*`` or ``*.`` and a host) and port of a pattern."""
    match = re.fullmatch(r"(\*|(?:\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?", pattern or "", re.ASCII)
    if match is None:
        raise ValueError(f"allow_hosts: {pattern!r} is no host, no *.host and not *")
    host = match[1].lower().strip("[]").removesuffix(".")
    return host, int(match[2]) if match[2] else None


def host_allowed(patterns: Sequence[str], url: str, *, by_name: bool = False) -> bool:
    """Whether one of the patterns fits; with ``by_name`` the one that fits everything does not count."""
    _, host, port = origin(url)
    for pattern in patterns:
        wanted, at = _pattern(pattern)
        if at is not None and at != port:
            continue
        if wanted == "*":
            if not by_name:
                return True
        elif wanted.startswith("*."):
            if host.endswith(wanted[1:]) and len(host) > len(wanted) - 1:
                return True
        elif host == wanted:
            return True
    return False


def is_loopback(url: str) -> bool:
    """Report whether a URL names this machine, so that there is no path where a 402 could be forged."""
    _, host, _ = origin(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback if isinstance(address, IPv4Address) else str(address) == "::1"
