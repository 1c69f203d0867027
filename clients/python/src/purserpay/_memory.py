"""Idempotency keys of requests that were not brought to an end. BEHAVIOUR.md §6.

Programs retry by themselves. The next request that is the same gets the same key, so that purser hands out the same
payment. Only digests of bodies are kept.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Identities", "Identity", "Memory", "identity"]

KEPT = 7 * 60.0  # seconds, longer than a payment is valid
MOST = 256

Identity = tuple[str, str, bytes]
# What was asked for, and what answered 402. One in common makes two requests the same.
Identities = frozenset[Identity]


def identity(method: str, url: str, body: bytes) -> Identity:
    """What makes two requests the same. ``url`` has no fragment."""
    return method, url, hashlib.sha256(body).digest()


class Memory:
    """Remembers keys. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
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
            self._keys[key] = which, self._clock() + KEPT if until is None else until
            self._keys = OrderedDict(sorted(self._keys.items(), key=lambda entry: entry[1][1]))
            self._forget()
            while len(self._keys) > MOST:
                self._keys.popitem(last=False)

    def drop(self, key: str) -> float | None:
        """Forget one key. Tells the end it had."""
        with self._lock:
            _, until = self._keys.pop(key, (None, None))
            return until

    def _forget(self) -> None:
        now = self._clock()
        while self._keys:
            first = next(iter(self._keys))
            if self._keys[first][1] > now:
                return
            del self._keys[first]
