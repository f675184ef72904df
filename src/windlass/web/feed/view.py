"""The cluster as it was at one moment, for others to look at while it moves on.

Nodes, queues, gangs and tasks are values that never change; the cluster replaces them. So the
tables that lead to them are all that has to be copied, which takes a few milliseconds for 80,000
GPUs, and whoever has the copy can take its time, in any thread, without holding up the scheduler.
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
from windlass.model.gpu_resources import offered_milli
from windlass.model.gpus import Gpu
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.topology import Topology
from windlass.state.cluster import Cluster
from windlass.web.schema.documents import Eta, FinishedJob, Stamp


@dataclass(frozen=True, slots=True)
class Beside:
    """What is shown beside the cluster and its plan, as far as anybody knows it."""

    away: Sequence[Node] = ()
    """Nodes that were there before."""
    finished: Sequence[FinishedJob] = ()
    """The latest first."""
    utilisation: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Measured: per node, thousandths for each of its GPUs; -1 where one is not known."""
    etas: Mapping[GangId, Eta] = field(default_factory=dict[GangId, Eta])


def ending(etas: Mapping[GangId, forecast.StartEta]) -> dict[GangId, Eta]:
    """The ETAs that have an end; "not before" is told in words only."""
    return {
        gang: Eta(eta.at, eta.early, eta.late)
        for gang, eta in etas.items()
        if eta.at is not None and eta.late is not None
    }


class Hardware:
    """The nodes, and what is worked out from them alone: once, until one of them changes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes

    @cached_property
    def capacity(self) -> int:
        """The thousandths of all GPUs that are in service, as queues are charged for them."""
        return sum(offered_milli(node) for node in self.nodes.values())

    @cached_property
    def cards(self) -> frozenset[Gpu]:
        """The kinds of GPUs that there are."""
        alike = {id(node.gpus): node.gpus for node in self.nodes.values()}
        return frozenset(gpu for gpus in alike.values() for gpu in gpus)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One moment."""

    stamp: Stamp
    plan: Plan
    hardware: Hardware
    queues: Mapping[str, Queue]
    topologies: Mapping[str, Topology]
    gangs: Mapping[GangId, Gang]
    tasks: Mapping[TaskId, Task]
    balances: Mapping[str, QueueNumbers]
    free: int
    """GPU thousandths that nobody has."""
    beside: Beside

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name."""
        return self.hardware.nodes

    @property
    def now(self) -> int:
        """The time of the cluster."""
        return self.stamp.now


def look_at(
    cluster: Cluster,
    plan: Plan,
    stamp: Stamp,
    beside: Beside | None = None,
    before: ClusterView | None = None,
) -> ClusterView:
    """Take a copy of what can change; of the nodes only if they have, since the look before."""
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
        beside=beside or Beside(),
    )


def changed_tasks(
    before: ClusterView | None, now: ClusterView
) -> tuple[Iterable[Task], list[Task]]:
    """The tasks that are new or different, and those that are gone, as they were."""
    if before is None:
        return now.tasks.values(), []
    tasks = now.tasks.values()
    changed = compress(tasks, map(is_not, tasks, map(before.tasks.get, now.tasks)))
    return list(changed), [before.tasks[name] for name in before.tasks.keys() - now.tasks.keys()]
