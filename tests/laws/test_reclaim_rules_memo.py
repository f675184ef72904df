"""The remembered reclaim rules give the same answers as the plain ones, whatever happens.

`reclaim_rules.py` states the rules without a cache, `reclaim_memo.py` remembers their answers.
Both are asked about every pair of queues and every running unit of random crowded clusters: at
first, after units were evicted on a draft, and after these evictions were undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from hypothesis import given, settings

from tests.support.strategies import Recipe, crowd_of, crowds
from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit, RunningUnits
from windlass.engine.preemption import reclaim_rules as plain
from windlass.engine.preemption.reclaim_memo import QueueClaim, ReclaimRules
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import gang_progress
from windlass.engine.queueing.shares import QueueShares, compute_shares
from windlass.model.jobs import Gang, TaskState
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

MANY = settings(max_examples={50: 200}.get(settings().max_examples, 2_000))


class Claimant:
    """One waiting gang, its remembered claim, and the same claim in plain terms."""

    def __init__(self, cluster: Cluster, rules: ReclaimRules, gang: Gang) -> None:
        limits = Limits(cluster)
        self.gang, self.cluster = gang, cluster
        self.need: Mapping[str, int] = limits.need(gang_progress(cluster, gang.id).counts)
        target = {
            (queue, dimension): cluster.allocated(queue, dimension) + more
            for queue in cluster.accounts.path(gang.queue)
            for dimension, more in self.need.items()
        }
        lacking = plain.lacking(cluster.columns, self.need)
        self.claim: QueueClaim = rules.claim_of(
            gang.queue, self.need, lambda queue, dimension: target[queue, dimension], lacking
        )
        standing = rules.standing
        has_margin = cluster.settings.usage_effect and cluster.epoch_usage
        self.terms = plain.ClaimTerms(
            standing,
            tuple(each for each in self.need if each in standing.entitled[gang.queue]),
            lambda queue, dimension: target[queue, dimension],
            lacking,
            plain.HYSTERESIS if has_margin else (1, 1),
        )

    def sides(self, queue: str) -> tuple[plain.QueueNames, plain.QueueNames]:
        """Return both sides; without reclaim nothing can be claimed."""
        path = self.cluster.accounts.path
        gains, loses = plain.sides(path(self.gang.queue), path(queue))
        return (gains if Displacing.RECLAIM in self.cluster.settings.displacing else ()), loses

    def differences(self, units: list[EvictionUnit]) -> Iterator[str]:
        """Yield every question to which the two modules answer differently."""
        allocated = self.cluster.allocated
        queues = tuple(sorted(self.cluster.queues))
        widest = [plain.widest_rule(self.terms, *self.sides(name), allocated) for name in queues]
        if list(self.claim.widest_rules(queues)) != widest:
            yield f"{self.gang.id}: widest rules of {queues}"
        if [self.claim.widest_rule(name) for name in queues] != widest:
            yield f"{self.gang.id}: widest rule of one of {queues}"
        for unit in units:
            queue, charges = unit.gang.queue, unit.charges
            rule = plain.reclaim_rule(self.terms, *self.sides(queue), charges, allocated)
            if self.claim.rule_now(queue, charges) is not rule:
                yield f"{self.gang.id}: rule against {unit.gang.id} as it stands"
            if self.claim.rule_for(queue, charges, allocated) is not rule:
                yield f"{self.gang.id}: rule against {unit.gang.id}"


def waiting_gangs(cluster: Cluster) -> list[Gang]:
    """Return the gangs with a waiting task in a queue that exists."""
    return [
        gang
        for gang in cluster.gangs.values()
        if gang.queue in cluster.queues
        and any(task.state == TaskState.WAITING for task in cluster.members(gang.id))
    ]


def standing_of(cluster: Cluster) -> QueueShares:
    return compute_shares(cluster, Limits(cluster))


@MANY
@given(crowds(without=("neighbours", "spread")))
def test_remembered_rules_equal_the_plain_rules_while_units_are_evicted(recipe: Recipe):
    cluster = Cluster.of(crowd_of(recipe))
    rules = ReclaimRules(cluster, standing_of(cluster))
    units = cluster.recall(RunningUnits).current()
    claimants = [Claimant(cluster, rules, gang) for gang in waiting_gangs(cluster)]
    draft, rolls = Draft(cluster), Random(recipe.seed)

    def check() -> None:
        # the claimants share what is known about victims' sides: ask in any order
        for claimant in rolls.sample(claimants, len(claimants)):
            assert list(claimant.differences(units)) == []

    check()
    with draft.attempt():
        for unit in rolls.sample(units, len(units) // 2):
            for each in unit.closure():
                draft.evict(each)
            check()
    check()
    draft.close()


@MANY
@given(crowds())
def test_remembered_preemption_and_minimum_run_times_equal_the_plain_rules(recipe: Recipe):
    cluster = Cluster.of(crowd_of(recipe))
    rules, levels = ReclaimRules(cluster, standing_of(cluster)), cluster.recall(OrderLevels)
    preempts = Displacing.PREEMPT in cluster.settings.displacing
    gangs = list(cluster.gangs.values())
    for claimant in gangs:
        for victim in gangs:
            rule = plain.preemption_rule(claimant, victim, levels, levels.best_preemptible_level)
            assert rules.preempts(claimant, victim) is (rule if preempts else None)
    for queue in (*cluster.queues, *cluster.queues):
        assert rules.min_run(queue) == plain.min_run_s(cluster, queue)


@MANY
@given(crowds())
def test_no_single_victim_is_reclaimed_where_the_widest_rule_says_none(recipe: Recipe):
    cluster = Cluster.of(crowd_of(recipe))
    rules = ReclaimRules(cluster, standing_of(cluster))
    for gang in waiting_gangs(cluster):
        claimant = Claimant(cluster, rules, gang)
        for unit in cluster.recall(RunningUnits).current():
            sides = claimant.sides(unit.gang.queue)
            if plain.widest_rule(claimant.terms, *sides, cluster.allocated) is None:
                rule = plain.reclaim_rule(claimant.terms, *sides, unit.charges, cluster.allocated)
                assert rule is None
