"""Room for one gang, in words: what is being freed for it, and what it would take to free more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windlass.cli.explain.context import pod_of
from windlass.cli.output import slices_in_words
from windlass.engine.explain.preemption_preview import (
    Blocker,
    PreemptionPreview,
    QueueComparison,
    QueueSide,
)
from windlass.engine.plan import Plan
from windlass.model.actions import EvictionRule
from windlass.model.display_names import known_as
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId, Task, TaskState
from windlass.model.queues import GPU
from windlass.model.units import duration_in_words
from windlass.model.validation.problems import amount, listed

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster

MOST_ROWS = 8
"""So many tasks or queues are told of; the others are counted."""


def freed_for(cluster: Cluster, plan: Plan, gang: GangId) -> list[dict[str, Any]]:
    """The tasks in the places that are firmly held for a gang, on their way out or about to be."""
    hold = next((each for each in plan.holds if each.gang == gang and each.firm), None)
    if hold is None:
        return []
    evicted = [cluster.tasks[each.task] for each in plan.going]
    leaving = {task.id: task for task in (*cluster.leaving(), *evicted)}
    return [
        {
            "task": task.id,
            "gang": task.gang,
            "node": task.node,
            "devices": slices_in_words(task.devices),
            "leaving_for_s": _leaving_for(task, cluster.now),
            "stuck": (_leaving_for(task, cluster.now) or 0) > cluster.settings.stuck_after_s,
        }
        for _, task in sorted(leaving.items())
        if any(claim.meets(task.node, task.devices) for claim in hold.claims)
    ]


def freed_told(freed: list[dict[str, Any]]) -> Iterator[str]:
    """One sentence per task."""
    for each in freed[:MOST_ROWS]:
        since = each["leaving_for_s"]
        what = "is evicted now from" if since is None else "is on its way out of"
        time = f", for {duration_in_words(since)} so far" if since else ""
        stuck = "; it seems to be stuck" if each["stuck"] else ""
        yield f"{pod_of(each['task'])} {what} {each['node']}, {each['devices']}{time}{stuck}"
    if len(freed) > MOST_ROWS:
        yield f"and {len(freed) - MOST_ROWS} more tasks"


def held_for(cluster: Cluster, plan: Plan, gang: GangId) -> list[str]:
    """The gangs for which the places are held that a gang is leaving."""
    leaving = [task for task in cluster.leaving() if task.gang == gang]
    return [
        hold.gang
        for hold in plan.holds
        if hold.firm
        and hold.gang != gang
        and any(claim.meets(task.node, task.devices) for task in leaving for claim in hold.claims)
    ]


def would_as_json(would: PreemptionPreview) -> dict[str, Any]:
    """What it would take, in GPUs."""
    return {
        "need_gpus": would.need / WHOLE,
        "free_gpus": would.free / WHOLE,
        "may_take_gpus": would.may_take / WHOLE,
        "queue": _line_as_json(would.own),
        "full": would.full or None,
        "lent": would.lent,
        "ready_at": would.ready_at,
        "too_dear": would.too_dear,
        "patient_until": would.patient_until,
        "would_displace": would.ways,
        "others": [
            {
                "queue": side.queue,
                "has_gpus": side.has / WHOLE,
                "may_lose_gpus": side.may_lose / WHOLE,
                "rule": side.rule,
                "bar": side.bar,
                "protected_until": side.until,
                "gainer": _line_as_json(side.gainer) if side.gainer else None,
                "loser": _line_as_json(side.loser) if side.loser else None,
            }
            for side in would.sides
        ],
    }


def would_told(would: PreemptionPreview, now: int) -> Iterator[str]:
    """The sums first, then each queue that has something, then what follows."""
    taken = _none_or(would.may_take)
    if would.full:
        only = f"queue {would.full} is full, so only work of that queue could make way"
        yield f"{only}: it may lose {taken}"
    elif not would.lent:
        yield f"what is free is not lent to its queue, and others may lose {taken}"
    else:
        free = f"{_none_or(would.free)} {'is' if would.free <= WHOLE else 'are'} free"
        then = ", once what leaves is gone and what is held is taken" if would.settles else ""
        yield f"it needs {amount(GPU, would.need)}: {free}{then}, and others may lose {taken}"
    sides = sorted(would.sides, key=lambda side: (-side.may_lose, -side.has, side.queue))
    for side in sides[:MOST_ROWS]:
        yield _side(side, now, "will have" if would.settles else "has")
    if len(sides) > MOST_ROWS:
        yield f"and {len(sides) - MOST_ROWS} more queues; --json shows all"
    yield from _conclusion(would, now)


def _conclusion(would: PreemptionPreview, now: int) -> Iterator[str]:
    if would.ready_at is None:
        yield "it says itself that nobody is to be displaced for it"
    elif would.ready_at > now:
        wait = duration_in_words(would.ready_at - now)
        yield f"it says itself that it waits for free room first, for {wait} more"
    if would.ways:
        ways = dict.fromkeys(f"{known_as(each.gang)} ({each.rule})" for each in would.ways)
        then = "else" if would.ready_at is None else "then" if would.ready_at > now else "next"
        yield f"{then} it would displace {listed(ways)}"
    elif would.patient_until is not None:
        wait = duration_in_words(would.patient_until - now)
        yield f"others would lose far more than it needs: it waits {wait} more for a gentler way"
    elif would.too_dear:
        yield (
            "others could move out of its way, but that would cost more GPU time than its wait has "
            "so far; it is weighed again the longer it waits"
        )
    elif not would.full and would.lent and would.free + would.may_take >= would.need:
        yield "that would be enough, but not on nodes where it fits"


def _side(side: QueueSide, now: int, verb: str) -> str:
    has = f"{verb} {amount(GPU, side.has)}"
    wait = duration_in_words(side.until - now) if side.until is not None else ""
    if side.bar is None and side.rule is not None:
        more = f"; more of it may go in {wait}" if wait else ""
        return f"queue {side.queue} {has} and may lose {_gpus(side.may_lose)}, {_by(side)}{more}"
    return f"queue {side.queue} {has} and loses none: {_barred(side, wait)}"


def _by(side: QueueSide) -> str:
    if side.rule == EvictionRule.PRIORITY or side.loser is None:
        return "of lower priority"
    line = side.loser
    return f"by {side.rule}: {_has(line)}"


def _barred(side: QueueSide, wait: str) -> str:
    gainer, loser = side.gainer, side.loser
    match side.bar:
        case Blocker.OFF:
            return "the settings do not allow it"
        case Blocker.RANK:
            return "nothing in it has a lower priority"
        case Blocker.FIRM:
            return "it cannot be preempted"
        case Blocker.PROTECTED:
            return f"it has not run for long enough; the first may go in {wait}"
        case Blocker.GAINER if gainer is not None:
            return f"{_has(gainer, 'would have')}, too much to take from others"
        case _:
            if gainer is None or loser is None:
                return "no rule allows it"
            if _fullness(gainer) < _fullness(loser):
                other = f"queue {loser.queue} is not fuller by a quarter"
                then = "as it must be while past use counts"
                return f"{_has(gainer, 'would have')}, and {other}, {then}"
            if loser.has > max(loser.guarantee, loser.share):
                return f"{_has(gainer, 'would have')}, more of its share than queue {loser.queue}"
            return f"{_has(loser)}, no more than it is entitled to"


def _fullness(line: QueueComparison) -> float:
    """How much it has of what it is entitled to."""
    return line.has / max(line.guarantee, line.share, 1)


def _has(line: QueueComparison, verb: str = "has") -> str:
    guarantee, share = _gpus(line.guarantee), _gpus(line.share)
    numbers = f"{_gpus(line.has)} with a guarantee of {guarantee} and a share of {share}"
    return f"queue {line.queue} {verb} {numbers}"


def _line_as_json(line: QueueComparison) -> dict[str, Any]:
    return {
        "queue": line.queue,
        "has_gpus": line.has / WHOLE,
        "guarantee_gpus": line.guarantee / WHOLE,
        "share_gpus": line.share / WHOLE,
    }


def _none_or(milli: int) -> str:
    return amount(GPU, milli) if milli else "none"


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE:g}"


def _leaving_for(task: Task, now: int) -> int | None:
    """Seconds since it was told to go; None if it is only about to be."""
    if task.state != TaskState.RELEASING:
        return None
    return now - (now if task.releasing_since is None else task.releasing_since)
