"""The colours of queues, as on the dashboard: a top queue has a hue, its children have steps of it.

Colours follow the order of the queues, so a queue keeps its colour. Only queues have colours.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.model.queues import ROOT, Queue

INK = "default"
"""The colour of the terminal, readable on any background."""
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
ALL_STEPS = tuple(step for hue in HUES for step in hue)
"""All steps of all hues, for clusters with more top queues than hues."""


def colours(queues: Mapping[str, Queue]) -> dict[str, str]:
    """Return a colour for every queue."""
    tops = [queue.name for queue in queues.values() if _parent(queue, queues) == ROOT]
    hues = HUES[: len(tops)] if len(tops) <= len(HUES) else _single_colours(len(tops))
    assigned: dict[str, str] = {}
    for top, hue in zip(tops, hues, strict=True):
        assigned[top] = hue[0]
        for index, name in enumerate(_descendants(top, queues)):
            assigned[name] = hue[index % len(hue)]
    return assigned | {name: assigned.get(name, QUIET) for name in queues}


def in_tree_order(queues: Mapping[str, Queue]) -> list[tuple[int, Queue]]:
    """Return all queues with their depth, parents before their children."""

    def walk(parent: str, depth: int) -> list[tuple[int, Queue]]:
        below: list[tuple[int, Queue]] = []
        for queue in queues.values():
            if _parent(queue, queues) == parent:
                below += [(depth, queue), *walk(queue.name, depth + 1)]
        return below

    return walk(ROOT, 0)


def _parent(queue: Queue, queues: Mapping[str, Queue]) -> str:
    """Return the parent of a queue; the root if its parent does not exist."""
    return queue.parent if queue.parent in queues else ROOT


def _single_colours(count: int) -> list[tuple[str, ...]]:
    """Return one colour per top queue, with no steps for its children."""
    return [(ALL_STEPS[i],) if i < len(ALL_STEPS) else (QUIET,) for i in range(count)]


def _descendants(top: str, queues: Mapping[str, Queue]) -> list[str]:
    children = [queue.name for queue in queues.values() if queue.parent == top]
    return [name for child in children for name in (child, *_descendants(child, queues))]
