"""The API objects: keys, wallets, payments and spend, blocking and asynchronous. BEHAVIOUR.md §9.

Each call is made once. Both halves share the operations of ``_calls``; here is only who waits how.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import _calls as calls
from ._amounts import smallest
from ._callers import HttpxCaller, RequestsCaller, Urllib3Caller
from ._coroutines import ran
from ._errors import PurserUnreachableError
from ._halves import Awaiting, Blocking
from ._options import check_api_key, check_base_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import ModuleType, TracebackType

    import httpx
    from requests.adapters import BaseAdapter
    from typing_extensions import Self

    from ._amounts import Amount
    from ._callers import Caller
    from ._models import ApiKey, Limits, Payment, PayResult, Quote, SpendEvent, SpendPage, Wallet

__all__ = ["AsyncPurser", "Purser"]

T = TypeVar("T")
Settlement = Literal["seller", "payer"]
Door = Literal["api", "proxy", "transport"]

_NO_LIBRARY = "purserpay needs an HTTP library: pip install httpx, httpx2, requests, or urllib3"


class _Doors:
    """Where purser is, and who is asking."""

    def __init__(self, api_key: str | None, base_url: str, timeout: float) -> None:
        if api_key is not None:
            check_api_key(api_key)
        self._api_key = api_key
        self._base_url = check_base_url(base_url)
        self._timeout = timeout

    def _call(self, operation: calls.Operation[Any]) -> calls.Call:
        return operation.call(self._base_url, self._api_key, self._timeout)


def _order(
    header: str,
    request_url: str | None,
    idempotency_key: str | None,
    settlement: str | None,
    task: str | None,
    max_amount: Amount | None,
) -> calls.Order:
    cap = None if max_amount is None else smallest("max_amount", max_amount)
    return calls.Order(header, request_url, idempotency_key, settlement, task, cap)


def _unreachable(error: calls.CallError) -> PurserUnreachableError:
    return PurserUnreachableError(f"purser could not be asked: {error}")


class Purser(_Doors):
    """Purser's API. ``keys.create`` needs no API key; everything else is about the key's own things.

    ``transport`` is httpx's for the calls, ``adapter`` that of requests; without either whichever library is installed
    is used: httpx, httpx2, requests, urllib3. The environment's proxies are not used.
    """

    def __init__(
        self,
        api_key: str | None,
        base_url: str,
        *,
        timeout: float = 75.0,
        transport: httpx.BaseTransport | None = None,
        adapter: BaseAdapter | None = None,
    ) -> None:
        super().__init__(api_key, base_url, timeout)
        self._caller = _caller(transport, adapter)
        self.keys = Keys(self)
        self.wallets = Wallets(self)
        self.payments = Payments(self)
        self.spend = Spend(self)

    def pay(
        self,
        payment_required_header: str,
        request_url: str | None = None,
        *,
        idempotency_key: str | None = None,
        settlement: Settlement | None = None,
        task: str | None = None,
        max_amount: Amount | None = None,
    ) -> PayResult:
        """Pay for a challenge (``POST /v1/pay``). Without ``settlement`` purser's default holds.

        With an ``idempotency_key`` the call can be made again when its answer is lost, and pays once.
        """
        order = _order(payment_required_header, request_url, idempotency_key, settlement, task, max_amount)
        return self.run(calls.pay(order))

    def quote(
        self,
        payment_required_header: str,
        request_url: str | None = None,
        *,
        idempotency_key: str | None = None,
        settlement: Settlement | None = None,
        task: str | None = None,
        max_amount: Amount | None = None,
    ) -> Quote:
        """Say what ``pay`` would pay now (``POST /v1/quote``). What it would refuse is refused. Nothing is paid."""
        order = _order(payment_required_header, request_url, idempotency_key, settlement, task, max_amount)
        return self.run(calls.quote(order))

    def limits(self, door: Door | None = None) -> Limits:
        """Tell the key's own limits at a door (``api`` if nothing is said), with what is spent and left."""
        return self.run(calls.limits(door))

    def run(self, operation: calls.Operation[T]) -> T:
        """Make one call."""
        try:
            answer = ran(self._caller(self._call(operation)))
        except calls.CallError as error:
            raise _unreachable(error) from error
        return operation.result(answer)

    def close(self) -> None:
        """Close the connections."""
        ran(self._caller.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Keys:
    """API keys."""

    def __init__(self, purser: Purser) -> None:
        self._purser = purser

    def create(
        self,
        label: str | None = None,
        *,
        key: str | None = None,
        organization_id: str | None = None,
        plan: str | None = None,
        internal_secret: str | None = None,
    ) -> ApiKey:
        """Create an API key. Its secret is shown only here."""
        return self._purser.run(calls.create_key(label, key, organization_id, plan, internal_secret))


class Wallets:
    """The key's wallets."""

    def __init__(self, purser: Purser) -> None:
        self._purser = purser

    def list(self) -> list[Wallet]:
        """All of them, oldest first."""
        return self._purser.run(calls.list_wallets())

    def create(self, network: str | None = None) -> Wallet:
        """Create a wallet, on ``base`` if nothing is said."""
        return self._purser.run(calls.create_wallet(network))

    def delete(self, wallet_id: str) -> None:
        """Delete a wallet by its ``id``."""
        self._purser.run(calls.delete_wallet(wallet_id))


class Payments:
    """The key's payments."""

    def __init__(self, purser: Purser) -> None:
        self._purser = purser

    def list(self, state: str | None = None, *, limit: int | None = None, before: str | None = None) -> list[Payment]:
        """One page, newest first. ``state`` is a state (open, settled, void) or a flag (refused, unresolved, …)."""
        return self._purser.run(calls.list_payments(state, limit, before))

    def all(self, state: str | None = None, *, page_size: int = 100) -> Iterator[Payment]:
        """All of them, newest first, page by page."""
        before: str | None = None
        while True:
            page = self.list(state, limit=page_size, before=before)
            yield from page
            if len(page) < page_size:
                return
            before = page[-1].id

    def get(self, payment_id: str) -> Payment:
        """One payment."""
        return self._purser.run(calls.get_payment(payment_id))

    def receipt(self, payment_id: str, value: str) -> Payment:
        """Tell purser the seller's receipt, as its PAYMENT-RESPONSE header has it."""
        return self._purser.run(calls.post_receipt(payment_id, value))


class Spend:
    """What the key has spent."""

    def __init__(self, purser: Purser) -> None:
        self._purser = purser

    def list(self, task: str | None = None, *, limit: int | None = None, before: str | None = None) -> SpendPage:
        """One page, newest first, and what is pending."""
        return self._purser.run(calls.list_spend(task, limit, before))

    def all(self, task: str | None = None, *, page_size: int = 100) -> Iterator[SpendEvent]:
        """All events, newest first, page by page."""
        before: str | None = None
        while True:
            page = self.list(task, limit=page_size, before=before).events
            yield from page
            if len(page) < page_size:
                return
            before = page[-1].id


class AsyncPurser(_Doors):
    """Purser's API without blocking. Needs httpx or httpx2."""

    def __init__(
        self,
        api_key: str | None,
        base_url: str,
        *,
        timeout: float = 75.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(api_key, base_url, timeout)
        self._caller = _async_caller(transport)
        self.keys = AsyncKeys(self)
        self.wallets = AsyncWallets(self)
        self.payments = AsyncPayments(self)
        self.spend = AsyncSpend(self)

    async def pay(
        self,
        payment_required_header: str,
        request_url: str | None = None,
        *,
        idempotency_key: str | None = None,
        settlement: Settlement | None = None,
        task: str | None = None,
        max_amount: Amount | None = None,
    ) -> PayResult:
        """Pay for a challenge, as ``Purser.pay`` does."""
        order = _order(payment_required_header, request_url, idempotency_key, settlement, task, max_amount)
        return await self.run(calls.pay(order))

    async def quote(
        self,
        payment_required_header: str,
        request_url: str | None = None,
        *,
        idempotency_key: str | None = None,
        settlement: Settlement | None = None,
        task: str | None = None,
        max_amount: Amount | None = None,
    ) -> Quote:
        """Say what ``pay`` would pay now (``POST /v1/quote``). What it would refuse is refused. Nothing is paid."""
        order = _order(payment_required_header, request_url, idempotency_key, settlement, task, max_amount)
        return await self.run(calls.quote(order))

    async def limits(self, door: Door | None = None) -> Limits:
        """Tell the key's own limits at a door (``api`` if nothing is said), with what is spent and left."""
        return await self.run(calls.limits(door))

    async def run(self, operation: calls.Operation[T]) -> T:
        """Make one call."""
        try:
            answer = await self._caller(self._call(operation))
        except calls.CallError as error:
            raise _unreachable(error) from error
        return operation.result(answer)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncKeys:
    """API keys."""

    def __init__(self, purser: AsyncPurser) -> None:
        self._purser = purser

    async def create(
        self,
        label: str | None = None,
        *,
        key: str | None = None,
        organization_id: str | None = None,
        plan: str | None = None,
        internal_secret: str | None = None,
    ) -> ApiKey:
        """Create an API key. Its secret is shown only here."""
        return await self._purser.run(calls.create_key(label, key, organization_id, plan, internal_secret))


class AsyncWallets:
    """The key's wallets."""

    def __init__(self, purser: AsyncPurser) -> None:
        self._purser = purser

    async def list(self) -> list[Wallet]:
        """All of them, oldest first."""
        return await self._purser.run(calls.list_wallets())

    async def create(self, network: str | None = None) -> Wallet:
        """Create a wallet, on ``base`` if nothing is said."""
        return await self._purser.run(calls.create_wallet(network))

    async def delete(self, wallet_id: str) -> None:
        """Delete a wallet by its ``id``."""
        await self._purser.run(calls.delete_wallet(wallet_id))


class AsyncPayments:
    """The key's payments."""

    def __init__(self, purser: AsyncPurser) -> None:
        self._purser = purser

    async def list(
        self, state: str | None = None, *, limit: int | None = None, before: str | None = None
    ) -> list[Payment]:
        """One page, newest first. ``state`` is a state (open, settled, void) or a flag (refused, unresolved, …)."""
        return await self._purser.run(calls.list_payments(state, limit, before))

    async def all(self, state: str | None = None, *, page_size: int = 100) -> AsyncIterator[Payment]:
        """All of them, newest first, page by page."""
        before: str | None = None
        while True:
            page = await self.list(state, limit=page_size, before=before)
            for payment in page:
                yield payment
            if len(page) < page_size:
                return
            before = page[-1].id

    async def get(self, payment_id: str) -> Payment:
        """One payment."""
        return await self._purser.run(calls.get_payment(payment_id))

    async def receipt(self, payment_id: str, value: str) -> Payment:
        """Tell purser the seller's receipt, as its PAYMENT-RESPONSE header has it."""
        return await self._purser.run(calls.post_receipt(payment_id, value))


class AsyncSpend:
    """What the key has spent."""

    def __init__(self, purser: AsyncPurser) -> None:
        self._purser = purser

    async def list(self, task: str | None = None, *, limit: int | None = None, before: str | None = None) -> SpendPage:
        """One page, newest first, and what is pending."""
        return await self._purser.run(calls.list_spend(task, limit, before))

    async def all(self, task: str | None = None, *, page_size: int = 100) -> AsyncIterator[SpendEvent]:
        """All events, newest first, page by page."""
        before: str | None = None
        while True:
            page = (await self.list(task, limit=page_size, before=before)).events
            for event in page:
                yield event
            if len(page) < page_size:
                return
            before = page[-1].id


def _caller(transport: httpx.BaseTransport | None, adapter: BaseAdapter | None) -> Caller:
    library = _library() if adapter is None else None
    if library is not None:
        return HttpxCaller(library, Blocking, transport)
    with suppress(ImportError):
        return RequestsCaller(adapter)
    with suppress(ImportError):
        return Urllib3Caller()
    raise ImportError(_NO_LIBRARY)


def _async_caller(transport: httpx.AsyncBaseTransport | None) -> Caller:
    library = _library()
    if library is None:
        raise ImportError(_NO_LIBRARY.removesuffix(", requests, or urllib3"))
    return HttpxCaller(library, Awaiting, transport)


def _library() -> ModuleType | None:
    for name in ("httpx", "httpx2"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None
