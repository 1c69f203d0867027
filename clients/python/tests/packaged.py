"""Builds an sdist and from that a wheel, installs them into empty environments, and buys there.

Each declared version of Python that is found here gets one of the libraries.
Run by hand or by make: python tests/packaged.py. Needs what tests/sandbox.py needs.
"""

from __future__ import annotations

import os
import re
import shutil
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
URLLIB3 = """
import os, purserpay, purserpay.urllib3
given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.urllib3.PoolManager(given) as pools:
    for url in os.environ["URLS"].split():
        answer = pools.request("GET", url)
        assert answer.status == 200
        print(answer.data)
"""
AIOHTTP = """
import aiohttp, asyncio, os, purserpay, purserpay.aiohttp
async def main():
    given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
    async with purserpay.aiohttp.wrap(aiohttp.ClientSession(raise_for_status=True), given) as session:
        for url in os.environ["URLS"].split():
            print(await (await session.get(url)).text())
asyncio.run(main())
"""
PROGRAMS = {"httpx": [SYNC, ASYNC], "requests": [REQUESTS], "aiohttp": [AIOHTTP], "urllib3": [URLLIB3]}


def declared() -> list[str]:
    """List the versions of Python that pyproject.toml declares."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())


def interpreter(version: str) -> str:
    """Find a version of Python, on the path or where pyenv has it. Says so if there is none, and gives this one."""
    found = shutil.which(f"python{version}")
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for one in (found, *map(str, kept)):
        if one and subprocess.run([one, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return one
    print(f"Python {version} is not here, so it is not tested")
    return sys.executable


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
        for version, extra in zip(declared(), PROGRAMS, strict=True):
            package = sdist if extra == "requests" else wheel
            _buy(Path(scratch) / extra, interpreter(version), package, extra, world)


def _buy(place: Path, base: str, package: Path, extra: str, world: sandbox.World) -> None:
    python = place / "venv" / "bin" / "python"
    subprocess.run([base, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    which = subprocess.run([str(python), "-V"], capture_output=True, text=True, check=True).stdout.strip()
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
        print(f"{which}, {package.name} with {extra}: bought from v1, v2 and the sandbox for {spent}")


if __name__ == "__main__":
    main()
