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

__all__ = ["Identity", "Memory", "identity"]

KEPT = 7 * 60.0  # seconds, longer than a payment is valid
MOST = 256

Identity = tuple[str, str, bytes]


def identity(method: str, url: str, body: bytes) -> Identity:
    """What makes two requests the same. ``url`` has no fragment."""
    return method, url, hashlib.sha256(body).digest()


class Memory:
    """Remembers keys. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: OrderedDict[tuple[Identity, str], float] = OrderedDict()

    def take(self, which: Identity) -> tuple[str, float] | None:
        """Take the oldest key of a request out, with its end: it serves one request at a time."""
        with self._lock:
            self._forget()
            for entry in self._keys:
                if entry[0] == which:
                    return entry[1], self._keys.pop(entry)
        return None

    def put(self, which: Identity, key: str, until: float | None = None) -> None:
        """Remember a key from now on, or until the end it had."""
        with self._lock:
            self._keys[which, key] = self._clock() + KEPT if until is None else until
            self._keys = OrderedDict(sorted(self._keys.items(), key=lambda entry: entry[1]))
            self._forget()
            while len(self._keys) > MOST:
                self._keys.popitem(last=False)

    def drop(self, which: Identity, key: str) -> float | None:
        """Forget one key. Tells the end it had."""
        with self._lock:
            return self._keys.pop((which, key), None)

    def _forget(self) -> None:
        now = self._clock()
        while self._keys:
            first = next(iter(self._keys))
            if self._keys[first] > now:
                return
            del self._keys[first]
