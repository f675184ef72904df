"""Pods that are stuck in termination are deleted by force only where nothing of them can run."""

from __future__ import annotations

import pytest

from tests.support.kube_given import Json, Stage, node, pod, policy, queue
from windlass.daemon.decide.stuck_pods import AGAIN_S, SLACK_S
from windlass.kube.writes import is_dead
from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.model.units import format_timestamp, parse_timestamp
from windlass.workloads.nodes.health import OUT_OF_SERVICE
from windlass.workloads.objects import wire

ENDS = "2026-01-01T01:00:00Z"
DUE = parse_timestamp(ENDS) + SLACK_S
OFF: Json = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}


def hanging(name: str = "a", **fields: str) -> wire.Pod:
    return pod(name, 1, phase="Running", deleted=ENDS, **({"node": "n1"} | fields))


def silent(since: int) -> wire.NodeObject:
    said = {"type": "Ready", "status": "Unknown", "lastTransitionTime": format_timestamp(since)}
    return node("n1", 1, conditions=[said])


def stranded(*things: wire.NodeObject | wire.Pod, at: int = DUE, **spec: bool) -> list[str]:
    there = Stage(queue("team", "ml"), policy(**spec), node("n2"), *things, now=at)
    return [each.pod.name for each in there.step().work.stuck_pods]


def test_a_pod_on_a_deleted_node_is_deleted_after_its_grace():
    assert stranded(hanging()) == ["a"]
    assert stranded(hanging(), at=DUE - 1) == []


def test_a_pod_on_a_node_out_of_service_is_deleted_after_its_grace():
    assert stranded(node("n1", 1, taints=[OFF]), hanging()) == ["a"]


def test_a_pod_on_a_silent_node_is_deleted_only_if_the_policy_allows_it():
    away = silent(parse_timestamp(ENDS) - 100)
    assert stranded(away, hanging()) == []
    assert stranded(away, hanging(), deleteFromLost=True) == ["a"]


def test_a_node_that_is_silent_for_less_than_the_grace_is_not_dead():
    assert stranded(silent(DUE - 59), hanging(), deleteFromLost=True) == []
    assert stranded(silent(DUE - 60), hanging(), deleteFromLost=True) == ["a"]


@pytest.mark.parametrize("taint", ["karpenter.sh/disrupted", "dedicated"])
def test_a_pod_on_a_node_that_answers_is_left_to_its_kubelet(taint: str):
    there = node("n1", 1, taints=[{"key": taint, "effect": "NoSchedule"}])
    assert stranded(there, hanging(), deleteFromLost=True) == []


def test_foreign_pods_and_pods_that_do_not_terminate_are_left_alone():
    other = hanging("other", schedulerName="default-scheduler")
    assert stranded(other, pod("b", 1, node="n1", phase="Running")) == []


def test_the_deletion_is_retried_until_the_pod_is_gone():
    there = Stage(queue("team", "ml"), node("n2"), hanging(), now=DUE)
    assert len(there.step().work.stuck_pods) == 1
    assert there.step(1).work.stuck_pods == []
    assert there.step(AGAIN_S).work.stuck_pods != []
    there.lose(hanging())
    assert there.step(AGAIN_S).work.stuck_pods == []


def test_while_paused_nothing_is_deleted():
    there = Stage(queue("team", "ml"), node("n2"), hanging(), now=DUE)
    there.brain.pause(True)
    assert there.step().work.stuck_pods == []


def test_wakes_when_the_grace_of_a_stuck_pod_ends():
    there = Stage(queue("team", "ml"), node("n2"), hanging(), now=DUE - 7)
    assert there.step().work.wake_at == DUE


def test_a_node_that_is_only_shut_down_is_not_dead():
    shut = NodeTrouble(
        NodeStanding.LOST, "shut down", taint="node.cloudprovider.kubernetes.io/shutdown"
    )
    assert not is_dead(shut, silent_before=DUE)
