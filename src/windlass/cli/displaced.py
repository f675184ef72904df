"""What a plan takes away and what it keeps for whom: evictions, moves and holds in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.engine.harm import harm
from windlass.model.actions import Evict, Hold, Rule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskId, TaskState
from windlass.model.reasons import in_words

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster

MOST_NODES = 4
"""So many nodes are named in a sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class Displaced:
    """Tasks of one gang that leave their places for one other gang, by one rule."""

    gang: GangId
    queue: str
    rule: Rule
    gainer: GangId
    tasks: tuple[Task, ...]
    moves_to: tuple[str, ...]
    """Per task, the node on which a place is kept for its successor; empty if none is."""
    stops: bool
    """Is the gang left without its minimum?"""
    lost: int
    """Thousandth GPU-seconds that have to be spent again."""

    @property
    def moves(self) -> bool:
        """Is another place kept for it?"""
        return bool(self.moves_to[0])


def displaced(cluster: Cluster, evictions: Sequence[Evict]) -> list[Displaced]:
    """The evictions of a plan by gang, rule and gainer, before they are carried out."""
    rows: dict[tuple[GangId, Rule, GangId], list[Evict]] = {}
    leaving: dict[GangId, set[TaskId]] = {}
    for each in evictions:
        gang = cluster.tasks[each.task].gang
        rows.setdefault((gang, each.rule, each.gainer), []).append(each)
        leaving.setdefault(gang, set()).add(each.task)
    found: list[Displaced] = []
    for (name, rule, gainer), those in rows.items():
        gang = cluster.gangs[name]
        tasks = tuple(cluster.tasks[each.task] for each in those)
        stops = not _is_whole_without(gang, cluster.members(name), leaving[name])
        lost = harm(gang, tasks, cluster.now, stops)
        goes = tuple(each.moves_to for each in those)
        found.append(Displaced(name, gang.queue, rule, gainer, tasks, goes, stops, lost))
    return found


def in_a_sentence(row: Displaced) -> str:
    """Who, from where, for whom, by which rule, where to, and what it costs."""
    count = f"{len(row.tasks)} task{'s' if len(row.tasks) > 1 else ''}"
    where = nodes_in_words(task.node for task in row.tasks)
    if row.moves:
        what = f"{count} from {where} to {nodes_in_words(row.moves_to)}"
    else:
        what = f"{count} on {where}"
    rest = "" if row.stops else "; it runs on with the others"
    return (
        f"{row.gang} (queue {row.queue}): {what}, {for_whom(row.rule, row.gainer)}; "
        f"{gpu_time(row.lost)} lost{rest}"
    )


def for_whom(rule: Rule, gainer: str) -> str:
    """By which rule, in the words of the live view."""
    from windlass.cli.view import RULES

    return RULES[rule].format(gainer=gainer)


def displaced_as_json(row: Displaced) -> dict[str, Any]:
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
        "gpu_seconds_lost": row.lost / WHOLE,
    }


def told(rows: Iterable[Displaced]) -> Iterator[str]:
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
            when = f"reserved for it in {in_words(wait)}; until then for work that ends in time"
        yield click.wrap_text(f"{hold.gang}{queue}: {places}, {when}", 78, "  ", "     ")


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
    stay: dict[str, int] = {}
    for task in members:
        if task.id not in leaving and (task.state in ACTIVE or task.state == TaskState.SUCCEEDED):
            stay[task.group] = stay.get(task.group, 0) + 1
    enough = all(stay.get(group.name, 0) >= group.minimum for group in gang.groups)
    return enough and sum(stay.values()) >= gang.needed()
