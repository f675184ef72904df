"""Exclusive placement: followers are created once their leader has a node, so leaders start first.

The whole gang is placed before, and the places of the followers are held.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.support.kube_given import Stage, Step, container, made_by, node, pod, queue
from windlass.kube.ingest.leaders import FOLLOW_WITHIN_S
from windlass.kube.refs import ObjectObserved
from windlass.model.actions import EvictionRule
from windlass.model.reasons import ReasonCode
from windlass.workloads.kinds.leaders import INDEX, JOBSET_BY_LABEL, JOBSET_EXCLUSIVE, LWS_EXCLUSIVE
from windlass.workloads.objects import wire

HOST = "kubernetes.io/hostname"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
TEAM = queue("team", "ml", guarantee={"gpu": 16})
NODES = [node(f"n{at}", gpus=2) for at in range(3)]


def alone_with(key: str, value: str) -> dict[str, Any]:
    """Return the affinity that the webhooks of both projects give a leader."""
    own = {"key": key, "operator": "In", "values": [value]}
    other = [{"key": key, "operator": "Exists"}, own | {"operator": "NotIn"}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    near = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [own]}}
    apart = {"topologyKey": HOST, "labelSelector": {"matchExpressions": other}}
    return {"podAffinity": {required: [near]}, "podAntiAffinity": {required: [apart]}}


def seen(kind: str, written: dict[str, Any]) -> ObjectObserved:
    return ObjectObserved(kind, msgspec.json.decode(json.dumps(written), type=wire.Owner))


# --- JobSet ---------------------------------------------------------------------------------------


def job_set() -> list[ObjectObserved]:
    """Return a JobSet of two Jobs of two pods each, each Job alone on a node."""
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {}}
    replicated = {"name": "w", "replicas": 2, "template": {"spec": job}}
    meta = {"namespace": "ml", "annotations": {JOBSET_EXCLUSIVE: HOST}}
    top = {"metadata": meta | {"name": "x", "uid": "x-uid"}}
    above = [made_by("JobSet", "jobset.x-k8s.io/v1alpha2", "x")]
    jobs = [
        seen("Job.batch", {"metadata": own, "spec": job})
        for at in (0, 1)
        if (own := meta | {"name": f"w{at}", "uid": f"w{at}-uid", "ownerReferences": above})
    ]
    spec = {"spec": {"replicatedJobs": [replicated]}}
    return [seen("JobSet.jobset.x-k8s.io", top | spec), *jobs]


def member(at: int, index: int, **fields: Any) -> wire.Pod:
    """Return a pod of one of the two Jobs; index 0 is the leader."""
    labels = {JOB_KEY: f"key-{at}", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    notes = {JOBSET_EXCLUSIVE: HOST, INDEX: str(index)} | fields.pop("notes", {})
    if not index:
        fields = {"affinity": alone_with(JOB_KEY, f"key-{at}")} | fields
    by = made_by("Job", "batch/v1", f"w{at}")
    return pod(f"w{at}-{index}", 1, owner=by, labels=labels, annotations=notes, **fields)


def leaders_start() -> tuple[Stage, Step]:
    stage = Stage(*NODES, TEAM, *job_set())
    stage.see(member(0, 0), member(1, 0))
    return stage, stage.step()


def test_leaders_are_bound_before_their_followers_exist():
    _, step = leaders_start()
    assert set(step.bound) == {"w0-0", "w1-0"}
    assert len(set(step.bound.values())) == 2


def test_places_of_followers_are_held_and_promised():
    stage, step = leaders_start()
    stage.see(*(pod(f"late-{at}", 1) for at in range(6)))
    taken = stage.step().bound.values()
    assert sorted(taken) == ["n2", "n2"]  # the other GPUs wait for the followers
    (start,) = step.work.starts
    assert start.promise.count("-place-1/") == 2


def test_followers_are_bound_at_their_held_places():
    stage, step = leaders_start()
    on = step.bound
    stage.see(*(pod(f"late-{at}", 1) for at in range(6)))
    stage.step()
    chosen = {HOST: on["w0-0"]}, {HOST: on["w1-0"]}
    stage.see(member(0, 1, nodeSelector=chosen[0]), member(1, 1, nodeSelector=chosen[1]))
    assert stage.step().bound == {"w0-1": on["w0-0"], "w1-1": on["w1-0"]}


def test_the_gang_has_the_reason_that_it_awaits_followers():
    stage, _ = leaders_start()
    decisions = [each for each in stage.step().work.plan.decisions if each.gang.startswith("ml/x")]
    assert [each.why for d in decisions for each in d.reasons] == [ReasonCode.AWAITS_FOLLOWERS]


def test_without_room_for_the_followers_no_leader_starts():
    stage = Stage(node("n0", gpus=2), node("n1", gpus=1), TEAM, *job_set())
    stage.see(member(0, 0), member(1, 0))
    assert stage.step().bound == {}


def test_a_gang_with_a_missing_leader_waits():
    stage = Stage(*NODES, TEAM, *job_set())
    stage.see(member(0, 0))
    assert stage.step().bound == {}


def test_holds_for_followers_end_when_they_do_not_come_in_time():
    stage, step = leaders_start()
    started = {"startTime": "1970-01-01T00:16:40Z"}  # now
    for at in (0, 1):
        name = f"w{at}-0"
        stage.see(member(at, 0, node=step.bound[name], phase="Running", status=started))
    assert len(stage.cluster.tasks) == 4
    step = stage.step(FOLLOW_WITHIN_S + 1)
    assert not stage.cluster.holds
    victims = [each for clearing in step.work.evictions for each in clearing.victims]
    assert {(each.pod.name, each.rule) for each in victims} == {
        ("w0-0", EvictionRule.STALE),
        ("w1-0", EvictionRule.STALE),
    }


def test_with_labelled_nodes_there_are_no_leaders():
    stage = Stage(*NODES, TEAM, *job_set())
    by_label = {JOBSET_BY_LABEL: "true"}
    stage.see(member(0, 0, notes=by_label), member(1, 0, notes=by_label))
    assert len(stage.cluster.tasks) == 2


def test_a_new_leader_of_the_scheduler_holds_the_places_of_followers():
    _, step = leaders_start()
    (start,) = step.work.starts
    stage = Stage(*NODES, TEAM, *job_set())
    stage.see(*(pod(f"late-{at}", 1) for at in range(6)))
    for at in (0, 1):
        name = f"w{at}-0"
        promise = start.promise if start.bindings[0].pod.name == name else ""
        stage.see(member(at, 0, node=step.bound[name], phase="Running", promise=promise))
    stage.brain.resume()
    (hold,) = stage.cluster.holds.values()
    assert sorted(each.node for each in hold.claims) == sorted(step.bound.values())


def test_a_borrower_yields_the_places_of_missing_followers_to_a_guarantee():
    stage, _ = leaders_start()
    stage.see(queue("team", "ml"), queue("due", "due", guarantee={"gpu": 4}))
    stage.step()
    old = {"gang": ("due", 2), "namespace": "due", "created": "1970-01-01T00:01:40Z"}
    stage.see(*(pod(f"due-{at}", 2, **old) for at in (0, 1)))
    stage.step()
    step = stage.step()  # the third node is free, and one of the leaders makes room
    victims = {each.pod.name for clearing in step.work.evictions for each in clearing.victims}
    assert victims == {"w0-0", "w1-0"}


# --- LeaderWorkerSet ------------------------------------------------------------------------------


def worker_set(**more: Any) -> ObjectObserved:
    """Return groups of a leader with a GPU and two workers with two CPUs, on nodes of their own."""
    template = {"spec": {"containers": [container("main", cpu="2")]}}
    both = {"size": 3, "workerTemplate": template}
    meta = {"name": "s", "namespace": "ml", "uid": "s-uid"}
    spec = {"replicas": 2, "leaderWorkerTemplate": both, **more}
    return seen("LeaderWorkerSet.leaderworkerset.x-k8s.io", {"metadata": meta, "spec": spec})


def leader(group: int) -> wire.Pod:
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "s",
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
        GROUP_KEY: f"g{group}",
    }
    seeks = {"affinity": alone_with(GROUP_KEY, f"g{group}")}
    return pod(f"s-{group}", 1, labels=labels, annotations={LWS_EXCLUSIVE: HOST}, **seeks)


def test_each_leader_of_a_worker_set_starts_with_room_for_its_workers():
    stage = Stage(*NODES, TEAM, worker_set())
    stage.see(leader(0), leader(1))
    bound = stage.step().bound
    assert len(set(bound.values())) == len(bound) == 2
    held = {each.node for hold in stage.cluster.holds.values() for each in hold.claims}
    assert held == set(bound.values())


def test_a_leader_that_must_be_ready_first_starts_alone_anyway():
    stage = Stage(*NODES, TEAM, worker_set(startupPolicy="LeaderReady"))
    stage.see(leader(0))
    assert set(stage.step().bound) == {"s-0"}
    assert not stage.cluster.holds
