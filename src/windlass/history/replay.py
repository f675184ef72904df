"""The replay of recorded cycles with the same engine, compared plan by plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.history.record import RecordedCycle, StretchStart, actions_as_bytes, digest_of
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ReplayedCycle:
    """A recorded cycle, and the plan that the engine makes of it now."""

    cycle: RecordedCycle
    cluster: Cluster
    """The cluster as the plan saw it; valid only until the iterator advances."""
    plan: Plan
    is_same: bool
    """True if every action, hold, share, decision and reason is as recorded."""

    @property
    def acts_the_same(self) -> bool:
        """Return whether the actions are exactly as recorded."""
        return actions_as_bytes(self.plan.actions) == actions_as_bytes(self.cycle.actions)


def replay_stretch(start: StretchStart, cycles: Iterable[RecordedCycle]) -> Iterator[ReplayedCycle]:
    """Yield the cycles of a stretch with their plans of now.

    After a cycle with other actions the replay ends, because the recorded events that follow belong
    to a cluster in another state.
    """
    cluster = start.cluster()
    is_first = True
    for cycle in cycles:
        if not is_first:
            _apply_inputs(cluster, cycle)
        is_first = False
        cluster.version += 1  # so that the engine does not return a cached plan
        made = plan(cluster)
        replayed = ReplayedCycle(cycle, cluster, made, digest_of(made) == cycle.digest)
        yield replayed
        if not replayed.is_same and not replayed.acts_the_same:
            return
        cluster.assume(made)


def _apply_inputs(cluster: Cluster, cycle: RecordedCycle) -> None:
    for entry in cycle.heard:
        if isinstance(entry, int):
            cluster.advance(entry)
        else:
            cluster.apply(entry)
    if cycle.holds is not None:
        cluster.holds = {hold.gang: hold for hold in cycle.holds}
