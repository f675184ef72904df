"""Authorization: the scope that a viewer may see, reviewed per namespace and queue.

    gangs of a namespace    need the right to list pods there
    a queue                 needs the right to list queues, or to get this one
    the map of all nodes    needs the right to list nodes

Answers are cached, so a right that is taken away shows for at most `GOOD_FOR_S` more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from windlass.model.viewers import Right, Viewer
from windlass.web.auth.ttl_cache import TtlCache, for_seconds

GOOD_FOR_S = 60.0
MOST_ANSWERS = 20_000
PODS, NODES = Right("list", "pods"), Right("list", "nodes")
QUEUES = Right("list", "queues", group="windlass.dev")


class AccessReviewer(Protocol):
    """Reviews tokens and rights; raises `ReviewUnavailable` if the API server cannot be asked."""

    async def viewer(self, token: str) -> Viewer | None:
        """Return the owner of a token; None if the token is not accepted."""
        ...

    async def may(self, viewer: Viewer, right: Right) -> bool:
        """Return whether the viewer has this right."""
        ...


@dataclass(frozen=True, slots=True)
class Names:
    """The namespaces and queues that a document names, for which rights are reviewed."""

    namespaces: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()


NO_NAMES = Names()


@dataclass(frozen=True, slots=True)
class VisibleScope:
    """The namespaces, queues and nodes that a viewer may see; None: all of them."""

    namespaces: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    nodes: bool = True

    @property
    def is_whole(self) -> bool:
        """True if nothing is hidden from the viewer."""
        return self.namespaces is None and self.queues is None and self.nodes

    def sees_gang(self, gang: str) -> bool:
        """Return whether this gang is in the scope; its name begins with its namespace."""
        return self.namespaces is None or namespace_of(gang) in self.namespaces

    def sees_queue(self, queue: str) -> bool:
        """Return whether this queue is in the scope."""
        return self.queues is None or queue in self.queues


def namespace_of(name: str) -> str:
    """Return the namespace of a gang or a task.

    Empty if the name has none: no scope but the whole one contains the empty namespace.
    """
    namespace, slash, _ = name.partition("/")
    return namespace if slash else ""


class AccessRights:
    """Reviews rights and caches the answers."""

    def __init__(self, judge: AccessReviewer, now: Callable[[], float] = time.monotonic) -> None:
        self._judge = judge
        self._reviewed = TtlCache[tuple[Viewer, Right], bool](
            MOST_ANSWERS, for_seconds(GOOD_FOR_S), now
        )

    async def scope(self, viewer: Viewer, names: Names = NO_NAMES) -> VisibleScope:
        """Return the part of these names that the viewer may see."""
        # Rights for the whole cluster come first: with them no right is reviewed one by one.
        wide = (PODS, QUEUES, NODES)
        pods, queues, nodes = await asyncio.gather(*(self._may(viewer, right) for right in wide))
        here = (Right("list", "pods", namespace=name) for name in names.namespaces - {""})
        these = (Right("get", "queues", QUEUES.group, name=name) for name in names.queues - {""})
        return VisibleScope(
            None if pods else frozenset(r.namespace for r in await self._granted(viewer, here)),
            None if queues else frozenset(r.name for r in await self._granted(viewer, these)),
            nodes,
        )

    async def _granted(self, viewer: Viewer, rights: Iterable[Right]) -> Collection[Right]:
        """Return those of the rights that the viewer has."""
        wanted = list(rights)
        answers = await asyncio.gather(*(self._may(viewer, right) for right in wanted))
        return [right for right, is_granted in zip(wanted, answers, strict=True) if is_granted]

    async def _may(self, viewer: Viewer, right: Right) -> bool:
        return await self._reviewed.of((viewer, right), lambda: self._judge.may(viewer, right))
