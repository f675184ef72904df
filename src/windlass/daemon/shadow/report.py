"""The report of shadow mode as sentences and numbers, for the port and for the log at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from windlass.controllers.queue_status import QueueNumbers
from windlass.daemon.serving import StructuredLog
from windlass.daemon.shadow.compare import (
    GangComparison,
    Shadow,
    above_share,
    half_started,
    is_compared,
    nodes_of,
    placed_elsewhere,
    started_early,
)
from windlass.model import units
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU
from windlass.model.units import duration_in_words
from windlass.model.validation import join_names

MOST = 200
"""Findings in the report at most; the totals count all of them."""


@dataclass(frozen=True, slots=True)
class ShadowFinding:
    """One decision that would have been different, and why."""

    kind: str
    subject: str
    """The gang or the queue that it is about."""
    queue: str
    sentence: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])


def report_of(shadow: Shadow) -> dict[str, Any]:
    """Return the report up to now, as JSON."""
    with shadow.lock:
        return _report(shadow)


def sum_up(shadow: Shadow, log: StructuredLog) -> None:
    """Log the findings at the end, one line each, and the totals."""
    report = report_of(shadow)
    for finding in report.pop("findings"):
        log.line("would differ", **finding)
    log.line("shadow", **report)


def _report(shadow: Shadow) -> dict[str, Any]:
    findings = list(findings_of(shadow))
    comparisons = shadow.comparisons.values()
    different = len(list(placed_elsewhere(shadow)))
    return {
        "since": units.format_timestamp(shadow.since),
        "until": units.format_timestamp(shadow.now),
        "gangs": len(comparisons),
        "started": sum(gang.whole_at is not None for gang in comparisons),
        "halfStarted": len(half_started(shadow)),
        "idleGpuSeconds": sum(gang.idle_milli_seconds for gang in comparisons) / WHOLE,
        "placementsCompared": sum(map(is_compared, comparisons)),
        "placementsDifferent": different,
        "findings": [asdict(finding) for finding in findings[:MOST]],
        "findingsLeftOut": max(0, len(findings) - MOST),
        "gangsForgotten": shadow.forgotten,
    }


def findings_of(shadow: Shadow) -> Iterator[ShadowFinding]:
    """Yield what would have been different, the most important findings first."""
    gangs = [comparison for _, comparison in sorted(shadow.comparisons.items())]
    yield from map(_half, half_started(shadow))
    yield from map(_should_wait, started_early(shadow))
    startable = (gang for gang in gangs if gang.ours and not gang.theirs and not gang.is_gone)
    yield from (_should_run(gang, shadow) for gang in startable)
    yield from (_above(name, numbers) for name, numbers in above_share(shadow))
    yield from map(_elsewhere, placed_elsewhere(shadow))


def _half(comparison: GangComparison) -> ShadowFinding:
    idle, needed = comparison.idle_milli_seconds / WHOLE, comparison.gang.needed()
    placed = f"{comparison.started} of the {needed} tasks it starts with were placed"
    if comparison.is_half:
        held = comparison.held_milli / WHOLE
        sentence = f"{placed}, and hold {held:g} GPUs without being able to work"
    elif comparison.was_half:
        sentence = f"{placed}, and held GPUs until it was given up"
    else:
        took = duration_in_words((comparison.whole_at or 0) - (comparison.began_at or 0))
        sentence = f"its {needed} tasks were placed one after the other within {took}"
    why = f": {comparison.waits}" if comparison.waits else ""
    return _finding(
        "HalfStarted",
        comparison,
        f"{sentence} ({idle:g} GPU-seconds lost); Windlass would have let it wait whole{why}",
        idleGpuSeconds=idle,
    )


def _should_wait(comparison: GangComparison) -> ShadowFinding:
    return _finding(
        "StartedTooEarly",
        comparison,
        f"it was started; Windlass would have let it wait: {comparison.waits}",
    )


def _should_run(comparison: GangComparison, shadow: Shadow) -> ShadowFinding:
    evicted = shadow.evictions.get(comparison.gang.id, 0)
    after = f" after evicting {evicted} tasks" if evicted else ""
    where = join_names(nodes_of(comparison.ours))
    return _finding(
        "WaitsThough", comparison, f"it waits; Windlass would have started it on {where}{after}"
    )


def _elsewhere(comparison: GangComparison) -> ShadowFinding:
    ours, theirs = nodes_of(comparison.ours), nodes_of(comparison.theirs)
    opened = [node for node in theirs if node not in comparison.in_use and node not in ours]
    why = f", and left {join_names(opened)} empty" if opened else ""
    return _finding(
        "PlacedElsewhere",
        comparison,
        f"it runs on {join_names(theirs)}; Windlass would have used {join_names(ours)}{why}",
        nodes=len(theirs),
        windlassNodes=len(ours),
    )


def _above(name: str, numbers: QueueNumbers) -> ShadowFinding:
    has, share = (gpus.get(GPU, 0) / WHOLE for gpus in (numbers.allocated, numbers.share))
    return ShadowFinding(
        "AboveShare",
        name,
        name,
        f"it has {has:g} GPUs while others wait; its share is {share:g}",
        {"gpus": has, "share": share},
    )


def _finding(
    kind: str, comparison: GangComparison, sentence: str, **numbers: float
) -> ShadowFinding:
    return ShadowFinding(kind, comparison.gang.id, comparison.gang.queue, sentence, numbers)
