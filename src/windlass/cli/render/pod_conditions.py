"""The conditions that the scheduler wrote on the pods of a job, in the form of an explanation.

`windlass explain` falls back to them for a user who may read a namespace but not the cluster. The
engine is not called here: a plan for a part of a cluster would be wrong.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from windlass.cli.commands.jobs import JobRow, rows_of
from windlass.model.errors import UnknownName
from windlass.model.jobs import ACTIVE
from windlass.model.reasons import display_name

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.daemon.loop import ClusterReading

STATES = {"waiting": "Waits", "running": "Running", "leaving": "Leaves"}


def stories_on_pods(config: Config, job: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the time, and a story for each gang of a job, as `windlass explain` makes them."""
    from windlass.daemon.loop import read_cluster

    sight = asyncio.run(read_cluster(config, job.partition("/")[0]))
    rows = rows_of(sight)
    name = job.partition("/")[2]
    matching = [row for row in rows if name in (row.job, row.name)]
    if not matching:
        raise UnknownName("job", job, [f"{row.namespace}/{row.name}" for row in rows])
    return sight.now, [_story(sight, row) for row in matching]


def _story(sight: ClusterReading, row: JobRow) -> dict[str, Any]:
    return {
        "gang": f"{row.namespace}/{row.name}",
        "now": sight.now,
        "state": STATES[row.state],
        "queue": row.queue,
        "submitted": row.created_at,
        "tasks_needed": row.pods_needed,
        "position": 0,  # not known: it takes the right to read all waiting gangs
        "waiting_gangs": 0,
        "reasons": [{"why": row.reason, "sentence": row.message}] if row.message else [],
        "places": _places(sight, row),
    }


def _places(sight: ClusterReading, row: JobRow) -> list[dict[str, Any]]:
    """Return the nodes of the tasks, without devices: these follow only from all pods of a node."""
    tasks = [
        task
        for gang in sight.cluster.gangs.values()
        if display_name(gang.id) == f"{row.namespace}/{row.name}"
        for task in sight.cluster.members(gang.id)
        if task.state in ACTIVE
    ]
    return [
        {"task": task.id, "node": task.node, "devices": "", "verb": "runs"}
        for task in sorted(tasks, key=lambda task: task.id)
    ]
