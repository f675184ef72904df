"""A backlog of pods, from the moment the scheduler has read it until everything is written.

The pods exist before the scheduler starts, so that creating them costs no scheduler anything. The
clock begins when it has read them (or binds the first, if that is seen earlier), so that deciding
counts and starting a process does not; it stops when the last pod is bound and no more Events or
conditions come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.kube.client import Api
from windlass_lab.fake_nodes.machines import Fleet
from windlass_lab.fake_nodes.register_nodes import in_parallel
from windlass_lab.live_bench.environment import BenchEnvironment, Queues, opened
from windlass_lab.live_bench.observer import Eyes
from windlass_lab.live_bench.pods import IN_FLIGHT, BenchPod, create
from windlass_lab.live_bench.process_usage import cpu_s, peak_mib
from windlass_lab.live_bench.schedulers import NAMES, Running, running

SERVERS = ("kube-apiserver", "etcd")


@dataclass(frozen=True, slots=True)
class BacklogResult:
    """The measurements of one backlog."""

    pods: int
    """The number of pods that were seen bound."""
    seconds: float
    start_s: float = 0.0
    """The seconds from the start of the process until it had read everything."""
    cpu_ms_per_pod: float = 0.0
    server_cpu_ms_per_pod: float = 0.0
    """The CPU time of the API server and its store."""
    all_cpu_ms_per_pod: float = 0.0
    """The CPU time of all processes, including the observer (which also binds in `bind_alone`)."""
    rss_mib: float = 0.0

    @property
    def pods_per_s(self) -> float:
        """The rate over the whole time."""
        return self.pods / self.seconds


async def race(name: str, pods: Sequence[BenchPod], fleet: Fleet, queues: Queues) -> BacklogResult:
    """Let a scheduler place the pods, and measure it."""
    keys = [pod.key for pod in pods]
    async with opened(fleet, queues) as scene:
        await create(scene.api, pods, NAMES[name])
        async with running(name, scene.plane) as scheduler:
            used = _Used(scene, len(pods), scheduler.pid)
            await scene.eyes.wait_bound(keys)
            ended_at = await scene.eyes.wait_quiet()
            begun_at = _begun_at(scheduler, scene.eyes, pods)
            outcome = BacklogResult(
                scene.eyes.count_bound(keys),
                ended_at - begun_at,
                start_s=begun_at - scheduler.began_at,
                rss_mib=peak_mib(scheduler.pid),
            )
            return used.told(outcome)


async def bind_alone(pods: Sequence[BenchPod], fleet: Fleet, queues: Queues) -> BacklogResult:
    """Bind the pods to places known beforehand, with nothing else to do."""
    places = [machine.name for machine in fleet for _ in range(machine.gpus)]
    keys = [pod.key for pod in pods]
    async with opened(fleet, queues) as scene:
        uids = await create(scene.api, pods, "nobody")
        used, begun_at = _Used(scene, len(pods)), time.time()
        writes = (
            _bind(scene.api, pod, uids[pod.key], node)
            for pod, node in zip(pods, places, strict=False)
        )
        await in_parallel(IN_FLIGHT, writes)
        ended_at = await scene.eyes.wait_bound(keys)
        return used.told(BacklogResult(scene.eyes.count_bound(keys), ended_at - begun_at))


class _Used:
    """The CPU time that is used from now on."""

    def __init__(self, scene: BenchEnvironment, pods: int, scheduler: int | None = None) -> None:
        servers = [scene.plane.pid(name) for name in SERVERS]
        self._servers = [pid for pid in servers if pid is not None]
        self._scheduler = [scheduler] if scheduler is not None else []
        self._pods = pods
        self._before = self._now()

    def told(self, outcome: BacklogResult) -> BacklogResult:
        """Return the outcome with the CPU time that was used for it."""
        pairs = zip(self._now(), self._before, strict=True)
        scheduler, servers, here = ((now - then) * 1000 / self._pods for now, then in pairs)
        return replace(
            outcome,
            cpu_ms_per_pod=scheduler,
            server_cpu_ms_per_pod=servers,
            all_cpu_ms_per_pod=scheduler + servers + here,
        )

    def _now(self) -> tuple[float, float, float]:
        return (
            sum(cpu_s(pid) for pid in self._scheduler),
            sum(cpu_s(pid) for pid in self._servers),
            time.process_time(),
        )


def _begun_at(scheduler: Running, eyes: Eyes, pods: Sequence[BenchPod]) -> float:
    first = min(eyes.bound[pod.key] for pod in pods)
    return min(scheduler.in_step_at, first)


async def _bind(api: Api, pod: BenchPod, uid: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.post(f"{pod.path}/binding", body)
