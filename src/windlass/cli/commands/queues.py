"""`windlass queues`: the tree of queues as their status tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import reaching, settings
from windlass.cli.output import as_json, table

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.crds.amounts import DimensionAmounts
    from windlass.crds.queue import QueueStatus
    from windlass.model.queues import Queue
    from windlass.workloads.objects.wire import Owner

HEAD = ("queue", "guarantee", "share", "allocated", "borrowed", "limit", "waiting")
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue: GPUs in thousandths, None where nothing was said."""

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
    """Gangs."""
    gpu_hours: int | None
    """Thousandths as well."""
    trouble: str
    """Why it is not ready; empty if it is, or if nobody has judged it yet."""


@click.command("queues")
@click.option("--json", "json_", is_flag=True, help="Print the queues as JSON.")
@reaching
def command(json_: bool, **reach: str | None) -> None:
    """Show the tree of queues: what each is guaranteed, should have, has, and who waits.

    Numbers are GPUs, with all queues below included; waiting counts gangs.
    """
    lines = lines_of(asyncio.run(_read(settings(**reach))))
    if json_:
        click.echo(as_json({"queues": [_as_json(each) for each in lines]}))
        return
    for text in told(lines):
        click.echo(text)


async def _read(config: Config) -> list[Owner]:
    from windlass.crds.definitions import QUEUE
    from windlass.daemon.loop.read_cluster import NO_CRDS, CannotLook, opened
    from windlass.kube.client.client import list_all
    from windlass.kube.client.errors import NotFound
    from windlass.workloads.objects.wire import Owner

    async with opened(config) as api:
        try:
            return await list_all(api, QUEUE.path(), Owner)
        except NotFound:
            raise CannotLook(f"queues: {NO_CRDS}") from None


def lines_of(objects: Iterable[Owner]) -> list[QueueLine]:
    """All queues, each below its parent."""
    from windlass.cli.render.queue_table import in_tree
    from windlass.crds.queue_validation import mended
    from windlass.crds.read import read_queue
    from windlass.model.queues import Queue

    by_name = {each.metadata.name: each for each in objects}
    read = {name: read_queue(name, each.spec).noun for name, each in by_name.items()}
    queues = [owned.queue if owned else Queue(name) for name, owned in sorted(read.items())]
    tree = {queue.name: queue for queue in mended(queues)}
    return [_line(queue, depth, by_name[queue.name]) for queue, depth in in_tree(tree)]


def _line(queue: Queue, depth: int, found: Owner) -> QueueLine:
    from windlass.model.queues import GPU, ROOT, guaranteed

    status = _status(found.status)
    return QueueLine(
        queue.name,
        depth,
        "" if queue.parent == ROOT else queue.parent,
        guaranteed(queue, GPU),
        *(_gpu(each) for each in (status.share, status.allocated, status.borrowed, status.lent)),
        limit=queue.limit.get(GPU),
        waiting=status.waiting.gangs if status.waiting else None,
        gpu_hours=status.usage.gpu_hours if status.usage else None,
        trouble=next(
            (each.message for each in status.conditions if each.status == "False"),
            "",
        ),
    )


def _status(found: dict[str, Any]) -> QueueStatus:
    """What the scheduler wrote; a status of a later version that cannot be read says nothing."""
    from pydantic import ValidationError

    from windlass.crds.queue import QueueStatus

    try:
        return QueueStatus.model_validate(found)
    except ValidationError:
        return QueueStatus()


def _gpu(amounts: DimensionAmounts | None) -> int | None:
    return None if amounts is None else amounts.gpu or 0


def told(lines: list[QueueLine]) -> Iterator[str]:
    """The tree as a table, and below it what is wrong with whom."""
    if not lines:
        yield "There are no queues yet; docs/reference/queue.md shows how one is written."
        return
    yield table(HEAD, [_cells(each) for each in lines])
    for each in lines:
        if each.trouble:
            yield click.wrap_text(f"{each.name} is not ready: {each.trouble}", 78, "", "  ")
    if all(each.allocated is None for each in lines):
        yield "Nobody has written their status yet; `windlass doctor` says who leads."


def _cells(line: QueueLine) -> tuple[str, ...]:
    from windlass.cli.format import gpus

    amounts = (line.guarantee, line.share, line.allocated, line.borrowed)
    shown = [UNKNOWN if each is None else gpus(each) for each in amounts]
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
    told = {key: None if milli is None else milli / WHOLE for key, milli in amounts.items()}
    about = {"queue": line.name, "parent": line.parent or None, "depth": line.depth}
    return about | told | {"waiting_gangs": line.waiting, "trouble": line.trouble or None}
