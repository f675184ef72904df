"""Nobody loses its work to other queues twice."""

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
    """Tell the cluster who is spared; answers for whom that has changed."""
    changed = list(who.changes(there))
    before = {gang.id: there.gangs[gang.id].spared for gang in changed}
    for gang in changed:
        there.apply(GangSeen(gang))
    return {gang.id: gang.spared for gang in changed if gang.spared != before[gang.id]}


# --- who is spared --------------------------------------------------------------------------------


def test_who_was_displaced_is_spared_if_its_guarantee_has_room_for_it():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    assert mind(displaced("back"), there) == {"back": True}


def test_who_saves_its_work_may_be_displaced_again():
    saves = job("back", 1, TWO, queue="team", saved_at=5)
    assert mind(displaced("back"), cluster(queue("team", gpus=2), node("n1", gpus=4), saves)) == {}


def test_who_was_stopped_as_often_as_it_may_be_is_spared_even_if_it_saves():
    saves = job("back", 1, TWO, queue="team", saved_at=5, stops_at_most=2)
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), saves)
    assert mind(displaced("back"), there) == {}
    assert mind(displaced("back", "back"), there) == {"back": True}


def test_who_was_not_displaced_is_not():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("new", 1, TWO, queue="team"))
    assert mind(displaced("another"), there) == {}


def test_a_gang_that_is_larger_than_the_guarantee_goes_on_borrowing():
    there = cluster(queue("team", gpus=1), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    assert mind(displaced("back"), there) == {}


def test_what_cannot_be_displaced_either_is_counted_against_the_guarantee():
    service = runs("service", 0, queue="team", preemptible=False)
    things = queue("team", gpus=2), node("n1", gpus=4), service
    assert mind(displaced("back"), cluster(*things, job("back", 1, TWO, queue="team"))) == {}
    assert mind(displaced("back"), cluster(*things, job("back", 1, ONE, queue="team"))) == {
        "back": True
    }


def test_who_waits_in_vain_for_its_guarantee_may_borrow_again():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    who = displaced("back")
    assert mind(who, there) == {"back": True}
    service = cluster(queue("team", gpus=2), node("n1", gpus=4),
                      runs("service", 0, queue="team", preemptible=False),
                      job("back", 1, TWO, queue="team", spared=True))  # fmt: skip
    assert mind(who, service) == {"back": False}


def test_while_it_runs_it_stands_as_it_was_started():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), runs("back", 0, queue="team"))
    assert mind(displaced("back"), there) == {}


def test_who_displaces_the_youngest_spares_nobody():
    settings = Settings(victims=Victims.YOUNGEST)
    things = queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team")
    assert mind(displaced("back"), cluster(*things, settings=settings)) == {}


def test_a_gang_that_is_read_anew_is_still_spared():
    there = cluster(queue("team", gpus=2), node("n1", gpus=4), job("back", 1, TWO, queue="team"))
    who, gang = displaced("back"), there.gangs[GangId("back")]
    mind(who, there)
    assert who.standing(gang).spared
    who.forget(gang.id)
    assert not who.standing(gang).spared


def test_of_very_many_the_first_are_forgotten():
    who = displaced(*(f"g{at}" for at in range(MOST + 1)))
    there = cluster(queue("team", gpus=2), node("n1", gpus=4),
                    job("g0", 1, ONE, queue="team"), job("g1", 1, ONE, queue="team"))  # fmt: skip
    assert mind(who, there) == {"g1": True}


# --- what it is spared ----------------------------------------------------------------------------


def test_another_is_displaced_instead_of_one_that_is_spared():
    first = runs("spared", 0, queue="other", spared=True)
    second = runs("loan", 1, queue="other")
    things = queue("owner", gpus=1), queue("other", gpus=1), node("n1", gpus=2), first, second
    assert late(*things, job("due", 1, ONE, queue="owner")).evicted == {
        "loan-0": EvictionRule.GUARANTEE
    }


def test_one_that_is_spared_is_not_moved():
    things = queue("team"), node("n1", gpus=2), node("n2", gpus=2)
    left, right = runs("a", 0, on="n1", spared=True), runs("b", 0, on="n2", spared=True)
    assert late(*things, left, right, job("wide", 1, TWO, queue="team")).moved == {}
    loose = late(*things, left, runs("b", 0, on="n2"), job("wide", 1, TWO, queue="team"))
    assert loose.moved == {"b-0": "n1"}


def test_its_own_queue_may_still_put_a_higher_priority_before_it():
    low = runs("low", 0, spared=True)
    outcome = late(queue("team"), node("n1", gpus=1), low, job("high", 1, ONE, priority=9))
    assert outcome.evicted == {"low-0": EvictionRule.PRIORITY}


def test_it_starts_within_the_guarantee_only_and_is_told_so():
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


def test_what_is_spared_never_keeps_another_queue_from_its_guarantee():
    """All of `other` above its guarantee can be taken back, since what is spared lies within it."""
    spared = runs("spared", 0, 1, queue="other", spared=True)
    loans = [runs(f"loan{at}", at, queue="other") for at in (2, 3)]
    things = OWNER, replace(OTHER, guarantee={"gpu": 2000}), node("n1", gpus=4), spared, *loans
    outcome = late(*things, job("due", 1, TWO, queue="owner"))
    assert set(outcome.evicted) == {"loan2-0", "loan3-0"}
    assert outcome_of(outcome.settled()).started("due") == 1
