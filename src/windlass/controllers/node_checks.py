"""Node checks: a node returns to service only after a check Job has succeeded on it.

    fine --trouble, or new, or its quarantine is over--> check due --Job succeeded--> trusted
                                                          |    ^
                                               Job failed |    | after `retry_s`
                                                          v    |
                                                      check failed

Every state but the first is a quarantine, which is written on the node. So the next leader goes on
with the same Job, and a person ends it as every other quarantine.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.model.nodes import Node, NodeStanding, Quarantine
from windlass.state.cluster import Cluster

NAME_LENGTH = 40
"""The most characters of a node's name in the name of its check Job, which has at most 63."""


class CheckOccasion(StrEnum):
    """An occasion on which a node must be checked before it takes tasks again."""

    QUARANTINE = "quarantine"
    """Gang after gang failed on the node, and the time of its quarantine is over."""
    REPAIR = "repair"
    """The node was lost or ill, and its trouble has ended."""
    NEW = "new"
    """The node has joined the cluster."""


@dataclass(frozen=True, slots=True)
class NodeCheckRules:
    """The occasions for checks, and the time after which a failed check is repeated."""

    occasions: frozenset[CheckOccasion] = frozenset()
    """Empty: nodes are not checked."""
    retry_s: int = 3600
    namespace: str = ""
    """The namespace of check Jobs."""


NO_CHECKS = NodeCheckRules()


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """A check of one node."""

    node: str
    since: int

    @property
    def job(self) -> str:
        """The name of its Job: always the same, so that it is created once."""
        start = self.node.replace(".", "-")[:NAME_LENGTH]
        return f"{start}-{zlib.crc32(self.node.encode()):08x}-{self.since}"


def check_of(node: Node) -> NodeCheck | None:
    """Return the check that a node awaits; None if it awaits none."""
    found = node.quarantine
    if found is None or found.check_since is None or not found.awaits_check:
        return None
    return NodeCheck(node.name, found.check_since)


def awaiting_check(node: Node, what: str, now: int) -> Node:
    """Return the node in a quarantine that ends when a check has succeeded."""
    return replace(node, quarantine=Quarantine(what, None, now))


def check_is_over(node: Node, succeeded: bool, retry_s: int, now: int) -> Node:
    """Return a node whose check Job has ended: trusted, or to be checked again later."""
    check = check_of(node)
    if succeeded or check is None:
        return replace(node, quarantine=None)
    what = f"its check failed (Job {check.job})"
    return replace(node, quarantine=Quarantine(what, now + retry_s, check.since))


def nodes_to_check(
    cluster: Cluster, rules: NodeCheckRules, opened: Collection[str], new: Mapping[str, bool]
) -> Iterator[Node]:
    """Yield the nodes that are new or in trouble, each with a quarantine that awaits a check.

    `opened` are the nodes that have taken tasks before: the start of a machine is no repair. `new`
    says of the others whether they have just joined the cluster. A node in trouble is marked at
    once, so that a leader that starts after the repair still knows of it.
    """
    for node in cluster.nodes.values():
        if node.quarantine is not None or not node.gpus:
            continue
        if node.name not in opened:
            if CheckOccasion.NEW in rules.occasions and new.get(node.name):
                yield awaiting_check(node, "it is new and awaits its check", cluster.now)
        elif CheckOccasion.REPAIR in rules.occasions and _must_be_repaired(node):
            what = f"it was {node.ailment} and awaits its check"
            yield awaiting_check(node, what, cluster.now)


def can_be_checked(cluster: Cluster, node: Node) -> bool:
    """Return whether a check may start: the node has no trouble, and no task uses its GPUs."""
    return node.trouble is None and not any(task.devices for task in cluster.on(node.name))


def _must_be_repaired(node: Node) -> bool:
    """Return whether a node is lost or ill; one that leaves does not come back."""
    return node.trouble is not None and node.trouble.stand is not NodeStanding.LEAVES
