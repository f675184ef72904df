"""GPU time allocated where pods also leave: the trace's own times, and the engine.

Pods arrive when the trace says and are tried once; a placed pod leaves after its run time. Where
the trace requests less than the cluster has, everything fits under every policy. With a `load` it
is as if the trace had always gone on, so often that this percentage of the cluster is requested at
every instant: first the pods that would be running then, the more likely the longer they stay, with
the rest of their stay; then twelve hours of new ones, drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from windlass.model.actions import Bind
from windlass.model.gpus import WHOLE
from windlass.sim.traces import TracePod
from windlass_lab.trials.placement import Run, Trial, milli_of, shuffled

HOUR = 3600
LASTS = 12 * HOUR
"""The time in seconds for which pods arrive and leave under a load; later time does not count."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod, its arrival, and its run time."""

    pod: TracePod
    at: int
    seconds: int


def allocated_hours(trial: Trial, load: int | None = None) -> dict[str, float]:
    """Return the requested and allocated GPU-hours, and the number of pods without a place."""
    all_gpus = sum(len(node.gpus) for node in trial.nodes) * WHOLE
    random, stays = Random(trial.seed), stays_of(trial.pods)
    run = Run(trial, shuffled(trial.nodes, random))
    if load is not None:
        stays = lived_in(stays, all_gpus * load // 100, random)
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


def stays_of(pods: Sequence[TracePod]) -> list[Stay]:
    """Return the pods with times, by arrival."""
    return sorted(_stays(pods), key=lambda stay: (stay.at, stay.pod.name))


def have_times(pods: Sequence[TracePod]) -> bool:
    """Return whether any of them holds GPUs for a time."""
    return any(stay.seconds and milli_of(stay.pod.request) for stay in _stays(pods))


def lived_in(stays: Sequence[Stay], gpu_milli: int, random: Random) -> list[Stay]:
    """Return the pods that run if this much is requested all the time, and those that
    arrive then."""
    found: list[Stay] = []
    weights, asked = [stay.seconds for stay in stays], 0
    while asked < gpu_milli:
        (met,) = random.choices(stays, weights)
        found.append(Stay(met.pod, 0, min(random.randint(1, met.seconds), LASTS)))
        asked += milli_of(met.pod.request)
    each_asks = sum(milli_of(stay.pod.request) * stay.seconds for stay in stays) / len(stays)
    count = round(gpu_milli * LASTS / each_asks)
    for number, new in enumerate(random.choices(stays, k=count)):
        at = LASTS * number // count
        found.append(Stay(new.pod, at, min(new.seconds, LASTS - at)))
    return found


def _stays(pods: Sequence[TracePod]) -> Iterator[Stay]:
    for pod in pods:
        if pod.created_at is not None and pod.deleted_at is not None:
            yield Stay(pod, pod.created_at, max(0, pod.deleted_at - pod.created_at))
