"""The fate of single units for one gang, by the scope of an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.given import Job, cluster, job, node
from tests.support.preemption_given import LATER, ONE, OTHER, OWNER, TWO, runs
from windlass.engine.draft.eviction_units import EvictionUnit, RunningUnits
from windlass.engine.preemption.reclaim_memo import ReclaimRules
from windlass.engine.preemption.reclaim_rules import lacking
from windlass.engine.preemption.victim_filter import (
    RoomRequest,
    SearchScope,
    VictimFate,
    VictimFilter,
)
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import gang_progress
from windlass.engine.queueing.shares import compute_shares
from windlass.model.jobs import GangId
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster

EVICT, MOVE, KEEP = VictimFate.EVICT, VictimFate.MOVE, VictimFate.KEEP
DUE = job("due", 1, TWO, queue="owner")


def crowded(victim: Job, preemptor: Job = DUE, **settings: Any) -> Cluster:
    """Return a node that is full, with queue `owner` guaranteed two GPUs and `other` none."""
    things = OWNER, OTHER, node("n1", gpus=2), victim, preemptor
    return cluster(*things, now=LATER, settings=Settings(**settings))


def permits_of(there: Cluster, scope: SearchScope, **fields: Any) -> VictimFilter:
    """Return the filter of an attempt for the waiting gang `due`."""
    limits, due = Limits(there), gang_progress(there, GangId("due"))
    rules = ReclaimRules(there, compute_shares(there, limits))
    need = limits.need(due.counts)
    short = lacking(there.columns, need)
    claim = rules.claim_of(
        due.gang.queue, need, lambda q, d: there.allocated(q, d) + need.get(d, 0), short
    )
    request = RoomRequest(due.gang, need, short, fields.pop("grows", False), claim)
    decided = fields.pop("decided", frozenset[GangId]())
    return VictimFilter(rules, decided, request, there.now, scope, **fields)


def fate_of(there: Cluster, scope: SearchScope, **fields: Any) -> VictimFate:
    """Return the fate of the last unit of the victim."""
    return permits_of(there, scope, **fields).fate(last_unit(there))


def last_unit(there: Cluster) -> EvictionUnit:
    return there.recall(RunningUnits).current()[-1]


@pytest.mark.parametrize(
    ("scope", "fate"),
    [(SearchScope.MOVE, MOVE), (SearchScope.TAKE, EVICT), (SearchScope.BOTH, EVICT)],
)
def test_a_borrower_may_be_evicted_or_moved(scope: SearchScope, fate: VictimFate):
    assert fate_of(crowded(runs("loan", 0, 1, queue="other")), scope) is fate


@pytest.mark.parametrize(
    ("scope", "fate"),
    [(SearchScope.MOVE, MOVE), (SearchScope.TAKE, KEEP), (SearchScope.BOTH, MOVE)],
)
def test_a_gang_that_no_rule_evicts_may_only_move(scope: SearchScope, fate: VictimFate):
    peer = runs("peer", 0, queue="owner")
    assert fate_of(crowded(peer, job("due", 1, ONE, queue="owner")), scope) is fate


def test_a_gang_about_which_the_cycle_has_decided_stays():
    there = crowded(runs("loan", 0, 1, queue="other"))
    assert fate_of(there, SearchScope.BOTH, decided={GangId("loan")}) is KEEP


def test_a_gang_never_evicts_its_own_members():
    half = job("due", 2, ONE, queue="owner", minimum=1).runs(0, on="n1", devices=[0])
    there = crowded(runs("loan", 1, queue="other"), half)
    permits = permits_of(there, SearchScope.BOTH)
    own = [unit for unit in there.recall(RunningUnits).current() if unit.gang.id == "due"]
    assert [permits.fate(unit) for unit in own] == [KEEP]


def test_growth_does_not_evict_what_another_gang_needs_to_run():
    there = crowded(runs("loan", 0, 1, queue="other"))
    assert fate_of(there, SearchScope.TAKE, grows=True) is KEEP


def test_a_modest_attempt_evicts_no_unit_larger_than_the_need():
    there = crowded(runs("loan", 0, 1, queue="other"), job("due", 1, ONE, queue="owner"))
    assert fate_of(there, SearchScope.TAKE) is EVICT
    assert fate_of(there, SearchScope.TAKE, modest=True) is KEEP


def test_a_protected_gang_is_neither_evicted_nor_moved():
    there = crowded(runs("loan", 0, 1, queue="other"), min_run_s=LATER + 1)
    assert {fate_of(there, scope) for scope in SearchScope} == {KEEP}


def test_a_spared_gang_is_neither_evicted_nor_moved_for_other_queues():
    there = crowded(runs("loan", 0, 1, queue="other", spared=True))
    assert {fate_of(there, scope) for scope in SearchScope} == {KEEP}


@pytest.mark.parametrize("scope", list(SearchScope))
@pytest.mark.parametrize("min_run_s", [0, LATER + 1])
def test_a_queue_that_could_not_be_touched_has_only_units_that_stay(
    scope: SearchScope, min_run_s: int
):
    there = crowded(runs("loan", 0, 1, queue="other"), min_run_s=min_run_s)
    permits, unit = permits_of(there, scope), last_unit(there)
    if not permits.could_touch("other", 0, 0):
        assert permits.fate(unit) is KEEP
