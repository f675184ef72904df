"""A backlog of pods, from the moment the scheduler has read it until everything is written.

The pods are there before the scheduler starts, so that making them costs nobody anything. The clock
begins when it has read them (or binds the first, should that be noticed earlier), so that deciding
counts and starting a process does not; it stops when the last pod is bound and no more Events or
conditions come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.kube.client import Api
from windlass.lab.bench.contenders import NAMES, Running, running
from windlass.lab.bench.eyes import Eyes
from windlass.lab.bench.pods import IN_FLIGHT, Wanted, create
from windlass.lab.bench.scene import Queues, Scene, opened
from windlass.lab.bench.spent import cpu_s, peak_mib
from windlass.lab.kubelet.fleet import Fleet
from windlass.lab.kubelet.register import in_parallel

SERVERS = ("kube-apiserver", "etcd")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a backlog went."""

    pods: int
    """So many were seen bound."""
    seconds: float
    bound_s: float
    """Until the last pod was bound; Events may have come later."""
    start_s: float = 0.0
    """From the start of the process until it had read everything."""
    cpu_ms_per_pod: float = 0.0
    server_cpu_ms_per_pod: float = 0.0
    """Of the API server and its store."""
    rss_mib: float = 0.0

    @property
    def pods_per_s(self) -> float:
        """The rate over the whole time."""
        return self.pods / self.seconds


async def race(name: str, pods: Sequence[Wanted], fleet: Fleet, queues: Queues) -> Outcome:
    """Let a scheduler place the pods."""
    keys = [pod.key for pod in pods]
    async with opened(fleet, queues) as scene:
        await create(scene.api, pods, NAMES[name])
        servers = _servers_s(scene)
        async with running(name, scene.plane) as scheduler:
            before = cpu_s(scheduler.pid)
            bound_at = await scene.eyes.wait_bound(keys)
            ended_at = await scene.eyes.wait_quiet()
            begun_at = _begun_at(scheduler, scene.eyes, pods)
            return Outcome(
                scene.eyes.count_bound(keys),
                ended_at - begun_at,
                bound_at - begun_at,
                start_s=begun_at - scheduler.began_at,
                cpu_ms_per_pod=(cpu_s(scheduler.pid) - before) * 1000 / len(pods),
                server_cpu_ms_per_pod=(_servers_s(scene) - servers) * 1000 / len(pods),
                rss_mib=peak_mib(scheduler.pid),
            )


async def bind_alone(pods: Sequence[Wanted], fleet: Fleet, queues: Queues) -> Outcome:
    """Bind the pods to places known beforehand, with nothing else to do."""
    places = [machine.name for machine in fleet for _ in range(machine.gpus)]
    async with opened(fleet, queues) as scene:
        uids = await create(scene.api, pods, "nobody")
        servers, begun_at = _servers_s(scene), time.time()
        writes = (
            _bind(scene.api, pod, uids[pod.key], node)
            for pod, node in zip(pods, places, strict=False)
        )
        await in_parallel(IN_FLIGHT, writes)
        keys = [pod.key for pod in pods]
        ended_at = await scene.eyes.wait_bound(keys)
        used = (_servers_s(scene) - servers) * 1000 / len(pods)
        seconds = ended_at - begun_at
        bound = scene.eyes.count_bound(keys)
        return Outcome(bound, seconds, seconds, server_cpu_ms_per_pod=used)


def _begun_at(scheduler: Running, eyes: Eyes, pods: Sequence[Wanted]) -> float:
    first = min(eyes.bound[pod.key] for pod in pods)
    return min(scheduler.in_step_at, first)


def _servers_s(scene: Scene) -> float:
    return sum(cpu_s(pid) for name in SERVERS if (pid := scene.plane.pid(name)))


async def _bind(api: Api, pod: Wanted, uid: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.post(f"{pod.path}/binding", body)
