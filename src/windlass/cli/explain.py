"""`windlass explain`: why a job waits, where it runs, or for whom it had to go, with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.displaced import for_whom, nodes_in_words
from windlass.cli.output import as_json, reason_as_json, slices_in_words
from windlass.cli.queues import QueueRow, queue_as_json, queue_rows, queue_sentence
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import Evict
from windlass.model.errors import NotFound
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskState
from windlass.model.problems import listed

if TYPE_CHECKING:
    from windlass.sim.world import Record
    from windlass.state.cluster import Cluster

MOST_GANGS = 20
"""So many gangs of one job are told of; the others are counted."""
MOST_LOSSES = 5
"""So many of the latest displacements of a gang are told of."""

Loss = tuple[int, tuple[Evict, ...]]
"""When tasks of a gang were displaced, and how."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """A cluster at a moment, the plan for it, and what is not in it, no longer or not yet."""

    cluster: Cluster
    plan: Plan
    after: Cluster
    """The cluster as the plan leaves it."""
    jobs: dict[str, list[str]]
    """Per name a user may give, the gangs it stands for."""
    ended: dict[str, Record]
    awaited: dict[str, int]
    """Gangs that are yet to be submitted, and when."""
    losses: dict[str, list[Loss]] = field(default_factory=dict[str, list[Loss]])
    """Per gang, what it lost so far; known only where it was played."""


@click.command("explain")
@click.argument("job")
@click.option("--scenario", metavar="FILE", help="Play this scenario and look at the job in it.")
@click.option("--at", metavar="TIME", help="At this time of the scenario, like 20m; else at rest.")
@click.option("--snapshot", metavar="FILE", help="Look at the job in this snapshot (- for stdin).")
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
def command(
    job: str, scenario: str | None, at: str | None, snapshot: str | None, json_: bool
) -> None:
    """Say why a job waits, with numbers, where it runs, or for whom it was displaced.

    For a waiting job it also says what is being freed for it, or what it would have to displace and
    why it may not.
    """
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
    from windlass.sim.run import Simulation

    at = None if time is None else time_option(time, "--at")
    scenario = read_scenario_file(file)
    losses: dict[str, list[Loss]] = {}

    def watched(cluster: Cluster) -> Plan:
        found = plan(cluster)
        for gang, evictions in _evicted(cluster, found).items():
            losses.setdefault(gang, []).append((cluster.now, evictions))
        return found

    simulation = Simulation(scenario.workload, watched, start_s=0)
    simulation.run(until=at)
    cluster, records = simulation.cluster, simulation.records
    arrivals = {str(each.gang.id): each.at for each in scenario.workload.arrivals}
    jobs = {name: [name] for name in arrivals}
    jobs |= {name: list(copies) for name, copies in scenario.copies.items()}
    found = plan(cluster)
    return _Scene(
        cluster,
        found,
        _after(cluster, found),
        jobs,
        ended={str(gang): each for gang, each in records.items() if each.ended is not None},
        awaited={name: at for name, at in arrivals.items() if name not in records},
        losses=losses,
    )


def _evicted(cluster: Cluster, plan: Plan) -> dict[str, tuple[Evict, ...]]:
    """The evictions of a plan by gang."""
    found: dict[str, tuple[Evict, ...]] = {}
    for each in plan.evictions:
        gang = cluster.tasks[each.task].gang
        found[gang] = (*found.get(gang, ()), each)
    return found


def _scene_of_snapshot(file: str) -> _Scene:
    from windlass.cli.inputs import read_snapshot_file
    from windlass.engine.cycle import plan
    from windlass.state.cluster import Cluster

    cluster = Cluster.of(read_snapshot_file(file))
    jobs: dict[str, list[str]] = {str(gang): [str(gang)] for gang in cluster.gangs}
    of_job: dict[str, list[str]] = {}
    for gang in sorted(cluster.gangs.values(), key=lambda gang: gang.id):
        of_job.setdefault(gang.job, []).append(gang.id)
    found = plan(cluster)
    return _Scene(cluster, found, _after(cluster, found), jobs | of_job, {}, {})


def _after(cluster: Cluster, plan: Plan) -> Cluster:
    from windlass.state.cluster import Cluster

    if not plan.actions and {hold.gang: hold for hold in plan.holds} == cluster.holds:
        return cluster
    after = Cluster.of(cluster.snapshot())
    after.assume(plan)
    return after


def _story(scene: _Scene, name: str) -> dict[str, Any]:
    """All that is known of a gang, for programs; `_told` says the same in words."""
    from windlass.cli.room import held_for

    losses = [each for loss in scene.losses.get(name, ()) for each in _losses_as_json(*loss)]
    if name in scene.ended:
        record = scene.ended[name]
        times = {"submitted": record.submitted, "started": record.started, "ended": record.ended}
        return {"gang": name, "state": record.stage.value, **times, "displaced": losses}
    if name in scene.awaited:
        return {"gang": name, "state": "Absent", "submitted": scene.awaited[name]}
    gang = scene.cluster.gangs[GangId(name)]
    decision = next((each for each in scene.plan.decisions if each.gang == name), None)
    return {
        "gang": name,
        "now": scene.cluster.now,
        "state": _state(scene, gang, decision),
        "queue": gang.queue,
        "submitted": gang.created_at,
        "tasks_needed": gang.needed(),
        "position": decision.position if decision else 0,
        "waiting_gangs": max((each.position for each in scene.plan.decisions), default=0),
        "reasons": [reason_as_json(each) for each in decision.reasons] if decision else [],
        "places": _places(scene, gang),
        "displaced": losses + _losses_now(scene, gang.id),
        "makes_room_for": held_for(scene.cluster, scene.plan, gang.id),
        **_room(scene, gang.id, decision),
    }


def _losses_as_json(at: int, evictions: Sequence[Evict]) -> Iterator[dict[str, Any]]:
    """What a gang lost at one instant, by rule and gainer."""
    for rule, gainer in dict.fromkeys((each.rule, each.gainer) for each in evictions):
        those = [each for each in evictions if (each.rule, each.gainer) == (rule, gainer)]
        nodes = list(dict.fromkeys(each.moves_to for each in those if each.moves_to))
        found = {"at": at, "tasks": len(those), "rule": rule, "gainer": gainer}
        yield found | {"moves_to": nodes, "sentence": for_whom(rule, gainer)}


def _losses_now(scene: _Scene, gang: GangId) -> list[dict[str, Any]]:
    """What the plan would take from it."""
    evictions = _evicted(scene.cluster, scene.plan).get(gang, ())
    return list(_losses_as_json(scene.cluster.now, evictions))


def _room(scene: _Scene, gang: GangId, decision: Decision | None) -> dict[str, Any]:
    """What is freed for a gang that waits, or what it would have to displace."""
    from windlass.cli.room import freed_for, would_as_json, would_told
    from windlass.engine.would import would

    cluster, plan = scene.cluster, scene.plan
    if decision is None or decision.verdict != Verdict.WAITS:
        return {}
    if any(hold.gang == gang and hold.firm for hold in plan.holds):
        return {"freed": freed_for(cluster, plan, gang)}
    found = would(scene.after, gang)
    if found is None:
        return {}
    sentences = list(would_told(found, cluster.now))
    return {"would": would_as_json(found) | {"sentences": sentences}}


def _rows(scene: _Scene, stories: list[dict[str, Any]]) -> list[QueueRow]:
    """The queues that the stories are about."""
    names = {story.get("queue") for story in stories}
    return [row for row in queue_rows(scene.cluster, scene.plan) if row.name in names]


def _state(scene: _Scene, gang: Gang, decision: Decision | None) -> str:
    if decision is not None and decision.verdict == Verdict.DISPLACED:
        return "Displaced"
    members = scene.cluster.members(gang.id)
    if sum(task.state in ACTIVE for task in members) >= gang.needed():
        return "Running"
    if decision is None:
        leaves = any(task.state == TaskState.RELEASING for task in members)
        return "Leaves" if leaves else "Waits"
    return "Starts" if decision.verdict == Verdict.PLACED else decision.verdict.value


def _places(scene: _Scene, gang: Gang) -> list[dict[str, Any]]:
    """Where its tasks are, or would be started by the plan."""
    members = {task.id: task for task in scene.cluster.members(gang.id)}
    places = [
        _place(task, task.node, slices_in_words(task.devices), "runs")
        for _, task in sorted(members.items())
        if task.state in ACTIVE
    ]
    places += [
        _place(task, task.node, slices_in_words(task.devices), "is on its way out")
        for _, task in sorted(members.items())
        if task.state == TaskState.RELEASING
    ]
    return places + [
        _place(members[bind.task], bind.node, slices_in_words(bind.devices), "starts")
        for bind in scene.plan.binds
        if bind.task in members and members[bind.task].state not in ACTIVE
    ]


def _place(task: Task, node: str, devices: str, verb: str) -> dict[str, Any]:
    return {"task": task.id, "node": node, "devices": devices, "verb": verb}


def _told(story: dict[str, Any]) -> Iterator[str]:
    from windlass.cli.room import freed_told

    yield f"{story['gang']} {_verdict(story)}"
    for reason in story.get("reasons", ()):
        yield _item(reason["sentence"])
    for sentence in _losses_told(story):
        yield _item(sentence)
    if story.get("makes_room_for") and not story["displaced"]:
        yield _item(f"the places it leaves are held for {listed(story['makes_room_for'])}")
    for sentence in (
        *freed_told(story.get("freed", [])),
        *story.get("would", {}).get("sentences", ()),
    ):
        yield _item(sentence)
    for place in story.get("places", ()):
        yield f"  {place['task']} {place['verb']} on {place['node']}, {place['devices']}"


def _item(sentence: str) -> str:
    return click.wrap_text(f"- {sentence}", 78, "  ", "    ")


def _losses_told(story: dict[str, Any]) -> Iterator[str]:
    """What it lost before now; what it loses now stands among the reasons."""
    from windlass.model.spans import clock

    is_now = story["state"] == "Displaced"
    past = [
        each for each in story.get("displaced", ()) if not (is_now and each["at"] == story["now"])
    ]
    for each in past[-MOST_LOSSES:]:
        tasks = f"{each['tasks']} task{'s' if each['tasks'] > 1 else ''}"
        goes = f" moved to {nodes_in_words(each['moves_to'])}" if each["moves_to"] else " evicted"
        yield f"at {clock(each['at'])}: {tasks}{goes}, {each['sentence']}"


def _verdict(story: dict[str, Any]) -> str:
    from windlass.model.spans import clock

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
        case "Displaced":
            return f"is displaced now; it needs {tasks}"
        case "Leaves":
            return f"was displaced and waits again once its tasks are gone; it needs {tasks}"
        case "Never":
            return f"can never start with the {tasks} it needs"
        case _:
            position, all_ = story["position"], story["waiting_gangs"]
            line = f", number {position} of {all_} in line" if position else ""
            return f"waits for {tasks}{line}"
