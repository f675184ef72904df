"""The tree of queues as a list: parents before their children, in the order they became known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from windlass.model.queues import ROOT, Queue


def in_order(queues: Mapping[str, Queue]) -> list[tuple[Queue, int]]:
    """All queues with their depth; one whose parent is missing stands at the top."""
    children: dict[str, list[Queue]] = {}
    for queue in queues.values():
        parent = queue.parent if queue.parent in queues else ROOT
        children.setdefault(parent, []).append(queue)
    found: list[tuple[Queue, int]] = []
    stack = [(queue, 0) for queue in reversed(children.get(ROOT, []))]
    while stack:
        queue, depth = stack.pop()
        found.append((queue, depth))
        stack += [(each, depth + 1) for each in reversed(children.get(queue.name, []))]
    return found


class _Below(Protocol):
    """A queue, or a row about one."""

    @property
    def parent(self) -> str: ...


def path_of(name: str, queues: Mapping[str, _Below]) -> list[str]:
    """The queue and all above it."""
    path: list[str] = []
    while name in queues and name not in path:
        path.append(name)
        name = queues[name].parent
    return path
