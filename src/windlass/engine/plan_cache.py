"""The last plan, and the test whether it is still valid: without a change the plan is the same."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.engine.plan import Plan
from windlass.engine.preemption import node_changes_at, overrun_at, stale_at
from windlass.engine.queueing import Backlog, retry_times
from windlass.model.actions import Hold
from windlass.model.jobs import Gang
from windlass.state.cluster import Cluster


class PlanCache:
    """The plan of the last cycle over the same columns.

    It rests on three things: every event raises `cluster.version`; everything that changes by time
    alone is in the plan's `wake_at`; and the same gangs are considered.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._backlog_of: Backlog | None = None
        self.plan = Plan()

    def is_valid(self, backlog_of: Backlog) -> bool:
        """Return whether no event came since, and `wake_at` is not reached."""
        wake = self.plan.wake_at
        same = self._version == self._cluster.version and self._backlog_of is backlog_of
        return same and (wake is None or self._cluster.now < wake)

    def store(self, plan: Plan, backlog_of: Backlog) -> Plan:
        """Keep a plan for the current state and choice of gangs; return it."""
        self.plan, self._version, self._backlog_of = plan, self._cluster.version, backlog_of
        return plan


def wake_at(
    cluster: Cluster,
    waiting: Iterable[Gang],
    holds: Iterable[Hold],
    by_time: Iterable[int | None],
) -> int | None:
    """Return the next instant at which the plan can change without an event; None if there is none.

    `by_time` are further instants that the steps of the cycle found.
    """
    settings = cluster.settings
    instants = [gang.created_at + settings.reserve_after_s for gang in waiting]
    for hold in holds:
        patience = settings.stuck_after_s if hold.firm else settings.reserve_after_s
        instants += [hold.starts_at, hold.starts_at + patience + 1]
    instants += stale_at(cluster)
    instants += overrun_at(cluster)
    instants += node_changes_at(cluster)
    instants += retry_times(cluster)
    instants += (instant for instant in by_time if instant is not None)
    return min((instant for instant in instants if instant > cluster.now), default=None)
