"""Gangs on nodes that leave or are lost start elsewhere; nobody new goes there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.given import Job, Outcome, ask, cluster, job, node, outcome_of, schedule
from windlass.engine.plan import Verdict
from windlass.model.actions import EvictionRule
from windlass.model.constraints import CORDON, Constraints, Toleration
from windlass.model.jobs import TaskState
from windlass.model.nodes import Node, NodeStanding, NodeTrouble
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings

NOW = 1000
NOTICE = "karpenter.sh/disrupted"
LEAVES = NodeTrouble(NodeStanding.LEAVES, "being removed by Karpenter", NOW - 5, taint=NOTICE)
ILL = NodeTrouble(NodeStanding.AVOIDED, "ill: its GPUs are unhealthy", NOW - 5)
OFF = NodeTrouble(NodeStanding.LOST, "out of service")


def silent(seconds: int) -> NodeTrouble:
    return NodeTrouble(NodeStanding.LOST, "not ready", NOW - seconds)


def machine(name: str, trouble: NodeTrouble | None = None, gpus: int = 2) -> Node:
    return node(name, gpus, trouble=trouble)


def spread(name: str, *nodes: str, **fields: object) -> Job:
    """A gang with one task of one GPU on each of these nodes."""
    made = job(name, len(nodes), ask(gpus=1), **fields)
    for index, each in enumerate(nodes):
        made = made.runs(index, on=each, devices=[0])
    return made


def planned(*things: Node | Job, **settings: object) -> Outcome:
    return schedule(*things, now=NOW, settings=replace(Settings(), **settings))


# --- nobody new


@pytest.mark.parametrize("trouble", [LEAVES, ILL, OFF, silent(1)])
def test_a_node_in_trouble_takes_nobody_new(trouble: NodeTrouble):
    outcome = planned(machine("n1", trouble), job("a", 1, ask(gpus=1)))
    assert outcome.nothing_of("a")
    assert str(outcome.reason("a", ReasonCode.REFUSED_BY)) == f"1 node: {trouble.what}"


def test_not_even_who_tolerates_a_cordon_and_everything_else():
    anywhere = Constraints(tolerations=(Toleration(exists=True),))
    cordoned = replace(machine("n1"), cordoned=True, taints=(CORDON,))
    wants = job("a", 1, ask(gpus=1), constraints=anywhere)
    assert planned(cordoned, wants).started("a") == 1
    assert planned(replace(cordoned, trouble=ILL), wants).nothing_of("a")


def test_what_runs_on_an_ill_node_goes_on():
    outcome = planned(machine("n1", ILL), machine("n2"), spread("a", "n1", "n2"))
    assert outcome.evicted == {}


# --- nodes that leave


def test_a_gang_that_needs_its_member_there_goes_whole():
    outcome = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2"))
    assert outcome.evicted == {"a-0": EvictionRule.LEAVING, "a-1": EvictionRule.LEAVING}
    assert outcome.verdict("a") is Verdict.DISPLACED
    said = "node n1 is being removed by Karpenter; it gives up 2 tasks to start elsewhere"
    assert str(outcome.reason("a", ReasonCode.NODE_LEAVES)) == said


def test_of_an_elastic_gang_only_the_members_there_go():
    outcome = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2", minimum=1))
    assert outcome.evicted == {"a-0": EvictionRule.LEAVING}


def test_members_that_have_succeeded_count_towards_the_minimum():
    mostly = spread("a", "n1", "n2").become(1, state=TaskState.SUCCEEDED, node="", devices=())
    alone = planned(machine("n1", LEAVES), machine("n2"), mostly)
    assert alone.evicted == {"a-0": EvictionRule.LEAVING}


def test_the_gang_starts_again_elsewhere_as_soon_as_it_is_gone():
    there = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2")).settled(10)
    assert set(outcome_of(there).places.values()) == {"n2"}


def test_gangs_that_may_not_be_preempted_go_too_since_the_node_does():
    stays = spread("a", "n1", preemptible=False)
    assert planned(machine("n1", LEAVES), stays).evicted == {"a-0": EvictionRule.LEAVING}


def test_what_would_be_lost_for_good_stays_until_the_node_is_gone():
    assert planned(machine("n1", LEAVES), spread("a", "n1", stale_after_s=-1)).evicted == {}


def test_who_tolerates_the_notice_by_name_stays_and_who_tolerates_all_does_not():
    def evicted(toleration: Toleration) -> dict[str, EvictionRule]:
        wants = Constraints(tolerations=(toleration,))
        return planned(machine("n1", LEAVES), spread("a", "n1", constraints=wants)).evicted

    assert evicted(Toleration(NOTICE, exists=True)) == {}
    assert evicted(Toleration(exists=True)) == {"a-0": EvictionRule.LEAVING}


def test_notices_can_be_left_to_those_who_drain():
    assert planned(machine("n1", LEAVES), spread("a", "n1"), heed_notices=False).evicted == {}


def test_a_gang_that_leaves_is_not_given_back_as_stale_as_well():
    half = spread("a", "n1", "n2").become(1, state=TaskState.WAITING, node="", devices=())
    there = cluster(machine("n1", LEAVES), half, now=NOW, settings=Settings(stale_after_s=0))
    assert outcome_of(there).evicted == {"a-0": EvictionRule.LEAVING}


# --- nodes that are lost


@pytest.mark.parametrize(("seconds", "goes"), [(59, False), (60, True)])
def test_a_silent_node_is_given_up_after_a_grace(seconds: int, goes: bool):
    things = (*(machine(f"n{i}") for i in range(2, 5)), spread("a", "n1", "n2"))
    outcome = planned(machine("n1", silent(seconds)), *things)
    lost = {"a-0": EvictionRule.LOST, "a-1": EvictionRule.LOST}
    assert outcome.evicted == (lost if goes else {})
    assert goes or outcome.plan.wake_at == NOW + 1


def test_a_node_out_of_service_is_given_up_at_once():
    outcome = planned(machine("n1", OFF), machine("n2"), spread("a", "n1"))
    assert outcome.evicted == {"a-0": EvictionRule.LOST}
    said = "node n1 is out of service; 1 task of it stops, and it starts elsewhere"
    assert str(outcome.reason("a", ReasonCode.NODE_LOST)) == said


def test_the_grace_can_be_for_ever():
    others = machine("n2"), machine("n3")
    assert (
        planned(machine("n1", silent(900)), *others, spread("a", "n1"), lost_after_s=-1).evicted
        == {}
    )


def test_where_most_nodes_are_silent_it_is_the_network_and_nobody_is_given_up():
    away = [machine(f"n{i}", silent(900)) for i in range(3)]
    gangs = [spread(f"g{i}", f"n{i}") for i in range(3)]
    assert planned(*away, machine("n3"), *gangs).evicted == {}
    few = [machine(f"m{i}") for i in range(3)]
    assert len(planned(*away, *few, *gangs).evicted) == 3


def test_a_person_who_says_so_is_believed_even_then():
    away = [machine(f"n{i}", silent(900)) for i in range(3)]
    assert planned(machine("off", OFF), *away, spread("a", "off")).evicted == {
        "a-0": EvictionRule.LOST
    }


# --- laws

troubles = st.sampled_from([None, None, LEAVES, ILL, OFF, silent(10), silent(100)])


@given(st.lists(troubles, min_size=4, max_size=4), st.integers(1, 4), st.data())
def test_a_gang_is_left_whole_or_not_at_all(
    there: list[NodeTrouble | None], minimum: int, data: st.DataObject
):
    nodes = [machine(f"n{i}", trouble, gpus=4) for i, trouble in enumerate(there)]
    on = data.draw(st.lists(st.sampled_from([each.name for each in nodes]), min_size=4, max_size=4))
    gang = job("a", 4, ask(gpus=1), minimum=minimum)
    for index, name in enumerate(on):
        gang = gang.runs(index, on=name, devices=[index])
    outcome = planned(*nodes, gang)
    stays = 4 - len(outcome.evicted)
    assert stays == 0 or stays >= minimum
    after = outcome.settled(10)
    again = outcome_of(after)
    assert again.evicted == {}, "it comes to an end"
    open_ = {each.name for each in nodes if each.trouble is None}
    assert set(again.places.values()) <= open_


# --- who can save does so first


def leaving(until: int | None, **fields: object) -> Outcome:
    """A gang that can save in 120 s, on a node that leaves."""
    saver = spread("a", "n1", saves_within_s=120, terminates_s=20, **fields)
    return planned(machine("n1", replace(LEAVES, until=until)), saver)


@pytest.mark.parametrize(("until", "deadline"), [(None, 120), (500, 120), (80, 60)])
def test_who_can_save_does_so_before_its_node_is_gone(until: int | None, deadline: int):
    found = leaving(None if until is None else NOW + until)
    assert [each.deadline for each in found.plan.asks] == [NOW + deadline]
    assert found.evicted == {}


def test_where_there_is_no_time_left_to_save_it_goes_at_once():
    found = leaving(NOW + 15)
    assert (found.plan.asks, found.evicted) == ((), {"a-0": EvictionRule.LEAVING})


def test_nobody_is_asked_on_a_node_that_does_not_answer():
    found = planned(machine("n1", OFF), machine("n2"), spread("a", "n1", saves_within_s=120))
    assert (found.plan.asks, found.evicted) == ((), {"a-0": EvictionRule.LOST})
