"""The queues of the live view: a tree, and per queue a bar on one common axis of GPUs.

█ within the guarantee   ▓ borrowed   ░ idle guarantee   ┃ share   ] limit

The marks of share and limit are drawn only to the right of the allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from windlass.cli.format import rounded
from windlass.cli.live_view.frame import DrawableCluster
from windlass.cli.live_view.palette import FAINT, INK, QUIET, in_tree_order
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU, Queue, guaranteed

NAME_WIDTH = 11
NUMBER_WIDTH = 6
SHORTEST_BAR = 8


@dataclass(frozen=True, slots=True)
class _QueueNumbers:
    """The allocation and entitlement of a queue in thousandths of GPUs, and its past usage."""

    allocated: int
    guarantee: int
    share: int
    limit: int | None
    used_hours: float
    """The GPU-hours of past usage that still count."""


def draw_queues(moment: DrawableCluster, palette: Mapping[str, str], width: int) -> list[Text]:
    """Return a heading and a row per queue."""
    columns = _columns(moment, width)
    bar_width = width - NAME_WIDTH - NUMBER_WIDTH * len(columns) - 2
    numbers = {name: _numbers(moment, queue) for name, queue in moment.cluster.queues.items()}
    axis = max(
        (max(row.allocated, row.guarantee, row.share) for row in numbers.values()), default=1
    )
    head = Text(f"{'queue':<{NAME_WIDTH}}" + " " * (bar_width + 1), QUIET)
    lines = [head.append("".join(f"{column:>{NUMBER_WIDTH}}" for column in columns), QUIET)]
    for depth, queue in in_tree_order(moment.cluster.queues):
        row = numbers[queue.name]
        name = "  " * depth + queue.name
        line = Text().append(f"{name:<{NAME_WIDTH}.{NAME_WIDTH}}", INK if depth == 0 else QUIET)
        line.append_text(_bar(row, max(axis, 1), bar_width, palette.get(queue.name, QUIET)))
        cells = "".join(f"{_cell(row, column):>{NUMBER_WIDTH}}" for column in columns)
        lines.append(line.append(" " + cells, INK))
    return lines


def queue_legend() -> Text:
    """Return the legend of the bars."""
    return Text("queues: █ own  ▓ borrowed  ░ idle guarantee  ┃ share  ] limit", QUIET)


def _columns(moment: DrawableCluster, width: int) -> list[str]:
    """Return the columns that leave room for a bar; limits only if a queue has one."""
    has_limits = any(GPU in queue.limit for queue in moment.cluster.queues.values())
    columns = ["has", "share", "guar", *(["limit"] if has_limits else []), "used"]
    return columns[: max(1, (width - NAME_WIDTH - SHORTEST_BAR - 2) // NUMBER_WIDTH)]


def _numbers(moment: DrawableCluster, queue: Queue) -> _QueueNumbers:
    cluster = moment.cluster
    return _QueueNumbers(
        allocated=cluster.allocated(queue.name, GPU),
        guarantee=guaranteed(queue, GPU),
        share=moment.plan.shares.get(queue.name, {}).get(GPU, 0),
        limit=queue.limit.get(GPU),
        used_hours=cluster.usage_of(queue.name) / (WHOLE * 3600),
    )


def _cell(numbers: _QueueNumbers, column: str) -> str:
    match column:
        case "has":
            return rounded(numbers.allocated / WHOLE)
        case "share":
            return rounded(numbers.share / WHOLE)
        case "guar":
            return rounded(numbers.guarantee / WHOLE)
        case "limit":
            return "–" if numbers.limit is None else rounded(numbers.limit / WHOLE)
        case _:
            return rounded(numbers.used_hours)


def _bar(numbers: _QueueNumbers, axis: int, width: int, colour: str) -> Text:
    """Return the bar of a queue; `axis` is the number of thousandths that fill the width."""

    def at(milli: int) -> int:
        return min(width, (milli * width + axis // 2) // axis)

    own = at(min(numbers.allocated, numbers.guarantee))
    has, guarantee, share = at(numbers.allocated), at(numbers.guarantee), at(numbers.share)
    bar = Text().append("█" * own, colour).append("▓" * (has - own), colour)
    bar.append("░" * (guarantee - has), FAINT)
    bar.append(" " * (width - bar.cell_len))
    for mark, column in (
        ("┃", share),
        ("]", width + 1 if numbers.limit is None else at(numbers.limit)),
    ):
        if 0 < column <= width and column >= max(has, 1):
            bar = _with_mark(bar, mark, column - 1)
    return bar


def _with_mark(bar: Text, mark: str, at: int) -> Text:
    return bar[:at].append(mark, INK).append_text(bar[at + 1 :])
