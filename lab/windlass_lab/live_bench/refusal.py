"""The time until a gang that cannot fit is refused.

Every node has a foreign pod on one of its GPUs, so that most GPUs are free and no node is. A gang
of 80 GPUs, on 10 whole nodes, arrives while the scheduler runs. The clock begins when the last of
its pods is created and stops when the first of them has `PodScheduled=False`; Windlass delays a
message for a second before it is written, so the time of its decision is reported too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median

from windlass.kube.client import NotFound
from windlass_lab.fake_nodes.machines import Fleet
from windlass_lab.live_bench.environment import BenchEnvironment, opened
from windlass_lab.live_bench.pods import BenchPod, create, gang, singles
from windlass_lab.live_bench.schedulers import NAMES, WINDLASS, Running, lines, running

TRIES = 5
SIZE = 10


@dataclass(frozen=True, slots=True)
class RefusalTiming:
    """Milliseconds after the creation of the gang's last pod."""

    first_ms: float
    """Until one of them is refused."""
    all_ms: float
    """Until all of them are refused."""
    decided_ms: float
    """Until the scheduler had decided; 0 if it does not report that."""


async def refusal(name: str, fleet: Fleet) -> RefusalTiming:
    """Return the median over several gangs, one after the other."""
    gpus = fleet[0].gpus
    queues = {"all": {"namespaces": ["default"], "guarantee": {"gpu": len(fleet) * gpus}}}
    async with opened(fleet, queues) as scene:
        await create(scene.api, list(_one_on_each(fleet)), "somebody-else")
        async with running(name, scene.plane, level="debug") as scheduler:
            await scene.eyes.wait_quiet()
            found = [
                await _ask(scene, scheduler, gang(f"gang-{at}", SIZE, gpus)) for at in range(TRIES)
            ]
    return RefusalTiming(
        median(each.first_ms for each in found),
        median(each.all_ms for each in found),
        median(each.decided_ms for each in found),
    )


def _one_on_each(fleet: Fleet) -> Iterator[BenchPod]:
    for machine, pod in zip(fleet, singles(len(fleet), "there"), strict=True):
        yield replace(pod, node=machine.name)


async def _ask(scene: BenchEnvironment, scheduler: Running, pods: list[BenchPod]) -> RefusalTiming:
    await create(scene.api, pods, NAMES[scheduler.name])
    made_at = time.time()
    told = await scene.eyes.wait_refused([pod.key for pod in pods])
    decided_at = _decided_at(scheduler, made_at)
    for pod in pods:
        with suppress(NotFound):
            await scene.api.delete(pod.path, {"gracePeriodSeconds": 0})
    await scene.eyes.wait_quiet()
    return RefusalTiming(
        max(0.0, told[0] - made_at) * 1000,
        (told[-1] - made_at) * 1000,
        max(0.0, decided_at - made_at) * 1000,
    )


def _decided_at(scheduler: Running, since: float) -> float:
    """Return the end of the first cycle that had all pods of the gang."""
    if scheduler.name != WINDLASS:
        return since
    cycles = (each["at_s"] for each in lines(scheduler.log) if each["what"] == "cycle")
    return min((at for at in cycles if at >= since), default=since)
