"""What depends on other tasks: pod (anti-)affinity and topology spread, laid over the keys.

Cached keys know nothing of neighbours. For a task that has to do with them, an overlay adds to
each node's key: a wall where a required term forbids it, points where a preference is not met.
"""

from __future__ import annotations

import numpy as np

from windlass.engine.index import Index
from windlass.engine.score import NOWHERE, POINT
from windlass.model.constraints import Constraints, PodTerm
from windlass.model.jobs import Gang, Task
from windlass.state.columns import Ints, Mask
from windlass.state.neighbours import Neighbours, Tally, spread_subject, subject_of

MOST_POINTS = 100


def overlay(neighbours: Neighbours, index: Index, task: Task, gang: Gang) -> Ints | None:
    """What to add to each node's key for this task now; None if neighbours do not matter."""
    constraints = task.shape.constraints
    forbidden = _forbidden(neighbours, index, task, gang)
    points = _points(neighbours, constraints, gang.namespace)
    if not forbidden and not points:
        return None
    total: Ints = np.zeros(len(index.columns), np.int64)
    for each in points:
        total += each * POINT
    for mask in forbidden:
        total[mask] = NOWHERE
    return total


def _forbidden(neighbours: Neighbours, index: Index, task: Task, gang: Gang) -> list[Mask]:
    constraints, namespace = task.shape.constraints, gang.namespace
    who = (task.labels, namespace)
    own = neighbours.matching(who)
    masks = [_too_far(neighbours, term, namespace, own) for term in constraints.near]
    masks += [
        _near(tally, tally.matching)
        for tally in (neighbours.tallies[subject_of(t, namespace)] for t in constraints.apart)
        if tally.matching.any()
    ]
    masks += [_near(tally, tally.holders) for tally in own if tally.holders.any()]
    masks += [
        _uneven(tally, spread.max_skew - (tally in own), index.admits(constraints))
        for spread in constraints.spread
        for tally in [neighbours.tallies[spread_subject(spread, namespace)]]
        if spread.required
    ]
    return masks


def _points(neighbours: Neighbours, constraints: Constraints, namespace: str) -> list[Ints]:
    found: list[Ints] = []
    for preference in constraints.pod_preferences:
        tally = neighbours.tallies[subject_of(preference.term, namespace)]
        near = _near(tally, tally.matching)
        unmet = near if preference.weight < 0 else ~near
        found.append(np.where(unmet, abs(preference.weight), 0))
    for spread in constraints.spread:
        if not spread.required:
            tally = neighbours.tallies[spread_subject(spread, namespace)]
            above = np.minimum(tally.matching - _least(tally), MOST_POINTS)
            above[-1] = MOST_POINTS
            found.append(above[tally.domain_of])
    return found


def _too_far(neighbours: Neighbours, term: PodTerm, namespace: str, own: list[Tally]) -> Mask:
    """Nodes without a match nearby; the first of a group that seeks itself may go anywhere."""
    tally = neighbours.tallies[subject_of(term, namespace)]
    if not tally.matching[:-1].any() and tally in own:
        return tally.domain_of < 0
    return ~_near(tally, tally.matching)


def _near(tally: Tally, counts: Ints) -> Mask:
    return (counts > 0)[tally.domain_of] & (tally.domain_of >= 0)


def _uneven(tally: Tally, most_above: int, admitted: Mask) -> Mask:
    """Nodes in domains too far above the emptiest one that the task may enter."""
    reachable = np.unique(tally.domain_of[admitted])
    reachable = reachable[reachable >= 0]
    least = int(tally.matching[reachable].min()) if reachable.size else 0
    too_many = tally.matching - least > most_above
    too_many[-1] = True
    return too_many[tally.domain_of]


def _least(tally: Tally) -> int:
    return int(tally.matching[:-1].min()) if len(tally.matching) > 1 else 0
