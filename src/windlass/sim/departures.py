"""How much GPU time is allocated where pods also leave: a trace's own times, and the engine.

Pods arrive when the trace says, are tried once, and those that are placed leave after as long as
they ran there. Where the trace asks for less than the cluster has, everything fits whatever the
policy: `load` draws the arrivals closer together, until so many per cent are asked for on average;
how long pods run stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from windlass.model.actions import Bind
from windlass.model.gpus import WHOLE
from windlass.sim.placement import Run, Trial, milli_of, shuffled
from windlass.sim.traces.openb import Pod

HOUR = 3600


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod, when it arrives, and how long it would run."""

    pod: Pod
    at: int
    seconds: int


def allocated_hours(trial: Trial, load: int | None = None) -> dict[str, float]:
    """GPU-hours asked for and allocated, and how many pods found no place."""
    all_gpus = sum(len(node.gpus) for node in trial.nodes) * WHOLE
    stays = drawn_together(stays_of(trial.pods), all_gpus, load)
    run = Run(trial, shuffled(trial.nodes, Random(trial.seed)))
    leaving: list[tuple[int, int, Bind]] = []
    hours = refused = 0
    for number, stay in enumerate(stays):
        while leaving and leaving[0][0] <= stay.at:
            _, which, bind = heappop(leaving)
            run.leave(stays[which].pod.request, bind)
        _, bind = run.decide(stay.pod.request, f"{number:06}")
        run.referee.judge(stay.pod.request, bind)
        if bind is None:
            refused += 1
        else:
            heappush(leaving, (stay.at + stay.seconds, number, bind))
            hours += milli_of(stay.pod.request) * stay.seconds
    asked = sum(milli_of(stay.pod.request) * stay.seconds for stay in stays)
    per_hour = WHOLE * HOUR
    return {
        "gpu_hours_asked": round(asked / per_hour, 1),
        "gpu_hours": round(hours / per_hour, 1),
        "refused": refused,
    }


def stays_of(pods: Sequence[Pod]) -> list[Stay]:
    """The pods with times, by arrival."""
    return sorted(_stays(pods), key=lambda stay: (stay.at, stay.pod.name))


def drawn_together(stays: Sequence[Stay], all_gpus: int, load: int | None) -> list[Stay]:
    """The same stays, arriving so closely that they ask for so much on average."""
    if load is None or not stays:
        return list(stays)
    first, last = stays[0].at, stays[-1].at
    asked = sum(milli_of(stay.pod.request) * stay.seconds for stay in stays)
    span = max(1, asked * 100 // (all_gpus * load))
    width = max(1, last - first)
    return [Stay(each.pod, (each.at - first) * span // width, each.seconds) for each in stays]


def _stays(pods: Sequence[Pod]) -> Iterator[Stay]:
    for pod in pods:
        if pod.created_at is not None and pod.deleted_at is not None:
            yield Stay(pod, pod.created_at, max(0, pod.deleted_at - pod.created_at))
