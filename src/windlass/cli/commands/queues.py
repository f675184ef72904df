"""`windlass queues`: the tree of queues with the numbers of their status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import sentence
from windlass.cli.options import cluster_options, load_config
from windlass.cli.output import as_json, table

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.crds.amounts import DimensionAmounts
    from windlass.crds.queue import QueueStatus
    from windlass.model.queues import Queue
    from windlass.workloads.objects import Owner

HEAD = ("queue", "guarantee", "share", "allocated", "borrowed", "limit", "waiting")
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue, in thousandths of GPUs; None where its status has no value."""

    name: str
    depth: int
    parent: str
    guarantee: int | None
    share: int | None
    allocated: int | None
    borrowed: int | None
    lent: int | None
    limit: int | None
    waiting: int | None
    """The number of waiting gangs."""
    gpu_hours: int | None
    """The past usage in thousandths of GPU-hours."""
    trouble: str
    """The reason why it is not ready; empty if it is, or if it was not checked yet."""


@click.command("queues")
@click.option("--json", "json_", is_flag=True, help="Print the queues as JSON.")
@cluster_options
def command(json_: bool, **cluster: str | None) -> None:
    """Show the tree of queues: guarantees, shares, allocations, limits and waiting gangs.

    Numbers are GPUs and include all queues below. The column waiting counts gangs.
    """
    lines = lines_of(asyncio.run(_read(load_config(**cluster))))
    if json_:
        click.echo(as_json({"queues": [_as_json(line) for line in lines]}))
        return
    for text in queue_lines(lines):
        click.echo(text)


async def _read(config: Config) -> list[Owner]:
    from windlass.crds.definitions import QUEUE
    from windlass.daemon.loop import NO_CRDS, ClusterUnreadable, open_api
    from windlass.kube.client import NotFound, list_all
    from windlass.workloads.objects import Owner

    async with open_api(config) as api:
        try:
            return await list_all(api, QUEUE.path(), Owner)
        except NotFound:
            raise ClusterUnreadable(f"queues: {NO_CRDS}") from None


def lines_of(objects: Iterable[Owner]) -> list[QueueLine]:
    """Return all queues in the order of the tree; a queue in a circle of parents as well."""
    from windlass.cli.render.queue_table import in_tree
    from windlass.crds.queue_validation import with_usable_parents
    from windlass.crds.read import read_queue
    from windlass.model.queues import Queue

    by_name = {queue.metadata.name: queue for queue in objects}
    parsed = {name: read_queue(name, queue.spec).value for name, queue in by_name.items()}
    queues = [owned.queue if owned else Queue(name) for name, owned in sorted(parsed.items())]
    tree = {queue.name: queue for queue in with_usable_parents(queues)}
    return [_line(queue, depth, by_name[queue.name]) for queue, depth in in_tree(tree)]


def _line(queue: Queue, depth: int, manifest: Owner) -> QueueLine:
    from windlass.model.queues import GPU, ROOT, guaranteed

    status = _status(manifest.status)
    return QueueLine(
        queue.name,
        depth,
        "" if queue.parent == ROOT else queue.parent,
        guaranteed(queue, GPU),
        *map(_gpu, (status.share, status.allocated, status.borrowed, status.lent)),
        limit=queue.limit.get(GPU),
        waiting=status.waiting.gangs if status.waiting else None,
        gpu_hours=status.usage.gpu_hours if status.usage else None,
        trouble=next(
            (condition.message for condition in status.conditions if condition.status == "False"),
            "",
        ),
    )


def _status(status: dict[str, Any]) -> QueueStatus:
    """Parse a status; return an empty one if it is of a version that cannot be read."""
    from pydantic import ValidationError

    from windlass.crds.queue import QueueStatus

    try:
        return QueueStatus.model_validate(status)
    except ValidationError:
        return QueueStatus()


def _gpu(amounts: DimensionAmounts | None) -> int | None:
    return None if amounts is None else amounts.gpu or 0


def queue_lines(lines: list[QueueLine]) -> Iterator[str]:
    """Yield the tree as a table, and below it the queues that are not ready."""
    if not lines:
        yield "There are no queues yet; docs/reference/queue.md shows how to write one."
        return
    yield table(HEAD, [_cells(line) for line in lines])
    for line in lines:
        if line.trouble:
            text = sentence(f"{line.name} is not ready: {line.trouble}", line.name)
            yield click.wrap_text(text, 78, "", "  ")
    if all(line.allocated is None for line in lines):
        yield "No status is written yet; `windlass doctor` checks whether a scheduler leads."


def _cells(line: QueueLine) -> tuple[str, ...]:
    from windlass.cli.format import gpus

    amounts = (line.guarantee, line.share, line.allocated, line.borrowed)
    shown = [UNKNOWN if amount is None else gpus(amount) for amount in amounts]
    limit = "none" if line.limit is None else gpus(line.limit)
    waiting = UNKNOWN if line.waiting is None else f"{line.waiting:,}"
    mark = " !" if line.trouble else ""
    return ("  " * min(line.depth, 8) + line.name + mark, *shown, limit, waiting)


def _as_json(line: QueueLine) -> dict[str, Any]:
    from windlass.model.gpus import WHOLE

    amounts = {
        "guarantee_gpus": line.guarantee,
        "share_gpus": line.share,
        "allocated_gpus": line.allocated,
        "borrowed_gpus": line.borrowed,
        "lent_gpus": line.lent,
        "limit_gpus": line.limit,
        "gpu_hours": line.gpu_hours,
    }
    in_gpus = {key: None if milli is None else milli / WHOLE for key, milli in amounts.items()}
    place = {"queue": line.name, "parent": line.parent or None, "depth": line.depth}
    return place | in_gpus | {"waiting_gangs": line.waiting, "trouble": line.trouble or None}
