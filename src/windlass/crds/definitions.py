"""The table of the custom resources: everything that a definition needs besides its schema."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from windlass.crds import cel_rules as rules
from windlass.crds.base import CrdModel, ObjectStatus
from windlass.crds.gang import GangSpec, GangStatus, TopologySpec
from windlass.crds.policy import PolicySpec
from windlass.crds.queue import QueueSpec, QueueStatus

GROUP = "windlass.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; a column with a priority is shown with -o wide only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CustomResource:
    """One kind of custom resource."""

    name: str
    plural: str
    short: str
    about: str
    spec: type[CrdModel]
    status: type[ObjectStatus] = ObjectStatus
    namespaced: bool = False
    needs_spec: bool = False
    """True if the API server must refuse an object without a spec."""
    columns: tuple[Column, ...] = ()
    rules: tuple[JsonValue, ...] = ()
    """CEL rules on the whole object; rules on the spec are in the model of the spec."""

    def path(self, name: str = "", namespace: str = "", sub: str = "") -> str:
        """Return the API path of the collection, of one object, or of a subresource of it."""
        place = ("namespaces", namespace) if namespace else ()
        steps = ("/apis", GROUP, VERSION, *place, self.plural, name, sub)
        return "/".join(step for step in steps if step)


READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
WHY = Column("Why", '.status.conditions[?(@.type=="Ready")].message', priority=1)
AGE = Column("Age", ".metadata.creationTimestamp", "date")

QUEUE = CustomResource(
    "Queue",
    "queues",
    "wq",
    "A team, department or project with its guarantee, its limit and its share of the surplus.",
    QueueSpec,
    QueueStatus,
    columns=(
        Column("Parent", ".spec.parent"),
        Column("Guarantee", ".status.guarantee.gpu"),
        Column("Share", ".status.share.gpu"),
        Column("Allocated", ".status.allocated.gpu"),
        Column("Limit", ".spec.limit.gpu"),
        Column("Waiting", ".status.waiting.gangs", "integer"),
        Column("Borrowed", ".status.borrowed.gpu", priority=1),
        Column("Lent", ".status.lent.gpu", priority=1),
        Column("GPU-hours", ".status.usage.gpuHours", priority=1),
        READY,
        WHY,
        AGE,
    ),
    rules=tuple(rules.QUEUE),
)
TOPOLOGY = CustomResource(
    "Topology",
    "topologies",
    "wtopo",
    "Node labels that tell which nodes share a fast link.",
    TopologySpec,
    needs_spec=True,
    columns=(Column("Levels", ".spec.levels"), READY, WHY, AGE),
)
POLICY = CustomResource(
    "Policy",
    "policies",
    "wpol",
    "The settings of the scheduler: sharing, packing, displacing. There is one, named default.",
    PolicySpec,
    columns=(
        Column("Nodes", ".spec.nodes"),
        Column("GPUs", ".spec.gpus"),
        Column("Displacing", ".spec.displacing"),
        READY,
        WHY,
        AGE,
    ),
    rules=tuple(rules.POLICY),
)
GANG = CustomResource(
    "Gang",
    "gangs",
    "wg",
    "Pods that start together or not at all, where no owner of the pods describes that.",
    GangSpec,
    GangStatus,
    namespaced=True,
    needs_spec=True,
    columns=(
        Column("Queue", ".spec.queue"),
        Column("Minimum", ".spec.minimum", "integer"),
        Column("State", ".status.state"),
        Column("Running", ".status.running", "integer"),
        Column("Waiting", ".status.waiting", "integer"),
        READY,
        WHY,
        AGE,
    ),
)

KINDS = {kind.name: kind for kind in (GANG, POLICY, QUEUE, TOPOLOGY)}
