"""The fields that the fake kubelet reads of Kubernetes objects: narrow structs, everything else is
skipped.

They are the kubelet's own on purpose: if it read with the scheduler's structs, it would repeat the
scheduler's mistakes.
"""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of all structs: unknown fields are skipped."""


class Meta(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Requirement(Wire, frozen=True):
    """One expression of a node affinity."""

    key: str
    operator: str
    values: list[str] = []


class SelectorTerm(Wire, frozen=True):
    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(Wire, frozen=True):
    node_selector_terms: list[SelectorTerm] = []


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(Wire, frozen=True):
    key: str
    effect: str
    value: str = ""


class Resources(Wire, frozen=True):
    requests: dict[str, str] = {}


class FieldRef(Wire, frozen=True):
    field_path: str


class ValueFrom(Wire, frozen=True):
    field_ref: FieldRef | None = None


class Variable(Wire, frozen=True):
    """One entry of a container's environment."""

    name: str
    value: str = ""
    value_from: ValueFrom | None = None


class Container(Wire, frozen=True):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[Variable] = []
    resources: Resources = Resources()
    restart_policy: str | None = None


class PodSpec(Wire, frozen=True):
    containers: list[Container] = []
    init_containers: list[Container] = []
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    overhead: dict[str, str] = {}
    resources: Resources | None = None
    restart_policy: str = "Always"


class PodStatus(Wire, frozen=True):
    phase: str = ""
    start_time: str | None = None


class Pod(Wire, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Condition(Wire, frozen=True):
    type: str
    status: str


class NodeSpec(Wire, frozen=True):
    taints: list[Taint] = []


class NodeStatus(Wire, frozen=True):
    conditions: list[Condition] = []


class Node(Wire, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Versioned(Wire, frozen=True):
    """An object of which only the version matters."""

    metadata: Meta
