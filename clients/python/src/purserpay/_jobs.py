"""Jobs that paid answers name: questions about them carry the payment of the order. BEHAVIOUR.md §6."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit, urlunsplit

from ._memory import KEPT, MOST
from ._options import origin
from ._wire import decode_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ._models import PayResult
    from ._steps import PaymentInfo

__all__ = ["Jobs", "Order", "is_json", "named"]

MOST_NAMED = 4  # by one body
_HEADERS = ("location", "content-location", "operation-location", "azure-asyncoperation")
_GROUPS = ("data", "job", "task", "urls", "links")
_MEMBER = re.compile(r"(poll|polling|status|response|result|job|task)url", re.IGNORECASE)


class Order(NamedTuple):
    """The payment of an order. ``until`` is when it is forgotten."""

    key: str
    result: PayResult
    info: PaymentInfo | None
    until: float


class Jobs:
    """Knows orders by the URLs where they can be asked about. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: OrderedDict[str, Order] = OrderedDict()

    def at(self, urls: Iterable[str]) -> Order | None:
        """Find the order that a request asks about."""
        with self._lock:
            found = next((self._orders[url] for url in urls if url in self._orders), None)
        return found if found is not None and time.monotonic() < found.until else None

    def note(self, urls: Iterable[str], order: Order) -> None:
        """Note where a job can be asked about."""
        with self._lock:
            for url in urls:
                self._orders.pop(url, None)
                self._orders[url] = order
            while len(self._orders) > MOST:
                self._orders.popitem(last=False)

    @staticmethod
    def until() -> float:
        """Tell when an order of now is forgotten."""
        return time.monotonic() + KEPT


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether an answer is JSON."""
    return re.search(r"json *(;|$)", headers.get("content-type", "")) is not None


def named(headers: Mapping[str, str], body: bytes, base: str) -> Iterator[str]:
    """Find where an answer says that its job can be asked about: at the same site, and not where it came from."""
    try:
        inside = list(_members(decode_object(body))) if body else []
    except ValueError:
        inside = []
    for where in [*(headers.get(name, "") for name in _HEADERS), *inside[:MOST_NAMED]]:
        try:
            url = urlunsplit((*urlsplit(urljoin(base, where))[:4], ""))
            if url != base and origin(url) == origin(base):
                yield url
        except ValueError:
            continue


def _members(top: dict[str, Any]) -> Iterator[str]:
    for group in ("", *_GROUPS):
        of = top.get(group) if group else top
        for name, value in of.items() if isinstance(of, dict) else ():
            links = group in ("urls", "links") and name in ("get", "status", "self")
            if isinstance(value, str) and (links or _MEMBER.fullmatch(name.replace("_", ""))):
                yield value
