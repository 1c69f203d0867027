"""Programs that a comparison starts, and ends by their process ids."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Processes:
    """Starts programs with their output in files of a folder, and ends all of them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def start(
        self, name: str, argv: list, env: dict | None = None, user: str | None = None, **popen
    ) -> subprocess.Popen:
        out = open(self.folder / f"{name}.log", "ab")
        with out:
            p = subprocess.Popen(
                ["nice", "-n", "15", *map(str, argv)], env={**os.environ, **(env or {})}, stderr=out, user=user,
                stdin=subprocess.DEVNULL, start_new_session=True, **{"stdout": out, "cwd": self.folder, **popen},
            )  # fmt: skip
        self.started.append(p)
        return p

    def end(self, *processes: subprocess.Popen) -> None:
        """Ends processes, or all of them, the last one first."""
        for p in reversed(processes or tuple(self.started)):
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
                try:
                    p.wait(20)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
            self.started.remove(p)


def await_answer(url: str, p: subprocess.Popen, seconds: float = 120) -> None:
    """Waits until url answers, whatever the status is."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if p.poll() is not None:
            raise RuntimeError(f"{p.args} has ended with {p.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(url)


def await_port(port: int, p: subprocess.Popen, seconds: float = 30) -> None:
    """Waits until the port takes connections."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if p.poll() is not None:
            raise RuntimeError(f"{p.args} has ended with {p.returncode}")
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"port {port}")


class Database:
    """A PostgreSQL of its own, with its usual settings: fsync is on."""

    def __init__(self, processes: Processes):
        self.folder = processes.folder / "postgres"
        self.port = free_port()
        self.user = "postgres" if os.getuid() == 0 else None  # PostgreSQL refuses to run as root
        self.folder.mkdir()
        if self.user:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)
        newest = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
        data = self.folder / "data"
        subprocess.run(
            [newest / "initdb", "-D", data, "-A", "trust", "-U", "bench", "--locale=C", "-E", "UTF8"],
            check=True, user=self.user, stdout=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip
        p = processes.start("postgres", [
            newest / "postgres", "-D", data, "-p", self.port, "-c", "listen_addresses=127.0.0.1",
            "-c", f"unix_socket_directories={self.folder}", "-c", "max_connections=300",
        ], user=self.user, cwd=self.folder)  # fmt: skip
        await_port(self.port, p)

    def url(self, database: str) -> str:
        return f"postgresql://bench@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, template: str = "template1") -> str:
        self.sql(f"create database {database} template {template}", "postgres")
        return self.url(database)

    def sql(self, statement: str, database: str) -> str:
        return self._psql(database, "-c", statement)

    def load(self, file: Path, database: str) -> None:
        self._psql(database, "-f", str(file))

    def _psql(self, database: str, *args: str) -> str:
        argv = ["psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), *args]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
