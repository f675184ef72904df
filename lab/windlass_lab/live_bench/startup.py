"""The time from the start of the process to its first bind, on a large cluster that is in use.

One pod waits, all others run, and the lease is free. One GPU is left on one node, so that only a
scheduler that has read all pods can bind the pod where it fits.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_lab.control_plane.errors import LabError
from windlass_lab.fake_nodes.machines import Fleet
from windlass_lab.fake_nodes.prefill import PrefillPods, fill
from windlass_lab.live_bench.environment import opened
from windlass_lab.live_bench.pods import create, singles
from windlass_lab.live_bench.process_usage import cpu_s, peak_mib
from windlass_lab.live_bench.schedulers import NAMES, running


@dataclass(frozen=True, slots=True)
class Beginning:
    """The measurements of a start."""

    read_s: float
    """The seconds until it had read everything."""
    first_bind_s: float
    cpu_s: float
    """The CPU time that the scheduler needed for it, in seconds."""
    rss_mib: float


async def begin(name: str, fleet: Fleet, pods: int) -> Beginning:
    """Start a scheduler where this many pods run (at most as many as there are GPUs) and
    one waits."""
    last, *others = fleet
    gpus = sum(machine.gpus for machine in others)
    queues = {"all": {"namespaces": ["default"], "guarantee": {"gpu": gpus + last.gpus}}}
    (waiting,) = singles(1, "waiting")
    async with opened(fleet, queues) as scene:
        await fill(scene.api, others, gpus, PrefillPods(prefix="trains"))
        await fill(scene.api, [last], last.gpus - 1, PrefillPods(prefix="last"))
        without = max(0, pods - gpus - last.gpus + 1)
        await fill(scene.api, fleet, without, PrefillPods(prefix="serves", gpus=0))
        await create(scene.api, [waiting], NAMES[name])
        async with running(name, scene.plane) as scheduler:
            bound_at = await scene.eyes.wait_bound([waiting.key])
            if (node := scene.eyes.nodes[waiting.key]) != last.name:
                raise LabError(f"{name} bound the pod to {node}, which is full, not to {last.name}")
            return Beginning(
                scheduler.in_step_at - scheduler.began_at,
                bound_at - scheduler.began_at,
                cpu_s(scheduler.pid),
                peak_mib(scheduler.pid),
            )
