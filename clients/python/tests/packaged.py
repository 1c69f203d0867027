"""Builds an sdist and from that a wheel, installs each into an empty environment, and buys there, three ways.

Run by hand or by make: python tests/packaged.py. Needs what tests/sandbox.py needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import sandbox

ROOT = Path(__file__).parents[1]

SYNC = """
import os, purserpay, purserpay.httpx
given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.httpx.Client(given) as client:
    for url in os.environ["URLS"].split():
        print(client.get(url).raise_for_status().text)
"""
ASYNC = """
import asyncio, os, purserpay, purserpay.httpx
async def main():
    given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
    async with purserpay.httpx.AsyncClient(given) as client:
        for url in os.environ["URLS"].split():
            print((await client.get(url)).raise_for_status().text)
asyncio.run(main())
"""
REQUESTS = """
import os, purserpay, purserpay.requests
given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.requests.Session(given) as session:
    for url in os.environ["URLS"].split():
        answer = session.get(url)
        answer.raise_for_status()
        print(answer.text)
"""
PROGRAMS = {"httpx": [SYNC, ASYNC], "requests": [REQUESTS]}


def main() -> None:
    """Do it all; the first failure ends it."""
    missing = sandbox.missing()
    if missing:
        raise SystemExit(missing)
    with tempfile.TemporaryDirectory() as scratch, sandbox.world() as world:
        dist = Path(scratch) / "dist"
        # With what builds it installed already, no package index is asked.
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)]
        subprocess.run(build, check=True, stdout=2)
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, {sdist.name}: {sdist.stat().st_size} bytes")
        for package, extra in ((wheel, "httpx"), (sdist, "requests")):
            _buy(Path(scratch) / f"{package.suffix[1:]}-{extra}", package, extra, world)


def _buy(place: Path, package: Path, extra: str, world: sandbox.World) -> None:
    python = place / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", f"{package}[{extra}]"]
    subprocess.run(install, check=True)
    urls = f"{world.sellers['official-v1']}/paid {world.sellers['official-v2']}/paid {world.sellers['sandbox']}/weather"
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    for program in PROGRAMS[extra]:
        before = world.spent()
        environment = {**kept, "PURSER_KEY": world.key, "PURSER_URL": world.api, "URLS": urls}
        subprocess.run([str(python), "-c", program], check=True, cwd=place, env=environment, stdout=2)
        spent = world.spent() - before
        if spent != 30_000:
            raise SystemExit(f"{package.name} with {extra}: spent {spent}")
        print(f"{package.name} with {extra}: bought from v1, v2 and the sandbox for {spent}")


if __name__ == "__main__":
    main()
