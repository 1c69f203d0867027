"""Spans of OpenTelemetry, if the program has it."""

from __future__ import annotations

import time
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import PurserError
from ._version import __version__

if TYPE_CHECKING:
    from ._flow import Purchase

__all__ = ["Span"]


@cache
def _trace() -> Any:
    try:
        return import_module("opentelemetry.trace")
    except ImportError:
        return None


class Span:
    """A span around a purchase, with what was paid. A 402 that is none of ours has none."""

    def __init__(self, purchase: Purchase) -> None:
        self._purchase = purchase
        self._began = time.time_ns()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, failure: BaseException | None, __: object) -> None:
        trace = _trace()
        if isinstance(failure, StopIteration):  # how a flow tells its result
            failure = None
        if trace is not None and (self._purchase.info is not None or isinstance(failure, PurserError)):
            _record(trace, self._purchase, failure, self._began)


def _record(trace: Any, purchase: Purchase, failure: BaseException | None, began: int) -> None:
    tracer = trace.get_tracer("purserpay", __version__)
    made = tracer.start_span("purser.payment", kind=trace.SpanKind.CLIENT, start_time=began)
    known: dict[str, Any] = {"server.address": purchase.host, "purser.task": purchase.task}
    if purchase.info is not None:
        info = purchase.info
        known |= {"purser.payment.id": info.id, "purser.amount": info.amount, "purser.pay_to": info.pay_to}
        known |= {"purser.transaction": info.transaction or None, "purser.state": info.state}
    if failure is not None:
        known["error.type"] = failure.code if isinstance(failure, PurserError) else type(failure).__name__
        made.set_status(
            trace.Status(trace.StatusCode.ERROR, str(failure) if isinstance(failure, PurserError) else None)
        )
    made.set_attributes({name: value for name, value in known.items() if value is not None})
    made.end()
