"""`windlass plan`: the plan of the engine for a snapshot, and the reasons why other gangs wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.explain.context import pod_of
from windlass.cli.format import counted
from windlass.cli.output import as_json, reason_as_json, reason_sentence, slices_in_words
from windlass.cli.render.evictions import (
    eviction_as_json,
    eviction_lines,
    hold_lines,
    planned_evictions,
)
from windlass.cli.render.queue_table import queue_as_json, queue_rows, queue_table
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import Bind
from windlass.model.jobs import GangId
from windlass.model.reasons import display_name

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster
    from windlass.state.snapshot import Snapshot

MOST_TASKS = 16
"""The number of tasks of one gang that are listed; the others are counted."""


@click.command("plan")
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option(
    "--with", "change", metavar="FILE", help="Show the difference that this change would make."
)
@click.option("--json", "json_", is_flag=True, help="Print the plan as JSON.")
def command(snapshot: str, change: str | None, json_: bool) -> None:
    """Show what the engine would do with a snapshot now, and why all other gangs wait.

    SNAPSHOT is a JSON file, or - for stdin; `windlass snapshot` and `windlass scenario
    --snapshot-at` write one.

    With --with, a change is tried on a copy: FILE is YAML with `queues` and `settings` in the
    format of scenario files. The answer names the gangs that would be evicted, start or wait for
    another reason than without the change, once all plans that follow now are carried out.
    """
    from windlass.cli.files import STDIN, read_snapshot_file

    if snapshot == change == STDIN:
        raise click.UsageError(
            "Only one of SNAPSHOT and --with can be stdin; give a file for the other."
        )
    state = read_snapshot_file(snapshot)
    lines = _plan_lines(state, json_) if change is None else _change_lines(state, change, json_)
    for line in lines:
        click.echo(line)


def _plan_lines(snapshot: Snapshot, json_: bool) -> Iterator[str]:
    """Yield the plan for a snapshot, in words or as JSON."""
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(snapshot)
    result = plan(cluster)
    if json_:
        yield as_json(_as_json(cluster, result))
    else:
        yield from _in_words(cluster, result)


def _change_lines(snapshot: Snapshot, file: str, json_: bool) -> Iterator[str]:
    """Yield the difference that the change in a file makes, in words or as JSON."""
    from windlass.cli.commands.plan_diff import (
        preview,
        preview_as_json,
        preview_lines,
        read_change_file,
    )

    comparison = preview(snapshot, read_change_file(file, snapshot))
    if json_:
        yield as_json(preview_as_json(comparison))
    else:
        yield from preview_lines(comparison)


def _in_words(cluster: Cluster, plan: Plan) -> Iterator[str]:
    from windlass.cli.options import format_time

    gpus = sum(len(node.gpus) for node in cluster.nodes.values())
    nodes, gangs, tasks = len(cluster.nodes), len(cluster.gangs), len(cluster.tasks)
    yield (
        f"At {format_time(cluster.now)}: {counted(nodes, 'node')} with {counted(gpus, 'GPU')}, "
        f"{counted(gangs, 'gang')}, {counted(tasks, 'task')}"
    )
    yield from _starts(cluster, plan)
    if plan.going:
        yield "\nMakes room now"
        yield from eviction_lines(planned_evictions(cluster, plan))
    if plan.holds:
        yield "\nHolds"
        yield from hold_lines(cluster, plan.holds)
    for title, verdict in (("Waits", Verdict.WAITS), ("Can never start", Verdict.NEVER)):
        groups = _alike(decision for decision in plan.decisions if decision.verdict == verdict)
        if groups:
            yield f"\n{title}"
        for decision, more in groups:
            number = f"{decision.position}. " if verdict == Verdict.WAITS else ""
            yield from _decision_lines(decision, number, more)
    yield "\nQueues (GPUs)"
    yield queue_table(queue_rows(cluster, plan))


def _starts(cluster: Cluster, plan: Plan) -> Iterator[str]:
    """Yield the gangs that start, with the places of their tasks."""
    if not plan.binds:
        yield "\nNothing starts now."
        return
    yield "\nStarts now"
    for gang, binds in _by_gang(cluster, plan).items():
        queue = cluster.gangs[gang].queue
        yield f"  {display_name(gang)} (queue {queue}): {counted(len(binds), 'task')}"
        for bind in binds[:MOST_TASKS]:
            yield f"    {pod_of(bind.task)} on {bind.node}, {slices_in_words(bind.devices)}"
        if len(binds) > MOST_TASKS:
            yield f"    and {len(binds) - MOST_TASKS} more"


def _by_gang(cluster: Cluster, plan: Plan) -> dict[GangId, list[Bind]]:
    """Return the binds of each gang, in the order in which the gangs were placed."""
    binds: dict[GangId, list[Bind]] = {}
    for bind in plan.binds:
        binds.setdefault(cluster.tasks[bind.task].gang, []).append(bind)
    return binds


def _alike(decisions: Iterable[Decision]) -> list[tuple[Decision, int]]:
    """Group decisions of one queue with equal reasons.

    Return the first of each group, in queue order, with the number of the others.
    """
    groups: dict[tuple[str, ...], tuple[Decision, int]] = {}
    for decision in sorted(decisions, key=lambda decision: (decision.position, decision.gang)):
        key = (decision.queue, *map(str, decision.reasons))
        first, more = groups.get(key, (decision, -1))
        groups[key] = first, more + 1
    return list(groups.values())


def _decision_lines(decision: Decision, number: str, more: int) -> Iterator[str]:
    """Yield a gang that waits with its reasons; `more` gangs wait for the same ones."""
    queue = f"queue {decision.queue}" if decision.queue else "no queue"
    yield f"  {number}{display_name(decision.gang)} ({queue})"
    for reason in decision.reasons:
        text = reason_sentence(str(reason), reason.values)
        yield click.wrap_text(text, 78, "     ", "     ")
    if more:
        yield f"     and {counted(more, 'more gang')} like it"


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
        "evictions": [eviction_as_json(row) for row in planned_evictions(cluster, plan)],
        "decisions": [
            {
                "gang": decision.gang,
                "queue": decision.queue,
                "verdict": decision.verdict.value,
                "position": decision.position,
                "reasons": [reason_as_json(reason) for reason in decision.reasons],
            }
            for decision in plan.decisions
        ],
        "holds": plan.holds,
        "queues": [queue_as_json(row) for row in queue_rows(cluster, plan)],
        "wake_at": plan.wake_at,
    }
