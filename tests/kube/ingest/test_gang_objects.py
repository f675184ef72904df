"""Gang objects: the gangs that they describe, and their status."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.support.kube_given import NAMESPACE, Stage, node, pod, queue
from windlass.kube.refs import ObjectLost, ObjectObserved
from windlass.model.jobs import Domain, Group
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import GANG, GROUP

_owner = msgspec.json.Decoder(wire.Owner)


def gang(name: str = "train", **spec: Any) -> ObjectObserved:
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"{name}-uid", "generation": 3}
    return ObjectObserved(
        "Gang.windlass.dev", _owner.decode(json.dumps({"metadata": meta, "spec": spec}))
    )


def member(name: str, group: str = "", gpus: int = 1) -> wire.Pod:
    labels = {GANG: "train"} | ({GROUP: group} if group else {})
    return pod(name, gpus, labels=labels, queue="team")


def stage(*things: Any) -> Stage:
    team = queue("team", NAMESPACE, guarantee={"gpu": 16})
    return Stage(node("n1", 4), node("n2", 4), team, *things)


def topology(name: str) -> ObjectObserved:
    written = {"metadata": {"name": name}, "spec": {"levels": ["rack"]}}
    return ObjectObserved("topologies", _owner.decode(json.dumps(written)))


def priority(name: str, value: int) -> ObjectObserved:
    return ObjectObserved("priorities", wire.PriorityClass(wire.ObjectMeta(name=name), value))


def test_pods_that_name_a_gang_wait_for_the_object_or_a_minimum():
    there = stage(member("a"))
    text = there.settle().texts["a"]
    assert "there is no Gang train in its namespace" in text
    there.see(gang(minimum=1))
    assert there.step().bound == {"a": "n1"}


def test_a_gang_starts_with_the_minimum_of_its_object():
    there = stage(gang(minimum=2), member("a"))
    assert there.step().bound == {}
    there.see(member("b"))
    assert set(there.step().bound) == {"a", "b"}


def test_each_group_of_a_gang_needs_its_own_minimum():
    groups = [{"name": "leader"}, {"name": "workers", "minimum": 2}]
    there = stage(gang(groups=groups), member("w1", "workers"), member("w2", "workers"))
    assert there.step().bound == {}
    there.see(member("w3", "workers"))
    assert there.step().bound == {}
    there.see(member("l", "leader"))
    assert set(there.step().bound) == {"w1", "w2", "w3", "l"}


def test_a_pod_with_an_unknown_group_is_refused_with_a_reason():
    there = stage(gang(groups=[{"name": "leader"}]), member("x", "ladder"))
    assert 'label windlass.dev/group of a pod is "ladder"' in there.settle().texts["x"]


def test_a_domain_without_a_topology_uses_the_only_topology():
    there = stage(topology("racks"), gang(minimum=1, domain={"level": "rack"}), member("a"))
    assert there.gang_of("a").domain == Domain("racks", "rack")
    there.see(topology("others"))
    assert "it names no topology" in str(there.gang_of("a").refusal)


def test_a_gang_may_name_its_queue_unless_its_pods_name_another():
    team, other = queue("team", NAMESPACE), queue("other", NAMESPACE)
    there = Stage(node("n1", 4), team, other, gang(minimum=1, queue="other"))
    there.see(pod("a", 1, labels={GANG: "train"}))
    assert there.gang_of("a").queue == "other"
    there.see(pod("a", 1, labels={GANG: "train"}, queue="team"))
    assert "its Gang names queue other" in str(there.gang_of("a").refusal)


def test_the_priority_class_of_a_gang_counts_instead_of_its_pods():
    there = stage(priority("high", 7), gang(minimum=1, priorityClassName="high"), member("a"))
    assert there.gang_of("a").priority == 7
    there.see(priority("high", 9))
    assert there.gang_of("a").priority == 9
    there.see(gang(minimum=1, priorityClassName="none"))
    assert "PriorityClass none does not exist" in str(there.gang_of("a").refusal)


def test_bare_pods_are_not_preemptible_unless_their_gang_opts_in():
    there = stage(gang(minimum=1), member("a"))
    assert not there.gang_of("a").preemptible
    there.see(gang(minimum=1, preemptible=True))
    assert there.gang_of("a").preemptible


def test_a_changed_gang_object_changes_the_gang():
    there = stage(gang(minimum=2), member("a"))
    assert there.gang_of("a").groups == (Group(minimum=2),)
    there.see(gang(minimum=1, expectedSeconds=60))
    assert there.gang_of("a").duration_s == 60
    assert there.step().bound == {"a": "n1"}


def test_a_gang_whose_object_is_deleted_is_refused_with_a_reason():
    there = stage(gang(minimum=2), member("a"))
    gone = gang(minimum=2)
    there.brain.take([ObjectLost(gone.kind, gone.object)])
    assert "there is no Gang train" in str(there.gang_of("a").refusal)


def test_gang_status_follows_the_state_of_the_gang():
    there = stage(gang(minimum=2))
    assert status(there, 0)["state"] == "Waiting"
    there.see(member("a"))
    waiting = status(there, 5)
    assert (waiting["state"], waiting["waiting"], waiting["running"]) == ("Waiting", 1, 0)
    assert "1 of the 2 tasks it starts with exist" in waiting["reason"]
    there.see(member("b"))
    running = status(there, 5)
    assert (running["state"], running["waiting"], running["running"]) == ("Running", 0, 2)
    assert "reason" not in running
    assert running["conditions"][0]["status"] == "True"
    assert running["observedGeneration"] == 3


def test_a_gang_that_lacks_only_nodes_is_admitted():
    there = stage(gang(minimum=2), member("a", gpus=4), member("b", gpus=4))
    there.see(pod("x", 2, node="n1", phase="Running"))
    assert status(there, 5)["state"] == "Admitted"


def test_an_unchanged_gang_status_is_not_written():
    there = stage(gang(minimum=2), member("a"))
    status(there, 5)
    assert [each for each in there.step(60).work.statuses if "/gangs/" in each.path] == []


def status(there: Stage, seconds: int) -> dict[str, Any]:
    """Return the status that is written for the gang after so many seconds."""
    written = [each for each in there.step(seconds).work.statuses if "/gangs/" in each.path]
    assert [each.path for each in written] == [
        f"/apis/windlass.dev/v1alpha1/namespaces/{NAMESPACE}/gangs/train/status"
    ]
    return written[0].status
