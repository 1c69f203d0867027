"""What one client may spend in its life. BEHAVIOUR.md §2."""

from __future__ import annotations

import threading
from collections import OrderedDict

__all__ = ["Budget"]

MOST = 4096  # keys whose repeats are recognized


class Budget:
    """Counts payments by idempotency key, so that a repeat costs nothing. Safe to use from several threads."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._spent = 0
        self._keys: OrderedDict[str, int] = OrderedDict()

    @property
    def left(self) -> int | None:
        """What is left, in the smallest unit, or ``None`` without a budget."""
        with self._lock:
            return None if self._limit is None else self._limit - self._spent

    def take(self, key: str, amount: int) -> bool:
        """Set an amount aside before purser is asked. Tells whether there was so much left."""
        with self._lock:
            if self._limit is None or key in self._keys:
                return True
            if self._spent + amount > self._limit:
                return False
            self._spent += amount
            self._keys[key] = amount
            while len(self._keys) > MOST:
                self._keys.popitem(last=False)
            return True

    def settle(self, key: str, amount: int) -> None:
        """Count what was signed for instead: 0 if nothing was."""
        with self._lock:
            if key in self._keys:
                self._spent += amount - self._keys[key]
                self._keys[key] = amount
                if amount == 0:
                    del self._keys[key]
