"""Each framework that README.md names: a real SDK buys from the sandbox's seller, is refused, and loses an answer."""

from __future__ import annotations

import http.client
import json
import re
import runpy
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from . import sandbox
from .clients import Says
from .test_hostile import answer, serving

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "examples" / "frameworks").glob("*.py"))

pytestmark = pytest.mark.filterwarnings("default")  # the frameworks' own are theirs


@pytest.fixture(scope="module")
def world() -> Iterator[sandbox.World]:
    sandbox.need()
    with sandbox.world() as started:
        yield started


def chat(_: bytes) -> bytes:
    """What a model says, as openai's API has it."""
    message = {"role": "assistant", "content": "clear"}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "any", "choices": choices}
    ).encode()


def message(_: bytes) -> bytes:
    """What a model says, as anthropic's API has it."""
    content = [{"type": "text", "text": "clear"}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "m", "type": "message", "role": "assistant", "model": "any", "content": content, "usage": usage}
    return json.dumps({**said, "stop_reason": "end_turn", "stop_sequence": None}).encode()


class Shop:
    """Sells by the sandbox's seller, dressed as what a framework expects, and loses some answers to payments."""

    def __init__(self, world: sandbox.World, lost: int) -> None:
        self.target = urlsplit(world.sellers["sandbox"])
        self.lost = lost
        self.payments: list[str] = []
        self.sold: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}  # handed out again for the same payment
        self.lock = threading.Lock()

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        path = request.path
        if path == "/mcp" and b'"tools/call"' not in body:
            return self.mcp(request, body)
        payment = request.headers.get("PAYMENT-SIGNATURE")
        if payment and payment in self.sold:
            status, headers, text = self.sold[payment]
        else:
            status, headers, text = self.ask(request, "/weather" if request.command == "GET" else "/echo", body)
        if payment:
            with self.lock:
                self.payments.append(payment)
                self.sold[payment] = status, headers, text
                if len(self.payments) <= self.lost:
                    request.close_connection = True
                    return None
        if status == 200 and path != "/weather":
            text = called(body) if path == "/mcp" else message(text) if "messages" in path else chat(text)
            headers = [(name, value) for name, value in headers if name.lower() != "content-type"]
            headers.append(("Content-Type", "application/json"))
        return answer(request, Says(status, headers, text))

    def ask(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=60)
        skipped = ("host", "connection", "transfer-encoding", "content-length", "accept-encoding")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in skipped}
        connection.request(request.command, path, body or None, {**headers, "Host": self.target.netloc})
        said = connection.getresponse()
        text = said.read()
        connection.close()
        skipped = ("connection", "transfer-encoding", "content-length", "date", "server")
        return said.status, [(n, v) for n, v in said.getheaders() if n.lower() not in skipped], text

    def mcp(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer what costs nothing on the way to a tool."""
        if request.command != "POST":
            return answer(request, Says(405))
        asked = json.loads(body)
        if "id" not in asked:
            return answer(request, Says(202))
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
        return answer(request, Says(200, [("Content-Type", "application/json")], text))


def called(body: bytes) -> bytes:
    """Answer the call of a tool."""
    result = {"content": [{"type": "text", "text": "clear"}]}
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()


@contextmanager
def shop(world: sandbox.World, monkeypatch: pytest.MonkeyPatch, lost: int = 0) -> Iterator[Shop]:
    """Open a shop, and tell the program where it is."""
    opened = Shop(world, lost)
    with serving(opened) as url:
        monkeypatch.setenv("PURSER_KEY", world.key)
        monkeypatch.setenv("PURSER_URL", world.api)
        monkeypatch.setenv("PURSER_MAX_AMOUNT", "0.05 USDC")
        monkeypatch.setenv("SELLER", url)
        monkeypatch.setenv("MODEL_URL", url)
        monkeypatch.setenv("MCP_URL", url + "/mcp")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it fetches a list of prices otherwise
        monkeypatch.setenv("LANGSMITH_TRACING", "false")
        yield opened


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
class TestFramework:
    def test_buys(
        self, world: sandbox.World, program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        spent = world.spent()
        with shop(world, monkeypatch):
            runpy.run_path(str(program))
        assert "clear" in capsys.readouterr().out
        assert world.spent() - spent == 10_000

    def test_is_refused_with_a_reason(
        self, world: sandbox.World, program: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        payments = world.payments()
        with shop(world, monkeypatch) as opened:
            monkeypatch.setenv("PURSER_MAX_AMOUNT", "0.001 USDC")
            with pytest.raises(Exception) as caught:  # noqa: PT011 — each framework has its own
                runpy.run_path(str(program))
        said = "".join(traceback.format_exception(caught.value))
        assert "an offer is not an amount of at most 1000 (0.001 USDC)" in said
        assert not opened.payments
        assert world.payments() == payments

    def test_pays_once_when_an_answer_is_lost(
        self, world: sandbox.World, program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        spent, payments = world.spent(), world.payments()
        with shop(world, monkeypatch, lost=1) as opened:
            runpy.run_path(str(program))
        assert "clear" in capsys.readouterr().out
        assert len(opened.payments) == 2
        assert len(set(opened.payments)) == 1
        assert world.payments() - payments == 1
        assert world.spent() - spent == 10_000


def test_programs_are_short() -> None:
    for program in PROGRAMS:
        code = program.read_text().split('"""', 2)[2]
        lines = [line for line in code.splitlines() if line.strip() and not re.match("import|from", line)]
        assert len(lines) <= 10, program.name


def test_the_readme_names_them() -> None:
    readme = (ROOT / "README.md").read_text()
    for program in PROGRAMS:
        assert f"examples/frameworks/{program.name}" in readme
