"""The quarantine of nodes on which gang after gang failed.

A broken node on which work fails fast attracts work, because it is always free. So after failures
of several different gangs, without a success in between, a node takes no new tasks for a while.
Then it is trusted again, or checked first (`node_checks.py`), and its old failures are forgotten.
At most a tenth of the nodes (at least one) is in quarantine at a time: if more look broken, the
cause is the work or something shared. Nodes that await a check do not count there.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.controllers.node_checks import (
    NO_CHECKS,
    CheckOccasion,
    NodeCheckRules,
    awaiting_check,
)
from windlass.engine.queueing import suspect_nodes
from windlass.model.nodes import Node, Quarantine
from windlass.model.units import duration_in_words
from windlass.state.cluster import Cluster

SHARE = 10
"""One node in this many may be in quarantine."""


def quarantine_changes(cluster: Cluster, checks: NodeCheckRules = NO_CHECKS) -> list[Node]:
    """Return the nodes whose quarantine begins, changes or ends now, as they are from then on."""
    quarantined = [node for node in cluster.nodes.values() if node.quarantine is not None]
    over = [node for node in quarantined if _is_over(node, cluster.now)]
    back = [_after(node, checks, cluster.now) for node in sorted(over, key=lambda node: node.name)]
    failed = [node for node in quarantined if node not in over and not _is_checked(node)]
    room = max(1, len(cluster.nodes) // SHARE) - len(failed)
    return back + _newly_quarantined(cluster)[: max(0, room)]


def _after(node: Node, checks: NodeCheckRules, now: int) -> Node:
    """Return a node whose quarantine has lasted for its time: trusted, or to be checked first."""
    if _is_checked(node) and checks.occasions:
        return awaiting_check(node, "its check failed and is repeated", now)
    if CheckOccasion.QUARANTINE in checks.occasions:
        return awaiting_check(node, "gangs failed there and it awaits its check", now)
    return replace(node, quarantine=None)


def _is_checked(node: Node) -> bool:
    """Return whether a check ends the quarantine, or has failed."""
    return node.quarantine is not None and node.quarantine.check_since is not None


def _is_over(node: Node, now: int) -> bool:
    until = node.quarantine.until if node.quarantine else None
    return until is not None and until <= now


def _newly_quarantined(cluster: Cluster) -> list[Node]:
    """Return the nodes with enough failures, those of most gangs first, with their quarantine."""
    settings = cluster.settings
    if not settings.quarantine_after or not len(cluster.failures):
        return []
    bad = [
        (-gangs, name)
        for name, gangs in suspect_nodes(cluster).items()
        if gangs >= settings.quarantine_after
    ]
    window = duration_in_words(settings.failure_window_s)
    until = cluster.now + settings.quarantine_s
    return [
        replace(node, quarantine=Quarantine(f"{-gangs} gangs failed there within {window}", until))
        for gangs, name in sorted(bad)
        if (node := cluster.nodes.get(name)) is not None and node.quarantine is None
    ]
