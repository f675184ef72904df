"""`windlass plan`: what the engine would do with a cluster now, and why the rest waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json, reason_as_json, slices_in_words
from windlass.cli.queues import queue_as_json, queue_rows, queue_table
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import Bind

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster

MOST_TASKS = 16
"""Of one gang, so many tasks are listed; the others are counted."""


@click.command("plan")
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option("--json", "json_", is_flag=True, help="Print the plan as JSON.")
def command(snapshot: str, json_: bool) -> None:
    """Show what the engine would do with a snapshot now, and why everything else waits.

    SNAPSHOT is a JSON file, or - for stdin; `windlass scenario --snapshot-at` writes one.
    """
    from windlass.cli.inputs import read_snapshot_file
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(read_snapshot_file(snapshot))
    found = plan(cluster)
    if json_:
        click.echo(as_json(_as_json(cluster, found)))
    else:
        for line in _in_words(cluster, found):
            click.echo(line)


def _in_words(cluster: Cluster, plan: Plan) -> Iterator[str]:
    from windlass.sim.scenario.amounts import clock

    gpus = sum(len(node.gpus) for node in cluster.nodes.values())
    yield (
        f"At {clock(cluster.now)}: {len(cluster.nodes)} nodes with {gpus} GPUs, "
        f"{len(cluster.gangs)} gangs, {len(cluster.tasks)} tasks"
    )
    yield from _starts(cluster, plan)
    for title, verdict in (("Waits", Verdict.WAITS), ("Can never start", Verdict.NEVER)):
        decisions = [each for each in plan.decisions if each.verdict == verdict]
        if decisions:
            yield f"\n{title}"
            for each in sorted(decisions, key=lambda each: (each.position, each.gang)):
                yield from _told(each, f"{each.position}. " if verdict == Verdict.WAITS else "")
    yield "\nQueues (GPUs)"
    yield queue_table(queue_rows(cluster, plan))


def _starts(cluster: Cluster, plan: Plan) -> Iterator[str]:
    if not plan.binds:
        yield "\nNothing starts now"
        return
    yield "\nStarts now"
    for gang, binds in _by_gang(cluster, plan).items():
        count = f"{len(binds)} task{'s' if len(binds) > 1 else ''}"
        yield f"  {gang} (queue {cluster.gangs[cluster.tasks[binds[0].task].gang].queue}): {count}"
        for bind in binds[:MOST_TASKS]:
            yield f"    {bind.task} on {bind.node}, {slices_in_words(bind.devices)}"
        if len(binds) > MOST_TASKS:
            yield f"    and {len(binds) - MOST_TASKS} more"


def _by_gang(cluster: Cluster, plan: Plan) -> dict[str, list[Bind]]:
    """The binds of each gang, in the order in which the gangs were placed."""
    found: dict[str, list[Bind]] = {}
    for bind in plan.binds:
        found.setdefault(cluster.tasks[bind.task].gang, []).append(bind)
    return found


def _told(decision: Decision, number: str) -> Iterator[str]:
    yield f"  {number}{decision.gang} (queue {decision.queue})"
    for reason in decision.reasons:
        yield click.wrap_text(str(reason), 78, "     ", "     ")


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
