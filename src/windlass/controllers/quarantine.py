"""Which nodes are kept out because gang after gang failed on them, and which may come back.

A node that fails fast draws work: it is always free. So after failures of several different gangs,
with none that ended well between, it takes nobody new for a while. Then it is trusted again, with a
clean slate. Only a tenth of the nodes (and at least one) are kept out at the same time: where more
seem bad it is the work, or something that all of them share.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.engine.queueing.eligibility import suspects
from windlass.model.nodes import Node, Quarantine
from windlass.model.reasons import in_words
from windlass.state.cluster import Cluster

SHARE = 10
"""One node in so many may be kept out."""


def due(cluster: Cluster) -> list[Node]:
    """The nodes that are to be kept out from now on, or no longer, as they are then."""
    kept_out = [node for node in cluster.nodes.values() if node.quarantine is not None]
    over = [node for node in kept_out if _is_over(node, cluster.now)]
    back = [replace(node, quarantine=None) for node in sorted(over, key=lambda node: node.name)]
    room = max(1, len(cluster.nodes) // SHARE) - (len(kept_out) - len(over))
    return back + _kept_out(cluster)[: max(0, room)]


def _is_over(node: Node, now: int) -> bool:
    until = node.quarantine.until if node.quarantine else None
    return until is not None and until <= now


def _kept_out(cluster: Cluster) -> list[Node]:
    """The worst first."""
    settings = cluster.settings
    if not settings.quarantine_after or not len(cluster.failures):
        return []
    bad = [
        (-gangs, name)
        for name, gangs in suspects(cluster).items()
        if gangs >= settings.quarantine_after
    ]
    window, until = in_words(settings.failure_window_s), cluster.now + settings.quarantine_s
    return [
        replace(node, quarantine=Quarantine(f"{-gangs} gangs failed there within {window}", until))
        for gangs, name in sorted(bad)
        if (node := cluster.nodes.get(name)) is not None and node.quarantine is None
    ]
