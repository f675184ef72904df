"""What would come of a cluster if its plans were carried out now, with no time passing.

Tasks that are bound run at once, those on their way out are gone, and their successors wait. What
is stuck stays stuck. A gang that only time would help is not helped here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.events import TaskGone, TaskSeen, TaskStarted
from windlass.model.jobs import Task, TaskId, TaskState
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

MOST_CYCLES = 64


def rehearse(snapshot: Snapshot) -> Iterator[tuple[Cluster, Plan]]:
    """A copy of the cluster and its plan, cycle by cycle, until a plan does nothing.

    Look at each pair before the next is asked for: the plan is carried out then.
    """
    cluster = Cluster.of(snapshot)
    for _ in range(MOST_CYCLES):
        found = plan(cluster)
        yield cluster, found
        cluster.assume(found)
        for bind in found.binds:
            cluster.apply(TaskStarted(bind.task))
        left = _leave(cluster)
        if not left and is_rest(found):
            return


def is_rest(found: Plan) -> bool:
    """Does a plan neither do anything nor leave a search unfinished?"""
    return not found.actions and not found.searched


def _leave(cluster: Cluster) -> int:
    """Let go what is on its way out; the number of tasks that went."""
    patience = cluster.settings.stuck_after_s
    gone = [
        task
        for task in cluster.leaving()
        if task.releasing_since is None or cluster.now - task.releasing_since <= patience
    ]
    for task in gone:
        cluster.apply(TaskGone(task.id))
        cluster.apply(TaskSeen(_successor(task, cluster)))
    return len(gone)


def _successor(task: Task, cluster: Cluster) -> Task:
    """The task that its owner would make in its place."""
    number = 1
    while (name := TaskId(f"{task.id}.r{number}")) in cluster.tasks:
        number += 1
    fresh = replace(task, id=name, state=TaskState.WAITING, node="", devices=())
    return replace(fresh, started_at=None, releasing_since=None)
