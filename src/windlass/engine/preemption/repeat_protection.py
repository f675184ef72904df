"""Nobody loses its work to other queues twice.

A gang that was stopped so that others have room, and had saved nothing or was stopped as often as
it may be (`Gang.stops_at_most`), is spared from then on, if the guarantee of its queue has room for
it beside everything else from which nothing can be taken back. It starts within that guarantee
only, and so takes nothing from anybody. Without this the same gang would start on borrowed GPUs,
run for hours and be stopped again, day after day: most of the GPU time that displacing costs is
lost by few gangs, again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress, progress
from windlass.model.jobs import OCCUPYING, Gang, GangId
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

MOST = 10_000


class DisplacedGangs:
    """The gangs that were stopped so that others have room."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, tuple[int, bool]] = {}
        """How often each was stopped, and whether it is spared."""
        self._homes: dict[GangId, tuple[str, ...]] = {}

    def note(self, gang: GangId, nodes: Iterable[str]) -> None:
        """A gang on these nodes was stopped; of very many, the first ones are forgotten."""
        stops, spared = self._gangs.get(gang, (0, False))
        self._gangs[gang] = stops + 1, spared
        self._homes[gang] = tuple(sorted(set(nodes)))
        if len(self._gangs) > MOST:
            self.forget(next(iter(self._gangs)))

    def forget(self, gang: GangId) -> None:
        """A gang has ended."""
        self._gangs.pop(gang, None)
        self._homes.pop(gang, None)

    def standing(self, gang: Gang) -> Gang:
        """The gang as it stands: how often it was stopped, where, and spared or not."""
        stops, spared = self._gangs.get(gang.id, (0, False))
        home = self._homes.get(gang.id, ())
        return replace(gang, spared=spared, stops=stops, home=home) if stops else gang

    def changes(self, cluster: Cluster) -> Iterator[Gang]:
        """The waiting gangs that were stopped since, are spared from now on, or no longer.

        One for which the guarantee has no room does not wait for it: it may borrow again.
        """
        if cluster.settings.victims is not Victims.LEAST_HARM:
            return
        limits = Limits(cluster) if self._gangs else None
        for name, (stops, _) in self._gangs.items():
            gang = cluster.gangs.get(name)
            if limits is None or gang is None or _is_there(cluster, gang):
                continue
            most = gang.stops_at_most
            is_due = gang.saved_at is None or (most is not None and stops >= most)
            need = limits.need(progress(cluster, name).counts)
            is_spared = is_due and limits.beyond(replace(gang, spared=True), need) is None
            self._gangs[name] = stops, is_spared
            found = self.standing(gang)
            if found != gang:
                yield found


def is_outdated(limits: Limits, waiting: Iterable[Progress]) -> bool:
    """Is somebody still spared for whom the guarantee, as it is used now, has no room?"""
    spared = (each for each in waiting if each.gang.spared)
    return any(limits.beyond(each.gang, limits.need(each.counts)) is not None for each in spared)


def _is_there(cluster: Cluster, gang: Gang) -> bool:
    """Does it run, or is it still on its way out? It stands as it was started."""
    return any(task.state in OCCUPYING for task in cluster.members(gang.id))
