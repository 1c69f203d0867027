"""Who does the steps of a flow: one payer blocks, the other awaits.

A payer belongs to one wrapped client or transport. It holds what outlives a request: the connection to purser, the
remembered idempotency keys, and receipts that are still being reported.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from . import _calls as calls
from . import _flow as flow
from ._memory import Memory
from ._options import check_base_url

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._callers import AsyncCaller, Caller
    from ._errors import UnclearError
    from ._models import Payment
    from ._options import Options

__all__ = ["AsyncPayer", "AsyncWire", "Payer", "Wire"]

RECEIPT_TRIES = 2
RECEIPT_TIMEOUT = 10.0  # seconds for each
BETWEEN_RECEIPTS = 0.25  # seconds
# How many payments that were left unclear are listed.
LISTED = 256


class Wire(Protocol):
    """How one request reaches its seller."""

    def send(self, step: flow.Send) -> flow.Reply:
        """Send the request with a payment; raise ``SendError``."""

    def peek(self, reply: flow.Reply) -> bytes | None:
        """Read the body as far as it may be a challenge, and put it back."""

    def hold(self, reply: flow.Reply) -> bytes:
        """Read the answer for an error, and close it."""

    def discard(self, reply: flow.Reply) -> None:
        """Close the answer."""


class AsyncWire(Protocol):
    """The same without blocking."""

    async def send(self, step: flow.Send) -> flow.Reply:
        """Send the request with a payment; raise ``SendError``."""

    async def peek(self, reply: flow.Reply) -> bytes | None:
        """Read the body as far as it may be a challenge, and put it back."""

    async def hold(self, reply: flow.Reply) -> bytes:
        """Read the answer for an error, and close it."""

    async def discard(self, reply: flow.Reply) -> None:
        """Close the answer."""


class _Base:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.memory = Memory()
        self._base_url = check_base_url(options.base_url)
        self._unclear: deque[UnclearError] = deque(maxlen=LISTED)

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear, the newest last."""
        return tuple(self._unclear)

    def _call(self, operation: calls.Operation[Any], timeout: float) -> calls.Call:
        return operation.call(self._base_url, self.options.api_key, timeout)

    def _listed(self, purchase: flow.Purchase) -> None:
        if purchase.unclear is not None:
            self._unclear.append(purchase.unclear)
            purchase.unclear = None


def _follow(info: flow.PaymentInfo, payment: Payment) -> None:
    info.state, info.settled = payment.state, payment.state == "settled"
    info.transaction = payment.transaction or info.transaction


class Payer(_Base):
    """Pays and waits. Safe to use from several threads."""

    def __init__(self, options: Options, caller: Caller) -> None:
        super().__init__(options)
        self._caller = caller
        self._receipts = concurrent.futures.ThreadPoolExecutor(4, "purser-receipts")

    def run(self, purchase: flow.Purchase, steps: flow.Steps[flow.Reply], wire: Wire) -> flow.Reply:
        """Do the steps of a purchase to its end."""
        try:
            step = next(steps)
            while True:
                try:
                    result = self._do(step, wire)
                except BaseException as error:  # noqa: BLE001 — the flow decides
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            reply: flow.Reply = end.value
            return reply
        except BaseException:
            if purchase.reply is not None:  # else its connection stays taken
                wire.discard(purchase.reply)
            raise
        finally:
            self._listed(purchase)

    def _do(self, step: flow.Step, wire: Wire) -> Any:
        match step:
            case flow.Send():
                return wire.send(step)
            case flow.Post(operation):
                return self._caller(self._call(operation, self.options.pay_timeout))
            case flow.Peek(reply):
                return wire.peek(reply)
            case flow.Hold(reply):
                return wire.hold(reply)
            case flow.Discard(reply):
                return wire.discard(reply)
            case flow.Ask(info):
                return self._ask(info)
            case flow.Sleep(seconds):
                return time.sleep(seconds)
            case flow.Report():
                return self._report(step)

    def _ask(self, info: Any) -> Any:
        assert self.options.before_payment is not None  # noqa: S101
        verdict = self.options.before_payment(info)
        if inspect.isawaitable(verdict):
            if inspect.iscoroutine(verdict):
                verdict.close()
            raise TypeError("before_payment must not be a coroutine function here: this client blocks")
        return verdict

    def _report(self, step: flow.Report) -> None:
        try:
            future = self._receipts.submit(self._post, step)
        except RuntimeError:  # closed meanwhile, or the interpreter ends: the chain knows as well
            return
        if self.options.receipt_wait > 0:
            concurrent.futures.wait([future], self.options.receipt_wait)

    def _post(self, step: flow.Report) -> None:
        assert step.payment.id is not None  # noqa: S101
        for attempt in range(RECEIPT_TRIES):
            try:
                operation = calls.post_receipt(step.payment.id, step.receipt)
                _follow(
                    step.payment,
                    operation.result(
                        self._caller(self._call(operation, min(RECEIPT_TIMEOUT, self.options.pay_timeout)))
                    ),
                )
            except Exception:  # noqa: BLE001 — the program's answer does not depend on it
                if attempt + 1 < RECEIPT_TRIES:
                    time.sleep(BETWEEN_RECEIPTS)
            else:
                return

    def close(self) -> None:
        """Wait for receipts that are being reported, and close the connection to purser."""
        self._receipts.shutdown(wait=True)
        self._caller.close()


class AsyncPayer(_Base):
    """Pays and awaits, under asyncio or trio."""

    def __init__(self, options: Options, caller: AsyncCaller) -> None:
        super().__init__(options)
        self._caller = caller
        self._reporting: set[Any] = set()  # events of anyio, one for each receipt
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, purchase: flow.Purchase, steps: flow.Steps[flow.Reply], wire: AsyncWire) -> flow.Reply:
        """Do the steps of a purchase to its end."""
        import anyio

        try:
            step = next(steps)
            while True:
                try:
                    result = await self._do(step, wire)
                except BaseException as error:  # noqa: BLE001 — the flow decides; cancellation comes back out of it
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            reply: flow.Reply = end.value
            return reply
        except BaseException:
            if purchase.reply is not None:  # else its connection stays taken
                with anyio.CancelScope(shield=True):
                    await wire.discard(purchase.reply)
            raise
        finally:
            self._listed(purchase)

    async def _do(self, step: flow.Step, wire: AsyncWire) -> Any:
        import anyio

        match step:
            case flow.Send():
                return await wire.send(step)
            case flow.Post(operation):
                return await self._caller(self._call(operation, self.options.pay_timeout))
            case flow.Peek(reply):
                return await wire.peek(reply)
            case flow.Hold(reply):
                return await wire.hold(reply)
            case flow.Discard(reply):
                return await wire.discard(reply)
            case flow.Ask(info):
                assert self.options.before_payment is not None  # noqa: S101
                verdict = self.options.before_payment(info)
                return await verdict if inspect.isawaitable(verdict) else verdict
            case flow.Sleep(seconds):
                return await anyio.sleep(seconds)
            case flow.Report():
                return await self._report(step)

    async def _report(self, step: flow.Report) -> None:
        import anyio

        done = anyio.Event()

        async def work() -> None:
            try:
                await self._post(step)
            finally:
                self._reporting.discard(done)
                done.set()

        self._reporting.add(done)
        self._spawn(work)
        with anyio.move_on_after(self.options.receipt_wait):
            await done.wait()

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin something that goes on when its beginner does."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            import trio

            trio.lowlevel.spawn_system_task(work)
        else:
            task = loop.create_task(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _post(self, step: flow.Report) -> None:
        import anyio

        assert step.payment.id is not None  # noqa: S101
        for attempt in range(RECEIPT_TRIES):
            try:
                operation = calls.post_receipt(step.payment.id, step.receipt)
                answer = await self._caller(self._call(operation, min(RECEIPT_TIMEOUT, self.options.pay_timeout)))
                _follow(step.payment, operation.result(answer))
            except Exception:  # noqa: BLE001 — the program's answer does not depend on it
                if attempt + 1 < RECEIPT_TRIES:
                    await anyio.sleep(BETWEEN_RECEIPTS)
            else:
                return

    async def aclose(self) -> None:
        """Wait for receipts that are being reported, and close the connection to purser."""
        import anyio

        with anyio.move_on_after(RECEIPT_TRIES * RECEIPT_TIMEOUT + BETWEEN_RECEIPTS):
            while self._reporting:
                await next(iter(self._reporting)).wait()
        await self._caller.aclose()
