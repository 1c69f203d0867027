"""Pays HTTP 402s through a purser.

``purserpay.httpx``, ``.httpx2``, ``.requests``, ``.aiohttp`` and ``.urllib3`` wrap HTTP clients. ``Purser`` and
``AsyncPurser`` are purser's API. Importing this package imports no HTTP library.
"""

from ._amounts import usdc
from ._api import AsyncPurser, Purser
from ._context import idempotency_key, terms
from ._errors import (
    Advice,
    DeclinedError,
    DryRunError,
    IdempotencyConflictError,
    InvalidChallengeError,
    KeyNotResolvedError,
    LimitReachedError,
    NotReplayableError,
    NoWalletError,
    PurserError,
    PurserUnreachableError,
    RefusedByCallerError,
    RejectedError,
    RequestRefusedError,
    ResumableError,
    UnclearError,
    purser_error_of,
    unclear_of,
)
from ._models import (
    ApiKey,
    Limit,
    Limits,
    Payment,
    PaymentState,
    PayResult,
    Pending,
    Quota,
    Quote,
    QuotedOffer,
    SignedReceipt,
    SpendEvent,
    SpendPage,
    Wallet,
)
from ._options import BeforePayment, Options, from_env
from ._paid import PaymentInfo, payment_of
from ._version import __version__
from ._wire import Offer

__all__ = [
    "Advice",
    "ApiKey",
    "AsyncPurser",
    "BeforePayment",
    "DeclinedError",
    "DryRunError",
    "IdempotencyConflictError",
    "InvalidChallengeError",
    "KeyNotResolvedError",
    "Limit",
    "LimitReachedError",
    "Limits",
    "NoWalletError",
    "NotReplayableError",
    "Offer",
    "Options",
    "PayResult",
    "Payment",
    "PaymentInfo",
    "PaymentState",
    "Pending",
    "Purser",
    "PurserError",
    "PurserUnreachableError",
    "Quota",
    "Quote",
    "QuotedOffer",
    "RefusedByCallerError",
    "RejectedError",
    "RequestRefusedError",
    "ResumableError",
    "SignedReceipt",
    "SpendEvent",
    "SpendPage",
    "UnclearError",
    "Wallet",
    "__version__",
    "from_env",
    "idempotency_key",
    "payment_of",
    "purser_error_of",
    "terms",
    "unclear_of",
    "usdc",
]

# Tracebacks name a class as programs import it.
for _one in list(vars().values()):
    if isinstance(_one, type) and issubclass(_one, PurserError):
        _one.__module__ = __name__
del _one
