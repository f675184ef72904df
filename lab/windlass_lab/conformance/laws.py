"""The laws that hold in every scenario, whatever is expected: each violation is a sentence.

Only the effects of the plan count; problems from before are not its fault. Held places count as
taken as soon as the tasks that leave them are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.plan import Plan
from windlass.model.actions import WITHOUT_PREEMPTOR, PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, Task, TaskState
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.state.queue_accounts import charges_of
from windlass_lab.oracle import fit


def broken_laws(cluster: Cluster, plan: Plan, was_whole: Mapping[GangId, bool]) -> list[str]:
    """Return all violations of a plan, in the cluster that has assumed it."""
    bound = {cluster.tasks[each.task].gang for each in plan.binds}
    held = {hold.gang for hold in plan.holds if hold.firm}
    return [
        *_too_much(cluster, bound, _taken(cluster)),
        *_too_much(cluster, held, _taken_later(cluster, plan)),
        *_torn(cluster, plan, was_whole),
        *_for_nothing(plan, bound | held),
    ]


def is_whole(gang: Gang, members: Iterable[Task], also: Iterable[Task] = ()) -> bool:
    """Return whether a gang has what it needs to run, counting tasks that work, have succeeded, or
    move."""
    there = Counter(task.group for task in members if task.state in {*ACTIVE, TaskState.SUCCEEDED})
    there.update(task.group for task in also)
    return there.total() >= gang.needed() and all(
        there[group.name] >= group.minimum for group in gang.groups
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """The amounts that a gang has, or will have, on a node."""

    gang: GangId
    node: str
    request: Request
    devices: tuple[Slice, ...]


def _taken(cluster: Cluster) -> list[_Taken]:
    """Return the amounts that are occupied now."""
    return [_of_task(each) for each in cluster.tasks.values() if each.state in OCCUPYING]


def _taken_later(cluster: Cluster, plan: Plan) -> list[_Taken]:
    """Return the amounts that will be occupied once leaving tasks are gone and held places are
    used."""
    latest = cluster.now - cluster.settings.stuck_after_s
    stay = [
        _of_task(each)
        for each in cluster.tasks.values()
        if each.state in ACTIVE or (each.releasing_since or cluster.now) < latest
    ]
    claims = [(hold.gang, each) for hold in plan.holds if hold.firm for each in hold.claims]
    return [*stay, *(_of_claim(gang, claim) for gang, claim in claims)]


def _of_task(task: Task) -> _Taken:
    return _Taken(task.gang, task.node, task.shape.request, task.devices)


def _of_claim(gang: GangId, claim: PlaceClaim) -> _Taken:
    return _Taken(gang, claim.node, claim.request, claim.devices)


def _too_much(cluster: Cluster, by: set[GangId], taken: Sequence[_Taken]) -> Iterator[str]:
    """Yield the nodes and queues of these gangs that would exceed what they have."""
    for name in sorted({each.node for each in taken if each.gang in by}):
        node = cluster.nodes.get(name)
        if node is not None:
            yield from _overcommitted(node, [each for each in taken if each.node == name])
    paths = cluster.accounts.path
    for name in sorted({name for gang in by for name in paths(cluster.gangs[gang].queue)}):
        some = [each for each in taken if name in paths(cluster.gangs[each.gang].queue)]
        yield from _above_limit(cluster, name, some)


def _overcommitted(node: Node, there: Sequence[_Taken]) -> Iterator[str]:
    asked: Counter[str] = Counter()
    for each in there:
        asked.update(fit.amounts(each.request))
    offered = fit.allocatable(node)
    for name in sorted(asked):
        if asked[name] > offered.get(name, 0):
            yield f"node {node.name} gives {asked[name]} of its {offered.get(name, 0)} {name}"
    for device, gpu in enumerate(node.gpus):
        slices = [part for each in there for part in each.devices if part.device == device]
        if not fit.is_legal(gpu, slices):
            milli = sum(each.milli for each in slices)
            yield f"node {node.name} gives {milli} thousandths of its device {device}"


def _above_limit(cluster: Cluster, name: str, taken: Iterable[_Taken]) -> Iterator[str]:
    has: Counter[str] = Counter()
    for each in taken:
        has.update(dict(charges_of(each.request, each.devices, cluster.nodes.get(each.node))))
    for dimension, limit in sorted(cluster.queues[name].limit.items()):
        if has[dimension] > limit:
            yield f"queue {name} gets {has[dimension]} {dimension}, above its limit of {limit}"


def _torn(cluster: Cluster, plan: Plan, was_whole: Mapping[GangId, bool]) -> Iterator[str]:
    """Yield the touched gangs that are neither whole nor gone; a moving task counts as present."""
    moving = {each.task for each in plan.evictions if each.moves_to}
    bound = {cluster.tasks[each.task].gang for each in plan.binds}
    touched = (each.task for each in (*plan.binds, *plan.evictions))
    for gang in sorted({cluster.tasks[task].gang for task in touched}):
        members = cluster.members(gang)
        moves = [each for each in members if each.id in moving]
        if is_whole(cluster.gangs[gang], members, moves):
            continue
        is_left = bool(moves) or any(each.state in ACTIVE for each in members)
        if gang in bound or (is_left and was_whole.get(gang, False)):
            yield f"job {gang} is left with less than it needs to run"


def _for_nothing(plan: Plan, gaining: set[GangId]) -> Iterator[str]:
    for each in plan.evictions:
        if each.rule not in WITHOUT_PREEMPTOR and each.gainer not in gaining:
            yield f"task {each.task} is evicted for {each.gainer}, which gets nothing"
