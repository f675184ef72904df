"""A cluster that is in use already: many pods that are bound and run, made quickly.

For start-up tests and benchmarks: the pods are spread over the fleet's GPUs as far as they fit. The
API server starts every pod as Pending, so each costs two requests; where a fake kubelet plays the
nodes meanwhile, it makes them run, and one request is enough (`running=False`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.kube.client import Api, Conflict, Patch
from windlass_lab.fake_kubelet.clock import now
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_kubelet.status import running
from windlass_lab.fake_kubelet.wire import Pod
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.machines import Machine
from windlass_lab.fake_nodes.register_nodes import in_parallel, register


@dataclass(frozen=True, slots=True)
class PrefillPods:
    """The properties of the pods."""

    namespace: str = "default"
    prefix: str = "filled"
    gpus: int = 1
    cpu: str = "100m"
    memory: str = "256Mi"
    scheduler: str = "default-scheduler"
    running: bool = True


_decoder = msgspec.json.Decoder(Pod)


async def fill(
    api: Api, fleet: Sequence[Machine], count: int, filling: PrefillPods | None = None
) -> None:
    """Create `count` bound pods on the fleet; the nodes must exist, see `make_nodes`."""
    filling = filling or PrefillPods()
    room = sum(_places(machine, filling) for machine in fleet)
    if count > room:
        raise ValueError(
            f"{count} pods of {filling.gpus} GPUs do not fit on {len(fleet)} machines: {room} do"
        )
    with suppress(Conflict):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.post(f"/api/v1/namespaces/{filling.namespace}/serviceaccounts", account)
    jobs = (
        _make(api, node, f"{filling.prefix}-{number:06}", filling)
        for number, node in zip(range(count), _turns(fleet, filling), strict=False)
    )
    await in_parallel(Habits().in_flight, jobs)


async def make_nodes(api: Api, fleet: Sequence[Machine]) -> None:
    """Create the nodes without playing them; they are ready and carry no taint of their own."""
    machines = [(machine, machine.gpus) for machine in fleet]
    await register(api, machines, Habits(untaint=True))


def _places(machine: Machine, filling: PrefillPods) -> int:
    return min(machine.pods, machine.gpus // filling.gpus) if filling.gpus else machine.pods


def _turns(fleet: Sequence[Machine], filling: PrefillPods) -> Iterator[str]:
    """Yield node after node, as often as each has places."""
    for turn in range(max((_places(machine, filling) for machine in fleet), default=0)):
        yield from (machine.name for machine in fleet if turn < _places(machine, filling))


async def _make(api: Api, node: str, name: str, filling: PrefillPods) -> None:
    pods = f"/api/v1/namespaces/{filling.namespace}/pods"
    made = _decoder.decode(await api.post(pods, _pod(node, name, filling)))
    if filling.running:
        status = running(made, now().stamp, ("10.0.0.1", "10.0.0.2"))
        await api.patch(f"{pods}/{name}/status", {"status": status}, kind=Patch.STRATEGIC)


def _pod(node: str, name: str, filling: PrefillPods) -> dict[str, Any]:
    requests = {"cpu": filling.cpu, "memory": filling.memory}
    gpus = {GPU: str(filling.gpus)} if filling.gpus else {}
    container = {
        "name": "main",
        "image": "fake.windlass.dev/none",
        "resources": {"requests": requests | gpus, "limits": gpus},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "schedulerName": filling.scheduler,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
