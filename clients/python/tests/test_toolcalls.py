"""Calls of MCP, which are known as purser's proxy knows them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

import purserpay
import purserpay.httpx
from purserpay import _bodies as bodies

from .clients import Buy, Lost, Says, _httpx_handler, options
from .conftest import Make
from .world import FINE, FakePurser, FakeSeller, challenge, vectors

HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}


def known(case: dict[str, Any], body: str | bytes, method: str = "POST") -> bodies.Content:
    headers = HEADERS | {name.lower(): value for name, value in case.get("headers", {}).items()}
    return bodies.content(method, case["url"], [body.encode() if isinstance(body, str) else body], headers)


@pytest.mark.parametrize("case", vectors("calls.json")["cases"], ids=lambda case: str(case["name"]))
def test_calls(case: dict[str, Any]) -> None:
    same = [known(case, body) for body in case["same"]]
    assert [content.site for content in same] == [case["site"] or ""] * len(same)
    if case["site"] is not None:
        assert len({content.digest for content in same}) == 1
    for body in case["other"]:
        assert known(case, body).digest != same[0].digest, body
    assert known(case, case["same"][0], "PUT").site == ""


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b"[" * 100_000,
        json.dumps({"id": 1, "method": "tools/call", "params": {"name": "x" * (1 << 20)}}).encode(),
        b'{"id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
        b'{"id":1,"method":5,"params":{"name":"a"}}',
    ],
)
def test_no_calls(body: bytes) -> None:
    case = {"url": "https://shop.test/mcp"}
    assert known(case, body).site == ""
    assert known(case, body).digest != known(case, body + b" ").digest


def test_ports_that_are_none() -> None:
    assert known({"url": "http://shop.test:x/mcp"}, '{"id":1,"method":"tools/call","params":{"name":"a"}}').site == ""


def call(number: int, city: str = "Oslo", session: str = "") -> Buy:
    params = {"name": "weather", "arguments": {"city": city}, "_meta": {"progressToken": number}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = HEADERS | ({"mcp-session-id": session} if session else {})
    return Buy("POST", headers=list(headers.items()), body=json.dumps(message).encode())


def test_a_lost_answer_is_asked_for_by_another_number(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller(Lost, Lost, FINE)
    client = make(seller, asked, resends=0)
    for city in ("Oslo", "Rome"):
        with pytest.raises(purserpay.UnclearError):
            client.buy(call(1, city))
    assert client.buy(call(2)).status == 200
    with purserpay.terms(task="other"):
        assert client.buy(call(3, "Rome")).status == 200
    assert client.buy(call(4, "Rome")).status == 200
    assert [asked.keys[n] for n in (2, 4)] == asked.keys[:2]
    assert len(set(asked.keys)) == 3
    booked = {json.loads(seen.body)["requestUrl"] for seen in asked.pays}
    assert booked == {"mcp://api.example.com/tool/weather"}


def test_a_number_that_its_session_has_had_is_a_repeat(make: Make) -> None:
    asked, seller = FakePurser(), FakeSeller()
    client = make(seller, asked)

    def key(number: int, session: str = "") -> str:
        assert client.buy(call(number, session=session)).status == 200
        return asked.keys[-1]

    first = key(1, "a")
    assert key(1, "a") == first
    assert key(2, "a") != first
    assert key(2, "b") != key(2, "a")
    assert key(3) != key(3)


def streamed(*pieces: str, cut: bool = True, kind: str = "text/event-stream") -> Any:
    """Make a transport's answer that breaks off behind its pieces, or ends there."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece.encode()
        if cut:
            raise httpx.ReadError("cut")

    return lambda: httpx.Response(200, headers={"content-type": kind}, content=body())


ANSWER = 'data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n'
OPENING = ": wait\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (streamed(OPENING), True),
        (streamed(OPENING, cut=False), True),
        (streamed(ANSWER[:-10]), True),
        (streamed(OPENING, ANSWER[:9], ANSWER[9:]), False),
        (streamed(ANSWER.replace('"result":', '"error":').replace("\n", "\r"), cut=False), False),
        (streamed(ANSWER.replace('"id":1', '"id":2')), True),
        (streamed('data: {"jsonrpc":"2.0","method":"x","id":1}\n\n', "data: 5\n\ndata:\n\n"), True),
        (streamed("id: 1\ndata:\n\n"), False),  # its client resumes it
        (streamed(": " + "x" * (1 << 20) + "\n"), False),  # not looked for any further
        (streamed('{"jsonrpc":"2.0","id":1,', kind="application/json"), True),
        (streamed("{}", kind="application/json", cut=False), False),
    ],
)
def test_an_answer_that_breaks_off_is_lost(answer: Any, lost: bool) -> None:
    asked = FakePurser()

    def sell(request: httpx.Request) -> Any:
        made = answer() if "payment-signature" in request.headers else None
        return made or httpx.Response(402, headers={"PAYMENT-REQUIRED": challenge()})

    async def go() -> None:
        told = httpx.MockTransport(_httpx_handler(asked))
        paying = purserpay.httpx.AsyncPurserTransport(options(), httpx.MockTransport(sell), purser_transport=told)
        async with httpx.AsyncClient(transport=paying) as client:
            for number in (1, 2):
                sent = call(number)
                request = client.build_request("POST", sent.url, headers=sent.headers, content=sent.body)
                with contextlib.suppress(httpx.ReadError, purserpay.UnclearError):  # JSON is read at once
                    await client.send(request)

    anyio.run(go)
    assert len(asked.keys) == 2
    assert (asked.keys[0] == asked.keys[1]) == lost


def test_a_blocking_client_looks_on_too(make: Make) -> None:
    lost = Says(200, [("Content-Type", "text/event-stream")], OPENING.encode())
    came = Says(200, [("Content-Type", "text/event-stream")], ANSWER.encode())
    asked, seller = FakePurser(), FakeSeller(lost, came, FINE)
    client = make(seller, asked)
    for _ in range(3):
        assert client.buy(call(1)).status == 200
    same = "httpx" in type(client).__name__.lower()  # what clients of MCP use
    assert (asked.keys[0] == asked.keys[1]) == same
    assert asked.keys[1] != asked.keys[2]
