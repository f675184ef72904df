"""What may be borrowed: guarantees that their owners do not lend stay free for them.

A queue that names how much it lends keeps the rest of its idle guarantee to itself. Whoever goes
beyond its own guarantee must leave that much free in the cluster.
"""

from __future__ import annotations

from windlass.model.queues import MODEL_PREFIX, Queue, guaranteed
from windlass.state.cluster import Cluster


class Lending:
    """The idle guarantees that are not lent."""

    __slots__ = ("_children", "_cluster", "by_model", "dimensions")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._children: dict[str, list[Queue]] = {}
        for name in sorted(cluster.queues):
            queue = cluster.queues[name]
            above = cluster.accounts.path(name)[1:]
            self._children.setdefault(above[0] if above else "", []).append(queue)
        named = {dimension for queue in cluster.queues.values() for dimension in queue.lend}
        self.dimensions = sorted(named)
        """Those in which any queue says how much it lends; in all others all is lent."""
        self.by_model = any(dimension.startswith(MODEL_PREFIX) for dimension in named)

    def kept(self, dimension: str, borrower: str) -> int:
        """What all queues but the borrower and those above it keep to themselves."""
        path = {"", *self._cluster.accounts.path(borrower)}
        return sum(
            self._kept_by(queue, dimension)
            for name in path
            for queue in self._children.get(name, ())
            if queue.name not in path
        )

    def free(self, dimension: str) -> int:
        """What nobody holds."""
        tops = self._children.get("", ())
        held = sum(self._cluster.allocated(queue.name, dimension) for queue in tops)
        return max(0, self._cluster.columns.capacity().get(dimension, 0) - held)

    def _kept_by(self, queue: Queue, dimension: str) -> int:
        below = sum(self._kept_by(child, dimension) for child in self._children.get(queue.name, ()))
        if dimension not in queue.lend:
            return below
        idle = guaranteed(queue, dimension) - self._cluster.allocated(queue.name, dimension)
        return max(below, idle - queue.lend[dimension], 0)
