"""The evictions, moves and holds of a plan, in words and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import counted, sentence
from windlass.engine.draft import harm
from windlass.model.actions import Evict, EvictionRule, Hold
from windlass.model.gpus import WHOLE
from windlass.model.jobs import COUNTED, Gang, GangId, Task, TaskId
from windlass.model.reasons import display_name
from windlass.model.units import duration_in_words

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.state.cluster import Cluster

MOST_NODES = 4
"""The number of nodes that a sentence names; the others are counted."""


@dataclass(frozen=True, slots=True)
class EvictionSummary:
    """The tasks of one gang that are evicted for one preemptor, by one rule."""

    gang: GangId
    queue: str
    rule: EvictionRule
    gainer: GangId
    """The preemptor; empty for rules without one."""
    tasks: tuple[Task, ...]
    moves_to: tuple[str, ...]
    """Per task, the node on which a place is held for its successor; empty if none is held."""
    stops: bool
    """True if the gang is left with less than its minimum."""
    lost: int
    """The work that has to be done again, in thousandths of GPU-seconds."""
    saves_within_s: int | None = None
    """The seconds the gang gets to save its work first; None if it is evicted at once."""

    @property
    def moves(self) -> bool:
        """True if places are held for the gang on other nodes."""
        return bool(self.moves_to[0])


def planned_evictions(cluster: Cluster, plan: Plan) -> list[EvictionSummary]:
    """Return the evictions of a plan by gang, rule and preemptor, before it is carried out."""
    grace = {request.gang: request.deadline - request.asked_at for request in plan.asks}
    groups: dict[tuple[GangId, EvictionRule, GangId], list[Evict]] = {}
    leaving: dict[GangId, set[TaskId]] = {}
    for evict in plan.going:
        gang = cluster.tasks[evict.task].gang
        groups.setdefault((gang, evict.rule, evict.gainer), []).append(evict)
        leaving.setdefault(gang, set()).add(evict.task)
    summaries: list[EvictionSummary] = []
    for (name, rule, preemptor), evictions in groups.items():
        gang = cluster.gangs[name]
        tasks = tuple(cluster.tasks[evict.task] for evict in evictions)
        stops = not _keeps_minimum(gang, cluster.members(name), leaving[name])
        hurry_s = cluster.gangs[preemptor].hurry_s if preemptor in cluster.gangs else None
        summary = EvictionSummary(
            gang=name,
            queue=gang.queue,
            rule=rule,
            gainer=preemptor,
            tasks=tasks,
            moves_to=tuple(evict.moves_to for evict in evictions),
            stops=stops,
            lost=harm(gang, tasks, cluster.now, stops, hurry_s),
            saves_within_s=grace.get(name),
        )
        summaries.append(summary)
    return summaries


def merge_evictions(summaries: Iterable[EvictionSummary]) -> list[EvictionSummary]:
    """Merge the evictions of several plans, so that a gang that loses tasks in each is one row."""
    merged: dict[object, EvictionSummary] = {}
    for summary in summaries:
        key = (summary.gang, summary.rule, summary.gainer, summary.moves)
        merged[key] = _merged(merged[key], summary) if key in merged else summary
    return list(merged.values())


def _merged(first: EvictionSummary, second: EvictionSummary) -> EvictionSummary:
    return replace(
        first,
        tasks=first.tasks + second.tasks,
        moves_to=first.moves_to + second.moves_to,
        stops=first.stops or second.stops,
        lost=first.lost + second.lost,
    )


def eviction_sentence(summary: EvictionSummary) -> str:
    """Return the gang, its tasks and nodes, and the cause and cost of the eviction."""
    count = counted(len(summary.tasks), "task")
    nodes = list_nodes(task.node for task in summary.tasks)
    if summary.moves:
        tasks = f"{count} from {nodes} to {list_nodes(summary.moves_to)}"
    else:
        tasks = f"{count} on {nodes}"
    cost, then = f"{gpu_time(summary.lost)} lost", ""
    if summary.saves_within_s is not None:
        cost, then = (
            f"at most {cost}",
            f"; it saves first, within {duration_in_words(summary.saves_within_s)}",
        )
    elif not summary.stops:
        then = "; it runs on with the others"
    name = display_name(summary.gang)
    cause = eviction_cause(summary.rule, summary.gainer)
    return sentence(f"{name} (queue {summary.queue}): {tasks}, {cause}; {cost}{then}", name)


def eviction_cause(rule: EvictionRule, preemptor: str) -> str:
    """Return the rule and the preemptor as a clause, in the words of the live view."""
    from windlass.cli.live_view.view import RULES

    return RULES[rule].format(gainer=display_name(preemptor))


def eviction_as_json(summary: EvictionSummary) -> dict[str, Any]:
    """Return evictions as JSON, with the lost work in GPU-seconds."""
    return {
        "gang": summary.gang,
        "queue": summary.queue,
        "rule": summary.rule.value,
        "gainer": summary.gainer,
        "tasks": [
            {"task": task.id, "node": task.node, "moves_to": moves_to}
            for task, moves_to in zip(summary.tasks, summary.moves_to, strict=True)
        ],
        "stops": summary.stops,
        "saves_within_seconds": summary.saves_within_s,
        "gpu_seconds_lost": summary.lost / WHOLE,
    }


def eviction_lines(summaries: Iterable[EvictionSummary]) -> Iterator[str]:
    """Yield the sentence of each summary, wrapped and indented."""
    for summary in summaries:
        yield click.wrap_text(eviction_sentence(summary), 78, "  ", "     ")


def hold_lines(cluster: Cluster, holds: Iterable[Hold]) -> Iterator[str]:
    """Yield a wrapped sentence for each hold: the gang, its places, and from when they are its."""
    for hold in holds:
        gang = cluster.gangs.get(hold.gang)
        queue = f" (queue {gang.queue})" if gang is not None else ""
        nodes = list_nodes(claim.node for claim in hold.claims)
        places = f"{counted(len(hold.claims), 'place')} on {nodes}"
        wait = hold.starts_at - cluster.now
        when = "for it alone, as soon as they are free"
        if not hold.firm and wait > 0:
            delay = duration_in_words(wait)
            when = f"reserved for it in {delay}; until then for work that ends in time"
        name = display_name(hold.gang)
        line = sentence(f"{name}{queue}: {places}, {when}", name, f"{name}:")
        yield click.wrap_text(line, 78, "  ", "     ")


def list_nodes(nodes: Iterable[str]) -> str:
    """Return the names of nodes, each once; only the first few are named."""
    names = list(dict.fromkeys(nodes))
    shown = ", ".join(names[:MOST_NODES])
    return f"{shown} and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else shown


def gpu_time(milli_seconds: int) -> str:
    """Return GPU time in a fitting unit: 90 GPU-seconds, 12 GPU-minutes, 3.5 GPU-hours."""
    seconds = milli_seconds / WHOLE
    for bound, unit, name in ((120, 1, "seconds"), (7200, 60, "minutes")):
        if seconds < bound:
            return f"{seconds / unit:.0f} GPU-{name}"
    return f"{seconds / 3600:,.1f} GPU-hours"


def _keeps_minimum(gang: Gang, members: Iterable[Task], leaving: Collection[TaskId]) -> bool:
    """Return whether the gang still has its minimum without the leaving tasks."""
    staying = (task for task in members if task.id not in leaving and task.state in COUNTED)
    return gang.has_minimum(Counter(task.group for task in staying))
