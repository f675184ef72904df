"""What we read of storage: claims, volumes, classes, and what drivers say about nodes."""

from __future__ import annotations

from windlass.workloads.objects.wire import (
    LabelSelector,
    NodeTerms,
    ObjectMeta,
    ResourceRequirements,
    WireStruct,
)


class Stored(WireStruct, frozen=True):
    """Any object that has to do with storage."""

    metadata: ObjectMeta = ObjectMeta()


class ClaimSpec(WireStruct, frozen=True):
    """What a claim asks for, and what it got."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: ResourceRequirements = ResourceRequirements()


class ClaimStatus(WireStruct, frozen=True):
    """How far a claim has come."""

    phase: str = ""


class PersistentVolumeClaim(Stored, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeAffinity(WireStruct, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeTerms | None = None


class CsiSource(WireStruct, frozen=True):
    """Which driver attaches a volume, and what it calls it."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(WireStruct, frozen=True):
    """Where a volume is."""

    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class PersistentVolume(Stored, frozen=True):
    """A volume; its labels may name its zone."""

    spec: VolumeSpec = VolumeSpec()


class TopologyLabel(WireStruct, frozen=True):
    """A label of a node and the values that will do."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(WireStruct, frozen=True):
    """Labels that a node must all have."""

    match_label_expressions: list[TopologyLabel] | None = None


class StorageClass(Stored, frozen=True):
    """How volumes of a kind come about."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverLimit(WireStruct, frozen=True):
    """How many volumes a driver can attach to a node."""

    count: int | None = None


class NodeDriver(WireStruct, frozen=True):
    """A driver as it runs on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(WireStruct, frozen=True):
    """The drivers of a node."""

    drivers: list[NodeDriver] | None = None


class CsiNode(Stored, frozen=True):
    """What storage drivers say about a node."""

    spec: CsiNodeSpec = CsiNodeSpec()


class DriverSpec(WireStruct, frozen=True):
    """What a driver can do."""

    storage_capacity: bool | None = None


class CsiDriver(Stored, frozen=True):
    """A storage driver of the cluster."""

    spec: DriverSpec = DriverSpec()


class CsiCapacity(Stored, frozen=True):
    """How much room a driver has for volumes of a class, seen from some nodes."""

    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None
