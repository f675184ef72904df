"""Forced evictions from nodes that leave or are lost; nothing is bound to such nodes."""

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
    """Return a gang with one task of one GPU on each of these nodes."""
    made = job(name, len(nodes), ask(gpus=1), **fields)
    for index, each in enumerate(nodes):
        made = made.runs(index, on=each, devices=[0])
    return made


def planned(*things: Node | Job, **settings: object) -> Outcome:
    return schedule(*things, now=NOW, settings=replace(Settings(), **settings))


# --- no new binds


@pytest.mark.parametrize("trouble", [LEAVES, ILL, OFF, silent(1)])
def test_nothing_is_bound_to_a_node_in_trouble(trouble: NodeTrouble):
    outcome = planned(machine("n1", trouble), job("a", 1, ask(gpus=1)))
    assert outcome.nothing_of("a")
    assert str(outcome.reason("a", ReasonCode.REFUSED_BY)) == f"1 node: {trouble.what}"


def test_tolerating_every_taint_does_not_bind_to_a_node_in_trouble():
    anywhere = Constraints(tolerations=(Toleration(exists=True),))
    cordoned = replace(machine("n1"), cordoned=True, taints=(CORDON,))
    wants = job("a", 1, ask(gpus=1), constraints=anywhere)
    assert planned(cordoned, wants).started("a") == 1
    assert planned(replace(cordoned, trouble=ILL), wants).nothing_of("a")


def test_work_on_an_avoided_node_keeps_running():
    outcome = planned(machine("n1", ILL), machine("n2"), spread("a", "n1", "n2"))
    assert outcome.evicted == {}


# --- nodes that leave


def test_a_gang_that_needs_its_member_on_a_leaving_node_is_evicted_whole():
    outcome = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2"))
    assert outcome.evicted == {"a-0": EvictionRule.LEAVING, "a-1": EvictionRule.LEAVING}
    assert outcome.verdict("a") is Verdict.DISPLACED
    said = "node n1 is being removed by Karpenter; it gives up 2 tasks to start elsewhere"
    assert str(outcome.reason("a", ReasonCode.NODE_LEAVES)) == said


def test_of_an_elastic_gang_only_members_on_the_leaving_node_are_evicted():
    outcome = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2", minimum=1))
    assert outcome.evicted == {"a-0": EvictionRule.LEAVING}


def test_members_that_have_succeeded_count_towards_the_minimum():
    mostly = spread("a", "n1", "n2").become(1, state=TaskState.SUCCEEDED, node="", devices=())
    alone = planned(machine("n1", LEAVES), machine("n2"), mostly)
    assert alone.evicted == {"a-0": EvictionRule.LEAVING}


def test_an_evicted_gang_starts_elsewhere_as_soon_as_it_has_left():
    there = planned(machine("n1", LEAVES), machine("n2"), spread("a", "n1", "n2")).settled(10)
    assert set(outcome_of(there).places.values()) == {"n2"}


def test_gangs_that_are_not_preemptible_are_evicted_from_a_leaving_node_too():
    stays = spread("a", "n1", preemptible=False)
    assert planned(machine("n1", LEAVES), stays).evicted == {"a-0": EvictionRule.LEAVING}


def test_a_gang_that_would_be_lost_for_good_stays_until_the_node_is_gone():
    assert planned(machine("n1", LEAVES), spread("a", "n1", stale_after_s=-1)).evicted == {}


def test_only_a_toleration_that_names_the_taint_keeps_a_task_on_a_leaving_node():
    def evicted(toleration: Toleration) -> dict[str, EvictionRule]:
        wants = Constraints(tolerations=(toleration,))
        return planned(machine("n1", LEAVES), spread("a", "n1", constraints=wants)).evicted

    assert evicted(Toleration(NOTICE, exists=True)) == {}
    assert evicted(Toleration(exists=True)) == {"a-0": EvictionRule.LEAVING}


def test_termination_notices_can_be_ignored_by_a_setting():
    assert planned(machine("n1", LEAVES), spread("a", "n1"), heed_notices=False).evicted == {}


def test_a_gang_evicted_from_a_leaving_node_is_not_evicted_as_stale_too():
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


def test_a_negative_grace_never_gives_up_a_silent_node():
    others = machine("n2"), machine("n3")
    assert (
        planned(machine("n1", silent(900)), *others, spread("a", "n1"), lost_after_s=-1).evicted
        == {}
    )


def test_no_node_is_given_up_while_most_nodes_are_silent():
    away = [machine(f"n{i}", silent(900)) for i in range(3)]
    gangs = [spread(f"g{i}", f"n{i}") for i in range(3)]
    assert planned(*away, machine("n3"), *gangs).evicted == {}
    few = [machine(f"m{i}") for i in range(3)]
    assert len(planned(*away, *few, *gangs).evicted) == 3


def test_an_out_of_service_node_is_given_up_even_while_most_nodes_are_silent():
    away = [machine(f"n{i}", silent(900)) for i in range(3)]
    assert planned(machine("off", OFF), *away, spread("a", "off")).evicted == {
        "a-0": EvictionRule.LOST
    }


# --- laws

troubles = st.sampled_from([None, None, LEAVES, ILL, OFF, silent(10), silent(100)])


@given(st.lists(troubles, min_size=4, max_size=4), st.integers(1, 4), st.data())
def test_a_gang_is_evicted_whole_or_keeps_its_minimum(
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


# --- checkpoints


def leaving(until: int | None, **fields: object) -> Outcome:
    """Plan for a gang that can checkpoint in 120 s, on a node that leaves."""
    saver = spread("a", "n1", saves_within_s=120, terminates_s=20, **fields)
    return planned(machine("n1", replace(LEAVES, until=until)), saver)


@pytest.mark.parametrize(("until", "deadline"), [(None, 120), (500, 120), (80, 60)])
def test_a_checkpoint_is_requested_before_the_node_leaves(until: int | None, deadline: int):
    found = leaving(None if until is None else NOW + until)
    assert [each.deadline for each in found.plan.asks] == [NOW + deadline]
    assert found.evicted == {}


def test_without_time_for_a_checkpoint_the_gang_is_evicted_at_once():
    found = leaving(NOW + 15)
    assert (found.plan.asks, found.evicted) == ((), {"a-0": EvictionRule.LEAVING})


def test_no_checkpoint_is_requested_on_a_silent_node():
    found = planned(machine("n1", OFF), machine("n2"), spread("a", "n1", saves_within_s=120))
    assert (found.plan.asks, found.evicted) == ((), {"a-0": EvictionRule.LOST})
