"""Rules that depend on other tasks: pod (anti-)affinity and topology spread, laid over the keys.

The cached keys of `node_index.py` know nothing of other tasks. For a task with such rules, or one
that the rules of others match, an overlay is added to each node's key: `INFEASIBLE` where a
required term forbids the node, points where a preference is not met.

Arrays over domains. `tally.domain_of[slot]` is the number of the node's domain, or -1 if the node
does not have the label. A count per domain has one entry more than there are domains:

    counts[0] ... counts[n-1]  counts[-1]
    domain 0      domain n-1   nodes without the label; ignored

so that `counts[tally.domain_of]` is valid for every node, because index -1 is the last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np

from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.nodes.score import INFEASIBLE, POINT
from windlass.model.constraints import Constraints, Spread
from windlass.model.jobs import Gang, GangId, Task
from windlass.state.node_columns import Ints, Mask
from windlass.state.pod_affinity import (
    DomainCounts,
    HeldPlaceCounts,
    HeldSpread,
    PodAffinityIndex,
    TaskLabels,
    affinity_subjects,
    spread_subject,
    subject_of,
)

MOST_POINTS = 100
"""The most points against a node for one preferred spread."""

Item = TypeVar("Item")
PlacedTask: TypeAlias = tuple[Task, Gang, int]
"""A task, its gang, and the slot of its node."""


def overlay(neighbours: PodAffinityIndex, index: NodeIndex, task: Task, gang: Gang) -> Ints | None:
    """Return what to add to each node's key for this task; None if no rule concerns it."""
    forbidden = _forbidden(neighbours, index, task, gang)
    points = _points(neighbours, index, task.shape.constraints, gang.namespace)
    if not forbidden and not points:
        return None
    total: Ints = np.zeros(len(index.columns), np.int64)
    for per_node in points:
        total += per_node * POINT
    for mask in forbidden:
        total[mask] = INFEASIBLE
    return total


def one_by_one(
    items: Iterable[Item],
    place: Callable[[Item], bool],
    may_wait: Callable[[Item], bool],
    traits: Callable[[Item], object] = id,
) -> bool:
    """Place all items; return False at the first that cannot be placed and may not wait.

    An item that may wait is retried after all others were placed: its pod affinity may be to one of
    them. Right after an item that found no place, the next one with equal traits is not tried.
    """
    left = list(items)
    while left:
        later: list[Item] = []
        for item in left:
            if not (later and traits(later[-1]) == traits(item)) and place(item):
                continue
            if not may_wait(item):
                return False
            later.append(item)
        if len(later) == len(left):
            return False  # a whole round without progress
        left = later
    return True


def placement_traits(task: Task) -> object:
    """Return what decides where a task may be placed, among tasks of one gang."""
    return task.shape, task.labels


def can_bind_in_any_order(
    neighbours: PodAffinityIndex, index: NodeIndex, placed: Iterable[PlacedTask]
) -> bool:
    """Return whether an order exists in which the tasks can be bound at these nodes.

    Each task must be admitted beside all others. And since none of them runs yet, each must find
    its required affinity at the moment when it is bound: two tasks that require each other on an
    empty node are refused. The tallies are left as they were.
    """
    tasks = list(placed)
    for task in tasks:
        _count(neighbours, task, -1)
        is_admitted = _is_admitted(neighbours, index, task)
        _count(neighbours, task, 1)
        if not is_admitted:
            return False
    return _can_come_in_turn(neighbours, index, tasks)


def _can_come_in_turn(
    neighbours: PodAffinityIndex, index: NodeIndex, tasks: list[PlacedTask]
) -> bool:
    """Return whether an order exists in which the gangs can be bound one by one, each of them
    whole.

    A gang or task that is not admitted yet is tried again after others.
    """
    gangs: dict[GangId, list[PlacedTask]] = {}
    came: list[PlacedTask] = []

    def comes(task: PlacedTask) -> bool:
        if not _is_admitted(neighbours, index, task):
            return False
        _count(neighbours, task, 1)
        came.append(task)
        return True

    def leaves(mark: int) -> None:
        while len(came) > mark:
            _count(neighbours, came.pop(), -1)

    def comes_whole(members: list[PlacedTask]) -> bool:
        mark = len(came)
        if one_by_one(members, comes, _may_wait):
            return True
        leaves(mark)
        return False

    for task in tasks:
        gangs.setdefault(task[0].gang, []).append(task)
        _count(neighbours, task, -1)
    can_come = one_by_one(gangs.values(), comes_whole, _may_wait)
    leaves(0)
    for task in tasks:
        _count(neighbours, task, 1)
    return can_come


def _may_wait(_: object) -> bool:
    return True


def _count(neighbours: PodAffinityIndex, placed: PlacedTask, sign: int) -> None:
    task, gang, slot = placed
    neighbours.count(TaskLabels(task.labels, gang.namespace), task.shape.constraints, slot, sign)


def _is_admitted(neighbours: PodAffinityIndex, index: NodeIndex, placed: PlacedTask) -> bool:
    task, gang, slot = placed
    over = overlay(neighbours, index, task, gang)
    return over is None or int(over[slot]) < INFEASIBLE


def count_violated_nominations(neighbours: PodAffinityIndex, index: NodeIndex) -> int:
    """Return the number of nominated tasks whose affinity or spread is violated at their node."""
    violated = 0
    for tally in neighbours.tallies.values():
        if tally.awaited is not None:
            if tally.awaited.seekers.any():
                has_match = tally.matching[:-1].any()
                matching = tally.matching if has_match else tally.awaited.matching
                violated += int(tally.awaited.seekers[matching == 0].sum())
            violated += sum(_is_too_many(index, tally, even) for even in tally.awaited.even)
    return violated


# --- required rules ------------------------------------------------------------------------------


def _forbidden(
    neighbours: PodAffinityIndex, index: NodeIndex, task: Task, gang: Gang
) -> list[Mask]:
    """Return masks of the nodes that a required rule forbids, of the task or of others."""
    constraints, namespace = task.shape.constraints, gang.namespace
    own = neighbours.matching(TaskLabels(task.labels, namespace))
    masks = _too_far(neighbours, constraints, namespace, own)
    # Anti-affinity works both ways: the task's own terms, and the terms of others that match it.
    apart = [neighbours.tallies[subject_of(term, namespace)] for term in constraints.apart]
    crowded = [(tally, tally.matching_soon()) for tally in apart]
    crowded += [(tally, tally.holders_soon()) for tally in own]
    masks += [_near(tally, counts) for tally, counts in crowded if counts.any()]
    # Nominated tasks must still be admitted at their held places after this task is bound.
    masks += [
        ~_near(tally, tally.awaited.founders)
        for tally in own
        if tally.awaited is not None and _awaits_founder(tally, tally.awaited)
    ]
    masks += [
        _same_domain(index, even)
        for tally in own
        if tally.awaited is not None
        for even in tally.awaited.even
        if _would_spoil(index, tally, even)
    ]
    masks += [
        _uneven(index, tally.matching, spread, constraints, tally in own)
        for spread in constraints.spread
        for tally in [neighbours.tallies[spread_subject(spread, namespace)]]
        if spread.required
    ]
    return masks


def _too_far(
    neighbours: PodAffinityIndex, constraints: Constraints, namespace: str, own: list[DomainCounts]
) -> list[Mask]:
    """Return masks of the nodes without a match of a required affinity in their domain.

    The first task of a group that has affinity to itself may go to any node with the label.
    """
    tallies = [neighbours.tallies[subject] for subject in affinity_subjects(constraints, namespace)]
    if tallies and tallies[0] in own and not any(tally.matching[:-1].any() for tally in tallies):
        return [tally.domain_of < 0 for tally in tallies]
    return [~_near(tally, tally.matching) for tally in tallies]


def _awaits_founder(tally: DomainCounts, awaited: HeldPlaceCounts) -> bool:
    """Return whether a nominated task relies on being the first match of its own affinity.

    It may go anywhere only as long as no other task matches.
    """
    return bool(awaited.founders.any()) and not tally.has_any()


def _near(tally: DomainCounts, counts: Ints) -> Mask:
    """Return the nodes in domains with a positive count."""
    return (counts > 0)[tally.domain_of] & (tally.domain_of >= 0)


# --- topology spread -----------------------------------------------------------------------------


def _uneven(
    index: NodeIndex, matching: Ints, spread: Spread, constraints: Constraints, is_own: bool
) -> Mask:
    """Return the nodes in domains that would exceed the maximum skew.

    `matching` counts matching tasks per node; `is_own` is True if the task itself would match.
    """
    domain_of, names = index.columns.labels(spread.topology_key)
    counted = index.counted(constraints, spread)
    exists = _per_domain(domain_of, len(names), counted.astype(np.int64)) > 0
    sums = _per_domain(domain_of, len(names), np.where(counted, matching[:-1], 0))
    few = np.count_nonzero(exists) < spread.min_domains
    least = 0 if few or not exists.any() else int(sums[exists].min())
    too_many = sums + is_own - least > spread.max_skew
    return np.append(too_many, True)[domain_of]  # nodes without the label are refused


def _would_spoil(index: NodeIndex, tally: DomainCounts, even: HeldSpread) -> bool:
    """Return whether one more match beside a nominated task breaks a spread that holds without it.

    Checked now, with the tasks that are nominated in the same domain, and with all nominated ones.
    """
    slot = even.slot
    return any(
        _is_uneven(index, even, matching + (np.arange(matching.size) == slot), is_own)
        and not _is_uneven(index, even, matching, is_own)
        for matching, is_own in (
            (tally.matching, even.is_own),
            (_with_nominated_beside(index, tally, even), False),
            (tally.matching_soon(), False),
        )
    )


def _is_too_many(index: NodeIndex, tally: DomainCounts, even: HeldSpread) -> bool:
    """Return whether the skew is exceeded where a place is held, with all nominated there."""
    return _is_uneven(index, even, _with_nominated_beside(index, tally, even), is_own=False)


def _with_nominated_beside(index: NodeIndex, tally: DomainCounts, even: HeldSpread) -> Ints:
    """Return the matches per node; in the held place's domain with the tasks nominated there.

    The task for which the place is held is one of them.
    """
    beside, soon = _same_domain(index, even), tally.matching_soon()
    return np.append(np.where(beside, soon[:-1], tally.matching[:-1]), 0)


def _is_uneven(index: NodeIndex, even: HeldSpread, matching: Ints, is_own: bool) -> bool:
    return bool(_uneven(index, matching, even.spread, even.constraints, is_own)[even.slot])


def _same_domain(index: NodeIndex, even: HeldSpread) -> Mask:
    """Return the nodes of the domain in which the place is held."""
    domain_of, _ = index.columns.labels(even.spread.topology_key)
    return domain_of == domain_of[even.slot]


# --- preferences ---------------------------------------------------------------------------------


def _points(
    neighbours: PodAffinityIndex, index: NodeIndex, constraints: Constraints, namespace: str
) -> list[Ints]:
    """Return the points against each node, one array per preference that may be unmet."""
    points: list[Ints] = []
    for preference in constraints.pod_preferences:
        tally = neighbours.tallies[subject_of(preference.term, namespace)]
        near = _near(tally, tally.matching)
        unmet = near if preference.weight < 0 else ~near
        points.append(np.where(unmet, abs(preference.weight), 0))
    for spread in constraints.spread:
        if not spread.required:
            tally = neighbours.tallies[spread_subject(spread, namespace)]
            points.append(_crowded(index, tally, spread.topology_key))
    return points


def _crowded(index: NodeIndex, tally: DomainCounts, topology_key: str) -> Ints:
    """Return points against each node: what its domain has above the emptiest domain."""
    domain_of, names = index.columns.labels(topology_key)
    sums = _per_domain(domain_of, len(names), tally.matching[:-1])
    least = int(sums.min()) if sums.size else 0
    above = np.minimum(sums - least, MOST_POINTS)
    return np.append(above, MOST_POINTS)[domain_of]


def _per_domain(domain_of: Ints, domains: int, values: Ints) -> Ints:
    """Return the sums of a node value per domain.

    Nodes without the label, of number -1, fall into bin 0 of the shifted numbers, which is dropped.
    """
    sums = np.bincount(domain_of + 1, values, domains + 1)
    return sums[1:].astype(np.int64)
