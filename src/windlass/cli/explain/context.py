"""What a job is explained in: a cluster at a moment, with the plan for it.

It comes from a scenario that is played, from a snapshot, or from a live cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from windlass.model.actions import Evict
from windlass.model.display_names import known_as
from windlass.model.events import Event

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.daemon.loop.read_cluster import Sight
    from windlass.engine.plan import Plan
    from windlass.forecast.experience import Experience
    from windlass.sim.records import GangRecord
    from windlass.state.cluster import Cluster

NOBODY = "nobody leads, so nothing of this is carried out; `windlass doctor` says more"
PAUSED = "evictions are paused, so nobody makes room; `windlass resume` allows them again"

Loss = tuple[int, tuple[Evict, ...]]
"""When tasks of a gang were displaced, and how."""


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """A cluster at a moment, the plan for it, and what is not in it, no longer or not yet."""

    cluster: Cluster
    plan: Plan
    after: Cluster
    """The cluster as the plan leaves it."""
    jobs: dict[str, list[str]]
    """Per name a user may give, the gangs it stands for."""
    ended: dict[str, GangRecord]
    awaited: dict[str, int]
    """Gangs that are yet to be submitted, and when."""
    losses: dict[str, list[Loss]] = field(default_factory=dict[str, list[Loss]])
    """Per gang, what it lost so far; known only where it was played."""
    notice: str = ""
    """What keeps the plan from being carried out, in a sentence."""
    open_to: Callable[[str], Collection[str]] | None = None
    """The queues that a namespace may use; None: all of them."""
    past: Experience | None = None
    """What was learned on the way; known only where it was played."""
    expected: dict[str, str] | None = None
    """When gangs are expected to start, as a leader has told their pods; None: there are none."""


def of_scenario(file: str, time: str | None) -> ExplainContext:
    """A scenario, played to a time or to rest."""
    from windlass.cli.files import read_scenario_file
    from windlass.cli.times import time_option
    from windlass.engine.cycle import plan
    from windlass.forecast.experience import Experience
    from windlass.sim.run import Simulation

    past = Experience()
    at = None if time is None else time_option(time, "--at")
    scenario = read_scenario_file(file)
    losses: dict[str, list[Loss]] = {}

    def watched(cluster: Cluster) -> Plan:
        past.look(cluster)
        found = plan(cluster)
        for gang, evictions in evicted(cluster, found).items():
            losses.setdefault(gang, []).append((cluster.now, evictions))
        return found

    simulation = Simulation(scenario.workload, watched, start_s=0)
    simulation.run(until=at)
    cluster, records = simulation.cluster, simulation.records
    arrivals = {str(each.gang.id): each.at for each in scenario.workload.arrivals}
    jobs = {name: [name] for name in arrivals}
    jobs |= {name: list(copies) for name, copies in scenario.copies.items()}
    found = plan(cluster)
    return ExplainContext(
        cluster,
        found,
        _after(cluster, found),
        jobs,
        ended={str(gang): each for gang, each in records.items() if each.ended is not None},
        awaited={name: at for name, at in arrivals.items() if name not in records},
        losses=losses,
        past=past,
    )


def evicted(cluster: Cluster, plan: Plan) -> dict[str, tuple[Evict, ...]]:
    """The evictions of a plan by gang."""
    found: dict[str, tuple[Evict, ...]] = {}
    for each in plan.evictions:
        gang = cluster.tasks[each.task].gang
        found[gang] = (*found.get(gang, ()), each)
    return found


def of_snapshot(file: str) -> ExplainContext:
    """A snapshot as it stands."""
    from windlass.cli.files import read_snapshot_file
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(read_snapshot_file(file))
    return _seen(cluster, plan(cluster))


def of_cluster(config: Config) -> ExplainContext:
    """A cluster as it is now."""
    import asyncio

    from windlass.daemon.loop.read_cluster import look

    return on_sight(asyncio.run(look(config)))


def on_sight(sight: Sight) -> ExplainContext:
    """A cluster as it was just seen."""
    from windlass.cli.render.eta import told_on

    notice = NOBODY if sight.leader == "" else PAUSED if sight.paused else ""
    seen = _seen(sight.cluster, sight.plan, notice)
    return replace(seen, open_to=sight.open_to, expected=told_on(sight))


def with_events(scene: ExplainContext, events: Iterable[Event]) -> ExplainContext:
    """The same after something happened, on a copy."""
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(scene.cluster.snapshot())
    for event in events:
        cluster.apply(event)
    seen = _seen(cluster, plan(cluster), scene.notice)
    return replace(seen, open_to=scene.open_to, past=scene.past)


def _seen(cluster: Cluster, plan: Plan, notice: str = "") -> ExplainContext:
    """Jobs go by their own name, by that of a gang, with or without its uid, or of a pod."""
    jobs: dict[str, list[str]] = {str(gang): [str(gang)] for gang in cluster.gangs}
    of_job: dict[str, list[str]] = {}
    for gang in sorted(cluster.gangs.values(), key=lambda gang: gang.id):
        of_job.setdefault(gang.job, []).append(gang.id)
        if "~" in gang.id:
            jobs.setdefault(known_as(gang.id), []).append(gang.id)
        for task in cluster.members(gang.id):
            jobs.setdefault(pod_of(task.id), [gang.id])
    return ExplainContext(
        cluster, plan, _after(cluster, plan), jobs | of_job, {}, {}, notice=notice
    )


def _after(cluster: Cluster, plan: Plan) -> Cluster:
    from windlass.state.cluster import Cluster

    if not plan.actions and {hold.gang: hold for hold in plan.holds} == cluster.holds:
        return cluster
    after = Cluster.of(cluster.snapshot())
    after.assume(plan)
    return after


def pod_of(task: str) -> str:
    """A task as its users know it: a pod's uid, where there is one, is left out."""
    return task.rpartition("/")[0] if task.count("/") == 2 else task
