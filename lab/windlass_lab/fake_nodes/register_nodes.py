"""Registration of nodes at the API server, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from windlass.kube.client import Api, Conflict, Patch
from windlass_lab.fake_kubelet.clock import now
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_nodes.labels import node_labels
from windlass_lab.fake_nodes.machines import Machine
from windlass_lab.fake_nodes.nodes import NODES, node_object, node_status, taints


async def register(api: Api, machines: Iterable[tuple[Machine, int]], habits: Habits) -> None:
    """Create the nodes, each with this many healthy GPUs; an existing one is updated."""
    jobs = (_register(api, machine, gpus, habits) for machine, gpus in machines)
    await in_parallel(habits.in_flight, jobs)


async def report(api: Api, machine: Machine, healthy_gpus: int) -> None:
    """Write the node's status: it is ready, and this many GPUs are allocatable."""
    body = {"status": node_status(machine, healthy_gpus, now().stamp)}
    await api.patch(f"{NODES}/{machine.name}/status", body, kind=Patch.STRATEGIC)


async def in_parallel(limit: int, jobs: Iterable[Awaitable[Any]]) -> None:
    """Await all jobs, at most `limit` at a time; the first error ends it."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await job

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(work())


async def _register(api: Api, machine: Machine, healthy_gpus: int, habits: Habits) -> None:
    try:
        await api.post(NODES, node_object(machine, healthy_gpus, now().stamp))
    except Conflict:
        labels = {"metadata": {"labels": node_labels(machine)}}
        await api.patch(f"{NODES}/{machine.name}", labels)
        await report(api, machine, healthy_gpus)
    if habits.untaint:
        wanted = taints(machine) or None
        await api.patch(f"{NODES}/{machine.name}", {"spec": {"taints": wanted}})
