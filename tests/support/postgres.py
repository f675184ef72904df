"""A real PostgreSQL on loopback for as long as the tests run, with a password made up for it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "windlass"
PATIENCE_S = 60


@dataclass(frozen=True)
class Postgres:
    port: int
    password: str

    def url(self, database: str, password: str = "") -> str:
        given = password or self.password
        return f"postgresql://{USER}:{given}@127.0.0.1:{self.port}/{database}"


def find() -> Path | None:
    """Where the programs of the newest PostgreSQL lie."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    there = str(found[-1]) if found else shutil.which("initdb")
    return Path(there).resolve().parent if there else None


@contextmanager
def running(programs: Path) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="windlass-postgres-"))
    password, port = secrets.token_urlsafe(18), _free_port()
    (folder / "password").write_text(password)
    as_user = _as_user(folder)
    data = folder / "data"
    subprocess.run(
        [
            *as_user,
            str(programs / "initdb"),
            *("--pgdata", str(data), "--username", USER, "--pwfile", str(folder / "password")),
            *("--auth", "scram-sha-256", "--no-sync", "--encoding", "UTF8", "--locale", "C"),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    log = (folder / "log").open("wb")
    settings = {"listen_addresses": "127.0.0.1", "port": port, "fsync": "off"}
    settings |= {"unix_socket_directories": str(folder), "shared_buffers": "16MB"}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    server = subprocess.Popen(
        [*as_user, str(programs / "postgres"), "-D", str(data), *options],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_until_ready(programs, port, server, folder / "log")
        yield Postgres(port, password)
    finally:
        server.send_signal(signal.SIGINT)  # does not wait for those who are still connected
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _as_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to be run by root; then it is run by an account that owns nothing else."""
    if os.getuid() != 0:
        return []
    for name in ("postgres", "nobody"):
        if subprocess.run(["id", "-u", name], capture_output=True, check=False).returncode == 0:
            subprocess.run(["chown", "-R", name, str(folder)], check=True)
            return ["setpriv", f"--reuid={name}", "--clear-groups", "--"]
    raise AssertionError("there is neither a user postgres nor nobody to run PostgreSQL as")


def _wait_until_ready(
    programs: Path, port: int, server: subprocess.Popen[bytes], log: Path
) -> None:
    ask = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    for _ in range(PATIENCE_S * 10):
        if subprocess.run(ask, capture_output=True, check=False).returncode == 0:
            return
        if server.poll() is not None:
            break
        try:
            server.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"PostgreSQL does not start: {log.read_text()[-500:]}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
