"""The gang of a pod: by owner, by label, or alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import NAMESPACE, Reading, Stage, job, made_by, node, pod, queue
from windlass.crds.read import QueueUsers
from windlass.model.reasons import ReasonCode
from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.table import Membership, membership
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import GANG, MINIMUM, PREEMPTIBLE


def member(found: wire.Pod, *owners: wire.Owner) -> Membership:
    known = {each.metadata.uid: each for each in owners}
    return membership(found, lambda ref, _namespace: known.get(ref.uid))


# --- jobs


@pytest.mark.parametrize(
    ("parallelism", "completions", "minimum"), [(4, 4, 4), (4, 9, 4), (9, 4, 4), (4, None, 4)]
)
def test_an_indexed_job_starts_with_as_many_pods_as_run_at_once(
    parallelism: int, completions: int | None, minimum: int
):
    owner = job("train", parallelism=parallelism, completions=completions)
    found = member(pod("train-0", owner=owner), owner)
    assert (found.minimum, found.job, found.refusal) == (minimum, "train", None)


def test_pods_of_an_indexed_job_are_one_gang():
    owner = job("train", 2)
    first, second = (member(pod(f"train-{i}", owner=owner), owner) for i in range(2))
    assert first.gang == second.gang


def test_pods_of_a_job_that_is_not_indexed_are_each_a_gang():
    owner = job("sweep", 8, completionMode="NonIndexed")
    first, second = (member(pod(f"sweep-{i}", owner=owner), owner) for i in range(2))
    assert first.gang != second.gang
    assert (first.minimum, first.job) == (1, "sweep")


def test_an_annotation_on_the_job_overrides_its_size():
    owner = job("train", 8, annotations={MINIMUM: "3"})
    assert member(pod("train-0", owner=owner), owner).minimum == 3


def test_an_annotation_makes_a_gang_of_a_job_that_is_not_indexed():
    owner = job("sweep", 8, completionMode="NonIndexed", annotations={MINIMUM: "2"})
    first, second = (member(pod(f"sweep-{i}", owner=owner), owner) for i in range(2))
    assert (first.gang, first.minimum) == (second.gang, 2)


def test_an_annotation_on_the_pod_overrides_the_size():
    owner = job("train", 8)
    assert member(pod("train-0", owner=owner, annotations={MINIMUM: "3"}), owner).minimum == 3


def test_the_annotation_of_the_job_wins_over_that_of_its_pods():
    owner = job("train", 8, annotations={MINIMUM: "5"})
    assert member(pod("train-0", owner=owner, annotations={MINIMUM: "3"}), owner).minimum == 5


def test_a_job_without_pods_has_a_minimum_of_one():
    owner = job("idle", 0)
    assert member(pod("idle-0", owner=owner), owner).minimum == 1


# --- owners that are not known


def test_a_pod_waits_until_its_owner_is_known():
    reason = member(pod("train-0", owner=job("train", 4))).refusal
    assert reason is not None
    assert reason.why is ReasonCode.OWNER_UNSEEN
    assert "Job train" in str(reason)


def test_a_late_owner_makes_a_gang_of_the_pods_that_came_before_it():
    owner = job("train", 2)
    there = Reading(*(pod(f"train-{i}", owner=owner) for i in range(2)))
    assert there.gang_of("train-0").refusal is not None
    there.see(owner)
    found = there.gang_of("train-0")
    assert (found.needed(), found.id) == (2, there.gang_of("train-1").id)
    assert found.refusal is None


def test_all_pods_with_an_unknown_owner_get_the_reason():
    owner = job("train", 3)
    team = queue("team", NAMESPACE)
    pods = [pod(f"train-{number}", 1, owner=owner) for number in range(3)]
    said = Stage(node("n1", 8), team, *pods).settle().said
    assert said == dict.fromkeys(["train-0", "train-1", "train-2"], "GangIncomplete")


def test_a_job_with_a_reused_name_is_another_job():
    old, new = job("train", 2, uid="old-uid"), job("train", 2, uid="new-uid")
    first, second = pod("train-0", owner=old), pod("train-1", owner=new)
    assert member(first, old, new).gang != member(second, old, new).gang


def test_an_owner_is_not_taken_from_another_namespace():
    owner = job("train", 2)
    there = Reading(owner, pod("train-0", owner=owner, namespace="other"))
    found = there.gang_of("train-0").refusal
    assert found is not None
    assert found.why is ReasonCode.OWNER_UNSEEN


def test_a_change_of_the_size_of_a_job_changes_its_gang():
    there = Reading(job("train", 4), pod("train-0", owner=job("train", 4)))
    assert there.gang_of("train-0").needed() == 4
    there.see(job("train", 4, annotations={MINIMUM: "2"}))
    assert there.gang_of("train-0").needed() == 2


# --- labels


def test_a_label_makes_a_gang_of_any_pods_of_a_namespace():
    first, second = (pod(f"p{i}", gang=("train", 2)) for i in range(2))
    assert member(first).gang == member(second).gang
    assert member(first).minimum == 2
    assert member(pod("p3", gang=("train", 2), namespace="other")).gang != member(first).gang


def test_the_gang_label_wins_over_the_owner():
    owner = job("train", 8)
    assert member(pod("p", owner=owner, gang=("all", 3)), owner).minimum == 3


def test_a_gang_by_label_needs_a_minimum():
    reason = member(pod("p", labels={GANG: "train"})).refusal
    assert reason is not None
    assert f"{MINIMUM} is not" in str(reason)


@pytest.mark.parametrize(
    "written", ["0", "-1", "two", "1.5", "100001", "1e3", "\u0662", " 2", "9" * 5000]
)
def test_an_invalid_minimum_gives_a_reason(written: str):
    reason = member(pod("p", labels={GANG: "train"}, annotations={MINIMUM: written})).refusal
    assert reason is not None
    assert "write a whole number from 1 to 100000" in str(reason)


# --- what becomes of evicted pods


def test_a_bare_pod_is_not_preemptible_unless_it_opts_in():
    there = Reading(
        pod("bare"),
        pod("willing", labels={PREEMPTIBLE: "true"}),
        pod("firm", owner=made_by("ReplicaSet"), labels={PREEMPTIBLE: "false"}),
        pod("web", owner=made_by("ReplicaSet")),
    )
    found = {name: there.gang_of(name).preemptible for name in sorted(there.names)}
    assert found == {"bare": False, "firm": False, "web": True, "willing": True}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_pods_of_replicated_workloads_are_each_a_gang(kind: str):
    found = member(pod("web-0", owner=made_by(kind)))
    assert (found.minimum, found.survives, found.job) == (1, Survives.RECREATED, "maker")


def test_pods_of_an_unknown_kind_of_owner_are_each_a_gang_and_not_preemptible():
    found = member(pod("x", owner=made_by("Sandwich", "food.example.com/v1")))
    assert (found.minimum, found.survives, found.refusal) == (1, Survives.LOST, None)


def test_a_job_of_another_api_group_is_not_a_batch_job():
    found = member(pod("x", owner=made_by("Job", "batch.example.com/v1")))
    assert (found.minimum, found.refusal) == (1, None)


def test_an_owner_reference_without_controller_is_ignored():
    shared = made_by("Job", "batch/v1") | {"controller": False}
    assert member(pod("x", owner=shared)).refusal is None


def test_a_new_bare_pod_with_the_same_name_is_another_gang():
    assert member(pod("a", uid="one")).gang != member(pod("a", uid="two")).gang


# --- members who disagree


def gang_of(*members: Any):
    return Reading(node("n1", 8), *members).gang_of("a")


def test_the_largest_of_several_minimums_counts():
    found = gang_of(pod("a", gang=("train", 2)), pod("b", gang=("train", 3)))
    assert found.needed() == 3


def test_a_gang_takes_the_minimum_that_its_members_finally_agree_on():
    there = Reading(pod("a", gang=("train", 3)), pod("b", gang=("train", 2)))
    there.see(pod("a", gang=("train", 2)))
    assert there.gang_of("a").needed() == 2


def test_members_in_different_queues_get_a_reason():
    there = Reading()
    there.queue("one", QueueUsers(term=()))
    there.queue("two", QueueUsers(term=()))
    there.see(pod("a", gang=("train", 2), queue="one"), pod("b", gang=("train", 2), queue="two"))
    assert "its pods name different queues, one and two" in str(there.gang_of("a").refusal)
    there.see(pod("c", gang=("train", 2), queue="one", annotations={"windlass.dev/duration": "2h"}))
    assert "its pods name different queues, one and two" in str(there.gang_of("a").refusal)


def test_the_highest_priority_counts_and_one_nonpreemptible_member_protects_the_gang():
    members = [
        pod("a", gang=("t", 2), priority=5, owner=made_by("ReplicaSet")),
        pod("b", gang=("t", 2), priority=9, owner=made_by("ReplicaSet")),
    ]
    assert (gang_of(*members).priority, gang_of(*members).preemptible) == (9, True)
    bare = pod("b", gang=("t", 2), priority=9)
    assert not gang_of(members[0], bare).preemptible


def test_a_member_of_another_scheduler_makes_the_gang_nonpreemptible():
    fields = {"gang": ("t", 2), "owner": made_by("ReplicaSet")}
    foreign = pod("z", schedulerName="default-scheduler", node="n1", **fields)
    assert not gang_of(pod("a", **fields), foreign).preemptible


# --- successes of a Job


def test_the_minimum_of_a_job_shrinks_with_its_successes():
    done = job("train", 3, status={"succeeded": 2})
    assert membership(pod("p", owner=done), lambda ref, namespace: done).minimum == 1


def test_succeeded_pods_of_a_job_are_not_counted_twice():
    done = job("train", 3, status={"succeeded": 1})
    there = Reading(node("n1", 4), done)
    there.see(pod("p-0", 1, owner=done, node="n1", phase="Succeeded"))
    there.see(*(pod(f"p-{i}", 1, owner=done) for i in (1, 2)))
    (gang,) = there.cluster.gangs.values()
    assert (gang.needed(), len(there.cluster.tasks)) == (2, 2)
