"""The report of a simulation as text: one column per scheduler, then a row per queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.cli.format import about, duration, percent
from windlass.cli.output import table
from windlass.sim.report import Comparison, QueueReport, Report, Times

Line = tuple[str, Callable[[Report], str]]

ASSUMPTIONS = (
    "default is what Kubernetes does by itself: pod by pod, oldest first, spreading, no\n"
    "gangs, nobody gives up, and a whole GPU for a task that asks for a part of one."
)


def full(offered_gpu_hours: float, reports: Sequence[Report]) -> str:
    """Everything, for `windlass simulate`."""
    first = reports[0]
    part = offered_gpu_hours / first.gpu_hours.capacity if first.gpu_hours.capacity else 0
    head = (
        f"{first.nodes} nodes, {first.gpus} GPUs, {duration(first.window_seconds)}; "
        f"{first.gangs.submitted:,} gangs asked for {about(offered_gpu_hours)} GPU-hours "
        f"({percent(part)} of capacity)"
    )
    tables = [text for each in reports for text in (queues(each), displaced(each)) if text]
    return "\n\n".join([head, _side_by_side(reports, FULL), *tables])


def short(comparison: Comparison) -> str:
    """What a manager wants to know, for `windlass demo`."""
    reports = (comparison.ours, comparison.theirs)
    return "\n".join([_side_by_side(reports, SHORT), "", *_summary(comparison)])


def verdict(comparison: Comparison) -> str:
    """The outcome in one plain sentence."""
    ours, theirs = comparison.ours, comparison.theirs
    return (
        f"With the same {ours.gpus} GPUs, Windlass did {comparison.gain:.2f} times the useful work "
        f"of the\ndefault scheduler, and nine of ten gangs ran within "
        f"{duration(ours.gang_wait_seconds.p90)} instead of "
        f"{duration(theirs.gang_wait_seconds.p90)}."
    )


def queues(report: Report) -> str:
    """A row per queue: what it should have, what it had, and how its gangs waited."""
    head = ("GPUs on average", "guarantee", "share", "has", "useful", "gangs", "wait p50", "p90")
    rows = [(name, *_queue_row(each)) for name, each in _by_tree(report.queues)]
    return f"Queues under {_name(report)}\n" + table(head, rows)


def displaced(report: Report) -> str:
    """A row per queue that had to make room; nothing if none had to."""
    if not report.displaced.tasks_evicted and not report.displaced.tasks_moved:
        return ""
    head = ("Made room", "tasks evicted", "gangs stopped", "tasks moved", "GPU-hours lost")
    rows = [(name, *_displaced_row(each)) for name, each in _by_tree(report.queues)]
    return f"Displaced under {_name(report)}\n" + table(head, rows)


def _name(report: Report) -> str:
    return "Windlass" if report.scheduler == "windlass" else report.scheduler


def _side_by_side(reports: Sequence[Report], lines: Sequence[Line]) -> str:
    head = ("", *(_name(each) for each in reports))
    return table(head, [(word, *(tell(each) for each in reports)) for word, tell in lines])


def _summary(comparison: Comparison) -> list[str]:
    lines = [verdict(comparison)]
    if comparison.gpus_saved:
        lines.append(
            f"For the same work in the same time the default scheduler would need about "
            f"{comparison.gpus_saved} more\nGPUs, if it kept its pace."
        )
    return lines


def _waits(times: Times) -> str:
    return f"{duration(times.p50)} / {duration(times.p90)}"


def _beyond(report: Report) -> str:
    hours = report.gpu_hours
    accounted = hours.useful + hours.idle + hours.lost + hours.displaced
    return about(max(0.0, hours.allocated - accounted))


SHORT: tuple[Line, ...] = (
    ("GPUs doing useful work", lambda r: percent(r.utilisation)),
    ("useful GPU-hours", lambda r: about(r.gpu_hours.useful)),
    ("jobs finished", lambda r: f"{r.gangs.finished:,}"),
    ("half of the gangs ran within", lambda r: duration(r.gang_wait_seconds.p50)),
    ("nine of ten gangs ran within", lambda r: duration(r.gang_wait_seconds.p90)),
    ("GPU-hours held by gangs that could not start", lambda r: about(r.gpu_hours.idle)),
    ("gangs stuck half-started at the end", lambda r: f"{r.gangs.half_started}"),
)

FULL: tuple[Line, ...] = (
    ("GPU utilisation (useful work)", lambda r: percent(r.utilisation)),
    ("GPUs allocated", lambda r: percent(r.allocation)),
    ("GPU-hours useful", lambda r: about(r.gpu_hours.useful)),
    ("  held by tasks that could not work", lambda r: about(r.gpu_hours.idle)),
    ("  given beyond what was asked", _beyond),
    ("  lost to failures and done again", lambda r: about(r.gpu_hours.lost)),
    ("  lost by making room for others", lambda r: about(r.gpu_hours.displaced)),
    ("free GPU time that is fragmented", lambda r: percent(r.fragmentation)),
    ("gangs finished", lambda r: f"{r.gangs.finished:,}"),
    ("  running at the end", lambda r: f"{r.gangs.running}"),
    ("  waiting at the end", lambda r: f"{r.gangs.waiting}"),
    ("  of these half-started", lambda r: f"{r.gangs.half_started}"),
    ("  deleted by their users", lambda r: f"{r.gangs.deleted}"),
    ("  ended at their longest run", lambda r: f"{r.gangs.overran}"),
    ("tasks restarted after failures", lambda r: f"{r.gangs.restarts}"),
    ("tasks evicted", lambda r: f"{r.displaced.tasks_evicted:,}"),
    ("  gangs stopped by that", lambda r: f"{r.displaced.gangs_stopped:,}"),
    ("tasks moved", lambda r: f"{r.displaced.tasks_moved:,}"),
    ("  gangs stopped by that", lambda r: f"{r.displaced.gangs_moved:,}"),
    ("wait p50 / p90", lambda r: _waits(r.wait_seconds)),
    ("gang wait p50 / p90", lambda r: _waits(r.gang_wait_seconds)),
    ("gang wait p99", lambda r: duration(r.gang_wait_seconds.p99)),
    ("submission to end p50 / p90", lambda r: _waits(r.completion_seconds)),
)


def _queue_row(queue: QueueReport) -> tuple[str, ...]:
    amounts = (queue.guarantee_gpus, queue.share_gpus, queue.allocated_gpus, queue.useful_gpus)
    waits = (duration(queue.wait_seconds.p50), duration(queue.wait_seconds.p90))
    return (*(about(each) if each else "–" for each in amounts), f"{queue.gangs}", *waits)


def _displaced_row(queue: QueueReport) -> tuple[str, ...]:
    found = queue.displaced
    counts = (found.tasks_evicted, found.gangs_stopped, found.tasks_moved)
    lost = found.gpu_hours_lost
    return (*(f"{each:,}" if each else "–" for each in counts), about(lost) if lost else "–")


def _by_tree(
    found: Sequence[QueueReport], parent: str = "", depth: int = 0
) -> list[tuple[str, QueueReport]]:
    """All queues with their names, indented by their depth."""
    rows: list[tuple[str, QueueReport]] = []
    for each in found:
        if each.parent == parent:
            rows += [("  " * depth + each.name, each), *_by_tree(found, each.name, depth + 1)]
    return rows


def harm(comparison: Comparison) -> str:
    """What displacing cost in both runs, in one sentence."""
    ours, theirs = comparison.ours.displaced, comparison.theirs.displaced
    return (
        f"Displacing whoever loses least cost {ours.gpu_hours_lost:,.0f} GPU-hours, displacing the "
        f"youngest {theirs.gpu_hours_lost:,.0f}: {comparison.harm_ratio:.2f} times as much, for "
        f"{comparison.gain:.2f} times the useful work."
    )
