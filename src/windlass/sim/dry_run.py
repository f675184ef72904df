"""Dry runs: carry the plans of a cluster out on a copy, with no time passing.

Bound tasks run at once, terminating tasks are gone, and their successors wait. Stuck tasks stay
stuck. A gang that only time would help is not helped here.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.forecast.forward_run import successor
from windlass.model.events import TaskGone, TaskSeen, TaskStarted
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

MOST_CYCLES = 64


def rehearse(snapshot: Snapshot) -> Iterator[tuple[Cluster, Plan]]:
    """Yield a copy of the cluster and its plan, cycle by cycle, until a plan changes nothing.

    Use each pair before the next is requested: the plan is carried out then.
    """
    cluster = Cluster.of(snapshot)
    for _ in range(MOST_CYCLES):
        found = plan(cluster)
        yield cluster, found
        cluster.assume(found)
        for bind in found.binds:
            cluster.apply(TaskStarted(bind.task))
        left = _leave(cluster)
        if not left and is_rest(found, cluster.now):
            return


def is_rest(found: Plan, now: int) -> bool:
    """Return whether a plan does nothing and leaves no unfinished search that would go on
    at once."""
    return not found.actions and (found.wake_at is None or found.wake_at > now + 1)


def _leave(cluster: Cluster) -> int:
    """Remove the tasks that are terminating, and return their number."""
    gone = cluster.coming_free()
    for task in gone:
        cluster.apply(TaskGone(task.id))
        cluster.apply(TaskSeen(successor(task, cluster)))
    return len(gone)
