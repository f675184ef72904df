"""What somebody may see: asked per namespace and queue, remembered for a minute.

    gangs of a namespace    list pods there
    a queue                 list queues, or get this one
    the map of all nodes    list nodes

A right that is taken away is seen for `GOOD_FOR_S` more at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from windlass.model.viewers import Right, Viewer
from windlass.web.auth.ttl_cache import Shared, for_seconds

GOOD_FOR_S = 60.0
MOST_ANSWERS = 20_000
PODS, NODES = Right("list", "pods"), Right("list", "nodes")
QUEUES = Right("list", "queues", group="windlass.dev")


class AccessReviewer(Protocol):
    """Knows who somebody is and what they may do; raises CannotAsk if that cannot be had."""

    async def viewer(self, token: str) -> Viewer | None:
        """Whose token it is, if anybody's."""
        ...

    async def may(self, viewer: Viewer, right: Right) -> bool:
        """Have they this right?"""
        ...


@dataclass(frozen=True, slots=True)
class Names:
    """What a document speaks of."""

    namespaces: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()


NO_NAMES = Names()


@dataclass(frozen=True, slots=True)
class VisibleScope:
    """What somebody may see of a document; None: all there is."""

    namespaces: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    nodes: bool = True

    @property
    def is_whole(self) -> bool:
        """Is nothing hidden from them?"""
        return self.namespaces is None and self.queues is None and self.nodes

    def sees_gang(self, gang: str) -> bool:
        """May they see this gang? Its name begins with its namespace."""
        return self.namespaces is None or namespace_of(gang) in self.namespaces

    def sees_queue(self, queue: str) -> bool:
        """May they see this queue?"""
        return self.queues is None or queue in self.queues


def namespace_of(name: str) -> str:
    """The namespace of a gang or a task; none, which nobody may list, if it does not say."""
    namespace, sign, _ = name.partition("/")
    return namespace if sign else ""


class AccessRights:
    """Remembers what the judge said."""

    def __init__(self, judge: AccessReviewer, now: Callable[[], float] = time.monotonic) -> None:
        self._judge = judge
        self._said = Shared[tuple[Viewer, Right], bool](MOST_ANSWERS, for_seconds(GOOD_FOR_S), now)

    async def view(self, viewer: Viewer, names: Names = NO_NAMES) -> VisibleScope:
        """What they may see of what has these names."""
        wide = (PODS, QUEUES, NODES)
        pods, queues, nodes = await asyncio.gather(*(self._may(viewer, each) for each in wide))
        there = (Right("list", "pods", namespace=each) for each in names.namespaces - {""})
        these = (Right("get", "queues", QUEUES.group, name=each) for each in names.queues - {""})
        return VisibleScope(
            None if pods else _set(each.namespace for each in await self._had(viewer, there)),
            None if queues else _set(each.name for each in await self._had(viewer, these)),
            nodes,
        )

    async def _had(self, viewer: Viewer, rights: Iterable[Right]) -> Collection[Right]:
        asked = list(rights)
        said = await asyncio.gather(*(self._may(viewer, each) for each in asked))
        return [each for each, has in zip(asked, said, strict=True) if has]

    async def _may(self, viewer: Viewer, right: Right) -> bool:
        return await self._said.of((viewer, right), lambda: self._judge.may(viewer, right))


def _set(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)
