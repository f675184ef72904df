"""Topology domains: the sets of nodes that share a link, level by level.

A domain is named by its labels from the widest level down, so two racks called "r1" in different
blocks differ. Domains are numbered densely from 0 in the order of their names:

    domain_of   per node: the number of its domain, -1 if it lacks a label of the path
    members     per domain: the slots of its nodes, ascending

Sums over domains are one `bincount` of `domain_of + 1`, whose first bin (no domain) is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windlass.model.jobs import Domain
from windlass.model.nodes import Topology
from windlass.state.cluster import Cluster
from windlass.state.node_columns import Ints, NodeTable


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    """One level of a topology: the domain of each node, and the nodes of each domain."""

    domain_of: Ints
    members: tuple[Ints, ...]

    def sums(self, values: Ints, scope: Ints | None) -> Ints:
        """Return the sum of a node value per domain, over all nodes or those in scope."""
        domain_of = self.domain_of if scope is None else self.domain_of[scope]
        inside = values if scope is None else values[scope]
        sums = np.bincount(domain_of + 1, weights=inside, minlength=len(self.members) + 1)
        return sums[1:].astype(np.int64)


class Topologies:
    """The levels of all topologies over one set of columns."""

    def __init__(self, cluster: Cluster) -> None:
        self._columns = cluster.columns
        self._topologies = cluster.topologies
        self._levels: dict[tuple[str, str], TopologyLevel | None] = {}

    def level(self, topology: str, label: str) -> TopologyLevel | None:
        """Return one level of a topology; None if there is no such level."""
        key = (topology, label)
        if key not in self._levels:
            named = self._topologies.get(topology)
            exists = named is not None and label in named.levels
            self._levels[key] = _level(self._columns, named, label) if named and exists else None
        return self._levels[key]

    def levels(self, domain: Domain) -> list[TopologyLevel]:
        """Return the levels to try: the wished one and, if it is only preferred, all wider ones."""
        topology = self._topologies.get(domain.topology)
        if topology is None or domain.level not in topology.levels:
            return []
        at = topology.levels.index(domain.level)
        labels = topology.levels[at : at + 1] if domain.required else topology.levels[at::-1]
        levels = [self.level(domain.topology, label) for label in labels]
        return [level for level in levels if level is not None]

    def of_label(self, label: str) -> TopologyLevel:
        """Return the domains of a label, whether or not a topology names it."""
        key = ("", label)
        level = self._levels.get(key)
        if level is None:
            level = self._levels[key] = _level(self._columns, Topology("", (label,)), label)
        return level

    def around(self, wish: Domain | None, slots: list[int]) -> Ints:
        """Return the slots that share a domain with the given ones, and these themselves.

        The level is the wished one, or the narrowest without a wish.
        """
        topology, label = (wish.topology, wish.level) if wish else self._narrowest()
        level = self.level(topology, label)
        if level is None:
            return np.array(sorted(slots), np.int64)
        domains = {int(domain) for domain in level.domain_of[slots]} - {-1}
        near = set(slots).union(*(level.members[domain].tolist() for domain in domains))
        return np.array(sorted(near), np.int64)

    def _narrowest(self) -> tuple[str, str]:
        """Return the last level of the first topology by name; ("", "") if there is none."""
        named = [name for name in sorted(self._topologies) if self._topologies[name].levels]
        return (named[0], self._topologies[named[0]].levels[-1]) if named else ("", "")


def _level(columns: NodeTable, topology: Topology, label: str) -> TopologyLevel:
    """Number the domains of one level; nodes that lack a label of the path are in none."""
    path = topology.levels[: topology.levels.index(label) + 1]
    domain_of: Ints = np.zeros(len(columns), np.int64)
    lacking = np.zeros(len(columns), np.bool_)
    for key in path:
        number, values = columns.labels(key)
        lacking |= number < 0
        domain_of = domain_of * (len(values) + 1) + number
        # Renumber densely at each level, so that deep paths cannot overflow; the order is kept.
        _, domain_of = np.unique(domain_of, return_inverse=True)
    _, dense = np.unique(domain_of[~lacking], return_inverse=True)
    domain_of = np.full(len(columns), -1, np.int64)
    domain_of[~lacking] = dense
    count = int(dense.max()) + 1 if dense.size else 0
    # Slots sorted by domain; each domain is the run between two bounds.
    order = np.argsort(domain_of, kind="stable")
    bounds = np.searchsorted(domain_of[order], np.arange(count + 1))
    members = tuple(order[bounds[at] : bounds[at + 1]] for at in range(count))
    return TopologyLevel(domain_of, members)
