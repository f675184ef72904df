"""`windlass jobs`: the gangs of a cluster, with the conditions that the scheduler wrote on pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import sentence
from windlass.cli.options import (
    cluster_options,
    load_config,
    namespace_option,
    namespace_or_default,
)
from windlass.model.errors import one_line
from windlass.model.reasons import display_name

if TYPE_CHECKING:
    from windlass.daemon.loop import ClusterReading
    from windlass.model.jobs import Gang, Task

STATES = ("waiting", "running", "leaving")
HEAD = ("job", "queue", "state", "pods", "GPUs", "nodes", "age")
NO_REASON = "The scheduler has not said why yet; `windlass doctor` checks that it is running."


@dataclass(frozen=True, slots=True)
class JobRow:
    """One gang as the table shows it."""

    namespace: str
    name: str
    """The name of the gang: that of its job, unless the job has several gangs."""
    job: str
    queue: str
    state: str
    pods_on_nodes: int
    pods: int
    pods_needed: int
    milli_gpus: int
    """The GPUs that its pods have and request, in thousandths."""
    nodes: int
    created_at: int
    reason: str
    """The reason of the condition of a waiting pod, in one word; empty if there is none."""
    message: str
    """The message of that condition."""
    eta: str
    """The expected start as a clause; empty if it is not known."""


@click.command("jobs")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue and the queues below it.")
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="The jobs of all namespaces."
)
@click.option("--json", "json_", is_flag=True, help="Print the jobs as JSON.")
@namespace_option
@cluster_options
def command(
    queue: str | None,
    state: str | None,
    everywhere: bool,
    json_: bool,
    namespace: str | None,
    **cluster: str | None,
) -> None:
    """Show the jobs that wait and run: gangs, not pods.

    The column pods counts the pods on nodes, of all pods that exist. The reason of a waiting job is
    the one that the scheduler wrote on its pods; `windlass explain` says more. Rights to one
    namespace are enough to see its jobs.
    """
    from windlass.daemon.loop import read_cluster

    config = load_config(**cluster)
    where = "" if everywhere else namespace_or_default(config, namespace)
    sight = asyncio.run(read_cluster(config, where))
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
    for line in _lines(rows, sight.now, where):
        click.echo(line)


def rows_of(sight: ClusterReading) -> list[JobRow]:
    """Return the gangs of this scheduler: waiting ones first, in each state the oldest first."""
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


def _row(sight: ClusterReading, gang: Gang) -> JobRow:
    from windlass.forecast.text import eta_in_message
    from windlass.model.jobs import ACTIVE, OCCUPYING
    from windlass.workloads.objects import QUEUE, mark

    tasks = list(sight.cluster.members(gang.id))
    state = _state(gang, tasks)
    reason, message = _condition(sight, tasks) if state == "waiting" else ("", "")
    requests = [task.shape.request for task in tasks]
    extra = sight.cluster.columns.extra_gpus.least
    namespace, _, name = gang.id.partition("/")
    return JobRow(
        namespace=namespace,
        name=display_name(name),
        job=gang.job.partition("/")[2],
        queue=gang.queue or mark(sight.pods[tasks[0].id].metadata, QUEUE),
        state=state,
        pods_on_nodes=sum(task.state in ACTIVE for task in tasks),
        pods=len(tasks),
        pods_needed=gang.needed(),
        milli_gpus=sum(request.gpu.count * request.gpu.milli for request in requests if request.gpu)
        + sum(extra(request) for request in requests if request.extra),
        nodes=len({task.node for task in tasks if task.state in OCCUPYING}),
        created_at=gang.created_at,
        reason=reason,
        message=message,
        eta=eta_in_message(message, sight.cluster.now),
    )


def _state(gang: Gang, tasks: list[Task]) -> str:
    """Return the state of a gang: running needs its minimum in every group."""
    from windlass.model.jobs import ACTIVE, COUNTED, TaskState

    counts = Counter(task.group for task in tasks if task.state in COUNTED)
    if any(task.state in ACTIVE for task in tasks) and gang.has_minimum(counts):
        return "running"
    is_leaving = any(task.state == TaskState.RELEASING for task in tasks)
    waits = any(task.state == TaskState.WAITING for task in tasks)
    return "leaving" if is_leaving and not waits else "waiting"


def _condition(sight: ClusterReading, tasks: list[Task]) -> tuple[str, str]:
    """Return reason and message that the scheduler wrote on the first waiting pod that has them."""
    from windlass.model.jobs import TaskState
    from windlass.workloads.objects import condition

    for task in tasks:
        if task.state == TaskState.WAITING:
            scheduled = condition(sight.pods[task.id], "PodScheduled")
            if scheduled is not None and scheduled.message:
                return scheduled.reason, scheduled.message
    return "", ""


def _path(sight: ClusterReading, queue: str) -> Iterator[str]:
    """Yield a queue and all queues above it; a circle of parents is left after one round."""
    seen: set[str] = set()
    while queue and queue not in seen:
        yield queue
        seen.add(queue)
        current = sight.cluster.queues.get(queue)
        queue = current.parent if current else ""


def _lines(rows: list[JobRow], now: int, where: str) -> Iterator[str]:
    """Yield the table, with reason and ETA below each waiting job."""
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
            reason = one_line(row.message.removesuffix(row.eta).rstrip("; "))
            text = sentence(reason) or NO_REASON
            yield from wrap(text, 78, initial_indent="    ", subsequent_indent="    ", max_lines=3)
            if row.eta:
                yield f"    {sentence(row.eta)}"


def _cells(row: JobRow, now: int) -> tuple[str, ...]:
    from windlass.cli.format import duration, gpus

    pods = f"{row.pods_on_nodes}/{row.pods}"
    age = duration(max(0, now - row.created_at))
    queue = one_line(row.queue) or "-"  # it may come from an annotation, which can hold anything
    return (queue, row.state, pods, gpus(row.milli_gpus), str(row.nodes), age)


def _as_json(rows: list[JobRow], now: int) -> str:
    from windlass.cli.output import as_json
    from windlass.model.gpus import WHOLE

    def shown(row: JobRow) -> dict[str, Any]:
        values = asdict(row) | {"gpus": row.milli_gpus / WHOLE}
        del values["milli_gpus"]
        return values

    return as_json({"now": now, "jobs": [shown(row) for row in rows]})
