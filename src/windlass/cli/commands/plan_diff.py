"""`windlass plan --with`: what a change of queues or settings would make different.

The cluster is rehearsed twice, without the change and with it, each until nothing more follows.
What is shown is the difference, so that what happens anyway is not blamed on the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import reason_as_json, table
from windlass.cli.render.evictions import (
    EvictionSummary,
    added_up,
    displaced,
    displaced_as_json,
    nodes_in_words,
    told,
)
from windlass.cli.render.queue_table import QueueTableRow, queue_as_json, queue_rows
from windlass.engine.plan import Decision, Verdict
from windlass.model.display_names import known_as
from windlass.model.errors import InputError
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, GangId
from windlass.model.units import duration_in_words
from windlass.model.validation.problems import listed

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster
    from windlass.state.snapshot import Snapshot

MOST_ROWS = 20
"""So many gangs of one list are told of; the others are counted."""


@dataclass(frozen=True, slots=True)
class GangStart:
    """A gang that had not its minimum and gets it."""

    gang: GangId
    queue: str
    tasks: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """Where a cluster comes to rest, and what happened on the way."""

    now: int
    cycles: int
    at_rest: bool
    """Did the plans come to an end?"""
    evicted: tuple[EvictionSummary, ...]
    started: tuple[GangStart, ...]
    waiting: tuple[Decision, ...]
    queues: tuple[QueueTableRow, ...]
    wake_at: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """Two rests, and how they differ."""

    changed: tuple[str, ...]
    before: Rest
    after: Rest

    @property
    def evicted(self) -> list[EvictionSummary]:
        """Evicted only with the change."""
        return _more(self.after.evicted, self.before.evicted)

    @property
    def spared(self) -> list[EvictionSummary]:
        """Evicted only without it."""
        return _more(self.before.evicted, self.after.evicted)

    @property
    def started(self) -> list[GangStart]:
        """Started only with the change."""
        known = {each.gang for each in self.before.started}
        return [each for each in self.after.started if each.gang not in known]

    @property
    def not_started(self) -> list[GangStart]:
        """Started only without it."""
        known = {each.gang for each in self.after.started}
        return [each for each in self.before.started if each.gang not in known]

    @property
    def reasons(self) -> list[tuple[Decision, Decision]]:
        """The gangs that wait either way, but for another kind of reason."""
        before = {each.gang: each for each in self.before.waiting}
        pairs = ((before[each.gang], each) for each in self.after.waiting if each.gang in before)
        return [(was, will) for was, will in pairs if _kind(was) != _kind(will)]


def read_change_file(file: str, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the change in a file, or on stdin for "-"."""
    from windlass.sim.scenario.change import read_change
    from windlass.sim.scenario.yaml_lines import MOST_BYTES

    try:
        with click.open_file(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be read ({why}); check its name") from None
    return read_change(data, "stdin" if file == "-" else file, snapshot)


def preview(before: Snapshot, after: Snapshot) -> Preview:
    """Rehearse both."""
    return Preview(tuple(changes_in(before, after)), _rest(before), _rest(after))


def preview_in_words(found: Preview) -> Iterator[str]:
    """The differences, most painful first."""
    yield f"Changes {listed(found.changed)}" if found.changed else "Changes nothing"
    lists: list[tuple[str, list[str]]] = [
        ("Would be evicted", list(told(found.evicted))),
        ("Would no longer be evicted", list(told(found.spared))),
        ("Would start", [_start(each) for each in found.started]),
        ("Would no longer start", [_start(each) for each in found.not_started]),
        ("Would wait for another reason", [_reason(*each) for each in found.reasons]),
    ]
    for title, lines in lists:
        if lines:
            yield f"\n{title}"
            yield from lines[:MOST_ROWS]
        if len(lines) > MOST_ROWS:
            yield f"  and {len(lines) - MOST_ROWS} more"
    if not any(lines for _, lines in lists):
        yield "\nNobody would be evicted, start or wait for another reason than without it"
    yield from _later(found.after)
    yield "\nQueues (GPUs), without the change and with it where that differs"
    yield _queues(found.before.queues, found.after.queues)


def preview_as_json(found: Preview) -> dict[str, Any]:
    """Both rests and the differences, for programs."""
    return {
        "changed": found.changed,
        "before": _rest_as_json(found.before),
        "after": _rest_as_json(found.after),
        "evicted": [displaced_as_json(row) for row in found.evicted],
        "spared": [displaced_as_json(row) for row in found.spared],
        "started": found.started,
        "not_started": found.not_started,
        "reasons": [
            {"gang": will.gang, "before": _waits_as_json(was), "after": _waits_as_json(will)}
            for was, will in found.reasons
        ],
    }


def _rest(snapshot: Snapshot) -> Rest:
    from windlass.sim.dry_run import is_rest, rehearse
    from windlass.state.cluster import Cluster

    ran = _whole(Cluster.of(snapshot))
    evicted: list[EvictionSummary] = []
    steps = rehearse(snapshot)
    cluster, plan = next(steps)
    cycles = 1
    evicted += displaced(cluster, plan)
    for cluster, plan in steps:
        cycles += 1
        evicted += displaced(cluster, plan)
    waits = (each for each in plan.decisions if each.verdict in {Verdict.WAITS, Verdict.NEVER})
    return Rest(
        now=cluster.now,
        cycles=cycles,
        at_rest=is_rest(plan, cluster.now),
        evicted=tuple(added_up(evicted)),
        started=tuple(_started(cluster, gang) for gang in sorted(_whole(cluster) - ran)),
        waiting=tuple(sorted(waits, key=lambda each: (each.position, each.gang))),
        queues=tuple(queue_rows(cluster, plan)),
        wake_at=plan.wake_at,
    )


def _whole(cluster: Cluster) -> set[GangId]:
    """The gangs that have their minimum."""
    return set(cluster.active) - set(cluster.broken)


def _started(cluster: Cluster, name: GangId) -> GangStart:
    nodes = [task.node for task in cluster.members(name) if task.state in ACTIVE]
    return GangStart(name, cluster.gangs[name].queue, len(nodes), tuple(dict.fromkeys(nodes)))


def changes_in(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What a file really changes, with the fields of a queue that differ."""
    known = {queue.name: queue for queue in before.queues}
    for queue in after.queues:
        was = known.get(queue.name)
        if was is None:
            yield f"queue {queue.name} (new)"
        elif was != queue:
            names = (each.name for each in fields(queue))
            differ = (name for name in names if getattr(was, name) != getattr(queue, name))
            yield f"queue {queue.name} ({', '.join(each.removesuffix('_s') for each in differ)})"
    for each in fields(after.settings):
        if getattr(before.settings, each.name) != getattr(after.settings, each.name):
            yield f"setting {each.name.removesuffix('_s')}"


def _more(
    rows: Sequence[EvictionSummary], others: Sequence[EvictionSummary]
) -> list[EvictionSummary]:
    """The rows with tasks that the others have not."""
    known = {task.id for row in others for task in row.tasks}
    return [row for row in rows if any(task.id not in known for task in row.tasks)]


def _kind(decision: Decision) -> tuple[str, str, object]:
    """Its verdict and first reason: the others follow from that one, or come and go with it."""
    if not decision.reasons:
        return decision.verdict.value, "", ""
    first = decision.reasons[0]
    return decision.verdict.value, first.why.value, first.values.get("queue")


def _start(start: GangStart) -> str:
    count = f"{start.tasks} task{'s' if start.tasks > 1 else ''}"
    sentence = (
        f"{known_as(start.gang)} (queue {start.queue}): {count} on {nodes_in_words(start.nodes)}"
    )
    return click.wrap_text(sentence, 78, "  ", "     ")


def _reason(was: Decision, will: Decision) -> str:
    """Only the first reason of each: it is the one that decides."""
    lines = [f"  {known_as(will.gang)} (queue {will.queue})"]
    for word, decision in (("now", was), ("then", will)):
        sentence = f"{word}: {decision.reasons[0] if decision.reasons else decision.verdict}"
        lines.append(click.wrap_text(sentence, 78, "     ", "       "))
    return "\n".join(lines)


def _later(after: Rest) -> Iterator[str]:
    if not after.at_rest:
        yield f"\nAfter {after.cycles} cycles there is still something to do; more may follow"
    elif after.wake_at is not None:
        yield f"\nTime alone may change more in {duration_in_words(after.wake_at - after.now)}"


def _queues(before: Sequence[QueueTableRow], after: Sequence[QueueTableRow]) -> str:
    known = {row.name: row for row in before}
    lines: list[tuple[str, ...]] = []
    for row in after:
        was = known.get(row.name)
        pairs = [
            (was and was.guarantee, row.guarantee),
            (was and was.share, row.share),
            (was and was.allocated, row.allocated),
            (was and was.limit, row.limit),
        ]
        cells = (_cell(a, b, is_new=was is None) for a, b in pairs)
        lines.append(("  " * min(row.depth, 8) + row.name, *cells))
    return table(("queue", "guarantee", "share", "allocated", "limit"), lines)


def _cell(was: int | None, will: int | None, is_new: bool) -> str:
    return _gpus(will) if is_new or was == will else f"{_gpus(was)} → {_gpus(will)}"


def _gpus(milli: int | None) -> str:
    return "none" if milli is None else f"{milli / WHOLE:g}"


def _rest_as_json(rest: Rest) -> dict[str, Any]:
    return {
        "cycles": rest.cycles,
        "at_rest": rest.at_rest,
        "evicted": [displaced_as_json(row) for row in rest.evicted],
        "started": rest.started,
        "waiting": [{"gang": each.gang} | _waits_as_json(each) for each in rest.waiting],
        "queues": [queue_as_json(row) for row in rest.queues],
        "wake_at": rest.wake_at,
    }


def _waits_as_json(decision: Decision) -> dict[str, Any]:
    reasons = [reason_as_json(reason) for reason in decision.reasons]
    return {
        "queue": decision.queue,
        "verdict": decision.verdict.value,
        "position": decision.position,
        "reasons": reasons,
    }
