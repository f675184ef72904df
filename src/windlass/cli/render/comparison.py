"""Two simulations of the same work as text, side by side: the groups of gangs that win or lose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.cli.format import counted, duration, rounded
from windlass.cli.output import table
from windlass.sim.comparison import GangSubset, Versus

MOST_GANGS = 12
"""The number of single gangs that are listed; the others are counted."""
HEAD = ("gangs", "wait p50", "p90", "GPU-hours", "stopped", "")


def comparison_lines(comparison: Versus) -> Iterator[str]:
    """Yield tables by queue, size and kind, then the gangs with the biggest differences."""
    tables = (
        ("Queues", (*comparison.queues, comparison.whole)),
        ("Sizes", comparison.sizes),
        ("Kinds", comparison.kinds),
    )
    for title, subsets in tables:
        yield ""
        yield table((title, *HEAD), [_subset_row(subset) for subset in subsets])
    yield ""
    yield from _gang_lines(comparison.gangs)


def _subset_row(subset: GangSubset) -> tuple[str, ...]:
    before, after = subset.before, subset.after
    return (
        subset.name,
        f"{subset.gangs:,}",
        _change(duration(before.wait_seconds.p50), duration(after.wait_seconds.p50)),
        _change(duration(before.wait_seconds.p90), duration(after.wait_seconds.p90)),
        _change(rounded(before.gpu_hours), rounded(after.gpu_hours)),
        _change(f"{before.stops:,}", f"{after.stops:,}"),
        subset.verdict.value,
    )


def _gang_lines(gangs: Sequence[GangSubset]) -> Iterator[str]:
    if not gangs:
        yield "No gang fares differently."
        return
    head = ("Most changed", "waits", "GPU-hours", "stopped", "")
    rows = [
        (
            gang.name,
            _change(duration(gang.before.waited_seconds), duration(gang.after.waited_seconds)),
            _change(rounded(gang.before.gpu_hours), rounded(gang.after.gpu_hours)),
            _change(f"{gang.before.stops}", f"{gang.after.stops}"),
            gang.verdict.value,
        )
        for gang in gangs[:MOST_GANGS]
    ]
    yield table(head, rows)
    if len(gangs) > MOST_GANGS:
        rest = len(gangs) - MOST_GANGS
        verb = "fares" if rest == 1 else "fare"
        yield f"{counted(rest, 'other gang')} {verb} differently too."


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
