"""What we read of Kubernetes objects: narrow structs, everything else is skipped while decoding.

A pod decodes in a tenth of the time and memory of a full model. Nobody changes them: a new version
comes as a new object.
"""

from __future__ import annotations

from typing import Any

import msgspec


class WireStruct(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Part of an object; unknown fields are ignored."""


class OwnerRef(WireStruct, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(WireStruct, frozen=True):
    """An object's identity."""

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
    """Requests and limits, as written."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class ContainerPort(WireStruct, frozen=True):
    """A port of a container, perhaps of the host too."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(WireStruct, frozen=True):
    """A container, an init container or, restarted always, a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: list[dict[str, Any]] | None = None
    ports: list[ContainerPort] | None = None


class TolerationSpec(WireStruct, frozen=True):
    """A taint that a pod accepts."""

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
    """Labels and expressions that must all hold; empty means everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeTerm(WireStruct, frozen=True):
    """Expressions about a node that must all hold."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeTerms(WireStruct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeTerm] | None = None


class NodePreference(WireStruct, frozen=True):
    """A term that is worth something."""

    weight: int = 1
    preference: NodeTerm = NodeTerm()


class NodeAffinity(WireStruct, frozen=True):
    """Which nodes a pod must or would rather have."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: list[NodePreference] | None = None


class PodAffinityTerm(WireStruct, frozen=True):
    """Pods near which, or apart from which, a pod should run."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(WireStruct, frozen=True):
    """A pod term that is worth something."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(WireStruct, frozen=True):
    """What a pod must be near, and what it would like to be near."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = (
        None
    )


class Affinity(WireStruct, frozen=True):
    """Nodes and pods that attract or repel."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(WireStruct, frozen=True):
    """Evenness over the domains of a label."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class Gate(WireStruct, frozen=True):
    """Something that must happen before a pod may be scheduled."""

    name: str = ""


class Volume(WireStruct, frozen=True):
    """Storage of a pod; only what decides where it can run is read."""

    name: str = ""
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None

    def is_a_disk(self) -> bool:
        """Is it a disk of an old kind, which two pods may not have at once?"""
        disks = (self.aws_elastic_block_store, self.gce_persistent_disk, self.iscsi, self.rbd)
        return any(each is not None for each in disks)


class PodSpec(WireStruct, frozen=True):
    """What a pod wants."""

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
    """One thing that is so, or not."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Terminated(WireStruct, frozen=True):
    """How a container has ended, and its last word."""

    exit_code: int = 0
    message: str = ""
    finished_at: str | None = None


class ContainerState(WireStruct, frozen=True):
    """Whether a container has ended; that it waits or runs is not read."""

    terminated: Terminated | None = None


class ContainerStatus(WireStruct, frozen=True):
    """How a container fares and what it was really given: less than its spec during a resize."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None


class PodStatus(WireStruct, frozen=True):
    """How a pod fares."""

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
    """One pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class TaintSpec(WireStruct, frozen=True):
    """A node's refusal."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(WireStruct, frozen=True):
    """What was decided about a node."""

    unschedulable: bool = False
    taints: list[TaintSpec] | None = None


class NodeCondition(WireStruct, frozen=True):
    """One thing that is so of a node, or not, and since when."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class NodeStatus(WireStruct, frozen=True):
    """What a node offers, and how it fares."""

    allocatable: dict[str, str] | None = None
    conditions: list[NodeCondition] | None = None


class NodeObject(WireStruct, frozen=True):
    """One machine."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Owner(WireStruct, frozen=True):
    """Whatever made pods; what its spec says is read by the row of its kind."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class PriorityClass(WireStruct, frozen=True):
    """A name for a priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


def condition(pod: Pod, kind: str) -> ObjectCondition | None:
    """The pod's condition of a type, if it has one."""
    return next((each for each in pod.status.conditions or () if each.type == kind), None)


def controller(meta: ObjectMeta) -> OwnerRef | None:
    """The owner that controls an object, if it has one."""
    return next((each for each in meta.owner_references or () if each.controller), None)
