"""Crowds: waiting gangs that are alike in everything but their age.

They are served in the order of their age, and where one finds no room none behind it does. So from
each crowd only as many are looked at as could find room, and a few more for whom room may be made;
if all of those are served, the next cycle follows at once. Without this a cycle costs as much as
gangs wait, with it as much as kinds of them do.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import Progress
from windlass.model.jobs import GangId
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster

_age = attrgetter("gang.created_at", "gang.id")
MORE = 1
"""For so many beyond what is free room may be made in one cycle."""


@dataclass(slots=True)
class EquivalentHeads:
    """The gangs that are looked at, and the last of each crowd that was cut."""

    gangs: list[Progress] = field(default_factory=list[Progress])
    last: list[GangId] = field(default_factory=list[GangId])

    def again_at(self, served: Collection[GangId], now: int) -> int | None:
        """At once if everybody of a crowd was served who was looked at: those behind may be too."""
        return now + 1 if any(gang in served for gang in self.last) else None


def heads(cluster: Cluster, limits: Limits, ready: Iterable[Progress]) -> EquivalentHeads:
    """The first of each crowd."""
    crowds: dict[int, list[Progress]] = {}
    number, holds, found = cluster.recall(_Names).of, cluster.holds, EquivalentHeads()
    for each in ready:
        if each.started or each.gang.id in holds:
            found.gangs.append(each)
        else:
            crowds.setdefault(number(each), []).append(each)
    free = cluster.columns.free_gpu()
    for crowd in crowds.values():
        need = limits.need(crowd[0].counts).get(GPU, 0)
        count = free // need + MORE if need else len(crowd)
        if count < len(crowd):
            crowd.sort(key=_age)
            found.last.append(crowd[count - 1].gang.id)
        found.gangs += crowd[:count]
    return found


class _Names:
    """By what gangs are alike, as small numbers; most are as they were in the last cycle."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._ranks = cluster, cluster.recall(OrderLevels)
        self._known: dict[GangId, tuple[Progress, int, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, progress: Progress) -> int:
        """Equal for gangs that differ in nothing but their age."""
        gang = progress.gang.id
        known = self._known.get(gang)
        if known is None or known[0] is not progress or known[2] <= self._cluster.now:
            number = self._numbers.setdefault(self._alike(progress), len(self._numbers))
            known = self._known[gang] = progress, number, self._ranks.changes_at(progress.gang)
            if len(self._known) > 2 * len(self._cluster.gangs) + 64:
                self._forget_gone()
        return known[1]

    def _alike(self, progress: Progress) -> Hashable:
        gang, ranks = progress.gang, self._ranks
        firm = (gang.is_firm, gang.displaces_after_s, gang.duration_s, gang.stops > 0)
        user = gang.user if ranks.by_user else ""
        return gang.queue, user, gang.priority, ranks.place(gang), firm, progress.signature

    def _forget_gone(self) -> None:
        here = self._cluster.gangs
        self._known = {gang: known for gang, known in self._known.items() if gang in here}
        self._ranks.forget_gone()
