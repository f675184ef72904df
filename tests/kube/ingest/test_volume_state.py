"""Volumes by claim: where they let a pod run, and what it waits for until they do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import Json, Stage, container, node, pod, queue
from windlass.kube.refs import Lost, ObjectObserved
from windlass.workloads.objects import storage_wire as stored
from windlass.workloads.pods.volumes import BOUND, SELECTED

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disks.example.com"
TEN: Json = {"resources": {"requests": {"storage": "10Gi"}}}


def claim(name: str, volume: str = "", **fields: Any) -> ObjectObserved:
    """A claim; with a volume it is bound to that."""
    notes = {BOUND: "yes"} if volume else {}
    meta = {"name": name, "namespace": "ml", "annotations": notes | fields.pop("annotations", {})}
    meta |= {"ownerReferences": fields.pop("owners", [])}
    if deleted := fields.pop("deleted", ""):
        meta["deletionTimestamp"] = deleted
    status = {"phase": fields.pop("phase", "Bound" if volume else "Pending")}
    spec = {"volumeName": volume, "storageClassName": "disks"} | fields
    return _seen(
        "claims", stored.PersistentVolumeClaim, {"metadata": meta, "spec": spec, "status": status}
    )


def volume(name: str, labels: Json | None = None, **affinity: str) -> ObjectObserved:
    """A volume that is reached from nodes with these labels."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in affinity.items()]
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    spec: Json = {"csi": {"driver": DRIVER, "volumeHandle": name}}
    spec |= {"nodeAffinity": required} if affinity else {}
    written = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
    return _seen("volumes", stored.PersistentVolume, written)


def storage_class(mode: str = "WaitForFirstConsumer", **fields: Any) -> ObjectObserved:
    written = {"metadata": {"name": "disks"}, "provisioner": DRIVER, "volumeBindingMode": mode}
    return _seen("storageclasses", stored.StorageClass, written | fields)


def attaches(name: str, count: int) -> ObjectObserved:
    """To this node the driver attaches so many volumes."""
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
    written = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
    return _seen("csinodes", stored.CsiNode, written)


def driver() -> ObjectObserved:
    """The driver says where it has room."""
    written = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    return _seen("csidrivers", stored.CsiDriver, written)


def room(zone: str, capacity: str, **fields: Any) -> ObjectObserved:
    """So much room the driver has for nodes of a zone."""
    written = {"metadata": {"name": zone, "namespace": "kube-system"}, "capacity": capacity}
    there = {"storageClassName": "disks", "nodeTopology": {"matchLabels": {"zone": zone}}}
    return _seen("csicapacities", stored.CsiCapacity, written | there | fields)


def _seen(kind: str, struct: Any, written: Json) -> ObjectObserved:
    return ObjectObserved(kind, msgspec.convert(written, struct))


def using(name: str, *claims: str, **fields: Any) -> Any:
    """A pod that uses claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **fields)


def stage(*things: Any) -> Stage:
    """Two nodes in two zones."""
    east = node("n1", labels={"zone": "east", ZONE: "east"})
    west = node("n2", labels={"zone": "west", ZONE: "west"})
    return Stage(queue("team", "ml"), east, west, *things)


def told(there: Stage, name: str = "p") -> str:
    """What is said about a pod that waits."""
    there.step()
    return there.step(2).texts[name]


# --- bound


def test_a_pod_goes_where_its_volume_can_be_reached():
    there = stage(claim("c", "v"), volume("v", zone="west"), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_a_pod_with_two_volumes_goes_where_both_can_be_reached():
    here = volume("v", zone="west"), volume("w", zone="east")
    there = stage(claim("c", "v"), claim("d", "w"), *here, using("p", "c", "d"))
    assert there.step().bound == {}


def test_the_labels_of_a_volume_may_name_its_zone():
    there = stage(claim("c", "v"), volume("v", {ZONE: "west"}), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_a_node_that_says_nothing_of_zones_takes_volumes_of_any():
    plain = Stage(queue("team", "ml"), node("n1"), claim("c", "v"), volume("v", {ZONE: "west"}))
    plain.see(using("p", "c"))
    assert plain.step().bound == {"p": "n1"}


def test_a_pod_is_looked_at_again_when_its_claim_is_bound():
    there = stage(storage_class("Immediate"), claim("c"), using("p", "c"))
    assert there.step().bound == {}
    there.see(volume("v", zone="west"), claim("c", "v"))
    assert there.step().bound == {"p": "n2"}


# --- what a pod waits for


@pytest.mark.parametrize(
    ("things", "words"),
    [
        ([], "claim c does not exist"),
        ([claim("c", deleted="2026-01-01T00:00:00Z")], "claim c is being deleted"),
        ([claim("c", "v", phase="Lost")], "claim c has lost its volume v"),
        ([claim("c", "v")], "claim c is bound to volume v, which does not exist"),
        ([claim("c")], "claim c names storage class disks, which does not exist"),
        ([storage_class("Immediate"), claim("c")], "claim c is not bound to a volume yet"),
        ([claim("c", storageClassName="")], "claim c is not bound to a volume yet"),
        (
            [storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c")],
            "only volumes at hand can satisfy",
        ),
    ],
)
def test_a_pod_is_told_what_its_claim_lacks(things: list[Any], words: str):
    there = stage(*things, using("p", "c"))
    assert words in told(there)
    assert there.step(2).bound == {}


def test_a_claim_that_goes_keeps_its_pod_waiting_again():
    there = stage(volume("v"), claim("c", "v"), using("p", "c", schedulingGates=[{"name": "g"}]))
    there.brain.take([Lost("claims", claim("c", "v").object)])
    there.see(using("p", "c"))
    assert "claim c does not exist" in told(there)


def test_a_claim_that_is_made_for_one_pod_must_be_its_own():
    scratch = pod("p", volumes=[{"name": "s", "ephemeral": {}}])
    there = stage(volume("v"), claim("p-s", "v"), scratch)
    assert "belongs to somebody else" in told(there)
    there.see(claim("p-s", "v", owners=[{"uid": "uid-of-p", "kind": "Pod", "name": "p"}]))
    assert there.step(2).bound.keys() == {"p"}


def test_a_claim_for_one_pod_is_had_by_one_after_the_other():
    one = claim("c", "v", accessModes=["ReadWriteOncePod"])
    there = stage(volume("v"), one, using("a", "c"), using("b", "c"))
    assert there.step().bound.keys() == {"a"}
    there.see(using("a", "c", node="n1"))
    assert "pod a has it" in told(there, "b")
    there.lose(using("a", "c", node="n1"))
    assert there.step(2).bound.keys() == {"b"}


# --- volumes that are still to be made


def test_a_claim_that_waits_for_its_pod_is_told_the_node_before_the_pod_is_bound():
    there = stage(storage_class(), claim("c"), using("p", "c"))
    (start,) = there.step().work.starts
    assert start.bindings[0].claims == ("c",)


def test_a_class_says_where_its_volumes_can_be():
    west = {"matchLabelExpressions": [{"key": "zone", "values": ["west", "south"]}]}
    there = stage(storage_class(allowedTopologies=[west]), claim("c"), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_a_driver_that_tells_where_it_has_room_is_believed():
    there = stage(storage_class(), claim("c", **TEN), driver(), using("p", "c"))
    assert there.step().bound == {}
    there.see(room("east", "9Gi"), room("west", "10Gi"))
    assert there.step().bound == {"p": "n2"}


def test_the_largest_volume_counts_more_than_all_the_room_there_is():
    there = stage(storage_class(), claim("c", **TEN), driver(), using("p", "c"))
    there.see(room("east", "90Gi", maximumVolumeSize="9Gi"))
    assert there.step().bound == {}


def test_a_claim_that_was_told_a_node_keeps_to_it():
    there = stage(storage_class(), claim("c", annotations={SELECTED: "n2"}), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


# --- how many a node can have


def test_a_node_takes_no_more_volumes_than_its_driver_attaches():
    there = stage(attaches("n1", 1), attaches("n2", 1), *(volume(each) for each in "vwx"))
    there.see(claim("c", "v"), claim("d", "w"), claim("e", "x"))
    there.see(using("a", "c"), using("b", "d"), using("z", "e"))
    assert sorted(there.step().bound.values()) == ["n1", "n2"]
    assert "volumes of disks.example.com" in there.step(2).texts["z"]


def test_a_node_without_a_limit_takes_any_number():
    there = stage(attaches("n1", 0), volume("v"), volume("w"))
    there.see(claim("c", "v"), claim("d", "w"), using("a", "c", "d"), using("b", "c"))
    assert there.step().bound == {"a": "n2", "b": "n2"}


def test_pods_of_others_fill_a_node_with_volumes_too():
    theirs = using("old", "c", node="n1", schedulerName="default-scheduler")
    there = stage(attaches("n1", 1), attaches("n2", 0), volume("v"), volume("w"), theirs)
    there.see(claim("c", "v"), claim("d", "w"), using("a", "d"))
    assert there.step().bound == {}


def test_a_limit_that_is_known_late_counts_from_then_on():
    there = stage(volume("v"), volume("w"), claim("c", "v"), claim("d", "w"))
    there.see(attaches("n1", 0), attaches("n2", 0), using("a", "c"))
    assert there.step().bound == {}
    there.see(attaches("n2", 2))
    assert there.step().bound == {"a": "n2"}


def test_volumes_that_decide_nothing_are_no_hindrance():
    plain = [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
    assert stage(pod("p", volumes=plain)).step().bound.keys() == {"p"}


def test_a_disk_that_a_pod_names_itself_is_left_to_others():
    disk = [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]
    there = stage(pod("p", volumes=disk, containers=[container()]))
    assert "a disk that is named in the pod itself" in told(there)
