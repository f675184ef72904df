"""The last plan, and whether it still is the answer: nothing changed, so neither does the plan."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.engine.plan import Plan
from windlass.engine.preemption.forced_evictions import changes_at, overrun_at, stale_at
from windlass.engine.queueing.failing import tried_again_at
from windlass.model.actions import Hold
from windlass.model.jobs import Gang
from windlass.state.cluster import Cluster


class PlanCache:
    """The plan of an earlier cycle over the same columns."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._told = True
        self.plan = Plan()

    def still_holds(self, told: bool) -> bool:
        """Has nothing happened since, and is no instant reached at which time alone matters?"""
        wake = self.plan.wake_at
        same = self._version == self._cluster.version and self._told == told
        return same and (wake is None or self._cluster.now < wake)

    def keep(self, plan: Plan, told: bool) -> Plan:
        """Remember a plan for the state as it is, and whether it tells all its reasons."""
        self.plan, self._version, self._told = plan, self._cluster.version, told
        return plan


def wake_at(
    cluster: Cluster,
    waiting: Iterable[Gang],
    holds: Iterable[Hold],
    by_time: Iterable[int | None],
) -> int | None:
    """The next instant at which the answer can change without an event."""
    settings = cluster.settings
    instants = [gang.created_at + settings.reserve_after_s for gang in waiting]
    for hold in holds:
        patience = settings.stuck_after_s if hold.firm else settings.reserve_after_s
        instants += [hold.starts_at, hold.starts_at + patience + 1]
    instants += stale_at(cluster)
    instants += overrun_at(cluster)
    instants += changes_at(cluster)
    instants += tried_again_at(cluster)
    instants += (instant for instant in by_time if instant is not None)
    return min((instant for instant in instants if instant > cluster.now), default=None)
