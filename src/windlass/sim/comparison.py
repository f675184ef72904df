"""The comparison of two runs of the same work, by queue, by size, by kind, and gang by gang.

A subset of gangs wins if it waits less and gets no less GPU time, and loses in the opposite case.
The largest differences in total waiting time come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.model.gpus import WHOLE, Gpu
from windlass.model.jobs import GangId
from windlass.sim.metrics import requested
from windlass.sim.records import GangRecord
from windlass.sim.report import GPU_HOUR, Times, times
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival

SIZES = (
    (0, "no GPU"),
    (WHOLE - 1, "a part of a GPU"),
    (WHOLE, "1 GPU"),
    (8 * WHOLE, "up to 8 GPUs"),
    (64 * WHOLE, "up to 64 GPUs"),
)
LARGEST = "more than 64 GPUs"
NOTABLE_HOURS = 0.05
"""Differences of GPU time below this are ignored, in GPU-hours."""


class ComparisonVerdict(StrEnum):
    """The effect of the change on a subset of gangs."""

    WINS = "wins"
    LOSES = "loses"
    MIXED = "mixed"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """The results of one subset of gangs in one of the two runs."""

    wait_seconds: Times
    """The time until the minimum ran; for gangs that never ran, until they ended or until the end
    of the run."""
    waited_seconds: int
    """The sum over all gangs."""
    gpu_hours: float
    """The useful work; repeated work counts once."""
    finished: int
    stops: int
    """The number of times that a gang lost its place and waited again."""
    evictions: int
    """The number of evicted tasks, moved ones included."""


@dataclass(frozen=True, slots=True)
class GangSubset:
    """The results of some gangs, side by side."""

    name: str
    gangs: int
    before: ComparisonSide
    after: ComparisonSide

    @property
    def verdict(self) -> ComparisonVerdict:
        """The verdict for this subset."""
        waits = self.after.waited_seconds - self.before.waited_seconds
        work = self.after.gpu_hours - self.before.gpu_hours
        work = work if abs(work) >= NOTABLE_HOURS else 0.0
        if not waits and not work:
            return ComparisonVerdict.SAME
        if waits <= 0 and work >= 0:
            return ComparisonVerdict.WINS
        return ComparisonVerdict.LOSES if waits >= 0 and work <= 0 else ComparisonVerdict.MIXED


@dataclass(frozen=True, slots=True)
class Versus:
    """The whole comparison."""

    whole: GangSubset
    queues: tuple[GangSubset, ...]
    sizes: tuple[GangSubset, ...]
    kinds: tuple[GangSubset, ...]
    gangs: tuple[GangSubset, ...]
    """Single gangs, without those that fare the same."""


def versus(before: Simulation, after: Simulation) -> Versus:
    """Compare two runs of the same workload, which are over."""
    for each in (before, after):
        each.world.pause_all()
    cards = list(dict.fromkeys(gpu for node in before.workload.nodes for gpu in node.gpus))
    arrivals = {each.gang.id: each for each in before.workload.arrivals}
    both = _Both(before, after, [gang for gang in arrivals if gang in before.records])

    def parts(name_of: Callable[[Arrival], str]) -> tuple[GangSubset, ...]:
        return both.parts(lambda gang: name_of(arrivals[gang]))

    return Versus(
        whole=both.part("all", both.gangs),
        queues=parts(lambda each: each.gang.queue),
        sizes=parts(lambda each: size_of(each, cards)),
        kinds=parts(kind_of),
        gangs=tuple(
            e for e in parts(lambda each: each.gang.id) if e.verdict is not ComparisonVerdict.SAME
        ),
    )


def size_of(arrival: Arrival, cards: Sequence[Gpu]) -> str:
    """Return the size class of a gang, by the number of GPUs it requests."""
    milli = sum(requested(task.shape.request.gpu, cards) for task in arrival.tasks)
    return next((name for most, name in SIZES if milli <= most), LARGEST)


def kind_of(arrival: Arrival) -> str:
    """Return the kind of work of a gang, as far as a record shows it."""
    needed = arrival.gang.needed()
    if len(arrival.tasks) > needed:
        return "elastic gang"
    return "gang" if needed > 1 else "single task"


@dataclass(frozen=True, slots=True)
class _Both:
    before: Simulation
    after: Simulation
    gangs: list[GangId]

    def parts(self, name_of: Callable[[GangId], str]) -> tuple[GangSubset, ...]:
        named: dict[str, list[GangId]] = {}
        for gang in self.gangs:
            named.setdefault(name_of(gang), []).append(gang)
        found = (self.part(name, gangs) for name, gangs in named.items())
        return tuple(sorted(found, key=_by_difference))

    def part(self, name: str, gangs: Sequence[GangId]) -> GangSubset:
        return GangSubset(name, len(gangs), _side(self.before, gangs), _side(self.after, gangs))


def _by_difference(part: GangSubset) -> tuple[int, float, str]:
    waits = abs(part.after.waited_seconds - part.before.waited_seconds)
    return -waits, -abs(part.after.gpu_hours - part.before.gpu_hours), part.name


def _side(simulation: Simulation, gangs: Iterable[GangId]) -> ComparisonSide:
    now = simulation.cluster.now
    records: list[GangRecord] = [simulation.records[gang] for gang in gangs]
    waits = [each.waited(now) for each in records]
    return ComparisonSide(
        wait_seconds=times(waits),
        waited_seconds=sum(waits),
        gpu_hours=round(sum(each.worked for each in records) / GPU_HOUR, 2),
        finished=sum(each.ended is not None for each in records),
        stops=sum(each.stops + each.journeys for each in records),
        evictions=sum(each.evictions + each.moves for each in records),
    )
