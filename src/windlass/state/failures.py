"""Who failed where, lately: what speaks against a node, and what against a gang.

A gang that runs on several nodes fails on all of them once one member does. So work that ran at the
same time counts as one failure, there where it began. A task that ends well acquits its node and
its gang of all that was before. What is told again changes nothing, so a pod of the past may be
seen as often as it likes, and a successor learns from those that are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.model.events import NodeTrusted, WorkEnded
from windlass.model.jobs import GangId

MOST = 4096
"""So many are remembered; of more, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Work of a gang that failed on a node."""

    gang: GangId
    node: str
    since: int
    """When the work began."""
    at: int
    against_node: bool = True
    against_gang: bool = True


@dataclass(frozen=True, slots=True)
class ForgivenFailures:
    """A node, or a gang, against which nothing counts that was before."""

    node: str
    gang: GangId
    at: int


class FailureLog:
    """All that are remembered, by time."""

    __slots__ = ("_by_gang", "_gangs", "_known", "_nodes")

    def __init__(
        self, known: Iterable[TaskFailure] = (), acquitted: Iterable[ForgivenFailures] = ()
    ) -> None:
        self._nodes: dict[str, int] = {}
        self._gangs: dict[str, int] = {}
        for each in acquitted:
            if each.node:
                self._nodes[each.node] = each.at
            else:
                self._gangs[each.gang] = each.at
        self._keep(known)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[TaskFailure]:
        return iter(self._known)

    def is_news(self, ended: WorkEnded) -> bool:
        """Does an end change anything?"""
        if ended.succeeded:
            until = min(self._nodes.get(ended.node, -1), self._gangs.get(ended.gang, -1))
            return ended.at > until
        return self._is_new(self._judged(_failure(ended)))

    def take(self, event: WorkEnded | NodeTrusted) -> None:
        """Work has ended, well or badly, or a node is trusted again."""
        if isinstance(event, NodeTrusted):
            _raise(self._nodes, event.name, event.at)
        elif event.succeeded:
            _raise(self._nodes, event.node, event.at)
            _raise(self._gangs, event.gang, event.at)
        else:
            self._note(self._judged(_failure(event)))
            return
        self._keep(self._known)

    def forget_until(self, at: int) -> None:
        """What was until then is forgotten."""
        for those in (self._nodes, self._gangs):
            while those and (oldest := next(iter(those.items())))[1] <= at:
                del those[oldest[0]]
        if self._known and self._known[0].at <= at:
            self._keep(each for each in self._known if each.at > at)

    def of_gang(self, gang: GangId) -> Sequence[TaskFailure]:
        """What speaks against a gang, by time."""
        return self._by_gang.get(gang, ())

    def gangs(self) -> Iterable[GangId]:
        """The gangs against which anything speaks."""
        return self._by_gang

    def now(self) -> tuple[TaskFailure, ...]:
        """All failures as values."""
        return tuple(self._known)

    def acquitted(self) -> tuple[ForgivenFailures, ...]:
        """All acquittals as values, the oldest first."""
        nodes = [ForgivenFailures(node, GangId(""), at) for node, at in self._nodes.items()]
        gangs = [ForgivenFailures("", GangId(gang), at) for gang, at in self._gangs.items()]
        return tuple(sorted(nodes + gangs, key=lambda each: (each.at, each.node, each.gang)))

    def _note(self, new: TaskFailure) -> None:
        if self._is_new(new):
            known = [new, *(each for each in self._known if not _is_same(each, new))]
            self._keep(sorted(known, key=_order)[-MOST:])

    def _is_new(self, new: TaskFailure) -> bool:
        """Does it count at all, and as the first of those that ran with it?"""
        if not new.against_node and not new.against_gang:
            return False
        return all(_order(new) < _order(each) for each in self._known if _is_same(each, new))

    def _keep(self, failures: Iterable[TaskFailure]) -> None:
        judged = (self._judged(each) for each in failures)
        self._known = [each for each in judged if each.against_node or each.against_gang]
        self._by_gang: dict[GangId, list[TaskFailure]] = {}
        for each in self._known:
            if each.against_gang:
                self._by_gang.setdefault(each.gang, []).append(each)

    def _judged(self, failure: TaskFailure) -> TaskFailure:
        node = failure.against_node and failure.at > self._nodes.get(failure.node, -1)
        gang = failure.against_gang and failure.at > self._gangs.get(failure.gang, -1)
        if (node, gang) == (failure.against_node, failure.against_gang):
            return failure
        return replace(failure, against_node=node, against_gang=gang)


def _raise(known: dict[str, int], name: str, at: int) -> None:
    """Acquitted until then, or later; the latest stand last, and of too many the first go."""
    known[name] = max(at, known.pop(name, at))
    if len(known) > MOST:
        del known[next(iter(known))]


def _failure(ended: WorkEnded) -> TaskFailure:
    return TaskFailure(ended.gang, ended.node, ended.since, ended.at)


def _is_same(one: TaskFailure, other: TaskFailure) -> bool:
    """Did both run at the same time?"""
    return one.gang == other.gang and one.since <= other.at and other.since <= one.at


def _order(failure: TaskFailure) -> tuple[int, str, str, int]:
    return failure.at, failure.gang, failure.node, failure.since
