"""The tree of queues with guarantees, shares, allocations and limits, as commands show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windlass.cli.output import table
from windlass.engine.plan import Plan
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU, ROOT, Queue, guaranteed
from windlass.model.validation import amount_in_words

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class QueueTableRow:
    """The numbers of one queue, in thousandths of GPUs; `limit` is None if there is none."""

    name: str
    depth: int
    guarantee: int
    share: int
    allocated: int
    limit: int | None


def queue_rows(cluster: Cluster, plan: Plan) -> list[QueueTableRow]:
    """Return a row for every queue, in the order of the tree."""
    return [
        QueueTableRow(
            name=queue.name,
            depth=depth,
            guarantee=guaranteed(queue, GPU),
            share=plan.shares.get(queue.name, {}).get(GPU, 0),
            allocated=cluster.allocated(queue.name, GPU),
            limit=queue.limit.get(GPU),
        )
        for queue, depth in in_tree(cluster.queues)
    ]


def queue_table(rows: list[QueueTableRow]) -> str:
    """Return the rows as a table, in GPUs."""
    lines = [
        (
            "  " * min(row.depth, 8) + row.name,
            _gpus(row.guarantee),
            _gpus(row.share),
            _gpus(row.allocated),
            "none" if row.limit is None else _gpus(row.limit),
        )
        for row in rows
    ]
    return table(("queue", "guarantee", "share", "allocated", "limit"), lines)


def queue_sentence(row: QueueTableRow, planned: int) -> str:
    """Return one queue as a sentence; `planned` is its allocation after the plan."""
    limit = "no limit" if row.limit is None else f"a limit of {amount_in_words(GPU, row.limit)}"
    then = "" if planned == row.allocated else f" now and {_gpus(planned)} with what starts now"
    return (
        f"Queue {row.name} has {amount_in_words(GPU, row.allocated)}{then}: its guarantee is "
        f"{_gpus(row.guarantee)}, its share now {_gpus(row.share)}, and it has {limit}."
    )


def queue_as_json(row: QueueTableRow) -> dict[str, Any]:
    """Return one queue as JSON, in GPUs."""
    return {
        "queue": row.name,
        "depth": row.depth,
        "guarantee_gpus": row.guarantee / WHOLE,
        "share_gpus": row.share / WHOLE,
        "allocated_gpus": row.allocated / WHOLE,
        "limit_gpus": None if row.limit is None else row.limit / WHOLE,
    }


def in_tree(queues: Mapping[str, Queue]) -> Iterator[tuple[Queue, int]]:
    """Yield the queues and their depth, each below its parent and siblings by name.

    A queue whose parent does not exist is at the top.
    """
    children: dict[str, list[str]] = {}
    for name in sorted(queues, reverse=True):
        parent = queues[name].parent
        children.setdefault(parent if parent in queues else ROOT, []).append(name)
    stack = [(name, 0) for name in children.get(ROOT, [])]
    while stack:
        name, depth = stack.pop()
        yield queues[name], depth
        stack += [(child, depth + 1) for child in children.get(name, [])]


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE:g}"
