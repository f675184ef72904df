"""The nodes of the map: laid out rack by rack, again only after one of them has changed."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from windlass.model.constraints import HOSTNAME
from windlass.model.nodes import Node
from windlass.web.feed import ClusterView
from windlass.web.schema import NodeColumns, RackColumns

IN_SERVICE, CORDONED, GONE = 0, 1, 2
NO_DOMAIN = -1

_NVLINK = re.compile(r"nvlink|clique|nvl\d", re.IGNORECASE)
"""The labels of domains inside which NVLink joins the GPUs of several nodes."""


@dataclass(frozen=True, slots=True)
class MapNodes:
    """The nodes rack by rack, with their GPUs numbered through."""

    racks: RackColumns
    nodes: NodeColumns
    models: list[str]
    domains: list[str]
    first: dict[str, int]
    """The number of each node's first GPU."""
    unhealthy: list[int]
    """The numbers of the GPUs that are out of service."""


NO_NODES = MapNodes(RackColumns([], []), NodeColumns([], [], [], [], [], [], []), [], [], {}, [])


@dataclass(frozen=True, slots=True)
class _Levels:
    """The labels that order the map; empty where no topology names one."""

    block: str
    rack: str
    domain: str


def has_same_layout(one: ClusterView, other: ClusterView) -> bool:
    """Return whether two views have the same layout, as far as is known without comparing nodes."""
    return (
        one.hardware is other.hardware
        and one.topologies == other.topologies
        and list(one.beside.away) == list(other.beside.away)
    )


def lay_out(view: ClusterView, only: Collection[str] | None = None) -> MapNodes:
    """Lay out the nodes with GPUs, or only some of them; nodes that went away are shown as gone."""
    levels = _levels(view)
    gone = [node for node in view.beside.away if node.name not in view.nodes]
    nodes = [
        node
        for node in (*view.nodes.values(), *gone)
        if node.gpus and (only is None or node.name in only)
    ]
    nodes.sort(key=lambda node: (_rack(node, levels), _domain(node, levels), node.name))
    places = [_rack(node, levels) for node in nodes]
    racks = {place: at for at, place in enumerate(dict.fromkeys(places))}
    models = list(dict.fromkeys(node.gpus[0].model for node in nodes))
    domains = sorted({_domain(node, levels) for node in nodes} - {""})
    domain_at = {name: at for at, name in enumerate(domains)}
    first, gpus = dict[str, int](), 0
    for node in nodes:
        first[node.name] = gpus
        gpus += len(node.gpus)
    return MapNodes(
        racks=RackColumns([name for _, name in racks], [block for block, _ in racks]),
        nodes=NodeColumns(
            name=[node.name for node in nodes],
            rack=[racks[place] for place in places],
            model=[models.index(node.gpus[0].model) for node in nodes],
            domain=[domain_at.get(_domain(node, levels), NO_DOMAIN) for node in nodes],
            first=list(first.values()),
            gpus=[len(node.gpus) for node in nodes],
            state=[_state(node, view) for node in nodes],
        ),
        models=models,
        domains=domains,
        first=first,
        unhealthy=[
            first[node.name] + device
            for node in nodes
            if node.name in view.nodes
            for device, gpu in enumerate(node.gpus)
            if not gpu.healthy
        ],
    )


def _state(node: Node, view: ClusterView) -> int:
    if node.name not in view.nodes:
        return GONE
    return IN_SERVICE if node.is_open else CORDONED


def _rack(node: Node, levels: _Levels) -> tuple[str, str]:
    return node.labels.get(levels.block, ""), node.labels.get(levels.rack, "")


def _domain(node: Node, levels: _Levels) -> str:
    return node.labels.get(levels.domain, "")


def _levels(view: ClusterView) -> _Levels:
    """Return the labels: a rack is the narrowest domain of several nodes that is not NVLink's."""
    topologies = view.topologies.values()
    keys = [key for topology in topologies for key in topology.levels if key != HOSTNAME]
    domain = next((key for key in reversed(keys) if _NVLINK.search(key)), "")
    plain = ["", "", *(key for key in keys if not _NVLINK.search(key))]
    return _Levels(block=plain[-2], rack=plain[-1], domain=domain)
