"""Volume claims: the nodes that they allow, and the reasons why a pod waits for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import Json, Stage, container, node, pod, queue
from windlass.kube.refs import ObjectLost, ObjectObserved
from windlass.workloads.objects import storage_wire as stored
from windlass.workloads.pods.volumes import BOUND, SELECTED

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disks.example.com"
TEN: Json = {"resources": {"requests": {"storage": "10Gi"}}}


def claim(name: str, volume: str = "", **fields: Any) -> ObjectObserved:
    """Return a claim, bound to a volume if one is named."""
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
    """Return a volume that is reachable from nodes with these labels."""
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
    """Return a CSINode whose driver attaches so many volumes."""
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
    written = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
    return _seen("csinodes", stored.CsiNode, written)


def driver() -> ObjectObserved:
    """Return a driver that publishes its capacity."""
    written = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    return _seen("csidrivers", stored.CsiDriver, written)


def room(zone: str, capacity: str, **fields: Any) -> ObjectObserved:
    """Return the capacity of the driver for nodes of a zone."""
    written = {"metadata": {"name": zone, "namespace": "kube-system"}, "capacity": capacity}
    there = {"storageClassName": "disks", "nodeTopology": {"matchLabels": {"zone": zone}}}
    return _seen("csicapacities", stored.CsiCapacity, written | there | fields)


def _seen(kind: str, struct: Any, written: Json) -> ObjectObserved:
    return ObjectObserved(kind, msgspec.convert(written, struct))


def using(name: str, *claims: str, **fields: Any) -> Any:
    """Return a pod that uses claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **fields)


def stage(*things: Any) -> Stage:
    """Return a stage with two nodes in two zones."""
    east = node("n1", labels={"zone": "east", ZONE: "east"})
    west = node("n2", labels={"zone": "west", ZONE: "west"})
    return Stage(queue("team", "ml"), east, west, *things)


def told(there: Stage, name: str = "p") -> str:
    """Return the message of a waiting pod."""
    there.step()
    return there.step(2).texts[name]


# --- bound


def test_a_pod_is_bound_where_its_volume_is_reachable():
    there = stage(claim("c", "v"), volume("v", zone="west"), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_a_pod_with_two_volumes_is_bound_where_both_are_reachable():
    here = volume("v", zone="west"), volume("w", zone="east")
    there = stage(claim("c", "v"), claim("d", "w"), *here, using("p", "c", "d"))
    assert there.step().bound == {}


def test_the_labels_of_a_volume_may_name_its_zone():
    there = stage(claim("c", "v"), volume("v", {ZONE: "west"}), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_a_node_without_zone_labels_takes_volumes_of_any_zone():
    plain = Stage(queue("team", "ml"), node("n1"), claim("c", "v"), volume("v", {ZONE: "west"}))
    plain.see(using("p", "c"))
    assert plain.step().bound == {"p": "n1"}


def test_a_pod_is_evaluated_again_when_its_claim_is_bound():
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
def test_the_reason_of_a_pod_names_what_its_claim_lacks(things: list[Any], words: str):
    there = stage(*things, using("p", "c"))
    assert words in told(there)
    assert there.step(2).bound == {}


def test_a_pod_waits_again_when_its_claim_is_deleted():
    there = stage(volume("v"), claim("c", "v"), using("p", "c", schedulingGates=[{"name": "g"}]))
    there.brain.take([ObjectLost("claims", claim("c", "v").object)])
    there.see(using("p", "c"))
    assert "claim c does not exist" in told(there)


def test_an_ephemeral_claim_must_be_owned_by_its_pod():
    scratch = pod("p", volumes=[{"name": "s", "ephemeral": {}}])
    there = stage(volume("v"), claim("p-s", "v"), scratch)
    assert "belongs to somebody else" in told(there)
    there.see(claim("p-s", "v", owners=[{"uid": "uid-of-p", "kind": "Pod", "name": "p"}]))
    assert there.step(2).bound.keys() == {"p"}


def test_a_read_write_once_pod_claim_is_used_by_one_pod_at_a_time():
    one = claim("c", "v", accessModes=["ReadWriteOncePod"])
    there = stage(volume("v"), one, using("a", "c"), using("b", "c"))
    assert there.step().bound.keys() == {"a"}
    there.see(using("a", "c", node="n1"))
    assert "pod a has it" in told(there, "b")
    there.lose(using("a", "c", node="n1"))
    assert there.step(2).bound.keys() == {"b"}


# --- volumes that are still to be made


def test_a_claim_that_waits_for_its_consumer_gets_the_node_before_the_bind():
    there = stage(storage_class(), claim("c"), using("p", "c"))
    (start,) = there.step().work.starts
    assert start.bindings[0].claims == ("c",)


def test_allowed_topologies_of_a_storage_class_limit_the_nodes():
    west = {"matchLabelExpressions": [{"key": "zone", "values": ["west", "south"]}]}
    there = stage(storage_class(allowedTopologies=[west]), claim("c"), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


def test_the_published_capacity_of_a_driver_limits_the_nodes():
    there = stage(storage_class(), claim("c", **TEN), driver(), using("p", "c"))
    assert there.step().bound == {}
    there.see(room("east", "9Gi"), room("west", "10Gi"))
    assert there.step().bound == {"p": "n2"}


def test_the_maximum_volume_size_limits_more_than_the_capacity():
    there = stage(storage_class(), claim("c", **TEN), driver(), using("p", "c"))
    there.see(room("east", "90Gi", maximumVolumeSize="9Gi"))
    assert there.step().bound == {}


def test_a_claim_with_a_selected_node_keeps_it():
    there = stage(storage_class(), claim("c", annotations={SELECTED: "n2"}), using("p", "c"))
    assert there.step().bound == {"p": "n2"}


# --- how many a node can have


def test_a_node_takes_at_most_the_attach_limit_of_the_driver():
    there = stage(attaches("n1", 1), attaches("n2", 1), *(volume(each) for each in "vwx"))
    there.see(claim("c", "v"), claim("d", "w"), claim("e", "x"))
    there.see(using("a", "c"), using("b", "d"), using("z", "e"))
    assert sorted(there.step().bound.values()) == ["n1", "n2"]
    assert "volumes of disks.example.com" in there.step(2).texts["z"]


def test_a_node_without_an_attach_limit_takes_any_number():
    there = stage(attaches("n1", 0), volume("v"), volume("w"))
    there.see(claim("c", "v"), claim("d", "w"), using("a", "c", "d"), using("b", "c"))
    assert there.step().bound == {"a": "n2", "b": "n2"}


def test_volumes_of_foreign_pods_count_towards_the_attach_limit():
    theirs = using("old", "c", node="n1", schedulerName="default-scheduler")
    there = stage(attaches("n1", 1), attaches("n2", 0), volume("v"), volume("w"), theirs)
    there.see(claim("c", "v"), claim("d", "w"), using("a", "d"))
    assert there.step().bound == {}


def test_an_attach_limit_observed_later_counts_from_then_on():
    there = stage(volume("v"), volume("w"), claim("c", "v"), claim("d", "w"))
    there.see(attaches("n1", 0), attaches("n2", 0), using("a", "c"))
    assert there.step().bound == {}
    there.see(attaches("n2", 2))
    assert there.step().bound == {"a": "n2"}


def test_volumes_without_claims_do_not_limit_the_nodes():
    plain = [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
    assert stage(pod("p", volumes=plain)).step().bound.keys() == {"p"}


def test_a_pod_with_an_inline_disk_is_refused():
    disk = [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]
    there = stage(pod("p", volumes=disk, containers=[container()]))
    assert "a disk that is named in the pod itself" in told(there)
