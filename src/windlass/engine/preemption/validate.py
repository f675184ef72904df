"""Is the outcome of a search just, and is it worth what it costs others?

What is lost must be lost by right (`rights.py`); what only moves must not cost more than the gang
has lost by waiting; and far more than is needed is taken only after a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from windlass.engine.draft.eviction_units import EvictionUnit
from windlass.engine.draft.restart_cost import RESTART_S
from windlass.engine.preemption.victim_filter import VictimFilter
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

MOST_MOVES = 32
"""Units that may be moved for one gang; more disturb too many."""
FAR_MORE = 2
"""Times the need of a gang: who would lose so much is left alone for a while."""
MOST_PATIENCE = 10
"""Times the patience: so long a gang waits at most before others lose far more for a mere share."""

WITHIN_QUEUE = (EvictionRule.PRIORITY, EvictionRule.ORDER)


def judge(
    cluster: Cluster,
    permits: VictimFilter,
    evicted: Sequence[EvictionUnit],
    moved: Set[EvictionUnit],
) -> list[tuple[EvictionUnit, EvictionRule]] | None:
    """The rule by which each lost unit goes; None if one goes by no rule."""
    rights, gang = permits.rights, permits.gang
    later: dict[tuple[str, str], int] = {}

    def before(queue: str, dimension: str) -> int:
        return cluster.allocated(queue, dimension) + later.get((queue, dimension), 0)

    case = rights.case(gang.queue, permits.need, cluster.allocated, permits.lacking)
    found: list[tuple[EvictionUnit, EvictionRule]] = []
    for unit in reversed(evicted):
        if unit in moved:
            continue
        for queue in cluster.accounts.path(unit.gang.queue):
            for dimension, amount in unit.charges.items():
                key = (queue, dimension)
                later[key] = later.get(key, 0) + amount
        rule = rights.preempts(gang, unit.gang)
        if rule is None and not unit.gang.spared:
            rule = case.against(unit.gang.queue, unit.charges, before)
        if rule is None or not permits.is_unprotected(unit, rule):
            return None
        if permits.grows and unit.is_core:
            return None
        found.append((unit, rule))
    if any(rule in WITHIN_QUEUE for _, rule in found) and not rights.keeps_within(
        gang.queue, permits.need, lambda queue, each: later.get((queue, each), 0)
    ):
        return None
    return found[::-1]


def is_too_dear(cluster: Cluster, permits: VictimFilter, moved: Iterable[EvictionUnit]) -> bool:
    """Only moves: do they cost more GPU time than the gang has lost by waiting?

    Nobody knows how long it would still wait; who moves as soon as both costs are equal never
    pays more than twice of what knowing it would have cost.
    """
    if cluster.settings.victims is not Victims.LEAST_HARM:
        return False
    rate, waited_s = permits.need.get(GPU, WHOLE), cluster.now - permits.gang.created_at
    again = sum(unit.harm - RESTART_S * unit.charges.get(GPU, 0) for unit in moved)
    return again > rate * waited_s


def patient_until(
    cluster: Cluster, permits: VictimFilter, rights: Sequence[tuple[EvictionUnit, EvictionRule]]
) -> int | None:
    """Until when a gang waits for a gentler way, where other queues lose far more than it needs.

    Most often something ends meanwhile. It waits only if that cannot cost more than the loss.
    For a mere share, which breaks no promise, it waits until it would, within reason.
    """
    settings = cluster.settings
    lost = [unit for unit, rule in rights if rule not in WITHIN_QUEUE]
    if settings.victims is not Victims.LEAST_HARM or len(lost) < len(rights):
        return None
    need = max(permits.need.get(GPU, 0), 1)
    is_far_more = sum(unit.charges.get(GPU, 0) for unit in lost) >= FAR_MORE * need
    patience_s, harmed = settings.patience_s, sum(unit.harm for unit in lost)
    is_dear = harmed > need * patience_s
    if all(rule is EvictionRule.SHARE for _, rule in rights):
        patience_s = max(patience_s, min(harmed // need, MOST_PATIENCE * patience_s))
    until = permits.gang.created_at + patience_s
    return until if is_far_more and is_dear and cluster.now < until else None
