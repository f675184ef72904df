"""Nodes in trouble: what has to go from them, so that it starts elsewhere.

A node that leaves is left at once, one that does not answer after a grace. A gang that would fall
below its minimum goes whole, since half of it can do nothing; of one that would not, only the
members that are there. The same holds for a deleted node, whose tasks are lost already: the rest of
a gang that needs them goes at once. What would be lost for good stays where it is until the node is
gone, and so does a task that tolerates the notice by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from windlass.engine.draft.eviction_units import is_torn
from windlass.engine.preemption.stale import grace_of
from windlass.model.actions import EvictionRule
from windlass.model.jobs import ACTIVE, Gang, GangId, Task
from windlass.model.nodes import Node, NodeStanding, NodeTrouble
from windlass.state.cluster import Cluster

FEW, MOST = 2, 55
"""More silent nodes than a few, and at least so many in a hundred: then it is the network between,
or the API server, and nobody is taken for dead. (Kubernetes' node controller has the same bounds.)
"""


def leaving(cluster: Cluster, repaired: Collection[GangId]) -> Iterator[tuple[Task, EvictionRule]]:
    """The tasks that go because of the nodes they or their gangs run on, and by which rule."""
    nodes, orphaned = _given_up(cluster), _orphaned(cluster)
    gangs = {task.gang for name in nodes for task in cluster.on(name) if task.state in ACTIVE}
    for name in sorted((gangs | orphaned) - set(repaired)):
        gang = cluster.gangs[name]
        if _is_lost_for_good(gang):
            continue
        members = cluster.members(name)
        active = [each for each in members if each.state in ACTIVE]
        there = active if name in orphaned else [each for each in active if _must_go(each, nodes)]
        rules = {_RULES[nodes[each.node].stand] for each in there if each.node in nodes}
        rule = min(rules, default=EvictionRule.LOST)
        yield from ((each, rule) for each in _going(gang, members, there))


def changes_at(cluster: Cluster) -> Iterator[int]:
    """The instants at which silent nodes are given up, and quarantines are over."""
    grace = cluster.settings.lost_after_s
    for node in cluster.recall(troubled):
        if node.trouble is not None and node.trouble.stand is NodeStanding.LOST and grace >= 0:
            yield node.trouble.since + grace
        if node.quarantine is not None and node.quarantine.until is not None:
            yield node.quarantine.until


def troubled(cluster: Cluster) -> tuple[Node, ...]:
    """All nodes that are in trouble or in quarantine, by name."""
    found = (node for node in cluster.nodes.values() if node.is_troubled)
    return tuple(sorted(found, key=lambda node: node.name))


def told(cluster: Cluster, gang: GangId) -> str:
    """What is wrong with the nodes that a gang has to leave, in words."""
    nodes = _given_up(cluster)
    found = {each.node for each in cluster.members(gang) if each.node in nodes}
    words = [f"node {name} is {nodes[name].what}" for name in sorted(found)]
    if deleted := cluster.orphaned.get(gang):
        words.append(f"node {deleted} was deleted")
    return "; ".join(words)


_RULES = {NodeStanding.LEAVES: EvictionRule.LEAVING, NodeStanding.LOST: EvictionRule.LOST}


def _given_up(cluster: Cluster) -> Mapping[str, NodeTrouble]:
    """The nodes that are to be left now, with their trouble."""
    there = cluster.recall(troubled)
    if not there:
        return {}
    is_believed = not _is_the_network(cluster, there)
    return {
        node.name: node.trouble
        for node in there
        if node.trouble is not None and _is_given_up(cluster, node.trouble, is_believed)
    }


def _orphaned(cluster: Cluster) -> set[GangId]:
    """Return the gangs that need members which were lost with a deleted node."""
    if cluster.settings.lost_after_s < 0:
        return set()
    # a gang that may run below its minimum for ever waits for its members instead
    return {gang for gang in cluster.orphaned if grace_of(cluster, cluster.gangs[gang]) is not None}


def _is_given_up(cluster: Cluster, trouble: NodeTrouble, is_believed: bool) -> bool:
    settings = cluster.settings
    match trouble.stand:
        case NodeStanding.LEAVES:
            return settings.heed_notices
        case NodeStanding.LOST:
            grace, silent_for = settings.lost_after_s, cluster.now - trouble.since
            return 0 <= grace <= silent_for and (is_believed or not trouble.since)
        case NodeStanding.AVOIDED:
            return False


def _is_the_network(cluster: Cluster, there: Collection[Node]) -> bool:
    """Are so many nodes silent at the same time that it cannot be them?"""
    silent = sum(
        node.trouble is not None
        and node.trouble.stand is NodeStanding.LOST
        and node.trouble.since > 0
        for node in there
    )
    total = len(cluster.nodes)
    return silent == total or (silent > FEW and silent * 100 >= total * MOST)


def _is_lost_for_good(gang: Gang) -> bool:
    return gang.stale_after_s is not None and gang.stale_after_s < 0


def _must_go(task: Task, nodes: Mapping[str, NodeTrouble]) -> bool:
    trouble = nodes.get(task.node)
    if trouble is None:
        return False
    tolerated = {each.key for each in task.shape.constraints.tolerations}
    return not trouble.taint or trouble.taint not in tolerated


def _going(gang: Gang, members: Collection[Task], there: Collection[Task]) -> list[Task]:
    """Those that are there, or all that run if the gang cannot do without them."""
    if not there:
        return []
    gone = {each.id for each in there}
    if is_torn(gang, [each for each in members if each.id not in gone]):
        there = [each for each in members if each.state in ACTIVE]
    return sorted(there, key=lambda task: task.id)
