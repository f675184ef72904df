"""Nobody loses its work to other queues twice.

A gang that was stopped so that others have room, and had saved nothing, is spared from then on, if
the guarantee of its queue has room for it beside everything else from which nothing can be taken
back. It starts within that guarantee only, and so takes nothing from anybody. Without this the
same gang would start on borrowed GPUs, run for hours and be stopped again, day after day: most of
the GPU time that displacing costs is lost by few gangs, again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass.engine.limits import Limits
from windlass.engine.progress import progress
from windlass.model.jobs import OCCUPYING, Gang, GangId
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

MOST = 10_000


class Displaced:
    """The gangs that were stopped so that others have room."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, bool] = {}
        """With whether each is spared."""

    def note(self, gang: GangId) -> None:
        """A gang was stopped; of very many, the first ones are forgotten."""
        self._gangs.setdefault(gang, False)
        if len(self._gangs) > MOST:
            self._gangs.pop(next(iter(self._gangs)))

    def forget(self, gang: GangId) -> None:
        """A gang has ended."""
        self._gangs.pop(gang, None)

    def standing(self, gang: Gang) -> Gang:
        """The gang as it stands: spared or not."""
        return replace(gang, spared=True) if self._gangs.get(gang.id) else gang

    def changes(self, cluster: Cluster) -> Iterator[Gang]:
        """The waiting gangs that are spared from now on, or no longer.

        One for which the guarantee has no room does not wait for it: it may borrow again.
        """
        if cluster.settings.victims is not Victims.LEAST_HARM:
            return
        limits = Limits(cluster) if self._gangs else None
        for name in self._gangs:
            gang = cluster.gangs.get(name)
            if limits is None or gang is None or _is_there(cluster, gang):
                continue
            spared = replace(gang, spared=True)
            need = limits.need(progress(cluster, name).counts)
            keeps_nothing = gang.saved_at is None
            self._gangs[name] = keeps_nothing and limits.beyond(spared, need) is None
            if self._gangs[name] != gang.spared:
                yield replace(gang, spared=self._gangs[name])


def _is_there(cluster: Cluster, gang: Gang) -> bool:
    """Does it run, or is it still on its way out? It stands as it was started."""
    return any(task.state in OCCUPYING for task in cluster.members(gang.id))
