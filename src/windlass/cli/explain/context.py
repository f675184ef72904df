"""The context in which a job is explained: a cluster at one time, with the plan for it.

It comes from a scenario that is simulated, from a snapshot, or from a live cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from windlass.model.actions import Evict
from windlass.model.events import Event
from windlass.model.reasons import display_name

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.daemon.loop import ClusterReading
    from windlass.engine.plan import Plan
    from windlass.forecast.experience import Experience
    from windlass.sim.records import GangRecord
    from windlass.state.cluster import Cluster

NO_LEADER = "No replica leads, so nothing of this is carried out; `windlass doctor` says more."
PAUSED = "Evictions are paused, so no room is made; `windlass resume` allows them again."

Displacement = tuple[int, tuple[Evict, ...]]
"""The time at which tasks of a gang were evicted, and the evictions."""


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """A cluster, the plan for it, and the gangs that have ended or are not submitted yet."""

    cluster: Cluster
    plan: Plan
    after: Cluster
    """The cluster as the plan leaves it."""
    jobs: dict[str, list[str]]
    """The gangs that a name stands for, by every name that a user may give."""
    ended: dict[str, GangRecord]
    """The gangs that have ended; known only in a simulation."""
    upcoming: dict[str, int]
    """The gangs that will be submitted later, and when; known only in a simulation."""
    displacements: dict[str, list[Displacement]] = field(
        default_factory=dict[str, list[Displacement]]
    )
    """The evictions of each gang so far; known only in a simulation."""
    notice: str = ""
    """Sentences about the answer as a whole, such as that the plan is not carried out."""
    open_to: Callable[[str], Collection[str]] | None = None
    """The queues that a namespace may use; None if it may use all."""
    experience: Experience | None = None
    """The run times observed so far; known only in a simulation."""
    eta_sentences: dict[str, str] | None = None
    """The ETAs that the leader wrote on pods, by gang; None if there is no live cluster."""


def scenario_context(file: str, time: str | None) -> ExplainContext:
    """Simulate a scenario to a time, or to rest if that is None, and return its cluster then."""
    from windlass.cli.files import read_scenario_file
    from windlass.cli.options import parse_time
    from windlass.engine.cycle import plan
    from windlass.forecast.experience import Experience
    from windlass.sim.run import Simulation

    experience = Experience()
    until = None if time is None else parse_time(time, "--at")
    scenario = read_scenario_file(file)
    displacements: dict[str, list[Displacement]] = {}

    def observed_plan(cluster: Cluster) -> Plan:
        experience.look(cluster)
        result = plan(cluster)
        for gang, evictions in evictions_by_gang(cluster, result).items():
            displacements.setdefault(gang, []).append((cluster.now, evictions))
        return result

    simulation = Simulation(scenario.workload, observed_plan, start_s=0)
    simulation.run(until=until)
    cluster, records = simulation.cluster, simulation.records
    arrivals = {str(arrival.gang.id): arrival.at for arrival in scenario.workload.arrivals}
    jobs = {name: [name] for name in arrivals}
    jobs |= {name: list(copies) for name, copies in scenario.copies.items()}
    result = plan(cluster)
    return ExplainContext(
        cluster,
        result,
        _after(cluster, result),
        jobs,
        ended={str(gang): record for gang, record in records.items() if record.ended is not None},
        upcoming={name: at for name, at in arrivals.items() if name not in records},
        displacements=displacements,
        experience=experience,
    )


def evictions_by_gang(cluster: Cluster, plan: Plan) -> dict[str, tuple[Evict, ...]]:
    """Return the evictions of a plan by gang."""
    evictions: dict[str, tuple[Evict, ...]] = {}
    for evict in plan.evictions:
        gang = cluster.tasks[evict.task].gang
        evictions[gang] = (*evictions.get(gang, ()), evict)
    return evictions


def snapshot_context(file: str) -> ExplainContext:
    """Return the cluster of a snapshot file, with the plan for it."""
    from windlass.cli.files import read_snapshot_file
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(read_snapshot_file(file))
    return _context_of(cluster, plan(cluster))


def cluster_context(config: Config) -> ExplainContext:
    """Read a live cluster once, and return it with the plan for it."""
    import asyncio

    from windlass.daemon.loop import read_cluster

    return observed_context(asyncio.run(read_cluster(config)))


def observed_context(sight: ClusterReading) -> ExplainContext:
    """Return the context of a live cluster that was just read."""
    from windlass.cli.render.eta import etas_on_pods

    notice = NO_LEADER if sight.leader == "" else PAUSED if sight.paused else ""
    context = _context_of(sight.cluster, sight.plan, notice)
    return replace(context, open_to=sight.open_to, eta_sentences=etas_on_pods(sight))


def with_events(context: ExplainContext, events: Iterable[Event]) -> ExplainContext:
    """Return the context after some events; they are applied to a copy of the cluster."""
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(context.cluster.snapshot())
    for event in events:
        cluster.apply(event)
    changed = _context_of(cluster, plan(cluster), context.notice)
    return replace(changed, open_to=context.open_to, experience=context.experience)


def _context_of(cluster: Cluster, plan: Plan, notice: str = "") -> ExplainContext:
    """Return the context of a cluster without a known past.

    A gang can be named by its job, by its own name with or without its uid, or by a pod. Where
    names collide, the name of a job wins, and the name of a pod gives way to all others.
    """
    jobs: dict[str, list[str]] = {str(gang): [str(gang)] for gang in cluster.gangs}
    gangs_by_job: dict[str, list[str]] = {}
    for gang in sorted(cluster.gangs.values(), key=lambda gang: gang.id):
        gangs_by_job.setdefault(gang.job, []).append(gang.id)
        if "~" in gang.id:
            jobs.setdefault(display_name(gang.id), []).append(gang.id)
        for task in cluster.members(gang.id):
            jobs.setdefault(pod_of(task.id), [gang.id])
    after = _after(cluster, plan)
    return ExplainContext(cluster, plan, after, jobs | gangs_by_job, {}, {}, notice=notice)


def _after(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the cluster as the plan leaves it: a copy, unless the plan changes nothing."""
    from windlass.state.cluster import Cluster

    if not plan.actions and {hold.gang: hold for hold in plan.holds} == cluster.holds:
        return cluster
    after = Cluster.of(cluster.snapshot())
    after.assume(plan)
    return after


def pod_of(task: str) -> str:
    """Return the id of a task as its users know it: without the uid of the pod, if it has one."""
    return task.rpartition("/")[0] if task.count("/") == 2 else task
