"""Work that fails again and again: is it the node, or the gang?

Several different gangs that failed on one node speak against the node. One gang that failed on
several nodes speaks against itself, and against none of them: it is not started any more until its
failures are old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.model.jobs import GangId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import duration_in_words
from windlass.state.cluster import Cluster
from windlass.state.failures import TaskFailure

DIFFERENT = 3
"""Who failed on so many nodes would fail anywhere."""


def gives_up(cluster: Cluster, gang: GangId) -> Reason | None:
    """Why a gang that failed everywhere is not tried again for now; None if it is."""
    again = _tried_again_at(cluster, gang)
    if again is None or again <= cluster.now:
        return None
    failures = list(_lately(cluster, cluster.failures.of_gang(gang)))
    nodes = len({each.node for each in failures})
    values = {
        "failures": len(failures),
        "nodes": nodes,
        "wait": duration_in_words(again - cluster.now),
    }
    return Reason(ReasonCode.FAILS_EVERYWHERE, values)


def tried_again_at(cluster: Cluster) -> Iterator[int]:
    """The instants at which gangs that failed everywhere are tried again."""
    for gang in cluster.failures.gangs():
        if (at := _tried_again_at(cluster, gang)) is not None:
            yield at


def suspects(cluster: Cluster) -> dict[str, int]:
    """The nodes on which gangs failed that are not to blame themselves, and how many gangs."""
    lately = list(_lately(cluster, cluster.failures))
    nodes: dict[GangId, set[str]] = {}
    for each in lately:
        nodes.setdefault(each.gang, set()).add(each.node)
    gangs: dict[str, set[GangId]] = {}
    for each in lately:
        if each.against_node and len(nodes[each.gang]) < DIFFERENT:
            gangs.setdefault(each.node, set()).add(each.gang)
    return {node: len(those) for node, those in sorted(gangs.items())}


def _tried_again_at(cluster: Cluster, gang: GangId) -> int | None:
    """When so many of its failures are old that it may be tried again; None: it always may."""
    settings, known = cluster.settings, cluster.failures.of_gang(gang)
    if not settings.give_up_after or len(known) < settings.give_up_after:
        return None
    failures = list(_lately(cluster, known))
    if len(failures) < settings.give_up_after or len({each.node for each in failures}) < DIFFERENT:
        return None
    return failures[-settings.give_up_after].at + settings.failure_window_s


def _lately(cluster: Cluster, failures: Iterable[TaskFailure]) -> Iterator[TaskFailure]:
    since = cluster.now - cluster.settings.failure_window_s
    return (each for each in failures if each.at > since)
