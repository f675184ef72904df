"""A gang that loses members does not lose its Job: it is stopped through its owner, or not at all.

Evicting the healthy members pod by pod would count each of them as a failure of the Job.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import Stage, container, job, node, pod, policy, queue
from windlass.kube.ingest.assumed import KEPT_FOR_S
from windlass.kube.writes import EvictRefused, OwnerChange, Victim
from windlass.model.actions import EvictionRule
from windlass.workloads.objects import wire

TEAM = queue("team", "ml", guarantee={"gpu": 8})
NOW = 1000
SOON = policy(staleAfterSeconds=5)
BY_LABEL = {"windlass.dev/gang": "train", "windlass.dev/minimum": "4"}
"""Pods that name their gang are not stopped through their owner."""


def train(**fields: Any) -> wire.Owner:
    """Return a Job of four pods with a GPU each."""
    amounts = container("main", **{"nvidia.com/gpu": "1"})
    return job("train", 4, template={"spec": {"containers": [amounts]}}, **fields)


def running(owner: wire.Owner, **fields: Any) -> list[wire.Pod]:
    """Return its pods, two on each of two nodes."""
    started = {"phase": "Running", "status": {"startTime": "1970-01-01T00:01:40Z"}}
    return [
        pod(f"train-{at}", 1, owner=owner, node=f"n{at // 2}", **started, **fields)
        for at in range(4)
    ]


def stage(owner: wire.Owner, *things: Any, **fields: Any) -> Stage:
    found = Stage(node("n0", gpus=2), node("n1", gpus=2), TEAM, *things, owner)
    found.see(*running(owner, **fields))
    found.step()
    return found


def victims(there: Stage, seconds: int = 0) -> list[Victim]:
    step = there.step(seconds)
    return [each for clearing in step.work.evictions for each in clearing.victims]


def test_a_deleted_node_stops_the_rest_of_a_gang_at_once_through_its_owner():
    there = stage(train())
    there.lose(node("n1", gpus=2))
    found = victims(there)
    assert {(each.pod.name, each.rule) for each in found} == {
        ("train-0", EvictionRule.LOST),
        ("train-1", EvictionRule.LOST),
    }
    assert {each.turn.to for each in found if each.turn} == {OwnerChange.SUSPENDED}
    assert "node n1 was deleted" in found[0].message


def test_a_gang_above_its_minimum_runs_on_without_lost_members():
    there = stage(train(annotations={"windlass.dev/minimum": "2"}))
    there.lose(node("n1", gpus=2))
    assert victims(there) == []


def test_a_gang_is_not_stale_during_the_backoff_of_its_job():
    there = stage(train(status={"failed": 3}), SOON)
    there.lose(running(train())[0])
    assert victims(there, 80) == []  # its fourth back-off lasts 80 s
    assert {each.rule for each in victims(there, 40)} == {EvictionRule.STALE}


def test_a_stale_gang_is_stopped_through_its_owner():
    there = stage(train(), SOON)
    there.lose(running(train())[0])
    turns = [each.turn for each in victims(there, 60)]
    assert [turn.to for turn in turns if turn] == [OwnerChange.SUSPENDED] * 3


@pytest.mark.parametrize(("limit", "goes"), [(2, False), (3, True)])
def test_a_stale_gang_is_evicted_pod_by_pod_only_within_the_backoff_limit(limit: int, goes: bool):
    there = stage(train(backoffLimit=limit), SOON, labels=BY_LABEL)
    there.lose(running(train(), labels=BY_LABEL)[0])
    assert bool(victims(there, 60)) is goes


@pytest.mark.parametrize(("failed", "preemptible"), [(2, True), (3, False)])
def test_a_gang_is_not_preemptible_if_its_job_would_fail(failed: int, preemptible: bool):
    owner = train(status={"failed": failed})
    assert stage(owner, labels=BY_LABEL).gang_of("train-0").preemptible is preemptible


def test_failures_that_the_job_has_counted_reduce_the_backoff_limit():
    there = stage(train(), labels=BY_LABEL)
    there.see(msgspec.structs.replace(train(), status={"failed": 4}))
    assert not there.gang_of("train-0").preemptible


def test_a_job_that_ignores_disruptions_forgives_all_of_them():
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    owner = train(backoffLimit=0, podFailurePolicy={"rules": rules})
    assert stage(owner, labels=BY_LABEL).gang_of("train-0").preemptible


def test_orphan_pods_count_as_failures_before_the_job_counts_them():
    there = stage(train(backoffLimit=3), labels=BY_LABEL)
    there.lose(node("n1", gpus=2))  # its two pods will fail, and the other two would be too many
    assert victims(there) == []


def test_an_owner_counts_the_evictions_of_all_its_gangs():
    owner = train(backoffLimit=3, completionMode="NonIndexed")  # each pod is a gang of its own
    there = Stage(node("n0", gpus=2), node("n1", gpus=2), TEAM, owner)
    there.see(*running(owner))
    there.step()
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    there.see(*(node(name, gpus=2, taints=[taint]) for name in ("n0", "n1")))
    assert sorted(each.fails_owner for each in victims(there)) == [False, False, False, True]


@pytest.mark.parametrize(
    ("first", "preemptible"), [("Ignore", True), ("Count", True), ("FailJob", False)]
)
def test_the_first_rule_that_matches_an_evicted_pod_decides(first: str, preemptible: bool):
    rules = [
        {"action": first, "onExitCodes": {"operator": "NotIn", "values": [0]}},
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
    there = stage(train(podFailurePolicy={"rules": rules}))
    assert there.gang_of("train-0").preemptible is preemptible


def test_a_gang_whose_owner_would_fail_is_no_victim_for_a_while():
    there = stage(train(backoffLimit=1))
    there.lose(node("n1", gpus=2))
    for each in victims(there):
        there.see(EvictRefused(each.pod.task, "it may not be suspended", fails_owner=True))
    assert victims(there) == []
    assert not there.gang_of("train-0").preemptible
    assert len(victims(there, KEPT_FOR_S)) == 2


def test_a_victim_whose_owner_would_fail_is_flagged():
    there = stage(train(backoffLimit=1), labels={**BY_LABEL, "windlass.dev/preemptible": "true"})
    there.lose(node("n1", gpus=2))
    assert [each.fails_owner for each in victims(there)] == [False, False]  # its user opted in
    there = stage(train(backoffLimit=1))
    there.lose(node("n1", gpus=2))
    assert [each.fails_owner for each in victims(there)] == [True, True]
