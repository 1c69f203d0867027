"""Callers who ask at once until their budget is spent."""

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

# A run ends at the latest after so many requests for each one that the budget allows, and after so many seconds.
MOST_REQUESTS = 10
MOST_SECONDS = 120


@dataclass
class Outcome:
    """Counts the answers of one run."""

    through: int = 0
    refused: int = 0
    seconds: float = 0.0
    other: Counter = field(default_factory=Counter)


async def run(ask, nodes: list, callers: int, budget: int) -> Outcome:
    """Lets callers ask the nodes in turn. ask returns "through", "refused", or another word for the failure.

    A caller ends with its first refusal. After a failure it asks again, as one behind a load balancer would.
    """
    outcome = Outcome()
    serial = itertools.count()
    most = MOST_REQUESTS * budget
    together = asyncio.Event()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:

        async def caller() -> None:
            await together.wait()
            while (n := next(serial)) < most:
                said = await ask(session, nodes[n % len(nodes)], n)
                if said == "through":
                    outcome.through += 1
                elif said == "refused":
                    outcome.refused += 1
                    return
                else:
                    outcome.other[said] += 1

        tasks = [asyncio.create_task(caller()) for _ in range(callers)]
        began = time.monotonic()
        together.set()
        done, late = await asyncio.wait(tasks, timeout=MOST_SECONDS)
        outcome.seconds = time.monotonic() - began
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()
        if late:
            outcome.other["out of time"] += len(late)
    return outcome
