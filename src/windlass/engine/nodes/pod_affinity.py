"""What depends on other tasks: pod (anti-)affinity and topology spread, laid over the keys.

Cached keys know nothing of neighbours. For a task that has to do with them, an overlay adds to
each node's key: a wall where a required term forbids it, points where a preference is not met.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.nodes.score import NOWHERE, POINT
from windlass.engine.placement.turns import one_by_one
from windlass.model.constraints import Constraints, Spread
from windlass.model.jobs import Gang, GangId, Task
from windlass.state.node_columns import Ints, Mask
from windlass.state.pod_affinity import (
    Awaited,
    DomainCounts,
    Even,
    PodAffinityIndex,
    TaskLabels,
    near_subjects,
    spread_subject,
    subject_of,
)

MOST_POINTS = 100

Placed: TypeAlias = tuple[Task, Gang, int]
"""A task, its gang, and the slot of its node."""


def overlay(neighbours: PodAffinityIndex, index: NodeIndex, task: Task, gang: Gang) -> Ints | None:
    """What to add to each node's key for this task now; None if neighbours do not matter."""
    forbidden = _forbidden(neighbours, index, task, gang)
    points = _points(neighbours, index, task.shape.constraints, gang.namespace)
    if not forbidden and not points:
        return None
    total: Ints = np.zeros(len(index.columns), np.int64)
    for each in points:
        total += each * POINT
    for mask in forbidden:
        total[mask] = NOWHERE
    return total


def can_all_come(neighbours: PodAffinityIndex, index: NodeIndex, placed: Iterable[Placed]) -> bool:
    """Would tasks be let in again where they were placed, whoever of them comes first?

    Each must be let in beside all others. And since none is there yet, they must find whom they
    seek when they come: two that seek each other on a node find nobody.
    """
    some = list(placed)
    for each in some:
        _count(neighbours, each, -1)
        is_let_in = _is_let_in(neighbours, index, each)
        _count(neighbours, each, 1)
        if not is_let_in:
            return False
    return _come_in_turn(neighbours, index, some)


def _come_in_turn(neighbours: PodAffinityIndex, index: NodeIndex, some: list[Placed]) -> bool:
    """Gang after gang, each whole: whoever may not come yet comes after others."""
    gangs: dict[GangId, list[Placed]] = {}
    came: list[Placed] = []

    def comes(each: Placed) -> bool:
        if not _is_let_in(neighbours, index, each):
            return False
        _count(neighbours, each, 1)
        came.append(each)
        return True

    def leaves(mark: int) -> None:
        while len(came) > mark:
            _count(neighbours, came.pop(), -1)

    def comes_whole(members: list[Placed]) -> bool:
        mark = len(came)
        if one_by_one(members, comes, _may_wait):
            return True
        leaves(mark)
        return False

    for each in some:
        gangs.setdefault(each[0].gang, []).append(each)
        _count(neighbours, each, -1)
    can_come = one_by_one(gangs.values(), comes_whole, _may_wait)
    leaves(0)
    for each in some:
        _count(neighbours, each, 1)
    return can_come


def _may_wait(_: object) -> bool:
    return True


def _count(neighbours: PodAffinityIndex, placed: Placed, sign: int) -> None:
    task, gang, slot = placed
    neighbours.count(TaskLabels(task.labels, gang.namespace), task.shape.constraints, slot, sign)


def _is_let_in(neighbours: PodAffinityIndex, index: NodeIndex, placed: Placed) -> bool:
    task, gang, slot = placed
    over = overlay(neighbours, index, task, gang)
    return over is None or int(over[slot]) < NOWHERE


def forsaken(neighbours: PodAffinityIndex, index: NodeIndex) -> int:
    """How many of those for whom places are kept would find there not whom they seek, or too many
    of those among whom they are to be spread."""
    found = 0
    for tally in neighbours.tallies.values():
        if tally.awaited is not None:
            if tally.awaited.seekers.any():
                there = tally.matching if tally.matching[:-1].any() else tally.awaited.matching
                found += int(tally.awaited.seekers[there == 0].sum())
            found += sum(_is_too_many(index, tally, each) for each in tally.awaited.even)
    return found


def _forbidden(
    neighbours: PodAffinityIndex, index: NodeIndex, task: Task, gang: Gang
) -> list[Mask]:
    constraints, namespace = task.shape.constraints, gang.namespace
    own = neighbours.matching(TaskLabels(task.labels, namespace))
    masks = _too_far(neighbours, constraints, namespace, own)
    apart = [neighbours.tallies[subject_of(term, namespace)] for term in constraints.apart]
    crowded = [(tally, tally.matching_soon()) for tally in apart]
    crowded += [(tally, tally.holders_soon()) for tally in own]
    masks += [_near(tally, counts) for tally, counts in crowded if counts.any()]
    masks += [
        ~_near(tally, tally.awaited.founders)
        for tally in own
        if tally.awaited is not None and _is_to_be_first(tally, tally.awaited)
    ]
    masks += [
        _beside(index, each)
        for tally in own
        if tally.awaited is not None
        for each in tally.awaited.even
        if _spoils(index, tally, each)
    ]
    masks += [
        _uneven(index, tally.matching, spread, constraints, tally in own)
        for spread in constraints.spread
        for tally in [neighbours.tallies[spread_subject(spread, namespace)]]
        if spread.required
    ]
    return masks


def _points(
    neighbours: PodAffinityIndex, index: NodeIndex, constraints: Constraints, namespace: str
) -> list[Ints]:
    found: list[Ints] = []
    for preference in constraints.pod_preferences:
        tally = neighbours.tallies[subject_of(preference.term, namespace)]
        near = _near(tally, tally.matching)
        unmet = near if preference.weight < 0 else ~near
        found.append(np.where(unmet, abs(preference.weight), 0))
    for spread in constraints.spread:
        if not spread.required:
            tally = neighbours.tallies[spread_subject(spread, namespace)]
            found.append(_crowded(index, tally, spread.topology_key))
    return found


def _too_far(
    neighbours: PodAffinityIndex, constraints: Constraints, namespace: str, own: list[DomainCounts]
) -> list[Mask]:
    """Nodes without a match nearby; the first of a group that seeks itself may go anywhere."""
    tallies = [neighbours.tallies[each] for each in near_subjects(constraints, namespace)]
    if tallies and tallies[0] in own and not any(each.matching[:-1].any() for each in tallies):
        return [tally.domain_of < 0 for tally in tallies]
    return [~_near(tally, tally.matching) for tally in tallies]


def _is_to_be_first(tally: DomainCounts, awaited: Awaited) -> bool:
    """Will somebody come who may go anywhere only as long as nobody matches elsewhere?"""
    return bool(awaited.founders.any()) and not tally.has_any()


def _near(tally: DomainCounts, counts: Ints) -> Mask:
    return (counts > 0)[tally.domain_of] & (tally.domain_of >= 0)


def _uneven(
    index: NodeIndex, matching: Ints, spread: Spread, constraints: Constraints, is_own: bool
) -> Mask:
    """Nodes in domains too far above the emptiest one of those that count."""
    domain_of, names = index.columns.labels(spread.topology_key)
    counted = index.counted(constraints, spread)
    there = _per_domain(domain_of, len(names), counted.astype(np.int64)) > 0
    sums = _per_domain(domain_of, len(names), np.where(counted, matching[:-1], 0))
    few = np.count_nonzero(there) < spread.min_domains
    least = 0 if few or not there.any() else int(sums[there].min())
    too_many = sums + is_own - least > spread.max_skew
    return np.append(too_many, True)[domain_of]


def _spoils(index: NodeIndex, tally: DomainCounts, even: Even) -> bool:
    """Would one more that matches keep away whom a place is kept for, and who may come as it is?

    Be it now, after those for whom places are kept beside it, or after all who are awaited.
    """
    slot = even.slot
    return any(
        _is_uneven(index, even, matching + (np.arange(matching.size) == slot), is_own)
        and not _is_uneven(index, even, matching, is_own)
        for matching, is_own in (
            (tally.matching, even.is_own),
            (_with_those_beside(index, tally, even), False),
            (tally.matching_soon(), False),
        )
    )


def _is_too_many(index: NodeIndex, tally: DomainCounts, even: Even) -> bool:
    """Are there too many where a place is kept, with all that are still to come there?"""
    return _is_uneven(index, even, _with_those_beside(index, tally, even), is_own=False)


def _with_those_beside(index: NodeIndex, tally: DomainCounts, even: Even) -> Ints:
    """Who matches, with those who are awaited where the place is kept; the kept one is of them."""
    beside, soon = _beside(index, even), tally.matching_soon()
    return np.append(np.where(beside, soon[:-1], tally.matching[:-1]), 0)


def _is_uneven(index: NodeIndex, even: Even, matching: Ints, is_own: bool) -> bool:
    return bool(_uneven(index, matching, even.spread, even.constraints, is_own)[even.slot])


def _beside(index: NodeIndex, even: Even) -> Mask:
    """The nodes of the domain in which the place is kept."""
    domain_of, _ = index.columns.labels(even.spread.topology_key)
    return domain_of == domain_of[even.slot]


def _crowded(index: NodeIndex, tally: DomainCounts, topology_key: str) -> Ints:
    """Points against each node for what its domain has above the emptiest one."""
    domain_of, names = index.columns.labels(topology_key)
    sums = _per_domain(domain_of, len(names), tally.matching[:-1])
    least = int(sums.min()) if sums.size else 0
    above = np.minimum(sums - least, MOST_POINTS)
    return np.append(above, MOST_POINTS)[domain_of]


def _per_domain(domain_of: Ints, domains: int, values: Ints) -> Ints:
    """The sums of what nodes have; nodes without the label, of number -1, do not count."""
    sums = np.bincount(domain_of + 1, values, domains + 1)
    return sums[1:].astype(np.int64)
