"""`windlass explain`: why a job waits, or where it runs, in words with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json, reason_as_json, slices_in_words
from windlass.cli.queues import QueueRow, queue_as_json, queue_rows, queue_sentence
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.errors import NotFound
from windlass.model.jobs import ACTIVE, Gang, GangId, Task

if TYPE_CHECKING:
    from windlass.sim.world import Record
    from windlass.state.cluster import Cluster

MOST_GANGS = 20
"""So many gangs of one job are told of; the others are counted."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """A cluster at a moment, the plan for it, and what is not in it, no longer or not yet."""

    cluster: Cluster
    plan: Plan
    jobs: dict[str, list[str]]
    """Per name a user may give, the gangs it stands for."""
    ended: dict[str, Record]
    awaited: dict[str, int]
    """Gangs that are yet to be submitted, and when."""


@click.command("explain")
@click.argument("job")
@click.option("--scenario", metavar="FILE", help="Play this scenario and look at the job in it.")
@click.option("--at", metavar="TIME", help="At this time of the scenario, like 20m; else at rest.")
@click.option("--snapshot", metavar="FILE", help="Look at the job in this snapshot (- for stdin).")
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
def command(
    job: str, scenario: str | None, at: str | None, snapshot: str | None, json_: bool
) -> None:
    """Say why a job waits, with numbers, or where it runs."""
    if (scenario is None) == (snapshot is None):
        raise click.UsageError("give either --scenario FILE or --snapshot FILE")
    if at is not None and scenario is None:
        raise click.UsageError("--at goes with --scenario; a snapshot has its own time")
    scene = _scene_of_scenario(scenario, at) if scenario else _scene_of_snapshot(snapshot or "-")
    if job not in scene.jobs:
        raise NotFound("job", job, scene.jobs)
    stories = [_story(scene, gang) for gang in scene.jobs[job]]
    rows = _rows(scene, stories)
    if json_:
        queues = [queue_as_json(row) for row in rows]
        found = {"job": job, "now": scene.cluster.now, "gangs": stories, "queues": queues}
        click.echo(as_json(found))
        return
    for story in stories[:MOST_GANGS]:
        click.echo("\n".join(_told(story)))
    if len(stories) > MOST_GANGS:
        click.echo(f"and {len(stories) - MOST_GANGS} more gangs; --json shows all")
    for row in rows:
        click.echo(click.wrap_text(queue_sentence(row), 78, "", "  "))


def _scene_of_scenario(file: str, time: str | None) -> _Scene:
    from windlass.cli.inputs import read_scenario_file
    from windlass.cli.times import time_option
    from windlass.engine.cycle import plan
    from windlass.sim.scenario.expect import simulate

    at = None if time is None else time_option(time, "--at")
    scenario = read_scenario_file(file)
    simulation = simulate(scenario)
    simulation.run(until=at)
    cluster, records = simulation.cluster, simulation.records
    arrivals = {str(each.gang.id): each.at for each in scenario.workload.arrivals}
    jobs = {name: [name] for name in arrivals}
    jobs |= {name: list(copies) for name, copies in scenario.copies.items()}
    return _Scene(
        cluster,
        plan(cluster),
        jobs,
        ended={str(gang): each for gang, each in records.items() if each.ended is not None},
        awaited={name: at for name, at in arrivals.items() if name not in records},
    )


def _scene_of_snapshot(file: str) -> _Scene:
    from windlass.cli.inputs import read_snapshot_file
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(read_snapshot_file(file))
    jobs: dict[str, list[str]] = {str(gang): [str(gang)] for gang in cluster.gangs}
    of_job: dict[str, list[str]] = {}
    for gang in sorted(cluster.gangs.values(), key=lambda gang: gang.id):
        of_job.setdefault(gang.job, []).append(gang.id)
    return _Scene(cluster, plan(cluster), jobs | of_job, {}, {})


def _story(scene: _Scene, name: str) -> dict[str, Any]:
    """All that is known of a gang, for programs; `_told` says the same in words."""
    if name in scene.ended:
        record = scene.ended[name]
        times = {"started": record.started, "ended": record.ended}
        return {"gang": name, "state": record.stage.value, "submitted": record.submitted} | times
    if name in scene.awaited:
        return {"gang": name, "state": "Absent", "submitted": scene.awaited[name]}
    gang = scene.cluster.gangs[GangId(name)]
    decision = next((each for each in scene.plan.decisions if each.gang == name), None)
    return {
        "gang": name,
        "state": _state(scene, gang, decision),
        "queue": gang.queue,
        "submitted": gang.created_at,
        "tasks_needed": gang.needed(),
        "position": decision.position if decision else 0,
        "waiting_gangs": max((each.position for each in scene.plan.decisions), default=0),
        "reasons": [reason_as_json(each) for each in decision.reasons] if decision else [],
        "places": _places(scene, gang),
    }


def _rows(scene: _Scene, stories: list[dict[str, Any]]) -> list[QueueRow]:
    """The queues that the stories are about."""
    names = {story.get("queue") for story in stories}
    return [row for row in queue_rows(scene.cluster, scene.plan) if row.name in names]


def _state(scene: _Scene, gang: Gang, decision: Decision | None) -> str:
    active = sum(task.state in ACTIVE for task in scene.cluster.members(gang.id))
    if active >= gang.needed():
        return "Running"
    if decision is None:
        return "Waits"
    return "Starts" if decision.verdict == Verdict.PLACED else decision.verdict.value


def _places(scene: _Scene, gang: Gang) -> list[dict[str, Any]]:
    """Where its tasks are, or would be started by the plan."""
    members = {task.id: task for task in scene.cluster.members(gang.id)}
    places = [
        _place(task, task.node, slices_in_words(task.devices), "runs")
        for _, task in sorted(members.items())
        if task.state in ACTIVE
    ]
    return places + [
        _place(members[bind.task], bind.node, slices_in_words(bind.devices), "starts")
        for bind in scene.plan.binds
        if bind.task in members and members[bind.task].state not in ACTIVE
    ]


def _place(task: Task, node: str, devices: str, verb: str) -> dict[str, Any]:
    return {"task": task.id, "node": node, "devices": devices, "verb": verb}


def _told(story: dict[str, Any]) -> Iterator[str]:
    yield f"{story['gang']} {_verdict(story)}"
    for reason in story.get("reasons", ()):
        yield click.wrap_text(f"- {reason['sentence']}", 78, "  ", "    ")
    for place in story.get("places", ()):
        yield f"  {place['task']} {place['verb']} on {place['node']}, {place['devices']}"


def _verdict(story: dict[str, Any]) -> str:
    from windlass.sim.scenario.amounts import clock

    needed = story.get("tasks_needed", 0)
    tasks = f"{needed} task{'s' if needed > 1 else ''}"
    match story["state"]:
        case "Absent":
            return f"will be submitted at {clock(story['submitted'])}"
        case "Finished" | "Deleted":
            started = story["started"]
            start = "never started" if started is None else f"started at {clock(started)}"
            verb, end = story["state"].lower(), clock(story["ended"])
            return f"was submitted at {clock(story['submitted'])}, {start} and was {verb} at {end}"
        case "Running":
            return f"runs; it needs {tasks} and has {len(story['places'])}"
        case "Starts":
            return f"starts now with {len(story['places'])} tasks"
        case "Never":
            return f"can never start with the {tasks} it needs"
        case _:
            position, all_ = story["position"], story["waiting_gangs"]
            line = f", number {position} of {all_} in line" if position else ""
            return f"waits for {tasks}{line}"
