"""One code for blocking and for asynchronous clients: coroutines, of which the blocking ones never wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["ran"]

T = TypeVar("T")


def ran(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end whose every step blocks, so that it never waits for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking client was given something to await")
