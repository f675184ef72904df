"""Domains: the sets of nodes that share a link, level by level.

A domain is named by its labels from the widest level down, so two racks called "r1" in different
blocks differ. Numbers follow names. Sums over domains are one `bincount`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windlass.model.jobs import Domain
from windlass.model.topology import Topology
from windlass.state.cluster import Cluster
from windlass.state.node_columns import Ints, NodeTable


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    """One level: which domain each node is in (-1: none), and the nodes of each domain."""

    domain_of: Ints
    members: tuple[Ints, ...]

    def sums(self, values: Ints, scope: Ints | None) -> Ints:
        """The sum of a node value over each domain, of all nodes or those in scope."""
        domain_of = self.domain_of if scope is None else self.domain_of[scope]
        inside = values if scope is None else values[scope]
        # nodes without a domain have number -1 and fall into the first, dropped, bin
        found = np.bincount(domain_of + 1, weights=inside, minlength=len(self.members) + 1)
        return found[1:].astype(np.int64)


class Topologies:
    """The levels of all topologies over one set of columns."""

    def __init__(self, cluster: Cluster) -> None:
        self._columns = cluster.columns
        self._topologies = cluster.topologies
        self._levels: dict[tuple[str, str], TopologyLevel | None] = {}

    def level(self, topology: str, label: str) -> TopologyLevel | None:
        """One level of a topology; None if there is no such level."""
        key = (topology, label)
        if key not in self._levels:
            found = self._topologies.get(topology)
            known = found is not None and label in found.levels
            self._levels[key] = _level(self._columns, found, label) if found and known else None
        return self._levels[key]

    def levels(self, domain: Domain) -> list[TopologyLevel]:
        """The levels to try: the wished one and, if it is only preferred, all wider ones."""
        topology = self._topologies.get(domain.topology)
        if topology is None or domain.level not in topology.levels:
            return []
        at = topology.levels.index(domain.level)
        labels = topology.levels[at : at + 1] if domain.required else topology.levels[at::-1]
        found = [self.level(domain.topology, label) for label in labels]
        return [level for level in found if level is not None]

    def of_label(self, label: str) -> TopologyLevel:
        """The domains of a label, whether or not a topology has it."""
        key = ("", label)
        found = self._levels.get(key)
        if found is None:
            found = self._levels[key] = _level(self._columns, Topology("", (label,)), label)
        return found

    def around(self, wish: Domain | None, slots: list[int]) -> Ints:
        """The nodes that share a domain with some: of the level wished for, or the narrowest."""
        topology, label = (wish.topology, wish.level) if wish else self._narrowest()
        level = self.level(topology, label)
        if level is None:
            return np.array(sorted(slots), np.int64)
        domains = {int(each) for each in level.domain_of[slots]} - {-1}
        near = set(slots).union(*(level.members[each].tolist() for each in domains))
        return np.array(sorted(near), np.int64)

    def _narrowest(self) -> tuple[str, str]:
        """The last level of the first topology by name; nothing where there is none."""
        named = [each for each in sorted(self._topologies) if self._topologies[each].levels]
        return (named[0], self._topologies[named[0]].levels[-1]) if named else ("", "")


def _level(columns: NodeTable, topology: Topology, label: str) -> TopologyLevel:
    path = topology.levels[: topology.levels.index(label) + 1]
    domain_of: Ints = np.zeros(len(columns), np.int64)
    lacking = np.zeros(len(columns), np.bool_)
    for key in path:
        number, values = columns.labels(key)
        lacking |= number < 0
        domain_of = domain_of * (len(values) + 1) + number
        # renumber densely at each level, so that deep paths cannot overflow; order is kept
        _, domain_of = np.unique(domain_of, return_inverse=True)
    _, dense = np.unique(domain_of[~lacking], return_inverse=True)
    domain_of = np.full(len(columns), -1, np.int64)
    domain_of[~lacking] = dense
    count = int(dense.max()) + 1 if dense.size else 0
    order = np.argsort(domain_of, kind="stable")
    bounds = np.searchsorted(domain_of[order], np.arange(count + 1))
    members = tuple(order[bounds[at] : bounds[at + 1]] for at in range(count))
    return TopologyLevel(domain_of, members)
