"""Holds of borrowers give way to gangs within their guarantee."""

from __future__ import annotations

from typing import Any

import pytest

from tests.given import Job, Outcome, ask, job, let_go, node, outcome_of, queue, submit
from tests.support import kube_given as kube
from tests.support.kube_given import Stage
from tests.support.preemption_given import LATER, ONE, TWO, late, runs
from windlass.engine.explain.preemption_preview import preview_preemption
from windlass.kube.writers.placement_promises import read
from windlass.kube.writes import EvictRefused
from windlass.model.actions import EvictionRule
from windlass.model.events import QueueSeen
from windlass.model.jobs import GangId
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.workloads.objects.annotations import PREEMPTIBLE

EIGHT, ALL = ask(gpus=8), range(8)
QUEUES = queue("research", gpus=32), queue("vision", gpus=16), queue("serving", gpus=16)


def on_nodes(name: str, *nodes: int, **fields: Any) -> Job:
    """Return a gang that has run since 0 on these nodes of eight GPUs, one task on each."""
    found = job(name, len(nodes), EIGHT, **fields)
    for index, number in enumerate(nodes):
        found = found.runs(index, on=f"n{number}", devices=ALL)
    return found


def promised(**fields: Any) -> Outcome:
    """64 GPUs; `low`, 16 that research has borrowed from serving, makes room for `high`."""
    nodes = [node(f"n{number}", gpus=8) for number in range(8)]
    firm = on_nodes("firm", 0, 1, 2, 3, queue="research", preemptible=False)
    vision, low = on_nodes("sees", 4, 5, queue="vision"), on_nodes("low", 6, 7, queue="research")
    high = job("high", 2, EIGHT, queue="research", priority=1, **fields)
    found = late(*nodes, *QUEUES, firm, vision, low, high)
    assert set(found.evicted) == {"low-0", "low-1"}
    assert found.held == {"high": ["n6", "n7"]}
    return found


def served(request: Any = ONE, **fields: Any) -> Outcome:
    """Plan for a gang of serving within its guarantee, while `low` still terminates."""
    there = promised().carried_out()
    there.advance(LATER + 10)
    submit(there, job("serve", 1, request, queue="serving", **fields))
    return outcome_of(there)


def test_a_gang_within_its_guarantee_gets_places_held_for_a_borrower():
    found = served()
    assert list(found.held) == ["serve"]
    assert found.evicted == {}
    there = found.carried_out()
    let_go(there)
    assert outcome_of(there).started("serve") == 1


def test_reasons_name_the_hold_and_the_gang_it_gave_way_to():
    found = served()
    assert found.whys("serve") == {ReasonCode.HELD}
    gave = found.reason("high", ReasonCode.GAVE_WAY)
    assert (gave.values["gang"], gave.values["tasks"]) == ("serve", 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": "vision"},
        {"queue": "research", "priority": 9},
        {"queue": "serving", "displaces_after_s": None},
    ],
)
def test_other_gangs_do_not_get_held_places(fields: dict[str, Any]):
    there = promised().carried_out()
    submit(there, job("late", 1, ONE, **fields))
    assert outcome_of(there).held == {"high": ["n6", "n7"]}


def test_a_queue_beyond_its_guarantee_does_not_get_held_places():
    there = promised().carried_out()
    submit(there, job("wide", 17, ONE, queue="serving"))
    assert outcome_of(there).held == {"high": ["n6", "n7"]}


def test_a_gang_that_is_not_preemptible_keeps_its_hold():
    """It is within the guarantee of its queue, whatever others of that have borrowed."""
    tree = queue("team", gpus=1), queue("owner", gpus=1)
    things = node("n1", gpus=2), runs("low", 0), runs("loan", 1, priority=1)
    high = job("high", 1, ONE, priority=1, preemptible=False)
    there = late(*tree, *things, high).carried_out()
    submit(there, job("due", 1, ONE, queue="owner"))
    found = outcome_of(there)
    assert (found.evicted, set(found.held)) == ({"loan-0": EvictionRule.GUARANTEE}, {"due", "high"})


def test_growth_does_not_get_held_places():
    there = promised().carried_out()
    serve = job("serve", 2, ONE, queue="serving", minimum=1)
    submit(there, serve)
    there = outcome_of(there).carried_out()
    assert [claim.task for claim in there.holds[GangId("serve")].claims] == ["serve-0"]


def test_the_borrower_evicts_no_other_gang_before_something_changes():
    """`due` may displace later than `high`, which takes the place of `low` and loses it again."""
    due = job("due", 1, ONE, queue="owner", displaces_after_s=LATER + 10)
    things = node("n1", gpus=1), node("n2", gpus=1), runs("low", 0), runs("rest", 0, on="n2")
    tree, high = (queue("owner", gpus=1), queue("team")), job("high", 1, ONE, priority=1)
    there = late(*tree, *things, due, high, epoch_s=10**6, search_again_s=0).carried_out()
    there.advance(LATER + 10)
    found = outcome_of(there)
    assert (list(found.held), found.evicted) == (["due"], {})
    there = found.carried_out()
    there.advance(LATER + 20)
    assert outcome_of(there).evicted == {}
    submit(there, job("somebody"))
    assert set(outcome_of(there).evicted) == {"rest-0"}


def test_a_hold_that_gave_way_stays_so_after_a_restart():
    """The same after a restart: what was decided is in the snapshot."""
    there = Cluster.of(served().carried_out().snapshot())
    there.advance(there.now + 5)
    found = outcome_of(there)
    assert (list(found.held), found.evicted) == (["serve"], {})


# --- one of several


def two_holds() -> Cluster:
    """Team has both GPUs, and holds one each for `a` and `b`; owner is guaranteed two."""
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    low = runs("low1", 0), runs("low2", 0, on="n2")
    new = job("a", 1, ONE, priority=1), job("b", 1, ONE, priority=2)
    there = late(queue("owner", gpus=2), queue("team"), *nodes, *low, *new)
    assert set(there.held) == {"a", "b"}
    return there.carried_out()


def test_only_as_many_holds_give_way_as_needed_the_lower_priority_first():
    there = two_holds()
    submit(there, job("due", 1, ONE, queue="owner"))
    assert set(outcome_of(there).held) == {"b", "due"}
    submit(there, job("more", 1, ONE, queue="owner"))
    assert set(outcome_of(there).held) == {"due", "more"}


def beside_a_loan(**fields: Any) -> Cluster:
    """`high` waits for the place of `low`; `loan` of another queue runs beside it."""
    tree = queue("owner", gpus=1), queue("team"), queue("lender")
    loan = runs("loan", 1, queue="lender", **fields)
    things = node("n1", gpus=2), runs("low", 0), loan, job("high", 1, ONE, priority=1)
    return late(*tree, *things).carried_out()


def test_a_hold_gives_way_before_running_work_is_evicted():
    there = beside_a_loan()
    submit(there, job("due", 1, ONE, queue="owner"))
    found = outcome_of(there)
    assert (found.evicted, list(found.held)) == ({}, ["due"])


def test_a_late_hold_gives_way_only_if_no_place_comes_free_sooner():
    """`low` has outstayed its grace: perhaps a disruption budget keeps it."""
    there = beside_a_loan()
    there.advance(LATER + 31)
    submit(there, job("due", 1, ONE, queue="owner"))
    found = outcome_of(there)
    assert (found.evicted, set(found.held)) == ({"loan-0": EvictionRule.GUARANTEE}, {"due", "high"})


def test_a_far_larger_hold_gives_way_only_without_another_victim():
    tree = queue("owner", gpus=1), queue("team"), queue("lender")
    things = node("n1", gpus=3), runs("low", 0, 1), runs("loan", 2, queue="lender")
    there = late(*tree, *things, job("high", 1, TWO, priority=1)).carried_out()
    submit(there, job("due", 1, ONE, queue="owner"))
    found = outcome_of(there)
    assert (found.evicted, set(found.held)) == ({"loan-0": EvictionRule.GUARANTEE}, {"due", "high"})


def test_a_hold_and_running_work_give_way_together():
    there = beside_a_loan()
    there.apply(QueueSeen(queue("owner", gpus=2)))
    submit(there, job("due", 1, TWO, queue="owner"))
    found = outcome_of(there)
    assert (found.evicted, list(found.held)) == ({"loan-0": EvictionRule.GUARANTEE}, ["due"])


# --- reasons and previews


def test_the_preview_counts_held_places_as_preemptible():
    there = promised().carried_out()
    submit(there, job("serve", 1, ONE, queue="serving", displaces_after_s=60))
    found = preview_preemption(outcome_of(there).carried_out(), GangId("serve"))
    assert found is not None
    research = next(each for each in found.sides if each.queue == "research")
    assert (research.rule, research.bar, research.may_lose) == (
        EvictionRule.GUARANTEE,
        None,
        16_000,
    )
    assert [(way.gang, way.rule) for way in found.ways] == [("high", EvictionRule.GUARANTEE)]


# --- promises on Kubernetes


def stage(**promises: str) -> Stage:
    """`low` has the only GPU; `high` is of the same queue, and `serve` is guaranteed one."""
    loan: dict[str, Any] = {"queue": "loan", "labels": {PREEMPTIBLE: "true"}}
    written = {name: {"promise": promises.get(name, "")} for name in ("high", "serve")}
    low = kube.pod("low", 1, node="n1", phase="Running", owner=kube.made_by("ReplicaSet"), **loan)
    return Stage(
        *(kube.queue("loan", "ml"), kube.queue("own", "ml", guarantee={"gpu": 1})),
        *(kube.node("n1", 1), low, kube.pod("high", 1, priority=5, **loan, **written["high"])),
        *([kube.pod("serve", 1, queue="own", **written["serve"])] if "serve" in promises else ()),
        now=1_800_000_000,
    )


def given_up() -> tuple[Stage, dict[str, str]]:
    """`high` was promised the place of `low`, and then `serve` was; what is written for each."""
    there = stage()
    (clearing,) = there.step().work.evictions
    there.see(kube.pod("serve", 1, queue="own"))
    work = there.step(2).work
    assert work.evictions == []
    texts = {ref.name: text for ref, text in work.promises}
    assert texts["high"] == ""
    return there, {"high": clearing.promise, "serve": texts["serve"]}


def test_the_new_promise_names_the_pod_that_still_leaves():
    _, texts = given_up()
    promise = read(texts["serve"])
    assert promise is not None
    assert promise.evicts == (kube.task_id("low"),)


def test_a_new_search_follows_if_that_pod_does_not_leave():
    there, _ = given_up()
    there.see(EvictRefused(kube.task_id("low"), "a disruption budget says no"))
    (clearing,) = there.step(31).work.evictions
    assert clearing.gainer is not None
    assert (clearing.gainer.name, clearing.victims[0].rule) == ("serve", EvictionRule.GUARANTEE)


def test_a_new_leader_keeps_the_later_of_two_promises_for_one_place():
    _, texts = given_up()
    there = stage(**texts)
    there.brain.resume()
    claims = [claim for hold in there.cluster.holds.values() for claim in hold.claims]
    assert [claim.task for claim in claims] == [kube.task_id("serve")]
    assert [ref.name for ref, text in there.step().work.promises if not text] == ["high"]
