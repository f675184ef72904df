"""`windlass explain`: the reasons why a job waits, its places, or the cause of its evictions.

A *story* is all that is known of one gang, as a JSON value; `_story_lines` puts it into words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.explain.context import (
    ExplainContext,
    cluster_context,
    evictions_by_gang,
    pod_of,
    scenario_context,
    snapshot_context,
)
from windlass.cli.format import counted, sentence
from windlass.cli.options import (
    cluster_options,
    load_config,
    namespace_option,
    namespace_or_default,
)
from windlass.cli.output import as_json, reason_as_json, reason_sentence, slices_in_words
from windlass.cli.render.checkpoint_request import checkpoint_as_json, checkpoint_sentence
from windlass.cli.render.eta import add_etas, is_stuck
from windlass.cli.render.evictions import eviction_cause, list_nodes
from windlass.cli.render.queue_table import QueueTableRow, queue_as_json, queue_rows, queue_sentence
from windlass.engine.plan import Decision, Verdict
from windlass.model.actions import Evict
from windlass.model.errors import UnknownName
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskState
from windlass.model.queues import GPU
from windlass.model.reasons import display_name
from windlass.model.validation import join_names

if TYPE_CHECKING:
    from windlass.config import Config

MOST_GANGS = 20
"""The number of gangs of one job that are explained; the others are counted."""
MOST_EVICTIONS = 5
"""The number of past evictions of a gang that are listed, the latest ones."""


@click.command("explain")
@click.argument("job", required=False)
@click.option(
    "--before",
    metavar="FILE",
    help="Explain a job that is not submitted yet, in this file (- for stdin).",
)
@click.option(
    "--scenario", metavar="FILE", help="Simulate this scenario and explain the job in it."
)
@click.option(
    "--at", metavar="TIME", help="The time in the scenario, like 20m; by default at rest."
)
@click.option("--snapshot", metavar="FILE", help="Explain the job in this snapshot (- for stdin).")
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
@namespace_option
@cluster_options
def command(
    job: str | None,
    *,
    before: str | None,
    scenario: str | None,
    at: str | None,
    snapshot: str | None,
    json_: bool,
    namespace: str | None,
    **cluster: str | None,
) -> None:
    """Explain why a job waits, where it runs, or why it was evicted, with numbers.

    JOB is NAMESPACE/NAME of a job or pod of the cluster; the default namespace is that of the
    context. With --scenario or --snapshot it is a name in that file, and no cluster is read.

    For a waiting job the answer also names the tasks that are being evicted for it, or those that
    it would have to evict and why it may not, and the changes that would start it now: each was
    tried, and a smaller change is not enough.

    With --before, FILE holds a manifest, or a job in the format of scenario files. The answer says
    what would happen if it were submitted now; nothing is submitted.
    """
    if (job is None) == (before is None):
        raise click.UsageError("Give either JOB or --before FILE.")
    if scenario is not None and snapshot is not None:
        raise click.UsageError("Give either --scenario FILE or --snapshot FILE, not both.")
    if at is not None and scenario is None:
        raise click.UsageError(
            "--at needs --scenario; a snapshot and a cluster have a time of their own."
        )
    context = scenario_context(scenario, at) if scenario is not None else None
    context = snapshot_context(snapshot) if snapshot is not None else context
    if before is not None:
        config = load_config(**cluster) if context is None else None
        explanation = _explain_file(before, context, config, namespace)
    elif context is not None:
        explanation = _explain_job(context, job or "")
    else:
        explanation = _explain_on_cluster(load_config(**cluster), job or "", namespace)
    if json_:
        click.echo(_as_json(explanation))
        return
    for line in _lines(explanation):
        click.echo(line)


@dataclass(frozen=True, slots=True)
class _Explanation:
    """The answer about a job."""

    job: str
    now: int
    stories: list[dict[str, Any]]
    """One story per gang."""
    rows: Sequence[tuple[QueueTableRow, int]] = ()
    """The queues of the gangs, each with its thousandths of GPUs after the plan."""
    notice: str = ""
    """Sentences about the answer as a whole."""


def _explain_job(context: ExplainContext, job: str) -> _Explanation:
    if job not in context.jobs:
        raise UnknownName("job", job, context.jobs)
    return _explain_gangs(context, job, context.jobs[job])


def _explain_gangs(context: ExplainContext, name: str, gangs: Sequence[str]) -> _Explanation:
    from windlass.cli.render.suggestions import add_suggestions

    stories = [_story(context, gang) for gang in gangs]
    add_suggestions(context, stories)
    add_etas(context, stories)
    rows = _queue_rows(context, stories)
    return _Explanation(name, context.cluster.now, stories, rows, context.notice)


def _explain_file(
    file: str, context: ExplainContext | None, config: Config | None, namespace: str | None
) -> _Explanation:
    """Explain the job of a file as if it were submitted: to a context, or to a live cluster."""
    from windlass.cli.explain.manifest import submit_to_cluster, submit_to_context
    from windlass.cli.explain.manifest_files import read_manifest_file

    manifests = read_manifest_file(file)
    if config is not None:
        where = namespace_or_default(config, namespace)
        context, gangs = submit_to_cluster(config, manifests, where)
    else:
        assert context is not None
        context, gangs = submit_to_context(context, manifests, namespace or "default")
    return _explain_gangs(context, manifests.file, gangs)


def _explain_on_cluster(config: Config, job: str, namespace: str | None) -> _Explanation:
    """Explain a job of a live cluster.

    A user who may read only its namespace gets the conditions that the scheduler wrote on its pods.
    """
    from windlass.daemon.loop import ReadForbidden

    name = job if "/" in job else f"{namespace_or_default(config, namespace)}/{job}"
    try:
        return _explain_job(cluster_context(config), name)
    except ReadForbidden as error:
        from windlass.cli.render.pod_conditions import stories_on_pods

        now, stories = stories_on_pods(config, name)
        notice = sentence(f"that is what the scheduler wrote on its pods; {error}")
        return _Explanation(name, now, stories, notice=notice)


def _as_json(explanation: _Explanation) -> str:
    queues = [
        queue_as_json(row) | {"planned_gpus": planned / WHOLE} for row, planned in explanation.rows
    ]
    return as_json(
        {
            "job": explanation.job,
            "now": explanation.now,
            "gangs": explanation.stories,
            "queues": queues,
        }
    )


def _lines(explanation: _Explanation) -> Iterator[str]:
    for story in explanation.stories[:MOST_GANGS]:
        yield from _story_lines(story)
    if len(explanation.stories) > MOST_GANGS:
        rest = counted(len(explanation.stories) - MOST_GANGS, "more gang")
        yield f"and {rest}; --json shows all"
    texts = [*(queue_sentence(*row) for row in explanation.rows), explanation.notice]
    for text in filter(None, texts):
        yield click.wrap_text(text, 78, "", "  ")


def _story(context: ExplainContext, name: str) -> dict[str, Any]:
    """Return all that is known of a gang as JSON; `_story_lines` puts it into words."""
    from windlass.cli.render.preemption_preview import gangs_awaiting_places

    displaced = [
        row
        for at, evictions in context.displacements.get(name, ())
        for row in _evictions_as_json(at, evictions)
    ]
    if name in context.ended:
        record = context.ended[name]
        times = {"submitted": record.submitted, "started": record.started, "ended": record.ended}
        return {"gang": name, "state": record.stage.value, **times, "displaced": displaced}
    if name in context.upcoming:
        return {"gang": name, "state": "Absent", "submitted": context.upcoming[name]}
    gang = context.cluster.gangs[GangId(name)]
    decision = next((made for made in context.plan.decisions if made.gang == name), None)
    return {
        "gang": name,
        "now": context.cluster.now,
        "state": _state(context, gang, decision),
        "queue": gang.queue,
        "submitted": gang.created_at,
        "tasks_needed": gang.needed(),
        "position": decision.position if decision else 0,
        "waiting_gangs": max((made.position for made in context.plan.decisions), default=0),
        "reasons": [reason_as_json(reason) for reason in decision.reasons] if decision else [],
        "places": _places(context, gang),
        "asked": checkpoint_as_json(context.cluster, context.plan, gang.id),
        "displaced": displaced + _evictions_now(context, gang.id),
        "makes_room_for": gangs_awaiting_places(context.cluster, context.plan, gang.id),
        **_room(context, gang.id, decision),
    }


def _evictions_as_json(at: int, evictions: Sequence[Evict]) -> Iterator[dict[str, Any]]:
    """Yield one JSON row for each pair of rule and preemptor that evicted tasks of a gang at this
    time."""
    for rule, preemptor in dict.fromkeys((evict.rule, evict.gainer) for evict in evictions):
        group = [evict for evict in evictions if (evict.rule, evict.gainer) == (rule, preemptor)]
        nodes = list(dict.fromkeys(evict.moves_to for evict in group if evict.moves_to))
        row = {"at": at, "tasks": len(group), "rule": rule, "gainer": preemptor}
        yield row | {"moves_to": nodes, "sentence": eviction_cause(rule, preemptor)}


def _evictions_now(context: ExplainContext, gang: GangId) -> list[dict[str, Any]]:
    """Return the evictions of a gang in the present plan."""
    evictions = evictions_by_gang(context.cluster, context.plan).get(gang, ())
    return list(_evictions_as_json(context.cluster.now, evictions))


def _room(context: ExplainContext, gang: GangId, decision: Decision | None) -> dict[str, Any]:
    """Return the tasks that are evicted for a waiting gang, or a preview of its preemption."""
    from windlass.cli.render.preemption_preview import (
        preemption_as_json,
        preemption_clauses,
        tasks_being_freed,
    )
    from windlass.engine.explain import preview_preemption

    cluster, plan = context.cluster, context.plan
    if decision is None or decision.verdict != Verdict.WAITS:
        return {}
    if any(hold.gang == gang and hold.firm for hold in plan.holds):
        return {"freed": tasks_being_freed(cluster, plan, gang)}
    preview = preview_preemption(context.after, gang)
    if preview is None:
        return {}
    sentences = list(preemption_clauses(preview, cluster.now))
    return {"would": preemption_as_json(preview) | {"sentences": sentences}}


def _queue_rows(
    context: ExplainContext, stories: list[dict[str, Any]]
) -> list[tuple[QueueTableRow, int]]:
    """Return the rows of the queues of the stories, each with its allocation after the plan.

    The reasons give numbers after the plan, the rows give present ones; both are printed.
    """
    names = {story.get("queue") for story in stories}
    rows = (row for row in queue_rows(context.cluster, context.plan) if row.name in names)
    return [(row, context.after.allocated(row.name, GPU)) for row in rows]


def _state(context: ExplainContext, gang: Gang, decision: Decision | None) -> str:
    """Return the state of a gang that exists, as --json names it."""
    if decision is not None and decision.verdict == Verdict.DISPLACED:
        return "Displaced"
    members = context.cluster.members(gang.id)
    if sum(task.state in ACTIVE for task in members) >= gang.needed():
        return "Running"
    if gang.id in context.cluster.partings.standing:
        return "Saves"
    if decision is None:
        leaves = any(task.state == TaskState.RELEASING for task in members)
        return "Leaves" if leaves else "Waits"
    return "Starts" if decision.verdict == Verdict.PLACED else decision.verdict.value


def _places(context: ExplainContext, gang: Gang) -> list[dict[str, Any]]:
    """Return the places of the tasks that run, that terminate, and that the plan starts."""
    members = {task.id: task for task in context.cluster.members(gang.id)}
    tasks = [task for _, task in sorted(members.items())]
    places = [
        _place(task, task.node, slices_in_words(task.devices), "runs")
        for task in tasks
        if task.state in ACTIVE
    ]
    is_saving = gang.id in context.cluster.partings.standing
    verb = "still runs" if is_saving else "is on its way out"
    places += [
        _place(task, task.node, slices_in_words(task.devices), verb)
        for task in tasks
        if task.state == TaskState.RELEASING
    ]
    return places + [
        _place(members[bind.task], bind.node, slices_in_words(bind.devices), "starts")
        for bind in context.plan.binds
        if bind.task in members and members[bind.task].state not in ACTIVE
    ]


def _place(task: Task, node: str, devices: str, verb: str) -> dict[str, Any]:
    return {"task": task.id, "node": node, "devices": devices, "verb": verb}


def _story_lines(story: dict[str, Any]) -> Iterator[str]:
    """Yield a headline, a list of sentences, and the places of the tasks."""
    yield f"{display_name(story['gang'])} {_headline(story)}"
    for reason in story.get("reasons", ()):
        yield _item(reason_sentence(reason["sentence"], reason.get("values", {})))
    for text in _story_sentences(story):
        yield _item(text)
    for place in story.get("places", ()):
        where = ", ".join(filter(None, (place["node"], place["devices"])))
        yield f"  {pod_of(place['task'])} {place['verb']} on {where}"


def _item(text: str) -> str:
    return click.wrap_text(f"- {text}", 78, "  ", "    ")


def _story_sentences(story: dict[str, Any]) -> Iterator[str]:
    """Yield all that is known of a gang beside its reasons, as sentences."""
    from windlass.cli.render.preemption_preview import freed_sentences

    if story.get("asked"):
        yield sentence(checkpoint_sentence(story["asked"]))
    yield from map(sentence, _past_evictions(story))
    if story.get("makes_room_for") and not story["displaced"]:
        preemptors = join_names(map(display_name, story["makes_room_for"]))
        yield sentence(f"the places it leaves are held for {preemptors}")
    if story.get("eta"):
        yield sentence(story["eta"]["sentence"])
    elif "eta" in story and not is_stuck(story):
        yield "Its start cannot be forecast: too little is known about the work before it."
    freed = story.get("freed", [])
    pods = [pod_of(task["task"]) for task in freed]
    yield from (sentence(clause, *pods) for clause in freed_sentences(freed))
    yield from map(sentence, story.get("would", {}).get("sentences", ()))
    yield from map(sentence, story.get("would_start", {}).get("sentences", ()))


def _past_evictions(story: dict[str, Any]) -> Iterator[str]:
    """Yield a clause for each earlier eviction of the gang. Evictions of the present plan are left
    out, because the reasons already show them."""
    from windlass.cli.options import format_time

    is_displaced = story["state"] == "Displaced"
    past = [
        row
        for row in story.get("displaced", ())
        if not (is_displaced and row["at"] == story["now"])
    ]
    for row in past[-MOST_EVICTIONS:]:
        verb = f"moved to {list_nodes(row['moves_to'])}" if row["moves_to"] else "evicted"
        tasks = counted(row["tasks"], "task")
        yield f"at {format_time(row['at'])}: {tasks} {verb}, {row['sentence']}"


def _headline(story: dict[str, Any]) -> str:
    """Return the state of a gang as the predicate of a headline."""
    from windlass.cli.options import format_time

    tasks = counted(story.get("tasks_needed", 0), "task")
    match story["state"]:
        case "Absent":
            return f"will be submitted at {format_time(story['submitted'])}"
        case "Finished" | "Deleted":
            started = story["started"]
            start = "never started" if started is None else f"started at {format_time(started)}"
            verb, end = story["state"].lower(), format_time(story["ended"])
            submitted = f"was submitted at {format_time(story['submitted'])}"
            return f"{submitted}, {start} and was {verb} at {end}"
        case "Running":
            return f"runs; it needs {tasks} and has {len(story['places'])}"
        case "Starts":
            return f"starts now with {counted(len(story['places']), 'task')}"
        case "Displaced":
            return f"is displaced now; it needs {tasks}"
        case "Saves":
            return f"still runs, and is to save its work before it is evicted; it needs {tasks}"
        case "Leaves":
            return f"was displaced and waits again once its tasks are gone; it needs {tasks}"
        case "Never":
            return f"can never start with the {tasks} it needs"
        case _:
            position, waiting = story["position"], story["waiting_gangs"]
            in_line = f", number {position} of {waiting} in line" if position else ""
            return f"waits for {tasks}{in_line}"
