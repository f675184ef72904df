"""`windlass plan --with`: the difference that a change of queues or settings would make.

Two dry runs carry out all plans that follow now, one without the change and one with it. Only the
difference is shown, so that the change is not blamed for what happens anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import counted
from windlass.cli.output import reason_as_json, table
from windlass.cli.render.evictions import (
    EvictionSummary,
    eviction_as_json,
    eviction_lines,
    list_nodes,
    merge_evictions,
    planned_evictions,
)
from windlass.cli.render.queue_table import QueueTableRow, queue_as_json, queue_rows
from windlass.engine.plan import Decision, Verdict
from windlass.model.errors import InputError
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, GangId
from windlass.model.reasons import display_name
from windlass.model.units import duration_in_words
from windlass.model.validation import join_names

if TYPE_CHECKING:
    from windlass.model.queues import Queue
    from windlass.model.settings import Settings
    from windlass.state.cluster import Cluster
    from windlass.state.snapshot import Snapshot

MOST_ROWS = 20
"""The number of gangs of one list that are shown; the others are counted."""


@dataclass(frozen=True, slots=True)
class GangStart:
    """A gang that reaches its minimum in a dry run."""

    gang: GangId
    queue: str
    tasks: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The cluster at the end of a dry run, and the evictions and starts on the way."""

    now: int
    cycles: int
    at_rest: bool
    """True if the last plan changes nothing; False if the dry run stopped at its limit."""
    evicted: tuple[EvictionSummary, ...]
    started: tuple[GangStart, ...]
    waiting: tuple[Decision, ...]
    queues: tuple[QueueTableRow, ...]
    wake_at: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The results of two dry runs, and the difference between them."""

    changed: tuple[str, ...]
    """The queues and settings that the change alters, in words."""
    before: DryRunResult
    after: DryRunResult

    @property
    def evicted(self) -> list[EvictionSummary]:
        """The evictions that happen only with the change."""
        return _more(self.after.evicted, self.before.evicted)

    @property
    def spared(self) -> list[EvictionSummary]:
        """The evictions that happen only without the change."""
        return _more(self.before.evicted, self.after.evicted)

    @property
    def started(self) -> list[GangStart]:
        """The gangs that start only with the change."""
        before = {start.gang for start in self.before.started}
        return [start for start in self.after.started if start.gang not in before]

    @property
    def not_started(self) -> list[GangStart]:
        """The gangs that start only without the change."""
        after = {start.gang for start in self.after.started}
        return [start for start in self.before.started if start.gang not in after]

    @property
    def reasons(self) -> list[tuple[Decision, Decision]]:
        """The decisions about gangs that wait either way, but for another kind of reason."""
        decisions = {decision.gang: decision for decision in self.before.waiting}
        return [
            (decisions[after.gang], after)
            for after in self.after.waiting
            if after.gang in decisions and _kind(decisions[after.gang]) != _kind(after)
        ]


def read_change_file(file: str, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the change in a file, or on stdin for "-"."""
    from windlass.sim.scenario import MOST_BYTES, read_change

    try:
        with click.open_file(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be read ({why}); check its name") from None
    return read_change(data, "stdin" if file == "-" else file, snapshot)


def preview(before: Snapshot, after: Snapshot) -> Preview:
    """Run both snapshots to rest and return the results."""
    return Preview(tuple(changes_in(before, after)), _dry_run(before), _dry_run(after))


def preview_lines(comparison: Preview) -> Iterator[str]:
    """Yield the differences, evictions first."""
    changed = comparison.changed
    yield f"Changes {join_names(changed)}" if changed else "Changes nothing"
    lists: list[tuple[str, list[str]]] = [
        ("Would be evicted", list(eviction_lines(comparison.evicted))),
        ("Would no longer be evicted", list(eviction_lines(comparison.spared))),
        ("Would start", [_start_line(start) for start in comparison.started]),
        ("Would no longer start", [_start_line(start) for start in comparison.not_started]),
        ("Would wait for another reason", [_reason_lines(*pair) for pair in comparison.reasons]),
    ]
    for title, lines in lists:
        if lines:
            yield f"\n{title}"
            yield from lines[:MOST_ROWS]
        if len(lines) > MOST_ROWS:
            yield f"  and {len(lines) - MOST_ROWS} more"
    if not any(lines for _, lines in lists):
        yield "\nNo gang would be evicted, start or wait for another reason because of it."
    yield from _later(comparison.after)
    yield "\nQueues (GPUs), without the change and with it where that differs"
    yield _queues(comparison.before.queues, comparison.after.queues)


def preview_as_json(comparison: Preview) -> dict[str, Any]:
    """Return both results and the differences as JSON."""
    return {
        "changed": comparison.changed,
        "before": _result_as_json(comparison.before),
        "after": _result_as_json(comparison.after),
        "evicted": [eviction_as_json(row) for row in comparison.evicted],
        "spared": [eviction_as_json(row) for row in comparison.spared],
        "started": comparison.started,
        "not_started": comparison.not_started,
        "reasons": [
            {"gang": after.gang, "before": _waits_as_json(before), "after": _waits_as_json(after)}
            for before, after in comparison.reasons
        ],
    }


def _dry_run(snapshot: Snapshot) -> DryRunResult:
    """Carry out the plans for a snapshot until nothing more follows, and sum them up."""
    from windlass.sim.dry_run import is_rest, rehearse
    from windlass.state.cluster import Cluster

    running_before = _gangs_with_minimum(Cluster.of(snapshot))
    steps = rehearse(snapshot)
    cluster, plan = next(steps)
    cycles, evicted = 1, planned_evictions(cluster, plan)
    for cluster, plan in steps:
        cycles += 1
        evicted += planned_evictions(cluster, plan)
    started = sorted(_gangs_with_minimum(cluster) - running_before)
    waiting = (
        decision
        for decision in plan.decisions
        if decision.verdict in {Verdict.WAITS, Verdict.NEVER}
    )
    return DryRunResult(
        now=cluster.now,
        cycles=cycles,
        at_rest=is_rest(plan, cluster.now),
        evicted=tuple(merge_evictions(evicted)),
        started=tuple(_gang_start(cluster, gang) for gang in started),
        waiting=tuple(sorted(waiting, key=lambda decision: (decision.position, decision.gang))),
        queues=tuple(queue_rows(cluster, plan)),
        wake_at=plan.wake_at,
    )


def _gangs_with_minimum(cluster: Cluster) -> set[GangId]:
    return set(cluster.active) - set(cluster.broken)


def _gang_start(cluster: Cluster, name: GangId) -> GangStart:
    nodes = [task.node for task in cluster.members(name) if task.state in ACTIVE]
    return GangStart(name, cluster.gangs[name].queue, len(nodes), tuple(dict.fromkeys(nodes)))


def changes_in(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield the queues that differ, with their fields that do, and the settings that differ."""
    queues = {queue.name: queue for queue in before.queues}
    for queue in after.queues:
        old = queues.get(queue.name)
        if old is None:
            yield f"queue {queue.name} (new)"
        elif old != queue:
            yield f"queue {queue.name} ({', '.join(_different_fields(old, queue))})"
    for name in _different_fields(before.settings, after.settings):
        yield f"setting {name}"


def _different_fields(before: Queue | Settings, after: Queue | Settings) -> Iterator[str]:
    """Yield the names of the fields that differ, as scenario files call them."""
    for field in fields(after):
        if getattr(before, field.name) != getattr(after, field.name):
            yield field.name.removesuffix("_s")


def _more(
    rows: Sequence[EvictionSummary], others: Sequence[EvictionSummary]
) -> list[EvictionSummary]:
    """Return the rows with at least one task that is in none of the others."""
    tasks = {task.id for row in others for task in row.tasks}
    return [row for row in rows if any(task.id not in tasks for task in row.tasks)]


def _kind(decision: Decision) -> tuple[str, str, object]:
    """Return the verdict and the first reason with its queue.

    The other reasons follow from the first one, so they are not compared.
    """
    if not decision.reasons:
        return decision.verdict.value, "", ""
    first = decision.reasons[0]
    return decision.verdict.value, first.why.value, first.values.get("queue")


def _start_line(start: GangStart) -> str:
    tasks, nodes = counted(start.tasks, "task"), list_nodes(start.nodes)
    text = f"{display_name(start.gang)} (queue {start.queue}): {tasks} on {nodes}"
    return click.wrap_text(text, 78, "  ", "     ")


def _reason_lines(before: Decision, after: Decision) -> str:
    """Return the first reasons of a gang without and with the change: the first one decides."""
    lines = [f"  {display_name(after.gang)} (queue {after.queue})"]
    for label, decision in (("now", before), ("then", after)):
        text = f"{label}: {decision.reasons[0] if decision.reasons else decision.verdict}"
        lines.append(click.wrap_text(text, 78, "     ", "       "))
    return "\n".join(lines)


def _later(after: DryRunResult) -> Iterator[str]:
    """Yield a sentence if more can follow: after the limit of the dry run, or as time passes."""
    if not after.at_rest:
        yield f"\nThe dry run stopped after {counted(after.cycles, 'cycle')}; more may follow."
    elif after.wake_at is not None:
        wait = duration_in_words(after.wake_at - after.now)
        yield f"\nMore may change in {wait}, as time passes."


def _queues(before: Sequence[QueueTableRow], after: Sequence[QueueTableRow]) -> str:
    """Return the queues as a table; a cell that differs shows both values."""
    old_rows = {row.name: row for row in before}
    lines: list[tuple[str, ...]] = []
    for row in after:
        old = old_rows.get(row.name)
        pairs = [
            (old and old.guarantee, row.guarantee),
            (old and old.share, row.share),
            (old and old.allocated, row.allocated),
            (old and old.limit, row.limit),
        ]
        cells = (_cell(old_value, value, is_new=old is None) for old_value, value in pairs)
        lines.append(("  " * min(row.depth, 8) + row.name, *cells))
    return table(("queue", "guarantee", "share", "allocated", "limit"), lines)


def _cell(old: int | None, new: int | None, is_new: bool) -> str:
    return _gpus(new) if is_new or old == new else f"{_gpus(old)} → {_gpus(new)}"


def _gpus(milli: int | None) -> str:
    return "none" if milli is None else f"{milli / WHOLE:g}"


def _result_as_json(result: DryRunResult) -> dict[str, Any]:
    return {
        "cycles": result.cycles,
        "at_rest": result.at_rest,
        "evicted": [eviction_as_json(row) for row in result.evicted],
        "started": result.started,
        "waiting": [
            {"gang": decision.gang} | _waits_as_json(decision) for decision in result.waiting
        ],
        "queues": [queue_as_json(row) for row in result.queues],
        "wake_at": result.wake_at,
    }


def _waits_as_json(decision: Decision) -> dict[str, Any]:
    reasons = [reason_as_json(reason) for reason in decision.reasons]
    return {
        "queue": decision.queue,
        "verdict": decision.verdict.value,
        "position": decision.position,
        "reasons": reasons,
    }
