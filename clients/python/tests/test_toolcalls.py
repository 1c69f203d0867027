"""Calls of MCP, which are known as purser's proxy knows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import purserpay
from purserpay import _bodies as bodies

from .clients import Buy, Lost
from .conftest import Make
from .world import FINE, FakePurser, FakeSeller, vectors

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
