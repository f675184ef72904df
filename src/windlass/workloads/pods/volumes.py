"""The constraints that follow from the volumes of a pod, as kube-scheduler sees them.

A claim is in one of these states, seen from the pod that uses it:

    missing, being deleted, lost      the pod waits
    bound                             the pod needs a node from which the volume can be reached
    unbound, Immediate                the pod waits until the claim is bound
    unbound, WaitForFirstConsumer     the pod needs a node where the class can provision a volume;
                                      the node is written on the claim, and the pod is bound
                                      after the claim
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from windlass.model.constraints import Expression, Operator, Term
from windlass.model.units import mib_rounded_down, mib_rounded_up
from windlass.workloads.objects import (
    CsiCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from windlass.workloads.pods.constraints import NODE_NAME, any_of, selector_of

SELECTED = "volume.kubernetes.io/selected-node"
"""The annotation of a claim that names the node for which a volume is to be provisioned."""
BOUND = "pv.kubernetes.io/bind-completed"
"""The annotation of a claim whose binding is complete."""
CLASS = "volume.beta.kubernetes.io/storage-class"
"""An annotation of a claim that names the storage class instead of the field."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes are made by hand."""
ONE_POD = "ReadWriteOncePod"
"""The access mode of a claim that only one pod may use at a time."""
ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""The labels of a volume that name its zone or region, with the present names of these labels."""


class StorageObjects(Protocol):
    """The storage objects of the cluster."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim; None if it does not exist."""
        ...

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume; None if it does not exist."""
        ...

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class; None if it does not exist."""
        ...

    def tracks_capacity(self, driver: str) -> bool:
        """Return whether the driver publishes its storage capacity."""
        ...

    def capacities(self, storage_class: str) -> Iterable[CsiCapacity]:
        """Return the published capacities for volumes of a class."""
        ...

    def has_limit(self, driver: str) -> bool:
        """Return whether the driver limits the number of volumes on any node."""
        ...

    def user_of(self, namespace: str, claim: str, but: Pod) -> str:
        """Return the name of another pod that uses the claim or is to use it first; "" if none."""
        ...


@dataclass(slots=True)
class VolumeNeeds:
    """The requirements of the volumes of a pod on its node and its claims."""

    reach: list[tuple[Term, ...]] = field(default_factory=list[tuple[Term, ...]])
    """One entry per requirement: node terms of which at least one must hold."""
    attached: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The volumes of drivers with a limit per node: (driver, handle)."""
    selecting: list[str] = field(default_factory=list[str])
    """The claims on which the chosen node must be written (`SELECTED`)."""
    lacking: str = ""
    """A clause that says what the pod waits for; "" if it need not wait."""
    left_out: str = ""
    """A clause that names an unsupported kind of volume; "" if there is none."""

    def wait(self, what: str) -> None:
        """Note what the pod waits for; only the first call counts."""
        self.lacking = self.lacking or what


def has_claims(pod: Pod) -> bool:
    """Return whether the pod uses any claims."""
    return any(True for _ in claims_of(pod))


def claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim, and whether it is created for this pod (ephemeral)."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield str(volume.persistent_volume_claim.get("claimName", "")), False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the binding of the claim to its volume is complete."""
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})


def needs_of(pod: Pod, storage: StorageObjects) -> VolumeNeeds:
    """Return the requirements of the volumes of a pod, given the storage objects of the cluster."""
    needs = VolumeNeeds()
    for name, is_own in dict(claims_of(pod)).items():
        claim = storage.claim(pod.metadata.namespace, name)
        if claim is None:
            comes = "has not been made yet" if is_own else "does not exist; create it"
            needs.wait(f"its claim {name} {comes}")
        elif obstacle := _obstacle(pod, claim, is_own, storage):
            needs.wait(obstacle)
        elif is_bound(claim):
            _add_bound(needs, claim, storage)
        else:
            _add_unbound(needs, claim, storage)
    return needs


def _obstacle(pod: Pod, claim: PersistentVolumeClaim, is_own: bool, storage: StorageObjects) -> str:
    """Return a clause that says why a pod cannot use an existing claim; "" if it can."""
    name, namespace = claim.metadata.name, claim.metadata.namespace
    if claim.status.phase == "Lost":
        return f"its claim {name} has lost its volume {claim.spec.volume_name}"
    if claim.metadata.deletion_timestamp:
        return f"its claim {name} is being deleted"
    owners = {owner.uid for owner in claim.metadata.owner_references or ()}
    if is_own and pod.metadata.uid not in owners:
        return f"claim {name}, which should be its own, belongs to somebody else; delete it"
    is_exclusive = ONE_POD in (claim.spec.access_modes or ())
    if is_exclusive and (user := storage.user_of(namespace, name, pod)):
        return f"its claim {name} is for one pod, and pod {user} has it"
    return ""


def _add_bound(needs: VolumeNeeds, claim: PersistentVolumeClaim, storage: StorageObjects) -> None:
    name = claim.spec.volume_name
    volume = storage.volume(name)
    if volume is None:
        claim_name = claim.metadata.name
        needs.wait(f"its claim {claim_name} is bound to volume {name}, which does not exist")
        return
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        needs.reach.append(any_of(affinity.required))
    needs.reach += _zones(volume.metadata.labels or {})
    if volume.spec.csi is not None and storage.has_limit(volume.spec.csi.driver):
        needs.attached.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))


def _zones(labels: Mapping[str, str]) -> Iterator[tuple[Term, ...]]:
    """Yield the node terms of a volume with zone labels: the same zone, or no zone labels."""
    unzoned = tuple(Expression(key, Operator.DOES_NOT_EXIST) for key in sorted(ZONES))
    for key, today in ZONES.items():
        if key in labels:
            values = tuple(labels[key].split("__"))
            terms: list[Term] = [(Expression(key, Operator.IN, values),), unzoned]
            if key != today:
                # The volume has the deprecated label, and the node only the present one.
                old = Expression(key, Operator.DOES_NOT_EXIST)
                terms.append((old, Expression(today, Operator.IN, values)))
            yield tuple(terms)


def _add_unbound(needs: VolumeNeeds, claim: PersistentVolumeClaim, storage: StorageObjects) -> None:
    name = claim.metadata.name
    class_name = (claim.metadata.annotations or {}).get(CLASS, claim.spec.storage_class_name or "")
    storage_class = storage.storage_class(class_name)
    if class_name and storage_class is None:
        needs.wait(f"its claim {name} names storage class {class_name}, which does not exist")
    elif (
        storage_class is None
        or claim.spec.volume_name
        or storage_class.volume_binding_mode != "WaitForFirstConsumer"
    ):
        needs.wait(f"its claim {name} is not bound to a volume yet")
    elif storage_class.provisioner in ("", NO_PROVISIONER):
        needs.left_out = "a claim that waits for it and that only volumes at hand can satisfy"
    else:
        _add_provisioned(needs, claim, storage_class, storage)


def _add_provisioned(
    needs: VolumeNeeds,
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    storage: StorageObjects,
) -> None:
    """Add the requirements of a claim whose volume is provisioned once its node is known."""
    needs.selecting.append(claim.metadata.name)
    if node := (claim.metadata.annotations or {}).get(SELECTED, ""):
        needs.reach.append(((Expression(NODE_NAME, Operator.IN, (node,)),),))
    if storage_class.allowed_topologies:
        terms = [term.match_label_expressions or () for term in storage_class.allowed_topologies]
        needs.reach.append(
            tuple(
                tuple(
                    Expression(label.key, Operator.IN, tuple(label.values or ())) for label in term
                )
                for term in terms
                if term
            )
        )
    size = (claim.spec.resources.requests or {}).get("storage", "")
    if size and storage.tracks_capacity(storage_class.provisioner):
        needs.reach.append(
            tuple(
                term
                for capacity in storage.capacities(storage_class.metadata.name)
                for term in _with_room(capacity, mib_rounded_up(size))
            )
        )
    if storage.has_limit(storage_class.provisioner):
        needs.attached.add((storage_class.provisioner, f"to be made for {claim.metadata.name}"))


def _with_room(capacity: CsiCapacity, size_mib: int) -> Iterator[Term]:
    """Yield the term for the nodes of a capacity, if it has room for a volume of that size."""
    room = capacity.maximum_volume_size or capacity.capacity
    if capacity.node_topology is not None and room and mib_rounded_down(room) >= size_mib:
        yield selector_of(capacity.node_topology)
