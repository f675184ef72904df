"""A real Kubernetes control plane on loopback, fresh in seconds, for tests to use and to break.

    with Plane(Options(scheduler=True)) as plane:
        plane.kubeconfig                      # of an administrator
        plane.user_kubeconfig("ann", ["ml"])  # of somebody with no rights but what RBAC grants
        plane.stop("kube-apiserver")          # and start: same address, same data
        plane.pause("kube-controller-manager")
        plane.compact()

Synchronous on purpose: it is a rig. Its processes end with it, also if this process is killed.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from windlass.certificates import Authority, signing_keys, write_secret
from windlass_lab.control_plane.binaries import ProgramBinary, find
from windlass_lab.control_plane.command_lines import PlaneLayout, words_of
from windlass_lab.control_plane.errors import PlaneFailed
from windlass_lab.control_plane.kubeconfig import write_kubeconfig
from windlass_lab.control_plane.ports import PortPool
from windlass_lab.control_plane.process import Keeper, Process
from windlass_lab.control_plane.readiness import is_ready, post

if TYPE_CHECKING:
    from windlass.kube.client import Access

READY_SECONDS = 180
"""The time to wait for readiness: a machine that builds and tests at the same time is slow, not
broken."""
POLL_SECONDS = 0.05
ROOM_BYTES = 4 << 30
"""The memory that must be free for a plane in memory; etcd alone reserves 128 MiB."""
SERVER_NAMES = (
    *("localhost", "127.0.0.1"),
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
)
READY_PATHS = {"etcd": "/readyz", "kube-apiserver": "/readyz"}


@dataclass(frozen=True, slots=True)
class Options:
    """The properties of a plane."""

    controllers: bool = True
    """Run kube-controller-manager: Jobs get pods, lost nodes get taints, garbage is collected."""
    scheduler: bool = False
    audit: bool = False
    """Write every request, without its object, to `audit.log` in the folder."""
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """More flags by program; of two that say the same, the later one counts."""
    port: int | None = None
    """The port of the API server; any free one by default."""
    folder: Path | None = None
    """The folder of logs, keys and data; by default a temporary one, removed at the end."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that run, in the order of their start."""
        more = {"kube-controller-manager": self.controllers, "kube-scheduler": self.scheduler}
        return ("etcd", "kube-apiserver", *(name for name, wanted in more.items() if wanted))


class Plane:
    """A control plane; use it as a context, with or without `async`."""

    folder: Path
    layout: PlaneLayout
    parts: dict[str, ProgramBinary]

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self._ports = PortPool()
        self._authority = Authority.make("windlass-lab")
        self._trust = ssl.create_default_context(cadata=self._authority.certificate.decode())
        self._keeper: Keeper | None = None
        self._processes: dict[str, Process] = {}

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self.layout.url("kube-apiserver")

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.folder / "kubeconfig"

    def __enter__(self) -> Self:
        try:
            self._prepare()
            for name in self.options.programs:
                self._processes[name].start()
                if name in READY_PATHS:
                    self.wait_ready(name)
            self.wait_ready(*self.options.programs)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End all processes, the API server before its store."""
        for process in reversed(self._processes.values()):
            process.stop(at_once=self.options.folder is None)
        if self._keeper:
            self._keeper.close()
        self._ports.give_back()

    def start(self, name: str) -> None:
        """Start a stopped program at its old address, with its old data, and wait until it is
        ready."""
        self._process(name).start()
        self.wait_ready(name)

    def stop(self, name: str, *, at_once: bool = False) -> None:
        """Stop a program; `at_once` is a crash."""
        self._process(name).stop(at_once=at_once)

    def pause(self, name: str) -> None:
        """Stop a program's process: it keeps its connections and does not answer."""
        self._process(name).pause()

    def resume(self, name: str) -> None:
        """Continue a paused program."""
        self._process(name).resume()

    def pid(self, name: str) -> int | None:
        """Return the pid of a program while it runs; None otherwise."""
        return self._process(name).pid

    def log(self, name: str) -> Path:
        """Return the log file of a program."""
        return self._process(name).log

    def wait_ready(self, *names: str) -> None:
        """Wait until these programs are ready."""
        deadline = time.monotonic() + READY_SECONDS
        for name in names:
            while not self._is_ready(name):
                process = self._process(name)
                process.check()
                if time.monotonic() > deadline:
                    said = process.last_words()
                    raise PlaneFailed(f"{name} is not ready after {READY_SECONDS} s; {said}")
                time.sleep(POLL_SECONDS)

    def compact(self) -> int:
        """Compact the store's history up to now; watches that lag behind get a 410."""
        now = post(self.layout.etcd, "/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        post(self.layout.etcd, "/v3/kv/compaction", {"revision": now, "physical": True})
        return int(now)

    def user_kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        """Return the kubeconfig of a user who has only the rights that RBAC grants."""
        return self._write_access(self.layout.kubeconfig(name), name, groups)

    def api_access(self, user: str | None = None, groups: Sequence[str] = ()) -> Access:
        """Return access for our own client, as the administrator or as a user."""
        from windlass.kube.client import load  # noqa: PLC0415  the rig runs without the client

        return load(str(self.user_kubeconfig(user, groups) if user else self.kubeconfig), None)

    def _prepare(self) -> None:
        """Write everything that must exist before the first process starts."""
        self.parts = find(self.options.programs)
        self.folder = self.options.folder or _temporary_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keeper = Keeper(None if self.options.folder else self.folder)
        wishes = {name: None for name in ("etcd-peers", *self.options.programs)}
        wishes |= {"kube-apiserver": self.options.port}
        ports = {name: self._ports.claim(wish) for name, wish in wishes.items()}
        self.layout = PlaneLayout(self.folder, ports)
        self._write_secrets()
        for name in self.options.programs:
            words = words_of(name, self.layout, self.options.audit)
            command = [str(self.parts[name].path), *words, *self.options.flags.get(name, ())]
            log = self.folder / f"{name}.log"
            self._processes[name] = Process(name, command, log, self._keeper)

    def _write_secrets(self) -> None:
        pki = self.folder / "pki"
        pki.mkdir(mode=0o700, exist_ok=True)
        self.layout.users.mkdir(mode=0o700, exist_ok=True)
        (pki / "ca.crt").write_bytes(self._authority.certificate)
        self._authority.serving(SERVER_NAMES).write(pki, "serving")
        private, public = signing_keys()
        write_secret(pki / "tokens.key", private)
        (pki / "tokens.pub").write_bytes(public)
        self._write_access(self.kubeconfig, "admin", ["system:masters"])
        self.user_kubeconfig("system:kube-controller-manager")
        self.user_kubeconfig("system:kube-scheduler")

    def _write_access(self, path: Path, user: str, groups: Sequence[str]) -> Path:
        pair = self._authority.client(user, groups)
        write_kubeconfig(path, self.server, self._authority.certificate, pair)
        return path

    def _is_ready(self, name: str) -> bool:
        trust = None if name == "etcd" else self._trust
        return is_ready(self.layout.url(name), READY_PATHS.get(name, "/healthz"), trust)

    def _process(self, name: str) -> Process:
        if name not in self._processes:
            raise PlaneFailed(f"this plane has no {name}; it has {', '.join(self._processes)}")
        return self._processes[name]


def _temporary_folder() -> Path:
    """Create a temporary folder, in memory if there is room; a small /dev/shm, as in a container,
    is not used."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free >= ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="windlass-", dir=memory if roomy else None))
