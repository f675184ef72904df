"""The protocol of a cluster that can be drawn, simulated or live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.model.nodes import Node
    from windlass.state.cluster import Cluster


class DrawableCluster(Protocol):
    """A cluster at one time, with all that the map, the queues and the waiting gangs need.

    `windlass.sim.run.SimulationMoment` and `windlass.daemon.loop.ClusterReading` implement it.
    """

    @property
    def cluster(self) -> Cluster:
        """The cluster after a cycle."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan of that cycle."""
        ...

    @property
    def away(self) -> tuple[Node, ...]:
        """The nodes that were in the cluster before and are gone."""
        ...

    @property
    def now(self) -> int:
        """The time in seconds, counted from the same zero as all times of the cluster."""
        ...
