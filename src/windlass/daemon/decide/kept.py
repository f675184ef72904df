"""Places whose bind failed stay with their gang, while the rest of it is on its nodes.

A gang is left alone for a moment after a failed bind. If its place were free meanwhile, somebody
else would take it, and a gang that lacked one bind would in the end be given back whole.
"""

from __future__ import annotations

from windlass.model.actions import Hold, PlaceClaim
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.state.cluster import Cluster


class Kept:
    """Knows for which gangs places are kept."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._gangs: set[GangId] = set()

    def keep(self, task: TaskId) -> None:
        """A bind has failed; to be told before the cluster is."""
        found = self._cluster.tasks.get(task)
        if found is None or found.state != TaskState.BOUND:
            return
        claim = PlaceClaim(task, found.node, found.devices, found.shape.request)
        hold = self._cluster.holds.get(found.gang)
        claims = (*(hold.claims if hold else ()), claim)
        self._cluster.holds[found.gang] = Hold(found.gang, claims, self._cluster.now, firm=True)
        self._gangs.add(found.gang)

    def let_go(self) -> None:
        """Keep nothing for gangs of which nobody is on a node any more, or that are placed."""
        for gang in sorted(self._gangs):
            if not self._cluster.active.get(gang) or gang not in self._cluster.holds:
                self._cluster.holds.pop(gang, None)
                self._gangs.discard(gang)
