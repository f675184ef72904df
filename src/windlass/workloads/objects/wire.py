"""The fields that we read of pods, nodes and their owners; decoding skips all other fields.

A pod decodes in a tenth of the time and memory of a full model. The structs are immutable: a change
of an object arrives as a new struct.
"""

from __future__ import annotations

from typing import Any

import msgspec


class WireStruct(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of all structs: names in camel case, unknown fields are ignored.

    `gc=False` spares the garbage collector these objects; they must not form reference cycles.
    """


class OwnerRef(WireStruct, frozen=True):
    """A reference to an owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(WireStruct, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerRef] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class ResourceRequirements(WireStruct, frozen=True):
    """The requests and limits, as quantities in text."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class ContainerPort(WireStruct, frozen=True):
    """A port of a container; with `host_port` also a port of its node."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(WireStruct, frozen=True):
    """A container, or an init container; one with restartPolicy Always is a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: list[dict[str, Any]] | None = None
    ports: list[ContainerPort] | None = None


class TolerationSpec(WireStruct, frozen=True):
    """A toleration of a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SelectorRequirement(WireStruct, frozen=True):
    """One expression of a selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(WireStruct, frozen=True):
    """Labels and expressions that must all hold; an empty selector matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeTerm(WireStruct, frozen=True):
    """Expressions about a node that must all hold."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeTerms(WireStruct, frozen=True):
    """Terms of which at least one must hold."""

    node_selector_terms: list[NodeTerm] | None = None


class NodePreference(WireStruct, frozen=True):
    """A preferred term on nodes, with its weight."""

    weight: int = 1
    preference: NodeTerm = NodeTerm()


class NodeAffinity(WireStruct, frozen=True):
    """The required and the preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: list[NodePreference] | None = None


class PodAffinityTerm(WireStruct, frozen=True):
    """A term that selects other pods, and the topology to share with them or not."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(WireStruct, frozen=True):
    """A preferred term on pods, with its weight."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(WireStruct, frozen=True):
    """The required and the preferred terms on other pods."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = (
        None
    )


class Affinity(WireStruct, frozen=True):
    """The affinity of a pod to nodes and to other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(WireStruct, frozen=True):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class Gate(WireStruct, frozen=True):
    """A scheduling gate: the pod must not be scheduled while it is there."""

    name: str = ""


class Volume(WireStruct, frozen=True):
    """A volume of a pod; only fields that constrain the node are read."""

    name: str = ""
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None

    def is_a_disk(self) -> bool:
        """Return whether it is an in-tree disk, which two pods must not mount at the same time."""
        disks = (self.aws_elastic_block_store, self.gce_persistent_disk, self.iscsi, self.rbd)
        return any(disk is not None for disk in disks)


class PodSpec(WireStruct, frozen=True):
    """The spec of a pod."""

    scheduler_name: str = ""
    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationSpec] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    scheduling_gates: list[Gate] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None


class ObjectCondition(WireStruct, frozen=True):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Terminated(WireStruct, frozen=True):
    """The end of a container: exit code and termination message."""

    exit_code: int = 0
    message: str = ""
    finished_at: str | None = None


class ContainerState(WireStruct, frozen=True):
    """The state of a container; waiting and running are not read."""

    terminated: Terminated | None = None


class ContainerStatus(WireStruct, frozen=True):
    """The status of a container; in a resize its actual resources lag behind its spec."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None


class PodStatus(WireStruct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] | None = None
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(WireStruct, frozen=True):
    """A Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class TaintSpec(WireStruct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(WireStruct, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: list[TaintSpec] | None = None


class NodeCondition(WireStruct, frozen=True):
    """A condition of a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class NodeStatus(WireStruct, frozen=True):
    """The status of a node: allocatable resources and conditions."""

    allocatable: dict[str, str] | None = None
    conditions: list[NodeCondition] | None = None


class NodeObject(WireStruct, frozen=True):
    """A Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Owner(WireStruct, frozen=True):
    """An owner of pods, of any kind; the row of its kind in `kinds/table.py` reads its spec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class PriorityClass(WireStruct, frozen=True):
    """A PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


def condition(pod: Pod, kind: str) -> ObjectCondition | None:
    """Return the condition of a pod of the type `kind`; None if it has none."""
    return next((entry for entry in pod.status.conditions or () if entry.type == kind), None)


def controller(meta: ObjectMeta) -> OwnerRef | None:
    """Return the reference to the controller of an object; None if it has none."""
    return next((ref for ref in meta.owner_references or () if ref.controller), None)
