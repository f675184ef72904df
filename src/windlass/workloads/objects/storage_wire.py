"""The fields that we read of storage objects: claims, volumes, classes and CSI objects."""

from __future__ import annotations

from windlass.workloads.objects.wire import (
    LabelSelector,
    NodeTerms,
    ObjectMeta,
    ResourceRequirements,
    WireStruct,
)


class Stored(WireStruct, frozen=True):
    """The base of all storage objects."""

    metadata: ObjectMeta = ObjectMeta()


class ClaimSpec(WireStruct, frozen=True):
    """The request of a claim, and the volume that it is bound to."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: ResourceRequirements = ResourceRequirements()


class ClaimStatus(WireStruct, frozen=True):
    """The phase of a claim."""

    phase: str = ""


class PersistentVolumeClaim(Stored, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeAffinity(WireStruct, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeTerms | None = None


class CsiSource(WireStruct, frozen=True):
    """The driver that attaches a volume, and the handle of the volume there."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(WireStruct, frozen=True):
    """The location of a volume."""

    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class PersistentVolume(Stored, frozen=True):
    """A PersistentVolume; its labels may name its zone."""

    spec: VolumeSpec = VolumeSpec()


class TopologyLabel(WireStruct, frozen=True):
    """A node label and its accepted values."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(WireStruct, frozen=True):
    """Node labels that must all match."""

    match_label_expressions: list[TopologyLabel] | None = None


class StorageClass(Stored, frozen=True):
    """A StorageClass: the provisioner of volumes, and the time of their binding."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverLimit(WireStruct, frozen=True):
    """The number of volumes that a driver can attach to a node."""

    count: int | None = None


class NodeDriver(WireStruct, frozen=True):
    """A CSI driver on one node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(WireStruct, frozen=True):
    """The CSI drivers of a node."""

    drivers: list[NodeDriver] | None = None


class CsiNode(Stored, frozen=True):
    """A CSINode: the CSI drivers of a node and their limits."""

    spec: CsiNodeSpec = CsiNodeSpec()


class DriverSpec(WireStruct, frozen=True):
    """The capabilities of a driver."""

    storage_capacity: bool | None = None


class CsiDriver(Stored, frozen=True):
    """A CSIDriver of the cluster."""

    spec: DriverSpec = DriverSpec()


class CsiCapacity(Stored, frozen=True):
    """A CSIStorageCapacity: the room of a driver for volumes of a class, for some nodes."""

    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None
