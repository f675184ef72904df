"""The nodes of the map: laid out once, and again only after one of them has changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.model.constraints import HOSTNAME
from windlass.model.nodes import Node
from windlass.web.feed.view import ClusterView
from windlass.web.schema.map_columns import NodeColumns, RackColumns

IN_SERVICE, CORDONED, GONE = 0, 1, 2
NO_DOMAIN = -1

_NVLINK = re.compile(r"nvlink|clique|nvl\d", re.IGNORECASE)
"""Labels of domains inside which GPUs of several nodes are linked as if they were in one."""


@dataclass(frozen=True, slots=True)
class MapNodes:
    """Nodes rack by rack, with their GPUs numbered through."""

    racks: RackColumns
    nodes: NodeColumns
    models: list[str]
    domains: list[str]
    first: dict[str, int]
    """The number of each node's first GPU."""
    unhealthy: list[int]


NOWHERE = MapNodes(RackColumns([], []), NodeColumns([], [], [], [], [], [], []), [], [], {}, [])


@dataclass(frozen=True, slots=True)
class _Levels:
    """The labels that the map is ordered by; empty where no topology names one."""

    block: str
    rack: str
    domain: str


def is_same_ground(one: ClusterView, other: ClusterView) -> bool:
    """Are both laid out alike, as far as one can tell without looking at every node?"""
    return (
        one.hardware is other.hardware
        and one.topologies == other.topologies
        and list(one.beside.away) == list(other.beside.away)
    )


def lay_out(look: ClusterView) -> MapNodes:
    """All nodes with GPUs; those that were there before are shown as gone."""
    levels = _levels(look)
    gone = [node for node in look.beside.away if node.name not in look.nodes]
    there = [node for node in (*look.nodes.values(), *gone) if node.gpus]
    there.sort(key=lambda node: (_rack(node, levels), _domain(node, levels), node.name))
    places = [_rack(node, levels) for node in there]
    racks = {place: at for at, place in enumerate(dict.fromkeys(places))}
    models = list(dict.fromkeys(node.gpus[0].model for node in there))
    domains = sorted({_domain(node, levels) for node in there} - {""})
    number = {name: at for at, name in enumerate(domains)}
    first, gpus = dict[str, int](), 0
    for node in there:
        first[node.name] = gpus
        gpus += len(node.gpus)
    return MapNodes(
        racks=RackColumns([name for _, name in racks], [block for block, _ in racks]),
        nodes=NodeColumns(
            name=[node.name for node in there],
            rack=[racks[place] for place in places],
            model=[models.index(node.gpus[0].model) for node in there],
            domain=[number.get(_domain(node, levels), NO_DOMAIN) for node in there],
            first=list(first.values()),
            gpus=[len(node.gpus) for node in there],
            state=[_state(node, look) for node in there],
        ),
        models=models,
        domains=domains,
        first=first,
        unhealthy=[
            first[node.name] + device
            for node in there
            if node.name in look.nodes
            for device, gpu in enumerate(node.gpus)
            if not gpu.healthy
        ],
    )


def _state(node: Node, look: ClusterView) -> int:
    if node.name not in look.nodes:
        return GONE
    return IN_SERVICE if node.is_open else CORDONED


def _rack(node: Node, levels: _Levels) -> tuple[str, str]:
    return node.labels.get(levels.block, ""), node.labels.get(levels.rack, "")


def _domain(node: Node, levels: _Levels) -> str:
    return node.labels.get(levels.domain, "")


def _levels(look: ClusterView) -> _Levels:
    """A rack is the narrowest domain of several nodes that is not made by NVLink."""
    keys = [key for each in look.topologies.values() for key in each.levels if key != HOSTNAME]
    domain = next((key for key in reversed(keys) if _NVLINK.search(key)), "")
    plain = ["", "", *(key for key in keys if not _NVLINK.search(key))]
    return _Levels(block=plain[-2], rack=plain[-1], domain=domain)
