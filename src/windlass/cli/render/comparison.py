"""Two plays of the same work as text: who wins, who loses, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.cli.format import about, duration
from windlass.cli.output import table
from windlass.sim.comparison import GangSubset, Versus

MOST_GANGS = 12
"""So many single gangs are told of; the others are counted."""
HEAD = ("gangs", "wait p50", "p90", "GPU-hours", "stopped", "")


def versus_in_words(found: Versus) -> Iterator[str]:
    """Tables by queue, size and kind, then the gangs with the biggest differences."""
    parts = ("Queues", found.queues), ("Sizes", found.sizes), ("Kinds", found.kinds)
    for title, rows in parts:
        yield ""
        last = (found.whole,) if title == "Queues" else ()
        yield table((title, *HEAD), [_row(each) for each in (*rows, *last)])
    yield ""
    yield from _gangs(found.gangs)


def _row(part: GangSubset) -> tuple[str, ...]:
    before, after = part.before, part.after
    return (
        part.name,
        f"{part.gangs:,}",
        _two(duration(before.wait_seconds.p50), duration(after.wait_seconds.p50)),
        _two(duration(before.wait_seconds.p90), duration(after.wait_seconds.p90)),
        _two(about(before.gpu_hours), about(after.gpu_hours)),
        _two(f"{before.stops:,}", f"{after.stops:,}"),
        part.verdict.value,
    )


def _gangs(parts: Sequence[GangSubset]) -> Iterator[str]:
    if not parts:
        yield "Every gang fares the same."
        return
    head = ("Most changed", "waits", "GPU-hours", "stopped", "")
    rows = [
        (
            each.name,
            _two(duration(each.before.waited_seconds), duration(each.after.waited_seconds)),
            _two(about(each.before.gpu_hours), about(each.after.gpu_hours)),
            _two(f"{each.before.stops}", f"{each.after.stops}"),
            each.verdict.value,
        )
        for each in parts[:MOST_GANGS]
    ]
    yield table(head, rows)
    if len(parts) > MOST_GANGS:
        yield f"and {len(parts) - MOST_GANGS:,} more gangs that fare otherwise"


def _two(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
