"""The queues of the live view: a tree, and per queue a bar on one common axis of GPUs.

█ own   ▓ borrowed   ░ idle guarantee   ┃ share, where nothing else stands   ] limit
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from windlass.cli.format import about
from windlass.cli.live_view.frame import Drawn
from windlass.cli.live_view.palette import FAINT, INK, QUIET, in_tree_order
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU, Queue, guaranteed

NAME = 11
NUMBERS = 6
SHORTEST_BAR = 8


@dataclass(frozen=True, slots=True)
class _Standing:
    """What a queue has and should have, in thousandths of GPUs."""

    allocated: int
    guarantee: int
    share: int
    limit: int | None
    used_hours: float


def draw_queues(moment: Drawn, paint: Mapping[str, str], width: int) -> list[Text]:
    """A heading and a row per queue."""
    columns = _columns(moment, width)
    bar = width - NAME - NUMBERS * len(columns) - 2
    standings = {name: _standing(moment, each) for name, each in moment.cluster.queues.items()}
    axis = max((max(s.allocated, s.guarantee, s.share) for s in standings.values()), default=1)
    head = Text(f"{'queue':<{NAME}}" + " " * (bar + 1), QUIET)
    lines = [head.append("".join(f"{word:>{NUMBERS}}" for word in columns), QUIET)]
    for depth, queue in in_tree_order(moment.cluster.queues):
        standing = standings[queue.name]
        name = "  " * depth + queue.name
        line = Text().append(f"{name:<{NAME}.{NAME}}", INK if depth == 0 else QUIET)
        line.append_text(_bar(standing, max(axis, 1), bar, paint.get(queue.name, QUIET)))
        numbers = "".join(f"{_number(standing, word):>{NUMBERS}}" for word in columns)
        lines.append(line.append(" " + numbers, INK))
    return lines


def queue_key() -> Text:
    """What the bars mean."""
    return Text("queues: █ own  ▓ borrowed  ░ idle guarantee  ┃ share  ] limit", QUIET)


def _columns(moment: Drawn, width: int) -> list[str]:
    """As many numbers as leave room for a bar; limits only if there are any."""
    limited = any(GPU in each.limit for each in moment.cluster.queues.values())
    words = ["has", "share", "guar", *(["limit"] if limited else []), "used"]
    return words[: max(1, (width - NAME - SHORTEST_BAR - 2) // NUMBERS)]


def _standing(moment: Drawn, queue: Queue) -> _Standing:
    cluster = moment.cluster
    return _Standing(
        allocated=cluster.allocated(queue.name, GPU),
        guarantee=guaranteed(queue, GPU),
        share=moment.plan.shares.get(queue.name, {}).get(GPU, 0),
        limit=queue.limit.get(GPU),
        used_hours=cluster.usage_of(queue.name) / (WHOLE * 3600),
    )


def _number(standing: _Standing, word: str) -> str:
    match word:
        case "has":
            return about(standing.allocated / WHOLE)
        case "share":
            return about(standing.share / WHOLE)
        case "guar":
            return about(standing.guarantee / WHOLE)
        case "limit":
            return "–" if standing.limit is None else about(standing.limit / WHOLE)
        case _:
            return about(standing.used_hours)


def _bar(standing: _Standing, axis: int, width: int, colour: str) -> Text:
    def at(milli: int) -> int:
        return min(width, (milli * width + axis // 2) // axis)

    own = at(min(standing.allocated, standing.guarantee))
    has, guarantee, share = at(standing.allocated), at(standing.guarantee), at(standing.share)
    bar = Text().append("█" * own, colour).append("▓" * (has - own), colour)
    bar.append("░" * (guarantee - has), FAINT)
    bar.append(" " * (width - bar.cell_len))
    for mark, place in (
        ("┃", share),
        ("]", width + 1 if standing.limit is None else at(standing.limit)),
    ):
        if 0 < place <= width and place >= max(has, 1):
            bar = _with_mark(bar, mark, place - 1)
    return bar


def _with_mark(bar: Text, mark: str, at: int) -> Text:
    return bar[:at].append(mark, INK).append_text(bar[at + 1 :])
