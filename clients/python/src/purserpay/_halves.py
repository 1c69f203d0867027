"""The two halves of httpx and httpx2: what one blocks for, the other awaits.

Code that serves both is written as coroutines, which ``ran`` runs for blocking clients.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from ._coroutines import ran

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    from ._toolcalls import Coming

__all__ = ["Awaiting", "Blocking", "Half"]


class Half(Protocol):
    """What is different in the halves."""

    @staticmethod
    def within(seconds: float) -> AbstractContextManager[Any]:
        """Raise ``TimeoutError`` when time is up. A blocking client has the timeouts of its sockets instead."""

    @staticmethod
    def begin(coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return what a program of this half gets from a function: a result, or something to await."""

    @staticmethod
    async def send(transport: Any, request: Any) -> Any:
        """Send a request by a transport."""

    @staticmethod
    def chunks(stream: Any) -> Any:
        """Begin to read a stream."""

    @staticmethod
    async def following(chunks: Any) -> bytes | None:
        """Return the next chunk, or ``None`` at the end."""

    @staticmethod
    def watched(chunks: Any, coming: Coming, lost: Callable[[], None]) -> Any:
        """Look on while a body is read, and tell if an answer is lost with it."""

    @staticmethod
    async def end(chunks: Any) -> None:
        """Stop reading."""

    @staticmethod
    async def read(response: Any) -> bytes:
        """Read an answer to its end."""

    @staticmethod
    async def close(thing: Any) -> None:
        """Close an answer, a stream or a transport."""


class Blocking:
    """The half that blocks."""

    @staticmethod
    def within(_: float) -> AbstractContextManager[Any]:
        return nullcontext()

    @staticmethod
    def begin(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return ran(coroutine)

    @staticmethod
    async def send(transport: Any, request: Any) -> Any:
        return transport.handle_request(request)

    @staticmethod
    def chunks(stream: Any) -> Any:
        return iter(stream)

    @staticmethod
    async def following(chunks: Any) -> bytes | None:
        return next(chunks, None)

    @staticmethod
    def watched(chunks: Any, coming: Coming, lost: Callable[[], None]) -> Any:
        whole = False
        try:
            for chunk in chunks:
                coming.add(chunk)
                yield chunk
            whole = True
        finally:
            if coming.lost(whole=whole):
                lost()

    @staticmethod
    async def end(_: Any) -> None:
        pass

    @staticmethod
    async def read(response: Any) -> bytes:
        text: bytes = response.read()
        return text

    @staticmethod
    async def close(thing: Any) -> None:
        thing.close()


class Awaiting:
    """The half that awaits."""

    @staticmethod
    def within(seconds: float) -> AbstractContextManager[Any]:
        import anyio

        return anyio.fail_after(seconds)

    @staticmethod
    def begin(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return coroutine

    @staticmethod
    async def send(transport: Any, request: Any) -> Any:
        return await transport.handle_async_request(request)

    @staticmethod
    def chunks(stream: Any) -> Any:
        return aiter(stream)

    @staticmethod
    async def following(chunks: Any) -> bytes | None:
        return await anext(chunks, None)

    @staticmethod
    async def watched(chunks: Any, coming: Coming, lost: Callable[[], None]) -> Any:
        whole = False
        try:
            async for chunk in chunks:
                coming.add(chunk)
                yield chunk
            whole = True
        finally:
            if coming.lost(whole=whole):
                lost()
            await Awaiting.end(chunks)

    @staticmethod
    async def end(chunks: Any) -> None:
        # trio does not like generators lying about that were not read to their end.
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()

    @staticmethod
    async def read(response: Any) -> bytes:
        text: bytes = await response.aread()
        return text

    @staticmethod
    async def close(thing: Any) -> None:
        await thing.aclose()
