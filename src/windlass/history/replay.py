"""The recorded cycles once more, through the same engine: the same plans, or where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.history.record import RecordedCycle, StretchStart, actions_as_bytes, digest_of
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Again:
    """A recorded cycle, and what the engine says to it now."""

    cycle: RecordedCycle
    cluster: Cluster
    """As the plan found it; look at it before the next is asked for."""
    plan: Plan
    is_same: bool
    """Every action, hold, share, decision and reason."""

    @property
    def acts_the_same(self) -> bool:
        """Are at least the actions the same, to the letter?"""
        return actions_as_bytes(self.plan.actions) == actions_as_bytes(self.cycle.actions)


def again(start: StretchStart, cycles: Iterable[RecordedCycle]) -> Iterator[Again]:
    """A stretch played again; after other actions it ends, for it would be another cluster."""
    cluster = start.cluster()
    is_first = True
    for cycle in cycles:
        if not is_first:
            _hear(cluster, cycle)
        is_first = False
        cluster.version += 1  # so that nothing is answered from memory
        found = Again(cycle, cluster, made := plan(cluster), digest_of(made) == cycle.digest)
        yield found
        if not found.is_same and not found.acts_the_same:
            return
        cluster.assume(made)


def _hear(cluster: Cluster, cycle: RecordedCycle) -> None:
    for each in cycle.heard:
        if isinstance(each, int):
            cluster.advance(each)
        else:
            cluster.apply(each)
    if cycle.holds is not None:
        cluster.holds = {hold.gang: hold for hold in cycle.holds}
