"""The examples really run, and README.md shows them as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import sandbox
from .clients import Lost, Says, Seen
from .connections import answer, serving
from .world import FakePurser, challenge

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(example: Path, **environment: str) -> str:
    """Run an example as a program of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(example)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "cost", "says"),
    [
        ("script_httpx", 10_000, "clear"),
        ("script_async", 30_000, "clear"),
        ("script_requests", 10_000, "hello"),
        ("langchain_tool", 10_000, "paying 10000"),
        ("spend", 0, "total"),
    ],
)
def test_example(world: sandbox.World, name: str, cost: int, says: str) -> None:
    if name == "langchain_tool":
        sandbox.need("langchain_core")
    before = world.spent()
    out = run(
        ROOT / "examples" / f"{name}.py",
        PURSER_KEY=world.key,
        PURSER_URL=world.api,
        SELLER=world.sellers["sandbox"],
        LANGSMITH_TRACING="false",
    )
    assert says in out
    assert world.spent() - before == cost
    if name == "spend":
        assert f"total {before}" in out


def completion() -> Says:
    """What a model answers."""
    message = {"role": "assistant", "content": "clear, for a cent"}
    body: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "any",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    return Says(200, [("Content-Type", "application/json")], json.dumps(body).encode())


@pytest.mark.parametrize("busy", [0, 2])
def test_openai(busy: int) -> None:
    """openai repeats by itself what a busy model did not answer; that is not paid for again."""
    sandbox.need("openai")
    asked, payments = FakePurser(), list[str]()

    def model(request: Any, body: bytes) -> None:
        assert json.loads(body)["model"] == "any"
        payment = request.headers.get("PAYMENT-SIGNATURE")
        if not payment:
            return answer(request, Says(402, [("PAYMENT-REQUIRED", challenge())], b"{}"))
        payments.append(payment)
        return answer(request, Says(503) if len(payments) <= busy else completion())

    def api(request: Any, body: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            answer(request, asked(Seen(request.command, request.path, headers, body)))
        except Lost:
            return

    with serving(model) as shop, serving(api) as url:
        out = run(ROOT / "examples" / "openai_client.py", PURSER_KEY="pk_tests", PURSER_URL=url, MODEL_URL=shop)
    assert out.strip() == "clear, for a cent"
    assert asked.payments == 1
    assert len(set(payments)) == 1
    assert len(payments) == busy + 1


def test_all_examples_are_tested() -> None:
    names = {"script_httpx", "script_async", "script_requests", "langchain_tool", "spend", "openai_client"}
    assert {example.stem for example in EXAMPLES} == names


def test_the_readme_shows_them() -> None:
    readme = (ROOT / "README.md").read_text()
    for example in EXAMPLES:
        code = example.read_text().split('"""', 2)[2].strip()
        assert code in readme, f"README.md does not show {example.name} as it is"
