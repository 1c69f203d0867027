"""What outlives a request: idempotency keys of requests that were not brought to an end (BEHAVIOUR.md §6), and errors.

Programs retry by themselves. The next request that is the same gets the same key, so that purser hands out the same
payment. Only digests of bodies are kept.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._errors import UnclearError

__all__ = ["Identities", "Identity", "Listed", "Memory"]

KEPT = 7 * 60.0  # seconds, longer than a payment is valid
MOST = 256
# Of requests that were answered, for those that say that they repeat one.
KEPT_ANSWERED = 2 * 60.0
MOST_ANSWERED = 32
MOST_BYTES = 16 << 20  # of bodies that errors hold, which are needed to resume

# Method, URL without fragment, and digest of the body.
Identity = tuple[str, str, bytes]
# What was asked for, and what answered 402. One in common makes two requests the same.
Identities = frozenset[Identity]


class Memory:
    """Remembers keys. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, kept: float = KEPT, most: int = MOST) -> None:
        self._clock = clock
        self._kept = kept
        self._most = most
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, tuple[Identities, float]] = OrderedDict()

    def take(self, which: Identities) -> tuple[str, float] | None:
        """Take the oldest key of a request out, with its end: it serves one request at a time."""
        with self._lock:
            self._forget()
            for key, (known, until) in self._keys.items():
                if known & which:
                    del self._keys[key]
                    return key, until
        return None

    def put(self, which: Identities, key: str, until: float | None = None) -> None:
        """Remember a key from now on, or until the end it had."""
        with self._lock:
            self._keys.pop(key, None)
            self._keys[key] = which, self._clock() + self._kept if until is None else until
            self._keys = OrderedDict(sorted(self._keys.items(), key=lambda entry: entry[1][1]))
            self._forget()
            while len(self._keys) > self._most:
                self._keys.popitem(last=False)

    def drop(self, key: str) -> float | None:
        """Forget one key. Tells the end it had."""
        with self._lock:
            _, until = self._keys.pop(key, (None, None))
            return until

    def forget(self, method: str, url: str) -> None:
        """Forget the requests to a URL, whatever their body."""
        with self._lock:
            self._keys = OrderedDict(
                (key, entry) for key, entry in self._keys.items() if all(one[:2] != (method, url) for one in entry[0])
            )

    def _forget(self) -> None:
        now = self._clock()
        while self._keys:
            first = next(iter(self._keys))
            if self._keys[first][1] > now:
                return
            del self._keys[first]


class Listed:
    """Lists the payments that were left unclear, until they are brought to an end. The oldest go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: OrderedDict[str, tuple[UnclearError, int]] = OrderedDict()

    def put(self, key: str, error: UnclearError, size: int) -> None:
        """List an error in place of an earlier one of the same key. It holds bodies of so many bytes."""
        with self._lock:
            self._errors.pop(key, None)
            self._errors[key] = error, size
            held = sum(size for _, size in self._errors.values())
            while len(self._errors) > 1 and (len(self._errors) > MOST or held > MOST_BYTES):
                held -= self._errors.popitem(last=False)[1][1]

    def drop(self, key: str) -> None:
        """Forget what was brought to an end."""
        with self._lock:
            self._errors.pop(key, None)

    def all(self) -> tuple[UnclearError, ...]:
        """Return all, the newest last."""
        with self._lock:
            return tuple(error for error, _ in self._errors.values())
