"""Repeat protection: no gang loses its work to other queues twice.

A gang that was stopped so that others have room, and had saved nothing or was stopped as often as
it may be (`Gang.stops_at_most`), is spared from then on, if the guarantee of its queue has room for
it beside all other work that cannot be reclaimed. It then starts within that guarantee only, and so
takes nothing from other queues. Without this the same gang would start on borrowed GPUs, run for
hours and be stopped again, day after day: most of the GPU time that displacing costs is lost by few
gangs, again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from windlass.engine.queueing import Limits, Progress, gang_progress
from windlass.model.jobs import OCCUPYING, Gang, GangId
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

MOST = 10_000
"""The number of stopped gangs that are remembered; of more, the first one is forgotten."""


class DisplacedGangs:
    """The gangs that were stopped so that others have room: the memory of a leader."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, tuple[int, bool]] = {}
        """The number of stops of each gang, and whether it is spared."""
        self._homes: dict[GangId, tuple[str, ...]] = {}
        """The nodes that each gang ran on when it was last stopped; the same keys as `_gangs`."""

    def note(self, gang: GangId, nodes: Iterable[str]) -> None:
        """Count one more stop of a gang that ran on these nodes."""
        stops, spared = self._gangs.get(gang, (0, False))
        self._gangs[gang] = stops + 1, spared
        self._homes[gang] = tuple(sorted(set(nodes)))
        if len(self._gangs) > MOST:
            self.forget(next(iter(self._gangs)))

    def forget(self, gang: GangId) -> None:
        """Forget a gang that has ended."""
        self._gangs.pop(gang, None)
        self._homes.pop(gang, None)

    def standing(self, gang: Gang) -> Gang:
        """Return the gang as remembered: with its number of stops, its last nodes, and whether
        spared."""
        stops, spared = self._gangs.get(gang.id, (0, False))
        home = self._homes.get(gang.id, ())
        return replace(gang, spared=spared, stops=stops, home=home) if stops else gang

    def changes(self, cluster: Cluster) -> Iterator[Gang]:
        """Yield the waiting gangs whose stops or protection differ from the cluster's record.

        A gang for which the guarantee has no room is not spared: it may borrow again.
        """
        if cluster.settings.victims is not Victims.LEAST_HARM:
            return
        limits = Limits(cluster) if self._gangs else None
        for name, (stops, _) in self._gangs.items():
            gang = cluster.gangs.get(name)
            if limits is None or gang is None or _occupies_nodes(cluster, gang):
                continue
            most = gang.stops_at_most
            is_due = gang.saved_at is None or (most is not None and stops >= most)
            need = limits.need(gang_progress(cluster, name).counts)
            is_spared = is_due and limits.exceeded_rule(replace(gang, spared=True), need) is None
            self._gangs[name] = stops, is_spared
            changed = self.standing(gang)
            if changed != gang:
                yield changed


def is_protection_outdated(limits: Limits, waiting: Iterable[Progress]) -> bool:
    """Return whether some waiting gang is spared although its queue's guarantee has no room for it
    now."""
    return any(
        limits.exceeded_rule(progress.gang, limits.need(progress.counts)) is not None
        for progress in waiting
        if progress.gang.spared
    )


def _occupies_nodes(cluster: Cluster, gang: Gang) -> bool:
    """Return whether any task still occupies a node; the protection of the gang is then frozen."""
    return any(task.state in OCCUPYING for task in cluster.members(gang.id))
