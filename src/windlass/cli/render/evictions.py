"""What a plan takes away and what it keeps for whom: evictions, moves and holds in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from windlass.engine.draft.restart_cost import harm
from windlass.model.actions import Evict, EvictionRule, Hold
from windlass.model.display_names import known_as
from windlass.model.gpus import WHOLE
from windlass.model.jobs import COUNTED, Gang, GangId, Task, TaskId
from windlass.model.units import duration_in_words

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.state.cluster import Cluster

MOST_NODES = 4
"""So many nodes are named in a sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class EvictionSummary:
    """Tasks of one gang that leave their places for one other gang, by one rule."""

    gang: GangId
    queue: str
    rule: EvictionRule
    gainer: GangId
    tasks: tuple[Task, ...]
    moves_to: tuple[str, ...]
    """Per task, the node on which a place is kept for its successor; empty if none is."""
    stops: bool
    """Is the gang left without its minimum?"""
    lost: int
    """Thousandth GPU-seconds that have to be spent again."""
    saves_within_s: int | None = None
    """It is asked to save first, and gets so long; None: it goes at once."""

    @property
    def moves(self) -> bool:
        """Is another place kept for it?"""
        return bool(self.moves_to[0])


def displaced(cluster: Cluster, plan: Plan) -> list[EvictionSummary]:
    """Who goes by gang, rule and gainer, before the plan is carried out."""
    within = {each.gang: each.deadline - each.asked_at for each in plan.asks}
    rows: dict[tuple[GangId, EvictionRule, GangId], list[Evict]] = {}
    leaving: dict[GangId, set[TaskId]] = {}
    for each in plan.going:
        gang = cluster.tasks[each.task].gang
        rows.setdefault((gang, each.rule, each.gainer), []).append(each)
        leaving.setdefault(gang, set()).add(each.task)
    found: list[EvictionSummary] = []
    for (name, rule, gainer), those in rows.items():
        gang = cluster.gangs[name]
        tasks = tuple(cluster.tasks[each.task] for each in those)
        stops = not _is_whole_without(gang, cluster.members(name), leaving[name])
        hurry_s = cluster.gangs[gainer].hurry_s if gainer in cluster.gangs else None
        lost = harm(gang, tasks, cluster.now, stops, hurry_s)
        goes = tuple(each.moves_to for each in those)
        row = EvictionSummary(
            name, gang.queue, rule, gainer, tasks, goes, stops, lost, within.get(name)
        )
        found.append(row)
    return found


def added_up(rows: Iterable[EvictionSummary]) -> list[EvictionSummary]:
    """Those of several plans by gang, rule and gainer: who gives up task after task is one row."""
    found: dict[object, EvictionSummary] = {}
    for row in rows:
        key = (row.gang, row.rule, row.gainer, row.moves)
        found[key] = _joined(found[key], row) if key in found else row
    return list(found.values())


def _joined(one: EvictionSummary, more: EvictionSummary) -> EvictionSummary:
    return replace(
        one,
        tasks=one.tasks + more.tasks,
        moves_to=one.moves_to + more.moves_to,
        stops=one.stops or more.stops,
        lost=one.lost + more.lost,
    )


def in_a_sentence(row: EvictionSummary) -> str:
    """Who, from where, for whom, by which rule, where to, and what it costs."""
    count = f"{len(row.tasks)} task{'s' if len(row.tasks) > 1 else ''}"
    where = nodes_in_words(task.node for task in row.tasks)
    if row.moves:
        what = f"{count} from {where} to {nodes_in_words(row.moves_to)}"
    else:
        what = f"{count} on {where}"
    rest = "" if row.stops else "; it runs on with the others"
    if row.saves_within_s is not None:
        rest = f"; it saves first, within {duration_in_words(row.saves_within_s)}"
    return (
        f"{known_as(row.gang)} (queue {row.queue}): {what}, {for_whom(row.rule, row.gainer)}; "
        f"{'at most ' if row.saves_within_s is not None else ''}{gpu_time(row.lost)} lost{rest}"
    )


def for_whom(rule: EvictionRule, gainer: str) -> str:
    """By which rule, in the words of the live view."""
    from windlass.cli.live_view.view import RULES

    return RULES[rule].format(gainer=known_as(gainer))


def displaced_as_json(row: EvictionSummary) -> dict[str, Any]:
    """The same for programs."""
    return {
        "gang": row.gang,
        "queue": row.queue,
        "rule": row.rule.value,
        "gainer": row.gainer,
        "tasks": [
            {"task": task.id, "node": task.node, "moves_to": goes}
            for task, goes in zip(row.tasks, row.moves_to, strict=True)
        ],
        "stops": row.stops,
        "saves_within_seconds": row.saves_within_s,
        "gpu_seconds_lost": row.lost / WHOLE,
    }


def told(rows: Iterable[EvictionSummary]) -> Iterator[str]:
    """A line or two for each."""
    for row in rows:
        yield click.wrap_text(in_a_sentence(row), 78, "  ", "     ")


def holds_told(cluster: Cluster, holds: Iterable[Hold]) -> Iterator[str]:
    """What is kept for whom, and from when on."""
    for hold in holds:
        gang = cluster.gangs.get(hold.gang)
        queue = f" (queue {gang.queue})" if gang is not None else ""
        where = nodes_in_words(claim.node for claim in hold.claims)
        places = f"{len(hold.claims)} place{'s' if len(hold.claims) > 1 else ''} on {where}"
        wait = hold.starts_at - cluster.now
        when = "for it alone, as soon as they are free"
        if not hold.firm and wait > 0:
            time = duration_in_words(wait)
            when = f"reserved for it in {time}; until then for work that ends in time"
        yield click.wrap_text(f"{known_as(hold.gang)}{queue}: {places}, {when}", 78, "  ", "     ")


def nodes_in_words(nodes: Iterable[str]) -> str:
    """Each once, the first few by name."""
    names = list(dict.fromkeys(nodes))
    shown = ", ".join(names[:MOST_NODES])
    return f"{shown} and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else shown


def gpu_time(milli_seconds: int) -> str:
    """GPU time as people say it: 90 GPU-seconds, 12 GPU-minutes, 3.5 GPU-hours."""
    seconds = milli_seconds / WHOLE
    for bound, unit, name in ((120, 1, "seconds"), (7200, 60, "minutes")):
        if seconds < bound:
            return f"{seconds / unit:.0f} GPU-{name}"
    return f"{seconds / 3600:,.1f} GPU-hours"


def _is_whole_without(gang: Gang, members: Iterable[Task], leaving: Collection[TaskId]) -> bool:
    stay = (task for task in members if task.id not in leaving and task.state in COUNTED)
    return gang.has_minimum(Counter(task.group for task in stay))
