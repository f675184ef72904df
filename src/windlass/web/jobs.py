"""Who waits and why, who runs and where, who has finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.jobs import OCCUPYING, GangId, Task
from windlass.model.reasons import Reason
from windlass.model.resources import describe
from windlass.state.accounts import models_of
from windlass.state.cluster import Cluster
from windlass.web.asked import Asked, is_waiting, waiting_tasks
from windlass.web.documents import (
    FinishedJob,
    JobsDocument,
    ReasonRow,
    RunningJob,
    Stamp,
    WaitingJob,
)

MOST_ROWS = 500
"""Of each kind; more than anybody reads, and little enough to send again and again."""


def jobs_document(
    stamp: Stamp, cluster: Cluster, plan: Plan, finished: Sequence[FinishedJob] = ()
) -> JobsDocument:
    """The line in its order, then what runs, the newest first."""
    line = sorted(
        (each for each in plan.decisions if is_waiting(each) and each.gang in cluster.gangs),
        key=lambda each: (each.verdict is Verdict.NEVER, each.position, each.gang),
    )
    starts = {hold.gang: hold.starts_at for hold in plan.holds if hold.starts_at > cluster.now}
    asked, members = Asked(cluster), _occupying(cluster)
    newest = nsmallest(
        MOST_ROWS, ((-_since(cluster, gang, tasks), gang) for gang, tasks in members.items())
    )
    return JobsDocument(
        stamp=stamp,
        waiting_in_all=len(line),
        running_in_all=len(members),
        waiting=[
            _waiting(cluster, asked, each, starts.get(each.gang)) for each in line[:MOST_ROWS]
        ],
        running=[_running(cluster, gang, members[gang]) for _, gang in newest],
        finished=list(finished[:MOST_ROWS]),
    )


def reason_rows(reasons: Iterable[Reason]) -> list[ReasonRow]:
    """Reasons as programs and people read them."""
    return [ReasonRow(str(each.why), str(each)) for each in reasons]


def given_milli(task: Task) -> int:
    """The GPU thousandths that a task has."""
    return sum(each.milli for each in task.devices)


def _waiting(
    cluster: Cluster, asked: Asked, decision: Decision, starts_at: int | None
) -> WaitingJob:
    gang = cluster.gangs[decision.gang]
    tasks = waiting_tasks(cluster, gang.id)
    never = decision.verdict is Verdict.NEVER
    return WaitingJob(
        gang=gang.id,
        job=gang.job,
        queue=gang.queue,
        user=gang.user,
        priority=gang.priority,
        position=0 if never else decision.position,
        asks=describe(tasks[0].shape.request) if tasks else "",
        tasks=len(tasks),
        milli=asked.of(tasks),
        since=gang.created_at,
        starts_at=starts_at,
        reasons=reason_rows(decision.reasons),
    )


def _occupying(cluster: Cluster) -> dict[GangId, list[Task]]:
    found: dict[GangId, list[Task]] = {}
    for task in cluster.tasks.values():
        if task.state in OCCUPYING:
            found.setdefault(task.gang, []).append(task)
    return found


def _running(cluster: Cluster, gang_id: GangId, tasks: Sequence[Task]) -> RunningJob:
    gang = cluster.gangs[gang_id]
    models = {
        model
        for task in tasks
        for model, _ in models_of(task.devices, cluster.nodes.get(task.node))
    }
    return RunningJob(
        gang=gang.id,
        job=gang.job,
        queue=gang.queue,
        user=gang.user,
        priority=gang.priority,
        tasks=len(tasks),
        milli=sum(given_milli(task) for task in tasks),
        models=sorted(models),
        nodes=sorted({task.node for task in tasks}),
        since=_since(cluster, gang_id, tasks),
    )


def _since(cluster: Cluster, gang: GangId, tasks: Sequence[Task]) -> int:
    started = [task.started_at for task in tasks if task.started_at is not None]
    return min(started, default=cluster.gangs[gang].created_at)
