"""`windlass plan`: what the engine would do with a cluster now, and why the rest waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.explain.context import pod_of
from windlass.cli.output import as_json, reason_as_json, slices_in_words
from windlass.cli.render.evictions import displaced, displaced_as_json, holds_told, told
from windlass.cli.render.queue_table import queue_as_json, queue_rows, queue_table
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import Bind
from windlass.model.display_names import known_as
from windlass.model.jobs import GangId

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster
    from windlass.state.snapshot import Snapshot

MOST_TASKS = 16
"""Of one gang, so many tasks are listed; the others are counted."""


@click.command("plan")
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option("--with", "change", metavar="FILE", help="Show what this change would alter.")
@click.option("--json", "json_", is_flag=True, help="Print the plan as JSON.")
def command(snapshot: str, change: str | None, json_: bool) -> None:
    """Show what the engine would do with a snapshot now, and why everything else waits.

    SNAPSHOT is a JSON file, or - for stdin; `windlass scenario --snapshot-at` writes one.

    With --with, a change is tried on a copy: FILE is YAML with `queues` and `settings` in the words
    of scenario files. It shows who would be evicted, start or wait for another reason than without
    the change, once all plans that follow from it now have been carried out.
    """
    from windlass.cli.files import STDIN, read_snapshot_file

    if snapshot == change == STDIN:
        raise click.UsageError("only one of SNAPSHOT and --with can be stdin; give a file")
    found = read_snapshot_file(snapshot)
    for line in _planned(found, json_) if change is None else _compared(found, change, json_):
        click.echo(line)


def _planned(snapshot: Snapshot, json_: bool) -> Iterator[str]:
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(snapshot)
    found = plan(cluster)
    if json_:
        yield as_json(_as_json(cluster, found))
    else:
        yield from _in_words(cluster, found)


def _compared(snapshot: Snapshot, file: str, json_: bool) -> Iterator[str]:
    from windlass.cli.commands.plan_diff import (
        preview,
        preview_as_json,
        preview_in_words,
        read_change_file,
    )

    found = preview(snapshot, read_change_file(file, snapshot))
    if json_:
        yield as_json(preview_as_json(found))
    else:
        yield from preview_in_words(found)


def _in_words(cluster: Cluster, plan: Plan) -> Iterator[str]:
    from windlass.cli.times import instant

    gpus = sum(len(node.gpus) for node in cluster.nodes.values())
    nodes, gangs, tasks = len(cluster.nodes), len(cluster.gangs), len(cluster.tasks)
    yield (
        f"At {instant(cluster.now)}: {_counted(nodes, 'node')} with {_counted(gpus, 'GPU')}, "
        f"{_counted(gangs, 'gang')}, {_counted(tasks, 'task')}"
    )
    yield from _starts(cluster, plan)
    if plan.going:
        yield "\nMakes room now"
        yield from told(displaced(cluster, plan))
    if plan.holds:
        yield "\nHolds"
        yield from holds_told(cluster, plan.holds)
    for title, verdict in (("Waits", Verdict.WAITS), ("Can never start", Verdict.NEVER)):
        alike = _alike(each for each in plan.decisions if each.verdict == verdict)
        if alike:
            yield f"\n{title}"
        for each, more in alike:
            yield from _told(each, f"{each.position}. " if verdict == Verdict.WAITS else "", more)
    yield "\nQueues (GPUs)"
    yield queue_table(queue_rows(cluster, plan))


def _starts(cluster: Cluster, plan: Plan) -> Iterator[str]:
    if not plan.binds:
        yield "\nNothing starts now"
        return
    yield "\nStarts now"
    for gang, binds in _by_gang(cluster, plan).items():
        queue = cluster.gangs[gang].queue
        yield f"  {known_as(gang)} (queue {queue}): {_counted(len(binds), 'task')}"
        for bind in binds[:MOST_TASKS]:
            yield f"    {pod_of(bind.task)} on {bind.node}, {slices_in_words(bind.devices)}"
        if len(binds) > MOST_TASKS:
            yield f"    and {len(binds) - MOST_TASKS} more"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _by_gang(cluster: Cluster, plan: Plan) -> dict[GangId, list[Bind]]:
    """The binds of each gang, in the order in which the gangs were placed."""
    found: dict[GangId, list[Bind]] = {}
    for bind in plan.binds:
        found.setdefault(cluster.tasks[bind.task].gang, []).append(bind)
    return found


def _alike(decisions: Iterable[Decision]) -> list[tuple[Decision, int]]:
    """In the order of the line, and how many more of the same queue are told the same."""
    found: dict[tuple[str, ...], tuple[Decision, int]] = {}
    for each in sorted(decisions, key=lambda each: (each.position, each.gang)):
        first, more = found.get(said := (each.queue, *map(str, each.reasons)), (each, -1))
        found[said] = first, more + 1
    return list(found.values())


def _told(decision: Decision, number: str, more: int) -> Iterator[str]:
    queue = f"queue {decision.queue}" if decision.queue else "no queue"
    yield f"  {number}{known_as(decision.gang)} ({queue})"
    for reason in decision.reasons:
        yield click.wrap_text(str(reason), 78, "     ", "     ")
    if more:
        yield f"     and {more:,} like it"


def _as_json(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    return {
        "now": cluster.now,
        "binds": [
            {
                "gang": cluster.tasks[bind.task].gang,
                "task": bind.task,
                "node": bind.node,
                "devices": bind.devices,
            }
            for bind in plan.binds
        ],
        "evictions": [displaced_as_json(row) for row in displaced(cluster, plan)],
        "decisions": [
            {
                "gang": each.gang,
                "queue": each.queue,
                "verdict": each.verdict.value,
                "position": each.position,
                "reasons": [reason_as_json(reason) for reason in each.reasons],
            }
            for each in plan.decisions
        ],
        "holds": plan.holds,
        "queues": [queue_as_json(row) for row in queue_rows(cluster, plan)],
        "wake_at": plan.wake_at,
    }
