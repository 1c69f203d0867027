"""Builds an sdist and from that a wheel, installs them into empty environments, and buys there.

Each declared version of Python that is found here gets one of the libraries alone at first, then all of them.
Run by hand or by make: python tests/packaged.py. Needs what tests/sandbox.py needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import sandbox

ROOT = Path(__file__).parents[1]

HTTPX = """
import os, purserpay, purserpay.httpx
given = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
with purserpay.httpx.Client(given) as client:
    for url in os.environ["URLS"].split():
        print(client.get(url).raise_for_status().text)
"""
ASYNC_HTTPX = """
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
PROGRAMS = {
    "httpx": [HTTPX, ASYNC_HTTPX],
    "requests": [REQUESTS],
    "aiohttp": [AIOHTTP],
    "urllib3": [URLLIB3],
    "httpx2": [HTTPX.replace("httpx", "httpx2"), ASYNC_HTTPX.replace("httpx", "httpx2")],
}


def declared() -> list[str]:
    """List the versions of Python that pyproject.toml declares."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())


def interpreter(version: str) -> str | None:
    """Find a version of Python, on the path or where pyenv has it. With CI=true it must be there."""
    found = shutil.which(f"python{version}")
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for one in (found, *map(str, kept)):
        if one and subprocess.run([one, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return one
    if os.environ.get("CI") == "true":
        raise SystemExit(f"Python {version} is not here")
    print(f"Python {version} is not here, so it is not tested")
    return None


def main() -> None:
    """Do it all; the first failure ends it."""
    missing = sandbox.missing()
    if missing:
        raise SystemExit(missing)
    with tempfile.TemporaryDirectory() as scratch, sandbox.world() as world, ThreadPoolExecutor() as pool:
        dist = Path(scratch) / "dist"
        # With what builds it installed already, no package index is asked.
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)]
        subprocess.run(build, check=True, stdout=2)
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, {sdist.name}: {sdist.stat().st_size} bytes")
        _whole(wheel, sdist)
        # They wait for blocks and for the index, so they do it at the same time.
        bought = [
            pool.submit(_buy, Path(scratch) / version, python, sdist if alone == "requests" else wheel, alone, world)
            for version, alone in zip(declared(), PROGRAMS, strict=False)
            if (python := interpreter(version)) is not None
        ]
        wanted = sum(one.result() for one in bought) * 10_000
        if world.spent() != wanted:
            raise SystemExit(f"spent {world.spent()}, wanted {wanted}")
        print(f"spent {wanted}, as was bought")


def _whole(wheel: Path, sdist: Path) -> None:
    """Hold what is in the packages to what programs and people expect there."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (about,) = (opened.read(name).decode() for name in names if name.endswith("/METADATA"))
    with tarfile.open(sdist) as packed:
        names += [name.partition("/")[2] for name in packed.getnames()]
    lacks = {"purserpay/py.typed", "CHANGELOG.md", "README.md", "LICENSE"} - set(names)
    lacks |= {line for line in ("Typing :: Typed", "Project-URL: Changelog") if line not in about}
    if lacks:
        raise SystemExit(f"the packages lack {lacks}")


def _buy(place: Path, base: str, package: Path, alone: str, world: sandbox.World) -> int:
    """Install a package with one of the libraries, and then with the others. Returns how often it has bought."""
    python = place / "venv" / "bin" / "python"
    subprocess.run([base, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    which = subprocess.run([str(python), "-V"], capture_output=True, text=True, check=True).stdout.strip()
    everywhere = [
        f"{world.sellers['official-v1']}/paid",
        f"{world.sellers['official-v2']}/paid",
        f"{world.sellers['sandbox']}/weather",
    ]
    times = 0
    for extras, urls in ((alone, everywhere), (",".join(PROGRAMS), everywhere[2:])):
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", f"{package}[{extras}]"]
        subprocess.run(install, check=True)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        environment = {**kept, "PURSER_KEY": world.key, "PURSER_URL": world.api, "URLS": " ".join(urls)}
        for program in (program for extra in extras.split(",") for program in PROGRAMS[extra]):
            subprocess.run([str(python), "-c", program], check=True, cwd=place, env=environment, stdout=2)
            times += len(urls)
    print(f"{which}, {package.name}: bought with {alone} alone, and with each of {', '.join(PROGRAMS)}")
    return times


if __name__ == "__main__":
    main()
