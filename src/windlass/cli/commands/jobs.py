"""`windlass jobs`: the gangs of a cluster, with what the scheduler has told their pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import in_namespace, namespace_or_own, reaching, settings
from windlass.model.display_names import known_as
from windlass.model.errors import one_line

if TYPE_CHECKING:
    from windlass.daemon.loop.read_cluster import Sight
    from windlass.model.jobs import Gang, Task

STATES = ("waiting", "running", "leaving")
HEAD = ("job", "queue", "state", "pods", "GPUs", "nodes", "age")
SILENCE = "the scheduler has not said why yet; `windlass doctor` checks that it is at work"


@dataclass(frozen=True, slots=True)
class JobRow:
    """One gang."""

    namespace: str
    name: str
    """Of the gang: that of its job, unless the job has several."""
    job: str
    queue: str
    state: str
    pods_on_nodes: int
    pods: int
    pods_needed: int
    milli_gpus: int
    """What its pods have and ask for, in thousandths."""
    nodes: int
    created_at: int
    reason: str
    """Why it waits, in one word for programs, and in a sentence."""
    message: str
    eta: str
    """When it is expected to start, in a sentence; empty if nobody knows."""


@click.command("jobs")
@click.option("--queue", metavar="NAME", help="Only of this queue and those below it.")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
@click.option("--json", "json_", is_flag=True, help="Print the jobs as JSON.")
@in_namespace
@reaching
def command(
    queue: str | None,
    state: str | None,
    everywhere: bool,
    json_: bool,
    namespace: str | None,
    **reach: str | None,
) -> None:
    """Show the jobs that wait and run: gangs, not pods.

    PODS are those on nodes, of those that exist. Why a job waits is what the scheduler wrote on its
    pods; `windlass explain` says more. Rights to one namespace are enough to see its jobs.
    """
    from windlass.daemon.loop.read_cluster import look

    config = settings(**reach)
    where = "" if everywhere else namespace_or_own(config, namespace)
    sight = asyncio.run(look(config, where))
    rows = [
        row
        for row in rows_of(sight)
        if (not where or row.namespace == where)
        and (not state or row.state == state)
        and (not queue or queue in _path(sight, row.queue))
    ]
    if json_:
        click.echo(_as_json(rows, sight.now))
        return
    for line in _told(rows, sight.now, where):
        click.echo(line)


def rows_of(sight: Sight) -> list[JobRow]:
    """The gangs that the scheduler answers for: who waits first, the oldest in front."""
    schedulers = sight.config.scheduler_names
    rows = [
        _row(sight, gang)
        for gang in sight.cluster.gangs.values()
        if any(
            sight.pods[task.id].spec.scheduler_name in schedulers
            for task in sight.cluster.members(gang.id)
        )
    ]
    return sorted(
        rows, key=lambda row: (STATES.index(row.state), row.created_at, row.namespace, row.name)
    )


def _row(sight: Sight, gang: Gang) -> JobRow:
    from windlass.forecast.text import found_in
    from windlass.model.jobs import ACTIVE, OCCUPYING
    from windlass.workloads.objects.annotations import QUEUE, mark

    tasks = list(sight.cluster.members(gang.id))
    state = _state(gang, tasks)
    said = _said(sight, tasks) if state == "waiting" else ("", "")
    asked = [task.shape.request for task in tasks]
    extra = sight.cluster.columns.extra_gpus.least
    namespace, _, name = gang.id.partition("/")
    return JobRow(
        namespace=namespace,
        name=known_as(name),
        job=gang.job.partition("/")[2],
        queue=gang.queue or mark(sight.pods[tasks[0].id].metadata, QUEUE),
        state=state,
        pods_on_nodes=sum(task.state in ACTIVE for task in tasks),
        pods=len(tasks),
        pods_needed=gang.needed(),
        milli_gpus=sum(each.gpu.count * each.gpu.milli for each in asked if each.gpu)
        + sum(extra(each) for each in asked if each.extra),
        nodes=len({task.node for task in tasks if task.state in OCCUPYING}),
        created_at=gang.created_at,
        reason=said[0],
        message=said[1],
        eta=found_in(said[1], sight.cluster.now),
    )


def _state(gang: Gang, tasks: list[Task]) -> str:
    from windlass.model.jobs import ACTIVE, COUNTED, TaskState

    there = Counter(task.group for task in tasks if task.state in COUNTED)
    if any(task.state in ACTIVE for task in tasks) and gang.has_minimum(there):
        return "running"
    is_leaving = any(task.state == TaskState.RELEASING for task in tasks)
    waits = any(task.state == TaskState.WAITING for task in tasks)
    return "leaving" if is_leaving and not waits else "waiting"


def _said(sight: Sight, tasks: list[Task]) -> tuple[str, str]:
    """What the scheduler wrote on the first of its pods that waits."""
    from windlass.model.jobs import TaskState
    from windlass.workloads.objects.wire import condition

    for task in tasks:
        if task.state == TaskState.WAITING:
            found = condition(sight.pods[task.id], "PodScheduled")
            if found is not None and found.message:
                return found.reason, found.message
    return "", ""


def _path(sight: Sight, queue: str) -> Iterator[str]:
    """A queue and those above it."""
    seen: set[str] = set()
    while queue and queue not in seen:
        yield queue
        seen.add(queue)
        known = sight.cluster.queues.get(queue)
        queue = known.parent if known else ""


def _told(rows: list[JobRow], now: int, where: str) -> Iterator[str]:
    from windlass.cli.output import table

    if not rows:
        yield f"There are no such jobs{f' in namespace {where}' if where else ''}."
        return
    names = [row.name if where else f"{row.namespace}/{row.name}" for row in rows]
    cells = [(name, *_cells(row, now)) for name, row in zip(names, rows, strict=True)]
    head, *lines = table(HEAD, cells, left=3).split("\n")
    yield head
    for row, line in zip(rows, lines, strict=True):
        yield line
        if row.state == "waiting":
            why = one_line(row.message.removesuffix(row.eta).rstrip("; ")) or SILENCE
            yield from wrap(why, 78, initial_indent="    ", subsequent_indent="    ", max_lines=3)
            yield from filter(None, [row.eta and f"    {row.eta}"])


def _cells(row: JobRow, now: int) -> tuple[str, ...]:
    from windlass.cli.format import duration, gpus

    pods = f"{row.pods_on_nodes}/{row.pods}"
    age = duration(max(0, now - row.created_at))
    queue = one_line(row.queue) or "-"  # it may stand in an annotation, with anything in it
    return (queue, row.state, pods, gpus(row.milli_gpus), str(row.nodes), age)


def _as_json(rows: list[JobRow], now: int) -> str:
    from windlass.cli.output import as_json
    from windlass.model.gpus import WHOLE

    def shown(row: JobRow) -> dict[str, Any]:
        found = asdict(row) | {"gpus": row.milli_gpus / WHOLE}
        del found["milli_gpus"]
        return found

    return as_json({"now": now, "jobs": [shown(row) for row in rows]})
