"""`windlass explain`: why a job waits, where it runs, or for whom it had to go, with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.explain.context import (
    ExplainContext,
    evicted,
    of_cluster,
    of_scenario,
    of_snapshot,
    pod_of,
)
from windlass.cli.options import in_namespace, namespace_or_own, reaching, settings
from windlass.cli.output import as_json, reason_as_json, slices_in_words
from windlass.cli.render.checkpoint_request import asked_as_json, asked_told
from windlass.cli.render.eta import add_etas, is_stuck
from windlass.cli.render.evictions import for_whom, nodes_in_words
from windlass.cli.render.queue_table import QueueTableRow, queue_as_json, queue_rows, queue_sentence
from windlass.engine.plan import Decision, Verdict
from windlass.model.actions import Evict
from windlass.model.display_names import known_as
from windlass.model.errors import UnknownName
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskState
from windlass.model.queues import GPU
from windlass.model.validation.problems import listed

if TYPE_CHECKING:
    from windlass.config import Config

MOST_GANGS = 20
"""So many gangs of one job are told of; the others are counted."""
MOST_LOSSES = 5
"""So many of the latest displacements of a gang are told of."""


@click.command("explain")
@click.argument("job", required=False)
@click.option(
    "--before",
    metavar="FILE",
    help="A job that is not submitted yet (- for stdin), instead of JOB.",
)
@click.option("--scenario", metavar="FILE", help="Play this scenario and look at the job in it.")
@click.option("--at", metavar="TIME", help="At this time of the scenario, like 20m; else at rest.")
@click.option("--snapshot", metavar="FILE", help="Look at the job in this snapshot (- for stdin).")
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
@in_namespace
@reaching
def command(
    job: str | None,
    *,
    before: str | None,
    scenario: str | None,
    at: str | None,
    snapshot: str | None,
    json_: bool,
    namespace: str | None,
    **reach: str | None,
) -> None:
    """Say why a job waits, with numbers, where it runs, or for whom it was displaced.

    JOB is NAMESPACE/NAME of a job or pod of the cluster; without a namespace, that of the context
    is meant. With --scenario or --snapshot it is a name in that file, and no cluster is asked.

    For a waiting job it also says what is being freed for it, or what it would have to displace and
    why it may not, and which changes would start it now: each was tried, and less of it is not
    enough.

    With --before, FILE holds a manifest, or a job in the words of scenario files: it says what
    would become of it if it were submitted now. Nothing is.
    """
    if (job is None) == (before is None):
        raise click.UsageError("give either JOB or --before FILE")
    if scenario is not None and snapshot is not None:
        raise click.UsageError("give either --scenario FILE or --snapshot FILE")
    if at is not None and scenario is None:
        raise click.UsageError("--at goes with --scenario; what else is there has its own time")
    scene = of_scenario(scenario, at) if scenario is not None else None
    scene = of_snapshot(snapshot) if snapshot is not None else scene
    if before is not None:
        found = _found_before(
            before, scene, settings(**reach) if scene is None else None, namespace
        )
    elif scene is not None:
        found = _found(scene, job or "")
    else:
        found = _found_on_cluster(settings(**reach), job or "", namespace)
    if json_:
        queues = [
            queue_as_json(row) | {"planned_gpus": planned / WHOLE} for row, planned in found.rows
        ]
        shown = {"job": found.job, "now": found.now, "gangs": found.stories, "queues": queues}
        click.echo(as_json(shown))
        return
    for line in _in_words(found):
        click.echo(line)


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is to tell about a job."""

    job: str
    now: int
    stories: list[dict[str, Any]]
    rows: Sequence[tuple[QueueTableRow, int]] = ()
    """Its queues, each with the thousandths of GPUs that it has once the plan is carried out."""
    notice: str = ""


def _found(scene: ExplainContext, job: str) -> _Found:
    if job not in scene.jobs:
        raise UnknownName("job", job, scene.jobs)
    return _told_of(scene, job, scene.jobs[job])


def _told_of(scene: ExplainContext, name: str, gangs: Sequence[str]) -> _Found:
    from windlass.cli.render.suggestions import add_suggestions

    stories = [_story(scene, gang) for gang in gangs]
    add_suggestions(scene, stories)
    add_etas(scene, stories)
    return _Found(name, scene.cluster.now, stories, _rows(scene, stories), scene.notice)


def _found_before(
    file: str, scene: ExplainContext | None, config: Config | None, namespace: str | None
) -> _Found:
    """What would become of the job in a file."""
    from windlass.cli.explain.manifest import submitted, submitted_on_cluster
    from windlass.cli.explain.manifest_files import read_wanted

    wanted = read_wanted(file)
    if config is not None:
        where = namespace_or_own(config, namespace)
        scene, gangs = submitted_on_cluster(config, wanted, where)
    else:
        assert scene is not None
        scene, gangs = submitted(scene, wanted, namespace or "default")
    return _told_of(scene, wanted.file, gangs)


def _found_on_cluster(config: Config, job: str, namespace: str | None) -> _Found:
    """All that can be known; for those who may read only a namespace, what its pods were told."""
    from windlass.daemon.loop.read_cluster import MayNotLook

    name = job if "/" in job else f"{namespace_or_own(config, namespace)}/{job}"
    try:
        return _found(of_cluster(config), name)
    except MayNotLook as error:
        from windlass.cli.render.pod_conditions import stories_on_pods

        now, stories = stories_on_pods(config, name)
        return _Found(name, now, stories, notice=f"that is what its pods were told; {error}")


def _in_words(found: _Found) -> Iterator[str]:
    for story in found.stories[:MOST_GANGS]:
        yield from _told(story)
    if len(found.stories) > MOST_GANGS:
        yield f"and {len(found.stories) - MOST_GANGS} more gangs; --json shows all"
    sentences = [queue_sentence(*row) for row in found.rows] + [found.notice]
    for sentence in filter(None, sentences):
        yield click.wrap_text(sentence, 78, "", "  ")


def _story(scene: ExplainContext, name: str) -> dict[str, Any]:
    """All that is known of a gang, for programs; `_told` says the same in words."""
    from windlass.cli.render.preemption_preview import held_for

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
        "asked": asked_as_json(scene.cluster, scene.plan, gang.id),
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


def _losses_now(scene: ExplainContext, gang: GangId) -> list[dict[str, Any]]:
    """What the plan would take from it."""
    evictions = evicted(scene.cluster, scene.plan).get(gang, ())
    return list(_losses_as_json(scene.cluster.now, evictions))


def _room(scene: ExplainContext, gang: GangId, decision: Decision | None) -> dict[str, Any]:
    """What is freed for a gang that waits, or what it would have to displace."""
    from windlass.cli.render.preemption_preview import freed_for, would_as_json, would_told
    from windlass.engine.explain.preemption_preview import would

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


def _rows(scene: ExplainContext, stories: list[dict[str, Any]]) -> list[tuple[QueueTableRow, int]]:
    """The queues that the stories are about; the reasons speak of them as the plan leaves them."""
    names = {story.get("queue") for story in stories}
    rows = (row for row in queue_rows(scene.cluster, scene.plan) if row.name in names)
    return [(row, scene.after.allocated(row.name, GPU)) for row in rows]


def _state(scene: ExplainContext, gang: Gang, decision: Decision | None) -> str:
    if decision is not None and decision.verdict == Verdict.DISPLACED:
        return "Displaced"
    members = scene.cluster.members(gang.id)
    if sum(task.state in ACTIVE for task in members) >= gang.needed():
        return "Running"
    if gang.id in scene.cluster.partings.standing:
        return "Saves"
    if decision is None:
        leaves = any(task.state == TaskState.RELEASING for task in members)
        return "Leaves" if leaves else "Waits"
    return "Starts" if decision.verdict == Verdict.PLACED else decision.verdict.value


def _places(scene: ExplainContext, gang: Gang) -> list[dict[str, Any]]:
    """Where its tasks are, or would be started by the plan."""
    members = {task.id: task for task in scene.cluster.members(gang.id)}
    places = [
        _place(task, task.node, slices_in_words(task.devices), "runs")
        for _, task in sorted(members.items())
        if task.state in ACTIVE
    ]
    saves = gang.id in scene.cluster.partings.standing
    places += [
        _place(
            task,
            task.node,
            slices_in_words(task.devices),
            "still runs" if saves else "is on its way out",
        )
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
    from windlass.cli.render.preemption_preview import freed_told

    yield f"{known_as(story['gang'])} {_verdict(story)}"
    for reason in story.get("reasons", ()):
        yield _item(reason["sentence"])
    if story.get("asked"):
        yield _item(asked_told(story["asked"]))
    for sentence in _losses_told(story):
        yield _item(sentence)
    if story.get("makes_room_for") and not story["displaced"]:
        gainers = listed(map(known_as, story["makes_room_for"]))
        yield _item(f"the places it leaves are held for {gainers}")
    if story.get("eta"):
        yield _item(story["eta"]["sentence"])
    elif "eta" in story and not is_stuck(story):
        yield _item("when it starts is not known: nothing tells how long the work before it runs")
    for sentence in (
        *freed_told(story.get("freed", [])),
        *story.get("would", {}).get("sentences", ()),
        *story.get("would_start", {}).get("sentences", ()),
    ):
        yield _item(sentence)
    for place in story.get("places", ()):
        where = ", ".join(filter(None, (place["node"], place["devices"])))
        yield f"  {pod_of(place['task'])} {place['verb']} on {where}"


def _item(sentence: str) -> str:
    return click.wrap_text(f"- {sentence}", 78, "  ", "    ")


def _losses_told(story: dict[str, Any]) -> Iterator[str]:
    """What it lost before now; what it loses now stands among the reasons."""
    from windlass.cli.times import instant

    is_now = story["state"] == "Displaced"
    past = [
        each for each in story.get("displaced", ()) if not (is_now and each["at"] == story["now"])
    ]
    for each in past[-MOST_LOSSES:]:
        goes = f" moved to {nodes_in_words(each['moves_to'])}" if each["moves_to"] else " evicted"
        yield f"at {instant(each['at'])}: {_tasks(each['tasks'])}{goes}, {each['sentence']}"


def _verdict(story: dict[str, Any]) -> str:
    from windlass.cli.times import instant

    tasks = _tasks(story.get("tasks_needed", 0))
    match story["state"]:
        case "Absent":
            return f"will be submitted at {instant(story['submitted'])}"
        case "Finished" | "Deleted":
            started = story["started"]
            start = "never started" if started is None else f"started at {instant(started)}"
            verb, end = story["state"].lower(), instant(story["ended"])
            return (
                f"was submitted at {instant(story['submitted'])}, {start} and was {verb} at {end}"
            )
        case "Running":
            return f"runs; it needs {tasks} and has {len(story['places'])}"
        case "Starts":
            return f"starts now with {_tasks(len(story['places']))}"
        case "Displaced":
            return f"is displaced now; it needs {tasks}"
        case "Saves":
            return f"still runs, and is to save before it makes room; it needs {tasks}"
        case "Leaves":
            return f"was displaced and waits again once its tasks are gone; it needs {tasks}"
        case "Never":
            return f"can never start with the {tasks} it needs"
        case _:
            position, all_ = story["position"], story["waiting_gangs"]
            line = f", number {position} of {all_} in line" if position else ""
            return f"waits for {tasks}{line}"


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count > 1 else ''}"
