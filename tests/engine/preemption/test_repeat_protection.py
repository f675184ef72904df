"""Repeat protection: no gang loses its work to other queues twice."""

from __future__ import annotations

from dataclasses import replace

from tests.given import cluster, job, node, outcome_of, queue
from tests.support.preemption_given import ONE, OTHER, OWNER, TWO, late, runs
from windlass.engine.preemption.repeat_protection import MOST, DisplacedGangs
from windlass.model.actions import EvictionRule
from windlass.model.events import GangSeen
from windlass.model.jobs import GangId
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings, Victims
from windlass.state.cluster import Cluster


def displaced(*names: str) -> DisplacedGangs:
    found = DisplacedGangs()
    for name in names:
        found.note(GangId(name), ["n1"])
    return found


def mind(who: DisplacedGangs, there: Cluster) -> dict[str, bool]:
    """Apply the protection to the cluster; return the gangs for which it has changed."""
    changed = list(who.changes(there))
    before = {gang.id: there.gangs[gang.id].spared for gang in changed}
    for gang in changed:
        there.apply(GangSeen(gang))
    return {gang.id: gang.spared for gang in changed if gang.spared != before[gang.id]}


# --- spared gangs ---------------------------------------------------------------------------------


def test_a_displaced_gang_is_spared_if_its_guarantee_has_room():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    assert mind(displaced("back"), there) == {"back": True}


def test_a_gang_with_a_checkpoint_may_be_displaced_again():
    saves = job("back", 1, TWO, queue="team", saved_at=5)
    assert mind(displaced("back"), cluster(queue("team", gpus=2), node("n1", gpus=4), saves)) == {}


def test_a_gang_at_its_maximum_of_stops_is_spared_despite_a_checkpoint():
    saves = job("back", 1, TWO, queue="team", saved_at=5, stops_at_most=2)
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), saves)
    assert mind(displaced("back"), there) == {}
    assert mind(displaced("back", "back"), there) == {"back": True}


def test_a_gang_that_was_never_displaced_is_not_spared():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("new", 1, TWO, queue="team"))
    assert mind(displaced("another"), there) == {}


def test_a_gang_larger_than_the_guarantee_is_not_spared():
    there = cluster(queue("team", gpus=1), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    assert mind(displaced("back"), there) == {}


def test_other_work_that_cannot_be_displaced_counts_against_the_guarantee():
    service = runs("service", 0, queue="team", preemptible=False)
    things = queue("team", gpus=2), node("n1", gpus=4), service
    assert mind(displaced("back"), cluster(*things, job("back", 1, TWO, queue="team"))) == {}
    assert mind(displaced("back"), cluster(*things, job("back", 1, ONE, queue="team"))) == {
        "back": True
    }


def test_a_spared_gang_may_borrow_again_when_the_guarantee_is_full():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    who = displaced("back")
    assert mind(who, there) == {"back": True}
    service = cluster(queue("team", gpus=2), node("n1", gpus=4),
                      runs("service", 0, queue="team", preemptible=False),
                      job("back", 1, TWO, queue="team", spared=True))  # fmt: skip
    assert mind(who, service) == {"back": False}


def test_protection_is_frozen_while_the_gang_runs():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), runs("back", 0, queue="team"))
    assert mind(displaced("back"), there) == {}


def test_without_least_harm_no_gang_is_spared():
    settings = Settings(victims=Victims.YOUNGEST)
    things = queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team")
    assert mind(displaced("back"), cluster(*things, settings=settings)) == {}


def test_a_gang_that_is_observed_again_is_still_spared():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    who, gang = displaced("back"), there.gangs[GangId("back")]
    mind(who, there)
    assert who.standing(gang).spared
    who.forget(gang.id)
    assert not who.standing(gang).spared


def test_the_oldest_of_very_many_displaced_gangs_is_forgotten():
    who = displaced(*(f"g{at}" for at in range(MOST + 1)))
    there = cluster(queue("team", gpus=2), node("n1", gpus=4),
                    job("g0", 1, ONE, queue="team"), job("g1", 1, ONE, queue="team"))  # fmt: skip
    assert mind(who, there) == {"g1": True}


# --- the protection -------------------------------------------------------------------------------


def test_another_victim_is_taken_instead_of_a_spared_gang():
    first = runs("spared", 0, queue="other", spared=True)
    second = runs("loan", 1, queue="other")
    things = queue("owner", gpus=1), queue("other", gpus=1), node("n1", gpus=2), first, second
    assert late(*things, job("due", 1, ONE, queue="owner")).evicted == {
        "loan-0": EvictionRule.GUARANTEE
    }


def test_a_spared_gang_is_not_moved():
    things = queue("team"), node("n1", gpus=2), node("n2", gpus=2)
    left, right = runs("a", 0, on="n1", spared=True), runs("b", 0, on="n2", spared=True)
    assert late(*things, left, right, job("wide", 1, TWO, queue="team")).moved == {}
    loose = late(*things, left, runs("b", 0, on="n2"), job("wide", 1, TWO, queue="team"))
    assert loose.moved == {"b-0": "n1"}


def test_a_spared_gang_may_be_preempted_by_priority_in_its_own_queue():
    low = runs("low", 0, spared=True)
    outcome = late(queue("team"), node("n1", gpus=1), low, job("high", 1, ONE, priority=9))
    assert outcome.evicted == {"low-0": EvictionRule.PRIORITY}


def test_a_spared_gang_starts_within_the_guarantee_only_and_its_reason_says_so():
    team, service = queue("team", gpus=2), runs("service", 0, queue="team", preemptible=False)
    there = node("n1", gpus=4), service
    waits = late(team, *there, job("back", 1, TWO, queue="team", spared=True))
    assert waits.started("back") == 0
    reason = waits.reason("back", ReasonCode.SPARED_BEYOND_GUARANTEE)
    assert str(reason) == (
        "it lost its place to others before and is to lose no other, so it starts within the "
        "guarantee of queue team, 2 GPUs: 1 are in firm use and it needs 2"
    )
    assert late(team, *there, job("back", 1, ONE, queue="team", spared=True)).started("back") == 1


def test_spared_gangs_never_block_the_guarantee_of_another_queue():
    """All of `other` above its guarantee can be reclaimed, since spared gangs lie within it."""
    spared = runs("spared", 0, 1, queue="other", spared=True)
    loans = [runs(f"loan{at}", at, queue="other") for at in (2, 3)]
    things = OWNER, replace(OTHER, guarantee={"gpu": 2000}), node("n1", gpus=4), spared, *loans
    outcome = late(*things, job("due", 1, TWO, queue="owner"))
    assert set(outcome.evicted) == {"loan2-0", "loan3-0"}
    assert outcome_of(outcome.settled()).started("due") == 1
