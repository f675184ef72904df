"""The cluster as it was at one moment: a copy to read while the cluster moves on.

Nodes, queues, gangs and tasks are immutable values; the cluster replaces them. A view therefore
copies only the tables that lead to them, which takes a few milliseconds for 80,000 GPUs. Any thread
may read a view for as long as it likes without delaying the scheduler.

Every name in a document about the present comes from a view. `redact/view.py` makes the view of
a viewer who may not see everything; the documents are made of it by the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import is_not

from windlass.controllers.queue_status import QueueNumbers, queue_balances
from windlass.engine.plan import Plan
from windlass.forecast import eta as forecast
from windlass.model.gpu.resources import least_unit, offered_milli
from windlass.model.gpus import Gpu
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.state.cluster import Cluster
from windlass.web.schema import Eta, FinishedJob, Stamp


@dataclass(frozen=True, slots=True)
class ViewExtras:
    """The facts beside the cluster and its plan that the dashboard shows, where they are known."""

    away: Sequence[Node] = ()
    """The nodes that were in the cluster before and are gone."""
    finished: Sequence[FinishedJob] = ()
    """The gangs that have ended, the latest first."""
    utilisation: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """The measured utilisation by node: thousandths for each of its GPUs, -1 where unknown."""
    etas: Mapping[GangId, Eta] = field(default_factory=dict[GangId, Eta])
    """The expected start of gangs that wait."""


def bounded_etas(etas: Mapping[GangId, forecast.StartEta]) -> dict[GangId, Eta]:
    """Return the ETAs that have an upper bound; "not before" is told in words only."""
    return {
        gang: Eta(eta.at, eta.early, eta.late)
        for gang, eta in etas.items()
        if eta.at is not None and eta.late is not None
    }


class Hardware:
    """The nodes, and figures that depend on them alone: computed once per set of nodes.

    A redacted view has fewer `nodes`, but requests are still measured by the GPUs of the `whole`
    cluster: a job must not seem larger to a viewer who sees fewer nodes.
    """

    def __init__(self, nodes: Mapping[str, Node], whole: Hardware | None = None) -> None:
        self.nodes = nodes
        self._whole = whole
        self._units: dict[str, int] = {}

    @cached_property
    def capacity(self) -> int:
        """The thousandths of all GPUs that are in service, as queues are charged for them."""
        return sum(offered_milli(node) for node in self.nodes.values())

    @cached_property
    def cards(self) -> frozenset[Gpu]:
        """The kinds of GPUs in the whole cluster."""
        if self._whole is not None:
            return self._whole.cards
        alike = {id(node.gpus): node.gpus for node in self.nodes.values()}
        return frozenset(gpu for gpus in alike.values() for gpu in gpus)

    def unit_milli(self, resource: str) -> int:
        """Return the thousandths of one unit of a GPU resource, on the nodes where it is least."""
        if self._whole is not None:
            return self._whole.unit_milli(resource)
        if resource not in self._units:
            self._units[resource] = least_unit(self.nodes.values(), resource)
        return self._units[resource]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster and its plan at one moment: all of it, or what one viewer may see of it."""

    stamp: Stamp
    plan: Plan
    hardware: Hardware
    queues: Mapping[str, Queue]
    topologies: Mapping[str, Topology]
    gangs: Mapping[GangId, Gang]
    tasks: Mapping[TaskId, Task]
    balances: Mapping[str, QueueNumbers]
    free: int
    """The GPU thousandths that are not allocated; 0 for a viewer who may not list nodes."""
    beside: ViewExtras
    has_all_gangs: bool = True
    """False: gangs that the viewer may not list are left out. Sums over queues still count them."""
    has_all_queues: bool = True
    has_all_nodes: bool = True
    """False: only the nodes on which the viewer's gangs have tasks are here."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self.hardware.nodes

    @property
    def now(self) -> int:
        """The time of the cluster, in seconds."""
        return self.stamp.now

    @property
    def is_whole(self) -> bool:
        """True if nothing was left out."""
        return self.has_all_gangs and self.has_all_queues and self.has_all_nodes


def take_view(
    cluster: Cluster,
    plan: Plan,
    stamp: Stamp,
    beside: ViewExtras | None = None,
    before: ClusterView | None = None,
) -> ClusterView:
    """Copy everything that can change.

    The nodes of the view `before` are shared if they have not changed since: documents compare
    `hardware` by identity to learn whether they can keep the layout of the map.
    """
    same = before is not None and before.nodes == cluster.nodes
    return ClusterView(
        stamp=stamp,
        plan=plan,
        hardware=before.hardware if before and same else Hardware(cluster.nodes.copy()),
        queues=cluster.queues.copy(),
        topologies=cluster.topologies.copy(),
        gangs=cluster.gangs.copy(),
        tasks=cluster.tasks.copy(),
        balances=queue_balances(cluster, plan),
        free=cluster.columns.free_gpu() if cluster.nodes else 0,
        beside=beside or ViewExtras(),
    )


def changed_tasks(
    before: ClusterView | None, now: ClusterView
) -> tuple[Iterable[Task], list[Task]]:
    """Return the tasks that are new or different, and those that are gone, as they were."""
    if before is None:
        return now.tasks.values(), []
    tasks = now.tasks.values()
    changed = compress(tasks, map(is_not, tasks, map(before.tasks.get, now.tasks)))
    return list(changed), [before.tasks[name] for name in before.tasks.keys() - now.tasks.keys()]
