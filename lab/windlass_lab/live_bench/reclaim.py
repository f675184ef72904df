"""Reclaim of a guarantee: one queue has borrowed every GPU, and another requests its own.

The nodes are played by the fake kubelet, since evicted pods have to end before others can start;
they end as soon as they are deleted. The clock begins when the scheduler has read everything and
stops when the last requesting pod is bound.
"""

from __future__ import annotations

from dataclasses import replace

from windlass_lab.fake_kubelet.kubelet import playing
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_nodes.machines import Fleet
from windlass_lab.live_bench.environment import opened
from windlass_lab.live_bench.pods import BenchPod, create, singles
from windlass_lab.live_bench.schedulers import NAMES, WINDLASS, running

IDLE = Habits(lease_period_s=3600.0)
"""The heartbeat settings: no controller reads heartbeats here."""


async def reclaim(fleet: Fleet, count: int) -> float:
    """Return the seconds until this many one-GPU pods have reclaimed what others had borrowed."""
    gpus = sum(machine.gpus for machine in fleet)
    queues = {
        "borrower": {"namespaces": ["default"], "guarantee": {"gpu": gpus - count}},
        "owner": {"namespaces": ["default"], "guarantee": {"gpu": count}},
    }
    asking = singles(count, "owner", queue="owner")
    async with (
        opened(fleet, queues, with_nodes=False) as scene,
        playing(scene.access, fleet, IDLE),
    ):
        there = _borrowers(fleet)
        await create(scene.api, there, NAMES[WINDLASS])
        await scene.eyes.wait_running([pod.key for pod in there])
        await create(scene.api, asking, NAMES[WINDLASS])
        async with running(WINDLASS, scene.plane) as scheduler:
            ended_at = await scene.eyes.wait_bound([pod.key for pod in asking])
            return ended_at - scheduler.in_step_at


def _borrowers(fleet: Fleet) -> list[BenchPod]:
    places = [machine.name for machine in fleet for _ in range(machine.gpus)]
    pods = singles(len(places), "borrower", queue="borrower", preemptible="true")
    return [replace(pod, node=node) for pod, node in zip(pods, places, strict=True)]
