"""The report of a simulation as text: one column per scheduler, then a row per queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.cli.format import counted, duration, percent, rounded
from windlass.cli.output import table
from windlass.sim.report import Comparison, QueueReport, Report, Times

Line = tuple[str, Callable[[Report], str]]
"""The label of a row, and the function that returns its cell for a report."""

ASSUMPTIONS = (
    "default models Kubernetes alone: pod by pod, oldest first, spread over the nodes, no\n"
    "gangs, no preemption, and a whole GPU for a task that asks for a part of one."
)


def full_report(offered_gpu_hours: float, reports: Sequence[Report]) -> str:
    """Return all numbers and tables, for `windlass simulate`."""
    first = reports[0]
    part = offered_gpu_hours / first.gpu_hours.capacity if first.gpu_hours.capacity else 0
    head = (
        f"{counted(first.nodes, 'node')}, {counted(first.gpus, 'GPU')}, "
        f"{duration(first.window_seconds)}; {counted(first.gangs.submitted, 'gang')} requested "
        f"{rounded(offered_gpu_hours)} GPU-hours ({percent(part)} of capacity)"
    )
    tables = [
        text for report in reports for text in (queue_table(report), eviction_table(report)) if text
    ]
    return "\n\n".join([head, _side_by_side(reports, FULL), *tables])


def short_report(comparison: Comparison) -> str:
    """Return the few numbers that sum up a comparison, for `windlass demo`."""
    reports = (comparison.ours, comparison.theirs)
    return "\n".join([_side_by_side(reports, SHORT), "", *_summary(comparison)])


def verdict(comparison: Comparison) -> str:
    """Return the outcome of a comparison as one sentence."""
    ours, theirs = comparison.ours, comparison.theirs
    return (
        f"With the same {ours.gpus} GPUs, Windlass did {comparison.gain:.2f} times the useful work "
        f"of the\ndefault scheduler, and nine of ten gangs ran within "
        f"{duration(ours.gang_wait_seconds.p90)} instead of "
        f"{duration(theirs.gang_wait_seconds.p90)}."
    )


def queue_table(report: Report) -> str:
    """Return a row per queue: its guarantee, share, allocation and useful GPUs, and its waits."""
    head = ("GPUs on average", "guarantee", "share", "has", "useful", "gangs", "wait p50", "p90")
    rows = [(name, *_queue_row(queue)) for name, queue in _by_tree(report.queues)]
    return f"Queues under {_name(report)}\n" + table(head, rows)


def eviction_table(report: Report) -> str:
    """Return a row per queue with its evictions and their cost; empty if there were none."""
    if not report.displaced.tasks_evicted and not report.displaced.tasks_moved:
        return ""
    head = ("Made room", "tasks evicted", "gangs stopped", "tasks moved", "GPU-hours lost")
    rows = [(name, *_eviction_row(queue)) for name, queue in _by_tree(report.queues)]
    return f"Displaced under {_name(report)}\n" + table(head, rows)


def _name(report: Report) -> str:
    return "Windlass" if report.scheduler == "windlass" else report.scheduler


def _side_by_side(reports: Sequence[Report], lines: Sequence[Line]) -> str:
    head = ("", *(_name(report) for report in reports))
    rows = [(label, *(cell(report) for report in reports)) for label, cell in lines]
    return table(head, rows)


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
    """Return the GPU-hours that were allocated beyond the requests, such as the rest of a GPU."""
    hours = report.gpu_hours
    accounted = hours.useful + hours.idle + hours.lost + hours.displaced
    return rounded(max(0.0, hours.allocated - accounted))


SHORT: tuple[Line, ...] = (
    ("GPUs doing useful work", lambda r: percent(r.utilisation)),
    ("useful GPU-hours", lambda r: rounded(r.gpu_hours.useful)),
    ("jobs finished", lambda r: f"{r.gangs.finished:,}"),
    ("half of the gangs ran within", lambda r: duration(r.gang_wait_seconds.p50)),
    ("nine of ten gangs ran within", lambda r: duration(r.gang_wait_seconds.p90)),
    ("GPU-hours held by gangs that could not start", lambda r: rounded(r.gpu_hours.idle)),
    ("gangs stuck half-started at the end", lambda r: f"{r.gangs.half_started}"),
)

FULL: tuple[Line, ...] = (
    ("GPU utilisation (useful work)", lambda r: percent(r.utilisation)),
    ("GPUs allocated", lambda r: percent(r.allocation)),
    ("GPU-hours useful", lambda r: rounded(r.gpu_hours.useful)),
    ("  held by tasks that could not work", lambda r: rounded(r.gpu_hours.idle)),
    ("  allocated beyond the requests", _beyond),
    ("  lost to failures and done again", lambda r: rounded(r.gpu_hours.lost)),
    ("  lost to evictions for others", lambda r: rounded(r.gpu_hours.displaced)),
    ("free GPU time that is fragmented", lambda r: percent(r.fragmentation)),
    ("gangs finished", lambda r: f"{r.gangs.finished:,}"),
    ("  running at the end", lambda r: f"{r.gangs.running}"),
    ("  waiting at the end", lambda r: f"{r.gangs.waiting}"),
    ("  of these half-started", lambda r: f"{r.gangs.half_started}"),
    ("  deleted by their users", lambda r: f"{r.gangs.deleted}"),
    ("  ended at their maximum run time", lambda r: f"{r.gangs.overran}"),
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
    return (*(rounded(amount) if amount else "–" for amount in amounts), f"{queue.gangs}", *waits)


def _eviction_row(queue: QueueReport) -> tuple[str, ...]:
    evictions = queue.displaced
    counts = (evictions.tasks_evicted, evictions.gangs_stopped, evictions.tasks_moved)
    lost = evictions.gpu_hours_lost
    return (*(f"{count:,}" if count else "–" for count in counts), rounded(lost) if lost else "–")


def _by_tree(
    queues: Sequence[QueueReport], parent: str = "", depth: int = 0
) -> list[tuple[str, QueueReport]]:
    """Return the queues below a parent, each with its name indented by its depth."""
    rows: list[tuple[str, QueueReport]] = []
    for queue in queues:
        if queue.parent == parent:
            rows += [("  " * depth + queue.name, queue), *_by_tree(queues, queue.name, depth + 1)]
    return rows


def eviction_cost(comparison: Comparison) -> str:
    """Return the cost of evictions in both runs as one sentence."""
    ours, theirs = comparison.ours.displaced, comparison.theirs.displaced
    return (
        f"Evicting the victims that lose least cost {ours.gpu_hours_lost:,.0f} GPU-hours, evicting "
        f"the youngest {theirs.gpu_hours_lost:,.0f}: {comparison.harm_ratio:.2f} times as much, "
        f"for {comparison.gain:.2f} times the useful work."
    )
