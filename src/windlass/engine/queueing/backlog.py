"""The waiting gangs that one cycle considers: all of them, or the heads of groups of equal gangs.

`whole_backlog` is what a live scheduler needs: every gang is considered and gets its reasons.

`equivalent_heads` is for replays, in which nobody reads reasons. Gangs that differ in nothing but
their age are served by age, and where one of them finds no room none behind it does. So of each
such group only as many are considered as could find room, and `MORE` for which room may be made; if
all of those are served, the next cycle follows at once. A cycle then costs as much as there are
kinds of waiting gangs, not as much as there are waiting gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from windlass.engine.queueing.eligibility import eligible_gangs
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import Progress
from windlass.model.jobs import GangId
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster

MORE = 1
"""The number of gangs of each group, beyond those that free GPUs suffice for, that one cycle
considers: room may be made for them."""

_age = attrgetter("gang.created_at", "gang.id")


@dataclass(slots=True)
class ConsideredGangs:
    """The eligible gangs that a cycle tries to place, and the gangs that it has to explain."""

    considered: list[Progress] = field(default_factory=list[Progress])
    refused: list[Progress] = field(default_factory=list[Progress])
    """The gangs that are not eligible, by name."""
    explains: bool = True
    """False if no gang that waits gets a decision."""
    last_heads: list[GangId] = field(default_factory=list[GangId])
    """The last considered gang of each group that was cut short."""

    def to_explain(self, waiting: Iterable[Progress]) -> Collection[Progress]:
        """Return the gangs that need reasons: those that found no room, then the refused ones."""
        return [*waiting, *self.refused] if self.explains else ()

    def continues_at(self, served: Collection[GangId], now: int) -> int | None:
        """Return when the rest of the backlog should be considered; None if only events matter.

        If all considered gangs of a group were served, those behind them may be served as well.
        """
        return now + 1 if any(gang in served for gang in self.last_heads) else None


Backlog: TypeAlias = Callable[[Cluster, Limits], ConsideredGangs]
"""A choice of the waiting gangs that a cycle considers."""


def whole_backlog(cluster: Cluster, limits: Limits) -> ConsideredGangs:
    """Consider all eligible gangs, and explain all gangs that wait."""
    del limits
    return ConsideredGangs(*eligible_gangs(cluster))


def equivalent_heads(cluster: Cluster, limits: Limits) -> ConsideredGangs:
    """Consider the first gangs of each group of equal gangs, and explain none."""
    eligible, _ = eligible_gangs(cluster)
    chosen = ConsideredGangs(explains=False)
    groups: dict[int, list[Progress]] = {}
    group_of, holds = cluster.recall(_EquivalenceGroups).of, cluster.holds
    for progress in eligible:
        if progress.started or progress.gang.id in holds:
            chosen.considered.append(progress)
        else:
            groups.setdefault(group_of(progress), []).append(progress)
    free = cluster.columns.free_gpu()
    for group in groups.values():
        need = limits.need(group[0].counts).get(GPU, 0)
        count = free // need + MORE if need else len(group)
        if count < len(group):
            group.sort(key=_age)
            chosen.last_heads.append(group[count - 1].gang.id)
        chosen.considered += group[:count]
    return chosen


class _EquivalenceGroups:
    """The groups of gangs that are equal but for their age, as small numbers.

    Recalled between cycles, because most gangs are as they were in the last one. An entry rests on
    the identity of the gang's progress and holds until the gang's order level may change by time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._levels = cluster, cluster.recall(OrderLevels)
        self._cached: dict[GangId, tuple[Progress, int, int]] = {}
        """Per gang: the progress that the number rests on, the number, and until when it holds."""
        self._numbers: dict[Hashable, int] = {}

    def of(self, progress: Progress) -> int:
        """Return a number that is equal for gangs that differ in nothing but their age."""
        gang = progress.gang.id
        entry = self._cached.get(gang)
        if entry is None or entry[0] is not progress or entry[2] <= self._cluster.now:
            number = self._numbers.setdefault(self._traits(progress), len(self._numbers))
            entry = self._cached[gang] = progress, number, self._levels.changes_at(progress.gang)
            if len(self._cached) > 2 * len(self._cluster.gangs) + 64:
                self._forget_gone()
        return entry[1]

    def _traits(self, progress: Progress) -> Hashable:
        """Return everything but age that decides when and where a gang is served."""
        gang, levels = progress.gang, self._levels
        firm = (gang.is_firm, gang.displaces_after_s, gang.duration_s, gang.stops > 0)
        user = gang.user if levels.by_user else ""
        return gang.queue, user, gang.priority, levels.rank(gang), firm, progress.signature

    def _forget_gone(self) -> None:
        present = self._cluster.gangs
        self._cached = {gang: entry for gang, entry in self._cached.items() if gang in present}
        self._levels.forget_gone()
