"""Node filters that no placement changes: cordon, taints, selectors and node affinity.

Cordoned and troubled nodes, hard taints, selectors and required node affinity exclude a node;
preferred node affinity and soft taints cost points. Both depend on the nodes alone, so they are
worked out once per set of constraints, for all nodes at a time.

Labels and taint sets are numbered: `number[slot]` is the value that a node has, and a verdict per
value becomes a mask by `verdicts[number]`. Nodes without the label have number -1, which picks an
extra last verdict.
"""

from __future__ import annotations

import numpy as np

from windlass.model.constraints import (
    CORDON,
    Constraints,
    Effect,
    Expression,
    Operator,
    Spread,
    Taint,
    Term,
    expression_holds,
    tolerates,
)
from windlass.state.node_columns import Ints, Mask, NodeTable

HARD = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
MOST_POINTS = 100
"""The points against a node for each soft taint that is not tolerated."""


def admits(columns: NodeTable, constraints: Constraints) -> Mask:
    """Return the nodes whose cordon, taints and labels admit a task with these constraints."""
    mask = _is_open(columns) & _tolerated(columns, constraints)
    for terms in constraints.reach:
        mask &= _any_of(columns, terms)
    return mask & _wanted(columns, constraints)


def counted(columns: NodeTable, constraints: Constraints, spread: Spread) -> Mask:
    """Return the nodes that count for a topology spread; the task need not be admitted there."""
    mask: Mask = np.ones(len(columns), np.bool_)
    for other in constraints.spread:
        if other.required:
            mask &= columns.labels(other.topology_key)[0] >= 0
    if spread.heeds_affinity:
        mask &= _wanted(columns, constraints)
    if spread.heeds_taints:
        mask &= _tolerated(columns, constraints)
    return mask


def penalty(columns: NodeTable, constraints: Constraints) -> Ints:
    """Return the points against each node: unmet preferences and soft taints not tolerated."""
    points: Ints = np.zeros(len(columns), np.int64)
    for preference in constraints.preferences:
        points += np.where(_matches(columns, preference.term), 0, preference.weight)
    number, sets = columns.taints()
    soft = [_soft_taints(taints, constraints) for taints in sets]
    return points + np.array([*soft, 0], np.int64)[number]


def _is_open(columns: NodeTable) -> Mask:
    """Return the nodes that are not cordoned, or only by the taint of a cordon.

    That taint may be tolerated, unlike the trouble of a node.
    """
    number, sets = columns.taints()
    by_taint = np.array([*(CORDON in taints for taints in sets), False], np.bool_)
    return ~columns.cordoned | (by_taint[number] & ~columns.troubled)


def _wanted(columns: NodeTable, constraints: Constraints) -> Mask:
    """Return the nodes that match the selector and the required node affinity."""
    mask: Mask = np.ones(len(columns), np.bool_)
    for key, value in constraints.selector:
        mask &= _holds(columns, Expression(key, Operator.IN, (value,)))
    if constraints.affinity:
        mask &= _any_of(columns, constraints.affinity)
    return mask


def _any_of(columns: NodeTable, terms: tuple[Term, ...]) -> Mask:
    mask: Mask = np.zeros(len(columns), np.bool_)
    for term in terms:
        mask |= _matches(columns, term)
    return mask


def _matches(columns: NodeTable, term: Term) -> Mask:
    mask: Mask = np.ones(len(columns), np.bool_)
    for expression in term:
        mask &= _holds(columns, expression)
    return mask


def _holds(columns: NodeTable, expression: Expression) -> Mask:
    number, values = columns.labels(expression.key)
    verdicts = [expression_holds(expression, {expression.key: value}) for value in values]
    without_label = expression_holds(expression, {})
    return np.array([*verdicts, without_label], np.bool_)[number]


def _tolerated(columns: NodeTable, constraints: Constraints) -> Mask:
    number, sets = columns.taints()
    verdicts = [
        all(tolerates(constraints.tolerations, taint) for taint in taints if taint.effect in HARD)
        for taints in sets
    ]
    return np.array([*verdicts, True], np.bool_)[number]


def _soft_taints(taints: tuple[Taint, ...], constraints: Constraints) -> int:
    return MOST_POINTS * sum(
        taint.effect not in HARD and not tolerates(constraints.tolerations, taint)
        for taint in taints
    )
