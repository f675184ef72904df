"""Forced evictions: tasks that have to go without a preemptor.

nodes in trouble   Tasks are evicted from a node that leaves at once, and from a node that does not
                   answer after a grace period. If the gang would fall below its minimum, all its
                   tasks are evicted, since part of a gang can do no work; otherwise only its
                   members on that node. The tasks of a deleted node are lost already; the rest
                   of a gang that needs them is evicted at once. Two exceptions: gangs with a
                   negative `Gang.stale_after_s` are not evicted, and tasks that tolerate the
                   node's taint by name stay as long as the node exists.
overrun gangs      Their maximum run time (`Gang.max_run_s`) is over. The time counts from the
                   instant at which the gang last reached its minimum: growth does not restart
                   it, the replacement of a lost member does.
stale gangs        They lost members and did not get them back in time. A gang below its minimum
                   holds GPUs and does no work; after a grace period the rest of it is evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from typing import TypeAlias

from windlass.engine.draft import is_torn
from windlass.model.actions import EvictionRule
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task
from windlass.model.nodes import Node, NodeStanding, NodeTrouble
from windlass.state.cluster import Cluster

FEW, MOST = 2, 55
"""If more than `FEW` nodes are silent, and at least `MOST` percent of all, then the network or the
API server is at fault, and no node is given up. (Kubernetes' node controller has the same bounds.)
"""

ForcedEvictions: TypeAlias = list[tuple[Task, EvictionRule]]

_NODE_RULES = {NodeStanding.LEAVES: EvictionRule.LEAVING, NodeStanding.LOST: EvictionRule.LOST}


def forced_evictions(
    cluster: Cluster, repaired: Set[GangId], held: Set[GangId], decided: Set[GangId]
) -> Iterator[ForcedEvictions]:
    """Yield the tasks to evict, one list for each cause, in the order in which the causes apply.

    `repaired` gangs got tasks in this cycle, `held` gangs have places held. The caller adds the
    gangs of each list to `decided` before it asks for the next list, so that no gang is evicted
    twice.
    """
    yield list(evicted_from_nodes(cluster, repaired))
    yield [(task, EvictionRule.OVERRUN) for task in overrun(cluster, repaired | decided)]
    # a gang for which places are held is about to be repaired
    others = repaired | held | decided
    yield [(task, EvictionRule.STALE) for task in stale(cluster, others)]


# -- nodes in trouble


def evicted_from_nodes(
    cluster: Cluster, repaired: Collection[GangId]
) -> Iterator[tuple[Task, EvictionRule]]:
    """Yield the tasks to evict because of the nodes on which they or their gangs run, with the
    rule."""
    nodes, orphaned = _given_up(cluster), _orphaned(cluster)
    gangs = {task.gang for name in nodes for task in cluster.on(name) if task.state in ACTIVE}
    for name in sorted((gangs | orphaned) - set(repaired)):
        gang = cluster.gangs[name]
        if gang.stale_after_s is not None and gang.stale_after_s < 0:
            continue  # it would be lost for good
        members = cluster.members(name)
        active = [task for task in members if task.state in ACTIVE]
        affected = (
            active if name in orphaned else [task for task in active if _must_go(task, nodes)]
        )
        rules = {_NODE_RULES[nodes[task.node].stand] for task in affected if task.node in nodes}
        rule = min(rules, default=EvictionRule.LOST)
        yield from ((task, rule) for task in _going(gang, members, affected))


def node_changes_at(cluster: Cluster) -> Iterator[int]:
    """Yield the instants at which nodes that do not answer are given up, and quarantines end."""
    grace = cluster.settings.lost_after_s
    for node in cluster.recall(troubled_nodes):
        if node.trouble is not None and node.trouble.stand is NodeStanding.LOST and grace >= 0:
            yield node.trouble.since + grace
        if node.quarantine is not None and node.quarantine.until is not None:
            yield node.quarantine.until


def troubled_nodes(cluster: Cluster) -> tuple[Node, ...]:
    """Return all nodes that are in trouble or in quarantine, by name."""
    nodes = (node for node in cluster.nodes.values() if node.is_troubled)
    return tuple(sorted(nodes, key=lambda node: node.name))


def describe_node_trouble(cluster: Cluster, gang: GangId) -> str:
    """Return a text for people about the trouble of the nodes that a gang has to leave."""
    nodes = _given_up(cluster)
    names = {task.node for task in cluster.members(gang) if task.node in nodes}
    words = [f"node {name} is {nodes[name].what}" for name in sorted(names)]
    if deleted := cluster.orphaned.get(gang):
        words.append(f"node {deleted} was deleted")
    return "; ".join(words)


def _given_up(cluster: Cluster) -> Mapping[str, NodeTrouble]:
    """Return the nodes from which gangs must be evicted now, each with its trouble."""
    nodes = cluster.recall(troubled_nodes)
    if not nodes:
        return {}
    is_believed = not _is_the_network(cluster, nodes)
    return {
        node.name: node.trouble
        for node in nodes
        if node.trouble is not None and _is_given_up(cluster, node.trouble, is_believed)
    }


def _orphaned(cluster: Cluster) -> set[GangId]:
    """Return the gangs that lack members of their minimum because a node was deleted."""
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


def _is_the_network(cluster: Cluster, nodes: Collection[Node]) -> bool:
    """Return whether so many nodes do not answer that the network is at fault, not the nodes."""
    silent = sum(
        node.trouble is not None
        and node.trouble.stand is NodeStanding.LOST
        and node.trouble.since > 0
        for node in nodes
    )
    total = len(cluster.nodes)
    return silent == total or (silent > FEW and silent * 100 >= total * MOST)


def _must_go(task: Task, nodes: Mapping[str, NodeTrouble]) -> bool:
    """Return whether a task runs on one of the nodes and does not tolerate its taint by name."""
    trouble = nodes.get(task.node)
    if trouble is None:
        return False
    tolerated = {toleration.key for toleration in task.shape.constraints.tolerations}
    return not trouble.taint or trouble.taint not in tolerated


def _going(gang: Gang, members: Collection[Task], affected: Collection[Task]) -> list[Task]:
    """Return the tasks to evict: `affected`, or all active members if the rest would be too few."""
    if not affected:
        return []
    gone = {task.id for task in affected}
    if is_torn(gang, [task for task in members if task.id not in gone]):
        return _active(members)
    return sorted(affected, key=lambda task: task.id)


# -- overrun gangs


def overrun(cluster: Cluster, others: Collection[GangId]) -> Iterator[Task]:
    """Yield the active tasks of gangs whose maximum run time is over, except gangs in `others`."""
    for name in sorted(cluster.timed - set(others)):
        at = stops_at(cluster, cluster.gangs[name])
        if at is not None and at <= cluster.now:
            yield from _active(cluster.members(name))


def overrun_at(cluster: Cluster) -> Iterator[int]:
    """Yield the future instants at which the maximum run time of a gang is over."""
    for name in cluster.timed:
        at = stops_at(cluster, cluster.gangs[name])
        if at is not None and at > cluster.now:
            yield at


def stops_at(cluster: Cluster, gang: Gang) -> int | None:
    """Return the instant at which the maximum run time of a gang is over.

    None if the gang has no maximum run time, or does not run with its minimum.
    """
    counted = [task for task in cluster.members(gang.id) if task.state in COUNTED]
    starts = sorted(task.started_at for task in counted if task.started_at is not None)
    if gang.max_run_s is None or not starts or len(starts) < gang.needed():
        return None
    return starts[max(gang.needed(), 1) - 1] + gang.max_run_s


# -- stale gangs


def stale(cluster: Cluster, others: Collection[GangId]) -> Iterator[Task]:
    """Yield the active tasks of gangs that are stale, except gangs in `others`."""
    for gang, since in sorted(cluster.broken.items()):
        grace = grace_of(cluster, cluster.gangs[gang])
        if gang not in others and grace is not None and cluster.now - since >= grace:
            yield from _active(cluster.members(gang))


def stale_at(cluster: Cluster) -> Iterator[int]:
    """Yield the instants at which gangs become stale."""
    for gang, since in cluster.broken.items():
        grace = grace_of(cluster, cluster.gangs[gang])
        if grace is not None:
            yield since + grace


def grace_of(cluster: Cluster, gang: Gang) -> int | None:
    """Return how long, in seconds, a gang may run below its minimum; None: for ever.

    It is at least the time that the owner takes to replace a lost member.
    """
    own = gang.stale_after_s
    grace = cluster.settings.stale_after_s if own is None else own
    return None if grace < 0 else max(grace, gang.remade_within_s)


def _active(members: Collection[Task]) -> list[Task]:
    return sorted((task for task in members if task.state in ACTIVE), key=lambda task: task.id)
