"""The colours of queues, as on the dashboard: a top queue owns a hue, its children the steps of it.

Colours follow the order of the tree and stay. Everything else is ink.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.model.queues import ROOT, Queue

INK = "default"
"""The terminal's own, so that it can be read on any background."""
QUIET = "dim"
FAINT = "bright_black"
TRAY = "#272d34"
BAD = "#f47c70"

HUES = (
    ("#3B73D1", "#7FA6EE", "#B4CAF6"),
    ("#DD8420", "#F9CB7C"),
    ("#1FA37C", "#86E5C7"),
    ("#A8467F", "#EE9AB5"),
)
NINE = tuple(step for hue in HUES for step in hue)


def colours(queues: Mapping[str, Queue]) -> dict[str, str]:
    """A colour for every queue."""
    tops = [each.name for each in queues.values() if _parent(each, queues) == ROOT]
    hues = [HUES[i] for i in range(len(tops))] if len(tops) <= len(HUES) else _single(len(tops))
    paint: dict[str, str] = {}
    for top, hue in zip(tops, hues, strict=True):
        paint[top] = hue[0]
        for index, name in enumerate(_leaves(top, queues)):
            paint[name] = hue[index % len(hue)]
    return paint | {name: paint.get(name, QUIET) for name in queues}


def in_tree_order(queues: Mapping[str, Queue]) -> list[tuple[int, Queue]]:
    """All queues with their depth, parents before their children."""

    def walk(parent: str, depth: int) -> list[tuple[int, Queue]]:
        found: list[tuple[int, Queue]] = []
        for each in queues.values():
            if _parent(each, queues) == parent:
                found += [(depth, each), *walk(each.name, depth + 1)]
        return found

    return walk(ROOT, 0)


def _parent(queue: Queue, queues: Mapping[str, Queue]) -> str:
    return queue.parent if queue.parent in queues else ROOT


def _single(count: int) -> list[tuple[str, ...]]:
    return [(NINE[i],) if i < len(NINE) else (QUIET,) for i in range(count)]


def _leaves(top: str, queues: Mapping[str, Queue]) -> list[str]:
    below = [each.name for each in queues.values() if each.parent == top]
    return [name for child in below for name in (child, *_leaves(child, queues))]
