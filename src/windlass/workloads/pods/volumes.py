"""Where a pod's volumes let it run, as kube-scheduler would see it, and what it must wait for.

A claim is in one of these states, seen from the pod that uses it:

    gone, being deleted, lost      the pod waits
    bound                          the pod goes where the volume can be reached
    unbound, bound at once         the pod waits until somebody has bound it
    unbound, waits for its pod     the pod goes where the class may make a volume; the node is
                                   written on the claim, and the pod is bound once the claim is
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from windlass.model.constraints import Expression, Operator, Term
from windlass.model.units import mib_rounded_down, mib_rounded_up
from windlass.workloads.nodes.offers import NODE_NAME
from windlass.workloads.objects.storage_wire import (
    CsiCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from windlass.workloads.objects.wire import Pod
from windlass.workloads.pods.constraints import any_of, selector_of

SELECTED = "volume.kubernetes.io/selected-node"
"""The annotation of a claim that says for which node a volume is wanted."""
BOUND = "pv.kubernetes.io/bind-completed"
CLASS = "volume.beta.kubernetes.io/storage-class"
"""An annotation that may name the class instead of the field."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONE_POD = "ReadWriteOncePod"
ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of a volume that name its zone or region, and what nodes of today call them."""


class StorageObjects(Protocol):
    """All that was seen of storage."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...
    def volume(self, name: str) -> PersistentVolume | None: ...
    def storage_class(self, name: str) -> StorageClass | None: ...
    def tracks_capacity(self, driver: str) -> bool:
        """Does the driver say where it has how much room?"""
        ...

    def capacities(self, storage_class: str) -> Iterable[CsiCapacity]:
        """What drivers say about the room for volumes of a class."""
        ...

    def has_limit(self, driver: str) -> bool:
        """Is there a node to which the driver attaches only so many volumes?"""
        ...

    def user_of(self, namespace: str, claim: str, but: Pod) -> str:
        """Another pod that has the claim on its node, or comes first; empty if none does."""
        ...


@dataclass(slots=True)
class Needs:
    """What a pod's volumes ask of its node, of its claims, and of time."""

    reach: list[tuple[Term, ...]] = field(default_factory=list[tuple[Term, ...]])
    """For each volume, terms of which one must hold."""
    attached: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The volumes that drivers with limits attach: driver and handle."""
    selecting: list[str] = field(default_factory=list[str])
    """Claims on which the node is to be written."""
    lacking: str = ""
    """What the pod must wait for, in words; empty if for nothing."""
    left_out: str = ""
    """What we do not place yet."""

    def wait(self, what: str) -> None:
        """Of several things the first is told."""
        self.lacking = self.lacking or what


def has_claims(pod: Pod) -> bool:
    """Does the pod use volumes by claim?"""
    return any(True for _ in claims_of(pod))


def claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The names of the claims, and whether each is made for this pod alone."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield str(volume.persistent_volume_claim.get("claimName", "")), False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Have the claim and its volume found each other?"""
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})


def needs_of(pod: Pod, book: StorageObjects) -> Needs:
    """What the volumes of a pod ask for, as storage stands."""
    needs = Needs()
    for name, is_own in dict(claims_of(pod)).items():
        claim = book.claim(pod.metadata.namespace, name)
        if claim is None:
            comes = "has not been made yet" if is_own else "does not exist; create it"
            needs.wait(f"its claim {name} {comes}")
        elif trouble := _trouble(pod, claim, is_own, book):
            needs.wait(trouble)
        elif is_bound(claim):
            _bound(needs, claim, book)
        else:
            _unbound(needs, claim, book)
    return needs


def _trouble(pod: Pod, claim: PersistentVolumeClaim, is_own: bool, book: StorageObjects) -> str:
    """What keeps a pod from using a claim that is there; empty if nothing does."""
    name, namespace = claim.metadata.name, claim.metadata.namespace
    if claim.status.phase == "Lost":
        return f"its claim {name} has lost its volume {claim.spec.volume_name}"
    if claim.metadata.deletion_timestamp:
        return f"its claim {name} is being deleted"
    owners = {each.uid for each in claim.metadata.owner_references or ()}
    if is_own and pod.metadata.uid not in owners:
        return f"claim {name}, which should be its own, belongs to somebody else; delete it"
    if ONE_POD in (claim.spec.access_modes or ()) and (user := book.user_of(namespace, name, pod)):
        return f"its claim {name} is for one pod, and pod {user} has it"
    return ""


def _bound(needs: Needs, claim: PersistentVolumeClaim, book: StorageObjects) -> None:
    name = claim.spec.volume_name
    volume = book.volume(name)
    if volume is None:
        called = claim.metadata.name
        needs.wait(f"its claim {called} is bound to volume {name}, which does not exist")
        return
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        needs.reach.append(any_of(affinity.required))
    needs.reach += _zones(volume.metadata.labels or {})
    if volume.spec.csi is not None and book.has_limit(volume.spec.csi.driver):
        needs.attached.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))


def _zones(labels: Mapping[str, str]) -> Iterator[tuple[Term, ...]]:
    """A volume that names its zone: nodes of that zone, and nodes that say nothing of zones."""
    unzoned = tuple(Expression(each, Operator.DOES_NOT_EXIST) for each in sorted(ZONES))
    for key, today in ZONES.items():
        if key in labels:
            values = tuple(labels[key].split("__"))
            there: list[Term] = [(Expression(key, Operator.IN, values),), unzoned]
            if key != today:
                old = Expression(key, Operator.DOES_NOT_EXIST)
                there.append((old, Expression(today, Operator.IN, values)))
            yield tuple(there)


def _unbound(needs: Needs, claim: PersistentVolumeClaim, book: StorageObjects) -> None:
    name = claim.metadata.name
    called = (claim.metadata.annotations or {}).get(CLASS, claim.spec.storage_class_name or "")
    found = book.storage_class(called)
    if called and found is None:
        needs.wait(f"its claim {name} names storage class {called}, which does not exist")
    elif (
        found is None
        or claim.spec.volume_name
        or found.volume_binding_mode != "WaitForFirstConsumer"
    ):
        needs.wait(f"its claim {name} is not bound to a volume yet")
    elif found.provisioner in ("", NO_PROVISIONER):
        needs.left_out = "a claim that waits for it and that only volumes at hand can satisfy"
    else:
        _to_be_made(needs, claim, found, book)


def _to_be_made(
    needs: Needs, claim: PersistentVolumeClaim, found: StorageClass, book: StorageObjects
) -> None:
    needs.selecting.append(claim.metadata.name)
    if node := (claim.metadata.annotations or {}).get(SELECTED, ""):
        needs.reach.append(((Expression(NODE_NAME, Operator.IN, (node,)),),))
    if found.allowed_topologies:
        terms = [each.match_label_expressions or () for each in found.allowed_topologies]
        needs.reach.append(
            tuple(
                tuple(Expression(e.key, Operator.IN, tuple(e.values or ())) for e in term)
                for term in terms
                if term
            )
        )
    size = (claim.spec.resources.requests or {}).get("storage", "")
    if size and book.tracks_capacity(found.provisioner):
        there = book.capacities(found.metadata.name)
        needs.reach.append(
            tuple(term for each in there for term in _with_room(each, mib_rounded_up(size)))
        )
    if book.has_limit(found.provisioner):
        needs.attached.add((found.provisioner, f"to be made for {claim.metadata.name}"))


def _with_room(capacity: CsiCapacity, size_mib: int) -> Iterator[Term]:
    """The nodes that this is about, if it has room for a volume of that size."""
    room = capacity.maximum_volume_size or capacity.capacity
    if capacity.node_topology is not None and room and mib_rounded_down(room) >= size_mib:
        yield selector_of(capacity.node_topology)
