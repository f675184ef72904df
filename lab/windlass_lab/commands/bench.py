"""`windlass bench`: the speed of the engine, measured on this machine.

Figures are times on one core; compare them within one run, not across machines.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from windlass_lab.commands.bench_eta import command as bench_eta
from windlass_lab.commands.bench_harm import command as bench_harm
from windlass_lab.commands.bench_live import command as bench_live
from windlass_lab.commands.bench_placement import command as bench_placement

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.sim.generate import ContendedCluster
    from windlass.state.cluster import Cluster

TRIES = 5
"""The number of repetitions of short measurements; the median counts."""


@click.group("bench")
def command() -> None:
    """Measure the engine on this machine."""


command.add_command(bench_eta)
command.add_command(bench_harm)
command.add_command(bench_live)
command.add_command(bench_placement)


@command.command("engine")
@click.option(
    "--nodes",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Nodes with 8 GPUs each.",
)
@click.option(
    "--pods", type=click.IntRange(1), default=10_000, show_default=True, help="Waiting pods."
)
@click.option(
    "--shapes",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Different requests among them.",
)
@click.option("--seed", default=1, show_default=True, help="Another seed, other work.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def engine(nodes: int, pods: int, shapes: int, seed: int, as_json: bool) -> None:
    """Decide a large backlog on a large cluster; then nothing, one pod, and a gang that
    cannot fit."""
    from windlass.sim.generate import Load

    figures = measure(Load(nodes, pods, shapes, seed=seed))
    if as_json:
        click.echo(json.dumps(figures))
        return
    click.echo(f"{pods:,} pods of {shapes:,} shapes on {nodes:,} nodes with 8 GPUs each")
    for name, text in TEXTS.items():
        value = figures[name]
        click.echo(f"  {_say(value):>12}  {text}")


def _say(value: float | bool | None) -> str:
    if value is None:
        return "no room"
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:,}"


TEXTS = {
    "seconds": "seconds to decide all of it",
    "decisions_per_s": "decisions per second",
    "placed": "pods placed",
    "idle_cycle_ms": "ms for a cycle in which nothing changed",
    "one_pod_ms": "ms to decide again after one pod came",
    "cannot_fit_ms": "ms to prove that a gang cannot fit",
    "gang_512_ms": "ms for a gang of 512 pods",
    "peak_mib": "MiB of memory at the peak",
    "oracle_agrees": "a plain-Python oracle chose the same nodes (on a small cluster)",
}


def measure(size: Any) -> dict[str, Any]:
    """Return all figures for one size."""
    from windlass.engine.cycle import plan
    from windlass.sim.generate import load
    from windlass.state.cluster import Cluster
    from windlass_lab.trials.witness import agrees

    cluster = Cluster.of(load(size))
    cluster.columns  # noqa: B018 - laid out once, as at start-up
    gc.collect()
    gc.freeze()
    seconds, decided = _timed(lambda: plan(cluster))
    idle = _median(lambda: plan(cluster))
    cluster.assume(decided)
    plan(cluster)
    return {
        "seconds": round(seconds, 3),
        "decisions_per_s": round(size.pods / seconds),
        "placed": len(decided.binds),
        "idle_cycle_ms": round(idle, 4),
        "one_pod_ms": round(_one_pod(cluster, plan), 3),
        "cannot_fit_ms": round(_cannot_fit(cluster), 3),
        "gang_512_ms": _gang(cluster, plan),
        "peak_mib": _peak_mib(),
        "oracle_agrees": agrees(size.shapes, size.seed),
    }


@command.command("displace")
@click.option(
    "--nodes",
    type=click.IntRange(20),
    default=500,
    show_default=True,
    help="Nodes with 8 GPUs each.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def displace(nodes: int, as_json: bool) -> None:
    """Make room on contended clusters: reclaim, consolidate, and prove that neither helps."""
    figures = measure_displacing(nodes)
    if as_json:
        click.echo(json.dumps(figures))
        return
    click.echo(f"{nodes:,} nodes with 8 GPUs each, 8 departments of 5 teams")
    click.echo(_displacing_table(figures))
    for name, text in TOLD.items():
        click.echo(f"  {figures[name] or '-':>8}  {text}")


def _displacing_table(figures: dict[str, Any]) -> str:
    from windlass.cli.output import table

    rows: list[list[str]] = []
    for name, (text, bar) in DISPLACING.items():
        case, _, unit = name.rpartition("_")
        counts = figures["cases"].get(case, {})
        told = [f"{counts[each]:,}" if each in counts else "" for each in COUNTS]
        rows.append([text, f"{figures[name]:,} {unit}", f"{bar} {unit}", *told])
    return table(["", "took", "bar", *COUNTS], rows)


DISPLACING = {
    "reclaim_4000_s": ("all GPUs back, job by job", 1.5),
    "reclaim_gang_s": ("half of them back, one gang", 0.2),
    "consolidate_41_s": ("whole nodes by moving", 2),
    "cannot_fit_ms": ("may not displace enough", 1),
}
"""The measurements, with their bars on 500 nodes."""
COUNTS = ("cycles", "served", "lost", "moved")
TOLD = {
    "longest_cycle_s": "s for the longest cycle",
    "cannot_fit_scattered_ms": "ms if there is enough to displace, but never a whole node",
    "passer_cycles": "cycles until a fitting pod is placed that arrives during a search",
}
MOST_CYCLES = 100


@dataclass(slots=True)
class DisplacementTiming:
    """The measurements of one contended cluster."""

    cycles: list[float] = field(default_factory=list[float])
    """The seconds of each cycle; the last one decided nothing more."""
    served: int = 0
    """The number of arrived tasks that have places."""
    lost: int = 0
    moved: int = 0

    def counts(self) -> dict[str, Any]:
        """Return all figures but the sum of its cycles."""
        return {
            "cycles": len(self.cycles),
            "last_cycle_s": round(self.cycles[-1], 3),
            "served": self.served,
            "lost": self.lost,
            "moved": self.moved,
        }


def measure_displacing(nodes: int) -> dict[str, Any]:
    """Return all figures for one size."""
    from windlass.sim.generate import contended

    courses = {
        "reclaim_4000": _course(contended.reclaimed(nodes)),
        "reclaim_gang": _course(contended.reclaimed_by_one(nodes)),
        "consolidate_41": _course(contended.scattered(nodes)),
    }
    return {
        **{f"{name}_s": round(sum(each.cycles), 3) for name, each in courses.items()},
        "cannot_fit_ms": round(_refusal(contended.taken(nodes, 60)), 3),
        "evictions": sum(each.lost for each in courses.values()),
        "moved": sum(each.moved for each in courses.values()),
        "cases": {name: each.counts() for name, each in courses.items()},
        "longest_cycle_s": round(max(max(each.cycles) for each in courses.values()), 3),
        "cannot_fit_scattered_ms": round(_refusal(contended.taken(nodes, 0)), 3),
        "passer_cycles": _passer(contended.scattered(nodes)),
    }


def _course(scene: ContendedCluster) -> DisplacementTiming:
    """Plan until nothing more is decided. Evicted tasks do not leave meanwhile."""
    from windlass.engine.cycle import plan

    cluster, course = _warm(scene), DisplacementTiming()
    for gang, tasks in scene.arriving:
        _see(cluster, gang, tasks)
    before = -1
    while cluster.version != before and len(course.cycles) < MOST_CYCLES:
        seconds, found = _timed(lambda: plan(cluster))
        course.cycles.append(seconds)
        moves = sum(bool(each.moves_to) for each in found.evictions)
        course.moved += moves
        course.lost += len(found.evictions) - moves
        before = cluster.version
        cluster.assume(found)
    arrived = {gang.id for gang, _ in scene.arriving}
    holds = (hold for hold in cluster.holds.values() if hold.firm and hold.gang in arrived)
    course.served = sum(len(hold.claims) for hold in holds)
    return course


def _refusal(scene: ContendedCluster) -> float:
    """Return the median milliseconds of the cycle that refuses a gang of yet another team."""
    from windlass.engine.cycle import plan
    from windlass.engine.plan import Verdict
    from windlass.model.events import GangGone

    cluster = _warm(scene)

    def answer(gang: Any, tasks: Any) -> float:
        _see(cluster, gang, tasks)
        seconds, found = _timed(lambda: plan(cluster))
        (decision,) = (each for each in found.decisions if each.gang == gang.id)
        assert decision.verdict == Verdict.WAITS, "it may not displace enough"
        assert decision.reasons, "and is told why it waits"
        cluster.apply(GangGone(gang.id))
        plan(cluster)
        return seconds * 1000

    return sorted(answer(*each) for each in scene.arriving[:TRIES])[TRIES // 2]


def _passer(scene: ContendedCluster) -> int | None:
    """Return the number of cycles that a fitting pod waits which arrives while room is searched for
    others.

    Each cycle searches for one gang only; None if there is only one to search for.
    """
    from windlass.engine.cycle import plan
    from windlass.sim.generate import passer

    settings = replace(scene.running.settings, search_steps=1)
    cluster = _warm(replace(scene, running=replace(scene.running, settings=settings)))
    for gang, tasks in scene.arriving:
        _see(cluster, gang, tasks)
    first = plan(cluster)
    cluster.assume(first)
    if first.wake_at != cluster.now + 1:
        return None
    gang, (task,) = passer()
    _see(cluster, gang, [task])
    for cycle in range(1, MOST_CYCLES):
        found = plan(cluster)
        if any(bind.task == task.id for bind in found.binds):
            return cycle
        cluster.assume(found)
    return None


def _warm(scene: ContendedCluster) -> Cluster:
    """Return the cluster, planned once before the gangs arrive."""
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(scene.running)
    cluster.assume(plan(cluster))
    gc.unfreeze()  # the scene before
    gc.collect()
    gc.freeze()
    return cluster


def _one_pod(cluster: Cluster, plan: Callable[[Cluster], Plan]) -> float:
    """Return the median time to plan after one more pod was seen."""
    from windlass.sim.generate import OPEN, single

    def again(at: int) -> float:
        _see(cluster, *single(f"one-{at}", OPEN))
        seconds, found = _timed(lambda: plan(cluster))
        cluster.assume(found)
        return seconds * 1000

    return sorted(again(at) for at in range(TRIES))[TRIES // 2]


def _cannot_fit(cluster: Cluster) -> float:
    """Return the median time of the proof, for a gang of one whole node more than is free."""
    from windlass.engine.nodes import NodeIndex, Topologies, bounds
    from windlass.engine.queueing import gang_progress
    from windlass.sim.generate import OPEN, whole_nodes

    index, topologies = cluster.recall(NodeIndex), cluster.recall(Topologies)
    _, (task, *_) = whole_nodes("probe", OPEN, 1)
    size = int(index.of(task.shape).room().sum()) + 1
    gang, tasks = whole_nodes("impossible", OPEN, size)
    _see(cluster, gang, tasks)
    far = gang_progress(cluster, gang.id)
    found = bounds.why_not_now(index, topologies, far)
    assert found is not None, "a gang of one more than there is room for"
    return _median(lambda: bounds.why_not_now(index, topologies, far))


def _gang(cluster: Cluster, plan: Callable[[Cluster], Plan]) -> float | None:
    """Return the time to plan after a gang of 512 one-GPU pods was seen; None if it does
    not fit."""
    from windlass.model.events import GangGone
    from windlass.model.jobs import GangId
    from windlass.sim.generate import OPEN, many

    cluster.apply(GangGone(GangId("impossible")))
    _see(cluster, *many("gang-512", OPEN, 512))
    plan_s, found = _timed(lambda: plan(cluster))
    return round(plan_s * 1000, 1) if len(found.binds) >= 512 else None


def _see(cluster: Cluster, gang: Any, tasks: Any) -> None:
    from windlass.model.events import GangSeen, TaskSeen

    cluster.apply(GangSeen(gang))
    for task in tasks:
        cluster.apply(TaskSeen(task))


def _timed(what: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = what()
    return perf_counter() - start, result


def _median(what: Callable[[], Any]) -> float:
    """Return the median milliseconds of several tries."""
    return sorted(_timed(what)[0] for _ in range(TRIES))[TRIES // 2] * 1000


def _peak_mib() -> int:
    from resource import RUSAGE_SELF, getrusage

    return getrusage(RUSAGE_SELF).ru_maxrss // 1024
