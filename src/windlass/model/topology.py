"""Topologies: the node labels that say which nodes share a fast link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topology:
    """A named list of label keys, from wide (zone) to narrow (rack, NVLink domain)."""

    name: str
    levels: tuple[str, ...]
