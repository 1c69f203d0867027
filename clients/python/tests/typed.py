"""What programs may and may not write, checked by mypy: an ignore that is not needed is an error there."""

from __future__ import annotations

from typing import Literal

import httpx
import httpx2
from typing_extensions import assert_type

import purserpay
import purserpay.httpx
import purserpay.httpx2


def answers(error: purserpay.UnclearError, refused: purserpay.RefusedByCallerError) -> None:
    assert_type(error.resume(), object)
    assert_type(error.resume(httpx.Response), httpx.Response)
    assert_type(
        refused.rule,
        Literal[
            "unasked", "authorization-in-use", "plain-http", "host", "amount", "callback", "signed-terms", "budget"
        ],
    )
    refused.code == "refused"  # type: ignore[comparison-overlap]  # noqa: B015
    assert_type(purserpay.purser_error_of(error), purserpay.PurserError | None)


async def awaited(error: purserpay.RejectedError) -> None:
    assert_type(await error.aresume(), object)
    assert_type(await error.aresume(httpx2.Response), httpx2.Response)


async def later(_: purserpay.BeforePayment) -> bool:
    return True


def hooks() -> None:
    purserpay.Options("pk", "http://x", before_payment=lambda info: info.amount == "10000")
    purserpay.Options("pk", "http://x", before_payment=later)
    purserpay.Options("pk", "http://x", before_payment=lambda _: None)  # type: ignore[arg-type,return-value]
    purserpay.Options("pk", "http://x", before_payment=lambda _: 0)  # type: ignore[arg-type,return-value]
    purserpay.Options("pk", "http://x", before_payment=lambda _: {"abort": True})  # type: ignore[arg-type,return-value]
    purserpay.Options("pk", "http://x", settlement="both")  # type: ignore[arg-type]
    purserpay.Options("pk", "http://x", max_amount=0.05)  # type: ignore[arg-type]
    purserpay.from_env(max_amount="0.05 USDC", task="reports")
    purserpay.from_env(max_amout="0.05 USDC")  # type: ignore[call-arg]


def clients(options: purserpay.Options) -> None:
    purserpay.httpx.Client(options, timeout=5, base_url="http://x")
    purserpay.httpx.Client(options, timeot=5)  # type: ignore[call-arg]
    purserpay.httpx2.AsyncClient(options, http2="yes")  # type: ignore[arg-type]
    assert_type(purserpay.httpx.wrap(httpx.Client(), options), httpx.Client)
    assert_type(purserpay.httpx2.wrap(httpx2.AsyncClient(), options), httpx2.AsyncClient)
    purserpay.httpx.wrap(httpx2.Client(), options)  # type: ignore[type-var]


def api(purser: purserpay.Purser) -> None:
    purser.pay("challenge", settlement="nobody")  # type: ignore[arg-type]
    purser.limits("window")  # type: ignore[arg-type]
    assert_type(purser.pay("challenge"), purserpay.PayResult)
