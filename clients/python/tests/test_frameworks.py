"""Each framework that README.md names, for real: it buys from each seller, through each fault, and is refused."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from . import sandbox
from .clients import Says

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "examples" / "frameworks").glob("*.py"))
SDKS = [program for program in PROGRAMS if program.stem.endswith(("_sdk", "_model"))]
SELLERS = ["sandbox", "official-v1", "official-v2"]

pytestmark = pytest.mark.filterwarnings("default")  # the frameworks' own are theirs


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """LiteLLM takes the event loop of its thread, and makes one if there is none, which it never closes."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()


def chat() -> bytes:
    """What a model says, as openai's API has it."""
    message = {"role": "assistant", "content": "clear"}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "any", "choices": choices}
    ).encode()


def message() -> bytes:
    """What a model says, as anthropic's API has it."""
    content = [{"type": "text", "text": "clear"}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "m", "type": "message", "role": "assistant", "model": "any", "content": content, "usage": usage}
    return json.dumps({**said, "stop_reason": "end_turn", "stop_sequence": None}).encode()


class Shop(sandbox.Relay):
    """Sells by another seller, dressed as what a framework expects.

    One that remembers hands out again, for the same payment, what it has sold.
    """

    def __init__(self, target: str, fault: str, *, remembers: bool) -> None:
        super().__init__(target, fault)
        self.remembers = remembers
        self.sold: dict[str, Says] = {}

    def ask(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> Says:
        if path == "/mcp" and b'"tools/call"' not in body:
            return self.mcp(request, body)
        payment = request.headers.get("PAYMENT-SIGNATURE", "")
        if payment in self.sold:
            return self.sold[payment]
        said = super().ask(request, "/echo" if request.command == "POST" else path, body)
        if said.status == 200 and request.command == "POST":
            text = called(body) if path == "/mcp" else message() if "messages" in path else chat()
            headers = [(name, value) for name, value in said.headers if name.lower() != "content-type"]
            said = Says(200, [*headers, ("Content-Type", "application/json")], text)
        if self.remembers and payment:
            self.sold[payment] = said
        return said

    @staticmethod
    def mcp(request: BaseHTTPRequestHandler, body: bytes) -> Says:
        """Answer what costs nothing on the way to a tool."""
        if request.command != "POST":
            return Says(405)
        asked = json.loads(body)
        if "id" not in asked:
            return Says(202)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "weather", "inputSchema": {"type": "object"}}]},
        }
        result = results.get(asked["method"])
        said = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
        text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()
        return Says(200, [("Content-Type", "application/json")], text)


def called(body: bytes) -> bytes:
    """Answer the call of a tool."""
    result = {"content": [{"type": "text", "text": "clear"}]}
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()


Open = Callable[..., AbstractContextManager[Shop]]


@pytest.fixture
def opened(world: sandbox.World, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a shop, tell the program where it is, and hold what the program spends to what is expected."""

    @contextmanager
    def shop(seller: str, fault: str = "", *, pays: int = 1, remembers: bool = False) -> Iterator[Shop]:
        at_purser = fault.startswith("pay-")
        front = Shop(world.sellers[seller], "" if at_purser else fault, remembers=remembers)
        api = sandbox.Relay(world.api, fault if at_purser else "")
        place = {"PURSER_URL": api.url, "SELLER": front.url, "MODEL_URL": front.url, "MCP_URL": front.url + "/mcp"}
        for name, value in place.items():
            monkeypatch.setenv(name, value)
        spent, payments = world.spent(), world.payments()
        try:
            yield front
        finally:
            front.close()
            api.close()
        assert world.spent() - spent == pays * 10_000
        assert world.payments() - payments == pays
        assert len(set(front.payments)) == pays
        assert front.left == api.left == 0, "the fault has not happened"

    monkeypatch.setenv("PURSER_KEY", world.key)
    monkeypatch.setenv("PURSER_MAX_AMOUNT", "0.05 USDC")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it fetches a list of prices otherwise
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    return shop


def cases(*faults: str) -> list[Any]:
    """List from whom a program buys, and what goes wrong there."""
    sdks = [(program, seller, fault) for program in SDKS for seller in SELLERS for fault in faults]
    # What happens to HTTP libraries elsewhere is in test_scenarios.
    others = [(program, "sandbox", "") for program in PROGRAMS if program not in SDKS and "" in faults]
    return [pytest.param(*one, id="-".join((one[0].stem, one[1], one[2] or "none"))) for one in sdks + others]


@pytest.mark.parametrize(
    ("program", "seller", "fault"), cases("", "paid-request-lost:1", "paid-503:1", "pay-answer-lost:1")
)
def test_buys(opened: Open, program: Path, seller: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(seller, fault):
        runpy.run_path(str(program))
    assert "clear" in capsys.readouterr().out


@pytest.mark.parametrize(("program", "seller", "fault"), cases(""))
def test_is_refused_with_a_reason(
    opened: Open, program: Path, seller: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURSER_MAX_AMOUNT", "0.001 USDC")
    with opened(seller, fault, pays=0), pytest.raises(Exception) as caught:  # noqa: PT011 — each has its own
        runpy.run_path(str(program))
    assert "an offer asks for 0.01 USDC, and max_amount is 0.001 USDC" in shown(caught.value)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_pays_once_when_an_answer_is_lost(opened: Open, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened("sandbox", "paid-answer-lost:1", remembers=True) as shop:
        runpy.run_path(str(program))
    assert "clear" in capsys.readouterr().out
    assert len(shop.payments) == 2


@pytest.mark.parametrize(("program", "seller", "fault"), cases("paid-answer-lost:1"))
def test_pays_once_when_the_seller_has_forgotten(opened: Open, program: Path, seller: str, fault: str) -> None:
    """The sellers themselves refuse a payment that they took before. SDKs do not try it once more."""
    with opened(seller, fault) as shop, pytest.raises(Exception) as caught:  # noqa: PT011
        runpy.run_path(str(program))
    assert "the seller did not take the payment" in shown(caught.value)
    assert len(shop.payments) == 2


def shown(error: BaseException) -> str:
    """Return what the developer of a program sees."""
    return "".join(traceback.format_exception(error))


def test_programs_are_short() -> None:
    for program in PROGRAMS:
        code = program.read_text().split('"""', 2)[2]
        lines = [line for line in code.splitlines() if line.strip() and not re.match("import|from", line)]
        assert len(lines) <= 10, program.name


def test_the_readme_names_them() -> None:
    readme = (ROOT / "README.md").read_text()
    for program in PROGRAMS:
        assert f"examples/frameworks/{program.name}" in readme
