"""What holds whenever somebody is displaced, in clusters that nobody thought of.

A crowd is carried out cycle by cycle: bound tasks run, evicted ones leave, their successors wait,
and nothing else happens. Whatever is decided must be right in itself, serve those for whom it was
done, and come to an end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings

from tests.given import Job, ask, job, let_go, node, queue, submit
from tests.laws.invariants import broken_laws
from tests.laws.invariants_preemption import broken_rights
from tests.support import random_parts
from tests.support.small_workloads import arrives, work
from tests.support.strategies import CONSTRAINED, Recipe, crowd_of, crowds
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.actions import WITHOUT_PREEMPTOR, EvictionRule
from windlass.model.events import TaskStarted
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId, Task, TaskState
from windlass.model.settings import Settings
from windlass.sim.run import Simulation
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

MANY = settings(max_examples={50: 500}.get(settings().max_examples, 10_000))
REST = 3
"""So many cycles without anything to do are rest."""
ENOUGH = 30
"""Cycles by which a cluster must have come to rest."""
STEP_S = 30
GROWN = frozenset({"broken", "domains", "elastic", "guarantees", "saved"})
EVEN = frozenset({"elastic", "ends", "extras", "firm", "mixed", "spread"})
SHARED = frozenset({"fractions", "neighbours"})
SPREAD = frozenset({"broken", "fractions", "guarantees", "spread"})
SPOILT = frozenset({"ends", "neighbours", "spread"})
NEAR = frozenset({"broken", "domains", "ends", "extras", "neighbours", "spread", "taints"})
CUT = frozenset({"cordons", "labels", "limits", "mig", "mixed", "models", "usage"})
CHOOSY = frozenset({"broken", "fractions", "models", "patient", "saved"})
TORN = frozenset({"spread", "tiers", "torn", "broken", "labels", "fractions"})


@dataclass(frozen=True)
class Cycle:
    """What was seen, what was planned, and the cluster with the plan carried out."""

    seen: Snapshot
    plan: Plan
    after: Cluster

    @property
    def bound(self) -> set[GangId]:
        return set(self.places)

    @property
    def places(self) -> dict[GangId, Counter[str]]:
        """Where tasks of each gang were bound."""
        found: dict[GangId, Counter[str]] = defaultdict(Counter)
        for each in self.plan.binds:
            found[self.after.tasks[each.task].gang][each.node] += 1
        return found

    @property
    def gainers(self) -> set[GangId]:
        return {each.gainer for each in self.plan.evictions if each.gainer}


def frozen(recipe: Recipe) -> Snapshot:
    """A crowd whose usage never reaches the shares: nothing sways."""
    seen = crowd_of(recipe)
    return replace(seen, settings=replace(seen.settings, epoch_s=10**9))


def cycles(seen: Snapshot, most: int = ENOUGH, step_s: int = STEP_S) -> Iterator[Cycle]:
    """Cycle after cycle, each carried out; what was evicted is gone by the next."""
    there = Cluster.of(seen)
    for _ in range(most):
        before = there.snapshot()
        yield Cycle(before, carried_out(there), there)
        let_go(there)
        there.advance(there.now + step_s)


def carried_out(there: Cluster) -> Plan:
    """Plan once; every bound task runs."""
    found = plan(there)
    there.assume(found)
    for each in found.binds:
        there.apply(TaskStarted(each.task))
    return found


def until_rest(seen: Snapshot) -> Iterator[Cycle]:
    """The same until there is nothing left to do."""
    quiet = 0
    for each in cycles(seen):
        yield each
        quiet = 0 if each.plan.actions else quiet + 1
        if quiet == REST:
            return


@MANY
@given(crowds())
def test_whoever_is_displaced_goes_whole_by_right_and_for_somebody(recipe: Recipe):
    seen = crowd_of(recipe)
    assert broken_rights(seen, plan(Cluster.of(seen))) == []


@MANY
@given(crowds())
@example(Recipe(2152, 1, 17, True, frozenset({"elastic", "fractions", "models"})))
def test_rights_are_kept_in_every_cycle_until_rest(recipe: Recipe):
    for each in until_rest(frozen(recipe)):
        assert broken_rights(each.seen, each.plan) == []


@MANY
@given(crowds())
@example(Recipe(16, 2, 4, False, frozenset({"domains", "elastic", "broken"})))
@example(Recipe(18, 3, 10, False, GROWN))
@example(Recipe(18, 3, 18, False, frozenset({"elastic", "ends", "fractions", "saved", "usage"})))
def test_nothing_is_overcommitted_torn_or_above_its_limit_in_any_cycle(recipe: Recipe):
    for each in until_rest(frozen(recipe)):
        bound = {bind.task for bind in each.plan.binds}
        assert broken_laws(each.after.snapshot(), bound) == []


@MANY
@given(crowds())
@example(Recipe(1, 4, 10, True, frozenset({"cordons", "elastic", "guarantees"})))
@example(Recipe(3, 3, 4, False, frozenset({"firm", "neighbours", "ports", "spread", "taints"})))
@example(Recipe(13, 3, 11, False, EVEN))
@example(Recipe(247, 2, 17, False, frozenset({"neighbours", "ports", "tiers"})))
@example(Recipe(566, 3, 8, False, frozenset({"broken", "cordons", "ends", "labels", "neighbours"})))
@example(Recipe(10, 3, 8, True, CUT - {"labels", "mig", "mixed", "usage"} | SPOILT))
def test_nobody_is_evicted_for_a_gang_that_is_then_not_bound(recipe: Recipe):
    owed: set[GangId] = set()
    for each in until_rest(frozen(recipe)):
        assert owed <= each.bound
        owed = each.gainers


@MANY
@given(crowds())
@example(Recipe(19, 1, 7, False, TORN))
@example(Recipe(20760, 2, 8, False, GROWN - {"saved"} | {"ends", "extras", "models"}))
@example(Recipe(945, 4, 15, False, SHARED | {"elastic", "modest", "ports", "slow"}))
@example(Recipe(14563, 3, 5, True, frozenset({"elastic", "mig"})))
@example(Recipe(818, 4, 18, True, SPREAD | {"ends", "neighbours"}))
@example(Recipe(878, 3, 11, False, frozenset({"fractions", "spread", "young"})))
@example(Recipe(78, 4, 4, False, frozenset({"neighbours", "ports"})))
def test_whoever_moves_is_bound_again_where_its_place_was_kept(recipe: Recipe):
    owed: dict[GangId, Counter[str]] = {}
    for each in until_rest(frozen(recipe)):
        assert all(kept <= each.places[gang] for gang, kept in owed.items())
        owed = defaultdict(Counter)
        for move in each.plan.evictions:
            if move.moves_to:
                owed[each.after.tasks[move.task].gang][move.moves_to] += 1


@MANY
@given(crowds())
@example(Recipe(3144, 1, 12, True, frozenset({"tiers", "guarantees", "domains"})))
@example(Recipe(3, 3, 7, False, frozenset({"domains", "slow", "torn"})))
@example(Recipe(46, 4, 19, False, frozenset({"elastic", "guarantees", "neighbours"})))
@example(Recipe(914730, 1, 16, False, TORN - {"fractions"} | {"mig", "patient"}))
@example(Recipe(1, 4, 4, False, NEAR))
@example(Recipe(19557, 2, 15, True, frozenset({"ends", "neighbours"})))
@example(Recipe(15, 2, 6, False, CUT))
@example(Recipe(65536, 1, 10, False, frozenset({"extras", "models", "neighbours"})))
@example(Recipe(312, 3, 4, False, frozenset({"guarantees", "elastic", "neighbours"})))
@example(Recipe(4249, 2, 11, False, SPREAD | {"firm", "taints"}))
@example(Recipe(524289, 3, 8, False, SPREAD - {"spread"} | {"mixed", "neighbours"}))
@example(Recipe(362879, 3, 13, False, SHARED | {"broken", "elastic", "limits", "spread"}))
@example(Recipe(1, 1, 17, False, SHARED | {"saved", "tiers", "torn", "usage"}))
@example(Recipe(514528, 1, 7, False, frozenset({"elastic", "ends", "spread"})))
def test_what_is_held_is_bound_once_nothing_is_on_its_way_out_whoever_comes(recipe: Recipe):
    """But for those who must be near others, or spread among them, some of whom were lost."""
    rolls, handovers = recipe.dice("newcomers"), recipe.dice("handovers")
    there, owed, excused = Cluster.of(frozen(recipe)), set[GangId](), set[GangId]()
    teams = [name for name in sorted(there.queues) if there.is_leaf(name)]
    for cycle in range(12):
        if handovers.random() < 0.2:
            there = Cluster.of(there.snapshot())  # somebody else leads from here on
        found = carried_out(there)
        assert owed <= {there.tasks[each.task].gang for each in found.binds}
        leaving = [task.id for task in there.leaving() if rolls.random() < 0.5]
        if leaving:
            let_go(there, *leaving)
        if rolls.random() < 0.5:
            gang, tasks = random_parts.make_gang(rolls, f"new{cycle}", teams, frozenset())
            submit(there, Job(replace(gang, priority=rolls.choice([0, 9])), tasks))
        there.advance(there.now + STEP_S)
        firm = {hold.gang for hold in there.holds.values() if hold.firm}
        if any(each.rule in WITHOUT_PREEMPTOR for each in found.evictions):
            excused |= {gang for gang in firm if minds_others(there, gang)}
        owed = set() if list(there.leaving()) else firm - excused


def minds_others(there: Cluster, gang: GangId) -> bool:
    """Does where it may be depend on who else is there?"""
    wishes = [task.shape.constraints for task in there.members(gang)]
    return any(each.near or each.spread for each in wishes)


@MANY
@given(crowds())
@example(Recipe(12, 2, 12, True, frozenset({"guarantees"})))
@example(Recipe(13, 1, 13, False, frozenset({"cordons", "limits", "models"})))
@example(Recipe(76, 1, 12, False, frozenset({"cordons", "guarantees"})))
def test_evictions_come_to_an_end_while_nothing_happens(recipe: Recipe):
    played = list(until_rest(frozen(recipe)))
    assert all(each.plan.actions == () for each in played[-REST:])


@MANY
@given(crowds(without=CONSTRAINED))
@example(Recipe(0, 1, 12, False, frozenset({"domains", "elastic", "fractions", "mig"})))
@example(Recipe(5098, 4, 14, True, frozenset({"elastic", "ends", "limits", "mixed", "troubles"})))
@example(Recipe(146513, 3, 11, False, CHOOSY))
@example(Recipe(146513, 4, 14, True, CHOOSY | {"guarantees"}))
def test_without_any_one_of_its_victims_there_is_no_room(recipe: Recipe):
    seen = crowd_of(recipe)
    found = plan(Cluster.of(seen))
    gainers = {each.gainer for each in found.evictions if each.gainer}
    assume(len(gainers) == 1)
    losers = {each.task: each for each in found.evictions if each.gainer in gainers}
    tasks = {each.id: each for each in seen.tasks}
    for spared in sorted({tasks[task].gang for task in losers}):
        assert not still_fits(seen, found, gainers, spared), f"{spared} need not have gone"


def still_fits(seen: Snapshot, found: Plan, gainers: set[GangId], spared: GangId) -> bool:
    """Would there be room for who gains if all but one made way as planned, and that one stayed?"""
    moved = {claim.task: claim for hold in found.holds if hold.firm for claim in hold.claims}
    binds = {each.task: each for each in found.binds}
    evicted = {each.task: each for each in found.evictions}

    def then(task: Task) -> Task | None:
        if task.id in binds:
            at = binds[task.id]
            return replace(task, state=TaskState.RUNNING, node=at.node, devices=at.devices)
        if task.state == TaskState.RELEASING:
            return None
        if task.state == TaskState.WAITING:
            return task if task.gang in gainers else None
        if task.id not in evicted or (task.gang == spared and evicted[task.id].gainer):
            return task
        if evicted[task.id].moves_to:
            at = moved[task.id]
            return replace(task, node=at.node, devices=at.devices)
        return None

    tasks = tuple(each for task in seen.tasks if (each := then(task)) is not None)
    if list(broken_laws(replace(seen, tasks=tasks), {t for t in evicted})):
        return False  # somebody else has the place by now
    displaced = {task.gang for task in seen.tasks if task.id in evicted}
    others = tuple(each for each in found.holds if each.gang not in gainers | displaced)
    quiet = replace(seen.settings, displacing=(), reserve_after_s=10**9)
    there = Cluster.of(replace(seen, tasks=tasks, holds=others, settings=quiet))
    # another task of a gang that grows may fit where this one does not
    wanted = {claim.task for hold in found.holds if hold.gang in gainers for claim in hold.claims}
    return any(each.task in wanted for each in plan(there).binds)


# --- while shares sway ----------------------------------------------------------------------------

WEEK_S = 7 * 24 * 3600
DWELL_S = 600
SWAYING: dict[str, int] = {"dwell_s": DWELL_S, "epoch_s": 300, "half_life_s": 1800}


@MANY
@given(crowds())
def test_while_shares_sway_no_gpu_changes_hands_twice_within_the_dwell_time(recipe: Recipe):
    """For ten dwell times, in which usage decays by far more than half."""
    seen, taken = crowd_of(recipe), dict[tuple[str, int], int]()
    swaying = replace(seen, settings=replace(seen.settings, **SWAYING))
    for each in cycles(swaying, most=40, step_s=DWELL_S // 4):
        assert broken_rights(each.seen, each.plan) == []
        by_share = {evict.task for evict in each.plan.evictions if evict.rule == EvictionRule.SHARE}
        for task in each.seen.tasks:
            for gpu in task.devices if task.id in by_share else ():
                if gpu.milli == WHOLE:
                    before = taken.get((task.node, gpu.device), -DWELL_S)
                    assert each.seen.now - before >= DWELL_S
                    taken[task.node, gpu.device] = each.seen.now


def test_while_shares_sway_two_queues_exchange_little_and_still_use_the_same():
    """Two queues want three GPUs for a week: each is due 1.5, so one has 2 and one has 1."""
    services = [
        arrives(job(f"{name}{i}", 1, ask(gpus=1), queue=name), runs=None)
        for name in ("a", "b")
        for i in range(3)
    ]
    ticks = [arrives(job(f"tick{at}", queue="c"), at=at, runs=1) for at in range(0, WEEK_S, 900)]
    queues = queue("a"), queue("b"), queue("c")
    there = work(*queues, node("n1", gpus=3), *services, *ticks, until=WEEK_S)
    simulation = Simulation(replace(there, settings=Settings(half_life_s=24 * 3600, epoch_s=600)))
    dwell_s, instants = Settings().dwell_s, list[int]()
    for moment in simulation.moments():
        for each in moment.plan.evictions:
            started = moment.cluster.tasks[each.task].started_at
            assert each.rule == EvictionRule.SHARE
            assert started is not None
            assert moment.now - started >= dwell_s
            instants.append(moment.now)
    assert min(later - at for at, later in pairwise(instants)) >= dwell_s
    assert len(instants) < 50
    used = [simulation.meter.past[name].allocated for name in ("a", "b")]
    assert used[0] == pytest.approx(used[1], rel=0.05)
