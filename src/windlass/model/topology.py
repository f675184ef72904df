"""Topologies: node labels, widest first, that say which nodes share a fast link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels are label keys from wide (zone) to narrow (rack, NVLink domain)."""

    name: str
    levels: tuple[str, ...]
