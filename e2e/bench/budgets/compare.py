"""Lets the same callers spend one small budget through LiteLLM's proxy and through purser. See README.md."""

import argparse
import asyncio
import json
import signal
import tempfile
from pathlib import Path

import callers
from processes import Database, Processes
from sides import LiteLLM, Purser

BUDGET = 100  # requests
STRICT = {"fail_closed_budget_enforcement": True}

SIDES = {
    "purser, 1 node": Purser(1),
    "purser, 3 nodes": Purser(3),
    "LiteLLM, 1 instance": LiteLLM(1),
    "LiteLLM, 1 instance, callers set no max_tokens": LiteLLM(1, max_tokens=None),
    "LiteLLM, 3 instances, Redis": LiteLLM(3, redis=True),
    "LiteLLM, 3 instances, Redis, strict": LiteLLM(
        3, redis=True, settings=STRICT | {"use_redis_transaction_buffer": True}
    ),
    "LiteLLM, 3 instances, no Redis": LiteLLM(3),
    "LiteLLM, 3 instances, no Redis, strict": LiteLLM(3, settings=STRICT),
    "LiteLLM, 1 instance, a price per request": LiteLLM(1, flat=True),
    "LiteLLM, 3 instances, Redis, a price per request": LiteLLM(3, redis=True, flat=True),
}


async def measure(name: str, side, numbers: list, runs: int, installed: Path, database: Database, processes: Processes):
    """Returns a line for each run."""
    before = len(processes.started)
    lines = []
    try:
        side.start(processes, database, installed)
        await callers.run(side.ask(side.key(8)), side.nodes, 8, 8)  # connections and caches are warm
        for number in numbers:
            for _ in range(runs):
                key = side.key(BUDGET)
                outcome = await callers.run(side.ask(key), side.nodes, number, BUDGET)
                line = {
                    "side": name, "callers": number, "allowed": BUDGET, "through": outcome.through,
                    "refused": outcome.refused, "seconds": round(outcome.seconds, 1), "other": dict(outcome.other),
                }  # fmt: skip
                print(json.dumps(line), flush=True)
                lines.append((line, key))
        return [line | {"booked": await side.booked(key, line["through"])} for line, key in lines]
    finally:
        side.stop()
        processes.end(*processes.started[before:])


def table(lines: list, numbers: list) -> str:
    """Writes what was let through, least to most of the runs."""
    out = ["| | " + " | ".join(f"{n} caller{'s' * (n > 1)}" for n in numbers) + " | most overspent |"]
    out.append("|---|" + "---|" * (len(numbers) + 1))
    for name in dict.fromkeys(line["side"] for line in lines):
        mine = [line for line in lines if line["side"] == name]
        cells = []
        for n in numbers:
            through = [line["through"] for line in mine if line["callers"] == n]
            cells.append(" to ".join(dict.fromkeys(str(f(through)) for f in (min, max))) if through else "")
        over = max(line["through"] / line["allowed"] for line in mine) - 1
        out.append(f"| {name} | {' | '.join(cells)} | {max(over, 0):.0%} |")
    return "\n".join(out)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("installed", type=Path, help="the folder that setup.sh has filled")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64, 200])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="sides with this in their name")
    parser.add_argument("--results", type=Path, help="append a line of JSON for each run to this file")
    given = parser.parse_args()
    installed = given.installed.resolve()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    lines = []
    with tempfile.TemporaryDirectory(prefix="budgets") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user has its folder in it
        processes = Processes(Path(folder))
        try:
            database = Database(processes)
            for name, side in SIDES.items():
                if given.only not in name:
                    continue
                measured = await measure(name, side, given.callers, given.runs, installed, database, processes)
                for line in measured:
                    lines.append(line)
                    if line["booked"] != line["through"]:
                        print("the books differ:", json.dumps(line), flush=True)
                    if given.results:
                        with given.results.open("a") as results:
                            results.write(json.dumps(line) + "\n")
        finally:
            processes.end()
    print(table(lines, given.callers))


if __name__ == "__main__":
    asyncio.run(main())
