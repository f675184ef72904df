"""What can be drawn: a cluster at a moment, whether it is played or real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.model.nodes import Node
    from windlass.state.cluster import Cluster


class Drawn(Protocol):
    """All that maps, trees and lines of waiting gangs look at."""

    @property
    def cluster(self) -> Cluster:
        """The cluster after a cycle."""
        ...

    @property
    def plan(self) -> Plan:
        """What the cycle decided."""
        ...

    @property
    def away(self) -> tuple[Node, ...]:
        """Nodes that were there before."""
        ...

    @property
    def now(self) -> int:
        """Seconds, since the same moment as all others in the cluster."""
        ...
