"""The same week under different choices of victims: lost work, and waits.

Windlass chooses the victims with the lowest restart cost and requests checkpoints before evictions.
The others choose by age or by priority alone and delete at once, as other schedulers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.engine.cycle import plan_without_reasons
from windlass.model.settings import Victims
from windlass.sim.generate import URGENT, JobMix, generate
from windlass.sim.report import Times, report, times
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload

MIX = JobMix(urgent_percent=15)
"""A job mix with some urgent work; otherwise the default."""


@dataclass(frozen=True, slots=True)
class Harm:
    """The results of one choice of victims."""

    gpu_hours_lost: float
    """The work that was repeated because of evictions."""
    gangs_stopped: int
    gpu_hours_useful: float
    urgent_waits: tuple[int, ...]
    """For each urgent gang, the seconds from submission until it ran."""
    guaranteed_waits: tuple[int, ...]
    """The same for services, which have a guarantee."""

    @property
    def urgent(self) -> Times:
        """The waits of urgent gangs."""
        return times(self.urgent_waits)

    @property
    def guaranteed(self) -> Times:
        """The waits of services."""
        return times(self.guaranteed_waits)


def try_out(seed: int, hours: int, nodes: int, victims: Victims) -> Harm:
    """Play one week."""
    workload = generate(seed, hours, nodes, MIX)
    workload = replace(workload, settings=replace(workload.settings, victims=victims))
    asks = victims is Victims.LEAST_HARM
    played = Simulation(workload if asks else deaf(workload), plan_without_reasons)
    played.run()
    found, now = report(played, victims.value), played.cluster.now
    records = played.records.values()
    return Harm(
        gpu_hours_lost=found.displaced.gpu_hours_lost,
        gangs_stopped=found.displaced.gangs_stopped + found.displaced.gangs_moved,
        gpu_hours_useful=found.gpu_hours.useful,
        urgent_waits=tuple(r.waited(now) for r in records if r.gang.priority == URGENT),
        guaranteed_waits=tuple(r.waited(now) for r in records if r.gang.queue == "serving"),
    )


def deaf(workload: Workload) -> Workload:
    """Return the same work without checkpoint requests."""

    def mute(arrival: Arrival) -> Arrival:
        return replace(arrival, gang=replace(arrival.gang, saves_within_s=None))

    return replace(workload, arrivals=tuple(mute(each) for each in workload.arrivals))


def total(some: Iterable[Harm]) -> Harm:
    """Return the sum of several weeks."""
    found = tuple(some)
    return Harm(
        gpu_hours_lost=round(sum(each.gpu_hours_lost for each in found), 1),
        gangs_stopped=sum(each.gangs_stopped for each in found),
        gpu_hours_useful=round(sum(each.gpu_hours_useful for each in found), 1),
        urgent_waits=tuple(wait for each in found for wait in each.urgent_waits),
        guaranteed_waits=tuple(wait for each in found for wait in each.guaranteed_waits),
    )
