"""What shadow mode found, as sentences and numbers: for the port, and for the log at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from windlass.controllers.queue_status import QueueNumbers
from windlass.daemon.serving.log import StructuredLog
from windlass.daemon.shadow.compare import (
    Shadow,
    Story,
    above_share,
    compared,
    half_started,
    nodes_of,
    parted,
    started_early,
)
from windlass.model import units
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU
from windlass.model.units import duration_in_words
from windlass.model.validation.problems import listed

MOST = 200
"""Findings that are told; the totals count all of them."""


@dataclass(frozen=True, slots=True)
class ShadowFinding:
    """One thing that would have been different, and why."""

    kind: str
    subject: str
    """A gang or a queue."""
    queue: str
    sentence: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])


def report_of(shadow: Shadow) -> dict[str, Any]:
    """All that is known so far, as JSON."""
    with shadow.lock:
        return _report(shadow)


def sum_up(shadow: Shadow, log: StructuredLog) -> None:
    """Say at the end what would have been different, a line each, and the totals."""
    report = report_of(shadow)
    for each in report.pop("findings"):
        log.line("would differ", **each)
    log.line("shadow", **report)


def _report(shadow: Shadow) -> dict[str, Any]:
    findings = list(findings_of(shadow))
    stories = shadow.stories.values()
    different = len(list(parted(shadow)))
    return {
        "since": units.format_timestamp(shadow.since),
        "until": units.format_timestamp(shadow.now),
        "gangs": len(stories),
        "started": sum(each.whole_at is not None for each in stories),
        "halfStarted": len(half_started(shadow)),
        "idleGpuSeconds": sum(each.idle_milli_seconds for each in stories) / WHOLE,
        "placementsCompared": sum(map(compared, stories)),
        "placementsDifferent": different,
        "findings": [asdict(each) for each in findings[:MOST]],
        "findingsLeftOut": max(0, len(findings) - MOST),
        "gangsForgotten": shadow.forgotten,
    }


def findings_of(shadow: Shadow) -> Iterator[ShadowFinding]:
    """What would have been different, the weightiest first."""
    stories = [story for _, story in sorted(shadow.stories.items())]
    yield from map(_half, half_started(shadow))
    yield from map(_should_wait, started_early(shadow))
    running = (each for each in stories if each.ours and not each.theirs and not each.is_gone)
    yield from (_should_run(each, shadow) for each in running)
    yield from (_above(name, numbers) for name, numbers in above_share(shadow))
    yield from map(_elsewhere, parted(shadow))


def _half(story: Story) -> ShadowFinding:
    idle, needed = story.idle_milli_seconds / WHOLE, story.gang.needed()
    placed = f"{story.started} of the {needed} tasks it starts with were placed"
    if story.is_half:
        held = story.held_milli / WHOLE
        sentence = f"{placed}, and hold {held:g} GPUs without being able to work"
    elif story.was_half:
        sentence = f"{placed}, and held GPUs until it was given up"
    else:
        took = duration_in_words((story.whole_at or 0) - (story.began_at or 0))
        sentence = f"its {needed} tasks were placed one after the other within {took}"
    why = f": {story.waits}" if story.waits else ""
    return _finding(
        "HalfStarted",
        story,
        f"{sentence} ({idle:g} GPU-seconds lost); Windlass would have let it wait whole{why}",
        idleGpuSeconds=idle,
    )


def _should_wait(story: Story) -> ShadowFinding:
    return _finding(
        "StartedTooEarly",
        story,
        f"it was started; Windlass would have let it wait: {story.waits}",
    )


def _should_run(story: Story, shadow: Shadow) -> ShadowFinding:
    evicted = shadow.evictions.get(story.gang.id, 0)
    after = f" after evicting {evicted} tasks" if evicted else ""
    where = listed(nodes_of(story.ours))
    return _finding(
        "WaitsThough", story, f"it waits; Windlass would have started it on {where}{after}"
    )


def _elsewhere(story: Story) -> ShadowFinding:
    ours, theirs = nodes_of(story.ours), nodes_of(story.theirs)
    opened = [node for node in theirs if node not in story.in_use and node not in ours]
    why = f", and left {listed(opened)} empty" if opened else ""
    return _finding(
        "PlacedElsewhere",
        story,
        f"it runs on {listed(theirs)}; Windlass would have used {listed(ours)}{why}",
        nodes=len(theirs),
        windlassNodes=len(ours),
    )


def _above(name: str, numbers: QueueNumbers) -> ShadowFinding:
    has, share = (each.get(GPU, 0) / WHOLE for each in (numbers.allocated, numbers.share))
    return ShadowFinding(
        "AboveShare",
        name,
        name,
        f"it has {has:g} GPUs while others wait; its share is {share:g}",
        {"gpus": has, "share": share},
    )


def _finding(kind: str, story: Story, sentence: str, **numbers: float) -> ShadowFinding:
    return ShadowFinding(kind, story.gang.id, story.gang.queue, sentence, numbers)
