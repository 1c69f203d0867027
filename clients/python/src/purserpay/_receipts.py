"""Receipts on their way to purser, of blocking clients. BEHAVIOUR.md §4.6.

One daemon thread for each payer reports them, one after another. It ends when there are none left, so that an idle
client has no thread. Receipts that come in faster than they are reported, or too late, are dropped: purser finds on
the chain what they say.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLOSE_WITHIN", "MOST", "Receipts"]

LOG = logging.getLogger("purserpay")

MOST = 256  # receipts that wait to be reported
CLOSE_WITHIN = 5.0  # seconds that close waits for them
EXIT_WITHIN = 2.0  # seconds that the interpreter's end waits for them, of all clients together

_all: weakref.WeakSet[Receipts] = weakref.WeakSet()


class Receipts:
    """Runs jobs in the background, one after another. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False
        _all.add(self)

    def put(self, job: Callable[[], None], seconds: float) -> None:
        """Queue a job, and wait so long at most for its end."""
        done = threading.Event()
        with self._changed:
            if self._closed or len(self._jobs) >= MOST:
                LOG.info("a receipt is not reported: %s", "closed" if self._closed else "too many wait")
                return
            self._jobs.append((job, done))
            if not self._busy():
                self._thread = threading.Thread(target=self._work, name="purser-receipts", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter ends
                    self._thread = None
                    self._jobs.clear()
                    return
        if seconds > 0:
            done.wait(seconds)

    def close(self, seconds: float) -> None:
        """Wait so long at most for all jobs, and drop the others."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._changed.wait_for(lambda: not self._busy(), seconds)
            while self._jobs:
                self._jobs.popleft()[1].set()

    def _busy(self) -> bool:
        # A thread that was started before a fork is dead in the child.
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._thread = None
                    self._changed.notify_all()
                    return
                job, done = self._jobs.popleft()
            try:
                job()
            finally:
                done.set()


@atexit.register
def _at_exit() -> None:
    until = time.monotonic() + EXIT_WITHIN
    for receipts in list(_all):
        receipts.close(max(0.0, until - time.monotonic()))
