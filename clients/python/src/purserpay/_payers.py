"""Payers do the steps of a flow: one blocks, the other awaits.

A payer belongs to one wrapped client or transport. It holds what outlives a request: the connection to purser, the
remembered idempotency keys, and receipts that are still being reported.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from . import _calls as calls
from . import _flow as flow
from ._asked import said
from ._budget import Budget
from ._coroutines import ran
from ._jobs import Jobs
from ._memory import KEPT_ANSWERED, MOST_ANSWERED, Listed, Memory
from ._options import check_base_url
from ._receipts import CLOSE_WITHIN, MOST, Receipts
from ._spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from ._callers import Caller
    from ._errors import UnclearError
    from ._models import Payment
    from ._options import Options

__all__ = ["AsyncPayer", "Payer", "Wire"]

RECEIPT_TRIES = 2
RECEIPT_TIMEOUT = 10.0  # seconds for each
BETWEEN_RECEIPTS = 0.25  # seconds


class Wire(Protocol):
    """How one request reaches its seller. Those of blocking clients never wait."""

    async def send(self, step: flow.Send) -> flow.Reply:
        """Send the request with a payment; raise ``SendError``."""

    async def peek(self, reply: flow.Reply) -> bytes | None:
        """Read the body as far as it may be a challenge, and put it back."""

    async def hold(self, reply: flow.Reply) -> bytes:
        """Read the answer for an error, and close it."""

    async def discard(self, reply: flow.Reply) -> None:
        """Close the answer."""


class _Base:
    def __init__(self, options: Options, caller: Caller) -> None:
        self.options = options
        self.memory = Memory()
        self.answered = Memory(kept=KEPT_ANSWERED, most=MOST_ANSWERED)
        self.jobs = Jobs()
        self.budget = Budget(options.total)
        self._caller = caller
        self._base_url = check_base_url(options.base_url)
        self._listed = Listed()

    @property
    def unclear(self) -> tuple[UnclearError, ...]:
        """The payments that were left unclear and were not resumed or repeated since, the newest last."""
        return self._listed.all()

    @contextmanager
    def first(self, method: str, url: str, headers: Mapping[str, Any]) -> Iterator[Callable[[int], None]]:
        """Send a request for the first time, and take its status.

        A repeat that comes after a first try without a payment is no repeat of an earlier purchase.
        """
        statuses: list[int] = []
        try:
            yield statuses.append
        finally:
            if statuses != [402] and not said(method, url, headers).repeats:
                self.answered.forget(method, url)

    async def perform(self, purchase: flow.Purchase, steps: flow.Steps[flow.Reply], wire: Wire) -> flow.Reply:
        """Do the steps of a purchase to its end."""
        try:
            with Span(purchase):
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
                with self._shielded():
                    await wire.discard(purchase.reply)
            raise
        finally:
            if purchase.unclear is not None:
                self._listed.put(purchase.key, purchase.unclear, purchase.held)
                purchase.unclear = None
            elif purchase.ended:
                self._listed.drop(purchase.key)

    async def _do(self, step: flow.Step, wire: Wire) -> Any:
        match step:
            case flow.Send():
                return await wire.send(step)
            case flow.Post(operation, timeout):
                return await self._call(operation, timeout)
            case flow.Peek(reply):
                return await wire.peek(reply)
            case flow.Hold(reply):
                return await wire.hold(reply)
            case flow.Discard(reply):
                return await wire.discard(reply)
            case flow.Ask(info):
                return await self._ask(info)
            case flow.Sleep(seconds):
                return await self._sleep(seconds)
            case flow.Report():
                return await self._report(step)

    async def _call(self, operation: calls.Operation[Any], timeout: float) -> calls.Answer:
        return await self._caller(operation.call(self._base_url, self.options.api_key, timeout))

    async def _post(self, step: flow.Report) -> None:
        assert step.payment.id is not None  # noqa: S101
        for attempt in range(RECEIPT_TRIES):
            try:
                operation = calls.post_receipt(step.payment.id, step.receipt)
                answer = await self._call(operation, min(RECEIPT_TIMEOUT, self.options.pay_timeout))
                _follow(step.payment, operation.result(answer))
            except Exception:  # noqa: BLE001 — the program's answer does not depend on it
                if attempt + 1 < RECEIPT_TRIES:
                    await self._sleep(BETWEEN_RECEIPTS)
            else:
                return

    # How the two differ.

    @staticmethod
    def _shielded() -> Any:
        raise NotImplementedError

    async def _ask(self, info: Any) -> Any:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _report(self, step: flow.Report) -> None:
        raise NotImplementedError


def _follow(info: flow.PaymentInfo, payment: Payment) -> None:
    info.state, info.settled = payment.state, payment.state == "settled"
    info.transaction = payment.transaction or info.transaction


class Payer(_Base):
    """Pays and waits. Safe to use from several threads."""

    def __init__(self, options: Options, caller: Caller) -> None:
        super().__init__(options, caller)
        self._receipts = Receipts()

    def run(self, purchase: flow.Purchase, steps: flow.Steps[flow.Reply], wire: Wire) -> flow.Reply:
        """Do the steps of a purchase to its end."""
        return ran(self.perform(purchase, steps, wire))

    @staticmethod
    def _shielded() -> Any:
        return nullcontext()

    async def _ask(self, info: Any) -> Any:
        assert self.options.before_payment is not None  # noqa: S101
        verdict = self.options.before_payment(info)
        if inspect.isawaitable(verdict):
            if inspect.iscoroutine(verdict):
                verdict.close()
            raise TypeError("before_payment must not be a coroutine function here: this client blocks")
        return verdict

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 — a blocking client's

    async def _report(self, step: flow.Report) -> None:
        self._receipts.put(lambda: ran(self._post(step)), self.options.receipt_wait)

    def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so long at most for receipts that are being reported, and close the connection to purser."""
        self._receipts.close(timeout)
        ran(self._caller.close())


class AsyncPayer(_Base):
    """Pays and awaits, under asyncio or trio."""

    def __init__(self, options: Options, caller: Caller) -> None:
        super().__init__(options, caller)
        self._reporting: dict[Any, Any] = {}  # events of anyio and what cancels them, one for each receipt
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    def _shielded() -> Any:
        import anyio

        return anyio.CancelScope(shield=True)

    async def _ask(self, info: Any) -> Any:
        assert self.options.before_payment is not None  # noqa: S101
        verdict = self.options.before_payment(info)
        return await verdict if inspect.isawaitable(verdict) else verdict

    async def _sleep(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)

    async def _report(self, step: flow.Report) -> None:
        import anyio

        if len(self._reporting) >= MOST:
            return
        done, scope = anyio.Event(), anyio.CancelScope()

        async def work() -> None:
            try:
                with scope:
                    await self._post(step)
            finally:
                self._reporting.pop(done, None)
                done.set()

        self._reporting[done] = scope
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

    async def close(self, timeout: float = CLOSE_WITHIN) -> None:
        """Wait so long at most for receipts that are being reported, and close the connection to purser."""
        import anyio

        with anyio.move_on_after(timeout):
            while self._reporting:
                await next(iter(self._reporting)).wait()
        for scope in self._reporting.values():
            scope.cancel()
        await self._caller.close()
