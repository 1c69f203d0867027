"""The scenarios that both languages share, against the sandbox and the official sellers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3

import purserpay
import purserpay.httpx
import purserpay.requests
from purserpay import _flow, _payers

from . import sandbox
from .clients import (
    AiohttpClient,
    AsyncHttpx2Client,
    AsyncHttpxClient,
    Buy,
    Client,
    Httpx2Client,
    HttpxClient,
    RequestsClient,
    TrioHttpxClient,
    Urllib3Client,
)
from .world import vectors

OPTIONS = {"bodyLimit": "body_limit", "maxAmount": "max_amount", "settlement": "settlement", "resends": "resends"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the waits are the real ones."""
    monkeypatch.setattr(_flow, "BEFORE_TRY", (0.25, 1.0))
    monkeypatch.setattr(_flow, "BEFORE_RESEND", 0.5)
    monkeypatch.setattr(_payers, "BETWEEN_RECEIPTS", 0.25)


class RealHttpx(HttpxClient):
    def __init__(self, given: purserpay.Options) -> None:
        self.client = self.paying.Client(given, trust_env=False, timeout=60)


class RealHttpx2(RealHttpx, Httpx2Client):
    pass


class RealAsync(AsyncHttpxClient):
    def __init__(self, given: purserpay.Options) -> None:
        # Each request has an event loop of its own here, and connections do not outlive theirs.
        limits = self.library.Limits(max_keepalive_connections=0)
        to_purser = self.library.AsyncHTTPTransport(trust_env=False, limits=limits)
        more = {"trust_env": False, "timeout": 60, "limits": limits, "purser_transport": to_purser}
        self.client = self.paying.AsyncClient(given, **more)


class RealAsync2(RealAsync, AsyncHttpx2Client):
    pass


class RealTrio(RealAsync, TrioHttpxClient):
    backend = "trio"


class RealRequests(RequestsClient):
    def __init__(self, given: purserpay.Options) -> None:
        self.session = purserpay.requests.Session(given)
        self.session.trust_env = False


class RealUrllib3(Urllib3Client):
    def __init__(self, given: purserpay.Options) -> None:
        # By itself it repeats what was lost, three times, with the same payment.
        never = urllib3.Retry(total=None, connect=0, read=0, redirect=5)
        self.manager = purserpay.urllib3.PoolManager(given, retries=never)
        self.payer = self.manager._purser


class RealAiohttp(AiohttpClient):
    def __init__(self, given: purserpay.Options) -> None:
        self.paying = purserpay.aiohttp.PurserMiddleware(given)

    async def _sent(self, request: Any, handler: Any) -> Any:
        return await handler(request)


# Every HTTP library of the README. SDKs make requests of their own: those are in test_frameworks.
KINDS = [RealHttpx, RealHttpx2, RealAsync, RealAsync2, RealTrio, RealRequests, RealUrllib3, RealAiohttp]


def scenarios() -> list[Any]:
    return [pytest.param(one, id=one["name"]) for one in vectors("scenarios.json")["scenarios"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", scenarios())
def test_scenario(world: sandbox.World, kind: Any, scenario: dict[str, Any]) -> None:
    fault = scenario.get("fault", "")
    at_purser = fault.startswith("pay-")
    front = sandbox.Relay(
        world.sellers[scenario["seller"]], "" if at_purser else fault, moves=scenario["request"].get("moves", False)
    )
    api = sandbox.Relay(world.api, fault if at_purser else "")
    unknown = set(scenario["options"]) - set(OPTIONS)
    assert not unknown, f"options that this test does not know: {unknown}"
    given = {OPTIONS[name]: value for name, value in scenario["options"].items()}
    request, expect = scenario["request"], scenario["expect"]
    unique = f"-{kind.__name__}"  # the scenarios' own keys are used once by each client
    what = Buy(
        method=request["method"],
        url=front.url + request["path"],
        headers=[(n, v + unique if n.lower() == "idempotency-key" else v) for n, v in request["headers"]],
        body=request["body"].encode() if "body" in request else None,
        stream=request.get("stream", False),
        follow=request.get("moves", False),
    )
    spent, payments = world.spent(), world.payments()
    client: Client = kind(purserpay.Options(api_key=world.key, base_url=api.url, receipt_wait=5, **given))
    try:
        calls = scenario.get("calls", 1)
        for outcome in expect.get("outcomes") or [expect] * calls:
            _once(client, what, outcome)
    finally:
        client.close()
        front.close()
        api.close()
    assert front.left == api.left == 0, "the fault has not happened"
    assert world.spent() - spent == int(expect["spent"])
    assert world.payments() - payments == expect["payments"]
    if "header" in expect:
        assert {header for header, _ in front.payments} == {expect["header"]}


def _once(client: Client, what: Buy, expect: dict[str, Any]) -> None:
    if "code" in expect:
        with pytest.raises(purserpay.PurserError) as caught:
            client.buy(what)
        assert caught.value.code == expect["code"]
        return
    got = client.buy(what)
    assert got.status == expect["status"]
    if "json" in expect:
        data = json.loads(got.body)
        assert {name: data[name] for name in expect["json"]} == expect["json"]
    if "body" in expect:
        assert got.body.decode() == expect["body"]
