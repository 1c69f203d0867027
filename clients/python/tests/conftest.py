from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purserpay import _flow, _payers

from . import sandbox
from .clients import CLIENTS, Client, Server, options

Make = Callable[..., Client]


@pytest.fixture(scope="session")
def world() -> Iterator[sandbox.World]:
    """Start the sandbox and the official sellers."""
    sandbox.need()
    with sandbox.world() as started:
        yield started


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries are the flow's, not the tests'."""
    monkeypatch.setattr(_flow, "BEFORE_TRY", (0.0, 0.0))
    monkeypatch.setattr(_flow, "BEFORE_RESEND", 0.0)
    monkeypatch.setattr(_payers, "BETWEEN_RECEIPTS", 0.0)


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make paying clients of each kind."""
    made: list[Client] = []

    def make_one(seller: Server, purser: Server, **more: Any) -> Client:
        client: Client = request.param(options(**more), seller, purser)
        made.append(client)
        return client

    yield make_one
    for client in made:
        client.close()
