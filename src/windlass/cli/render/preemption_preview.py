"""Room for one gang, in words: the tasks evicted for it, or those it would have to evict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windlass.cli.explain.context import pod_of
from windlass.cli.format import counted
from windlass.cli.output import slices_in_words
from windlass.engine.explain import (
    Blocker,
    PreemptionPreview,
    QueueComparison,
    QueueSide,
    preview_preemption,
)
from windlass.engine.plan import Plan
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId, Task, TaskState
from windlass.model.queues import GPU
from windlass.model.reasons import display_name
from windlass.model.units import duration_in_words
from windlass.model.validation import amount_in_words, join_names

if TYPE_CHECKING:
    from windlass.state.cluster import Cluster

MOST_ROWS = 8
"""The number of tasks or queues that are listed; the others are counted."""


def tasks_being_freed(cluster: Cluster, plan: Plan, gang: GangId) -> list[dict[str, Any]]:
    """Return the tasks that terminate, or are evicted by this plan, on the firm hold of a gang."""
    hold = next((hold for hold in plan.holds if hold.gang == gang and hold.firm), None)
    if hold is None:
        return []
    evicted = [cluster.tasks[evict.task] for evict in plan.going]
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


def freed_sentences(freed: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a clause for each task; it begins with the name of the pod."""
    for task in freed[:MOST_ROWS]:
        since = task["leaving_for_s"]
        verb = "is evicted now from" if since is None else "is on its way out of"
        time = f", for {duration_in_words(since)} so far" if since else ""
        stuck = "; it seems to be stuck" if task["stuck"] else ""
        yield f"{pod_of(task['task'])} {verb} {task['node']}, {task['devices']}{time}{stuck}"
    if len(freed) > MOST_ROWS:
        yield f"and {counted(len(freed) - MOST_ROWS, 'more task')}"


def room_clauses(cluster: Cluster, plan: Plan, gang: GangId) -> list[str]:
    """Return the room for a waiting gang in clauses, for the dashboard.

    They are those of `windlass explain`: the tasks that are evicted for it if it has a firm hold,
    else the preview of its preemption; empty if there is none.
    """
    if any(hold.gang == gang and hold.firm for hold in plan.holds):
        return list(freed_sentences(tasks_being_freed(cluster, plan, gang)))
    preview = preview_preemption(cluster, gang)
    return list(preemption_clauses(preview, cluster.now)) if preview else []


def gangs_awaiting_places(cluster: Cluster, plan: Plan, gang: GangId) -> list[str]:
    """Return the gangs that have a firm hold on places that a gang is leaving."""
    leaving = [task for task in cluster.leaving() if task.gang == gang]
    return [
        hold.gang
        for hold in plan.holds
        if hold.firm
        and hold.gang != gang
        and any(claim.meets(task.node, task.devices) for task in leaving for claim in hold.claims)
    ]


def preemption_as_json(preview: PreemptionPreview) -> dict[str, Any]:
    """Return the preview as JSON, in GPUs."""
    return {
        "need_gpus": preview.need / WHOLE,
        "free_gpus": preview.free / WHOLE,
        "may_take_gpus": preview.may_take / WHOLE,
        "queue": _line_as_json(preview.own),
        "full": preview.full or None,
        "lent": preview.lent,
        "ready_at": preview.ready_at,
        "too_dear": preview.too_dear,
        "patient_until": preview.patient_until,
        "would_displace": preview.ways,
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
            for side in preview.sides
        ],
    }


def preemption_clauses(preview: PreemptionPreview, now: int) -> Iterator[str]:
    """Yield the sums first, then a clause per queue that has something, then the conclusion."""
    taken = _none_or(preview.may_take)
    if preview.full:
        only = f"queue {preview.full} is full, so only work of that queue could be evicted"
        yield f"{only}: it may lose {taken}"
    elif not preview.lent:
        yield f"its queue may not borrow the free GPUs, and others may lose {taken}"
    else:
        free = f"{_none_or(preview.free)} {'is' if preview.free <= WHOLE else 'are'} free"
        then = ", once evicted tasks are gone and holds are used" if preview.settles else ""
        need = amount_in_words(GPU, preview.need)
        yield f"it needs {need}: {free}{then}, and others may lose {taken}"
    sides = sorted(preview.sides, key=lambda side: (-side.may_lose, -side.has, side.queue))
    for side in sides[:MOST_ROWS]:
        yield _side(side, now, "will have" if preview.settles else "has")
    if len(sides) > MOST_ROWS:
        yield f"and {counted(len(sides) - MOST_ROWS, 'more queue')}; --json shows all"
    yield from _conclusion(preview, now)


def _conclusion(preview: PreemptionPreview, now: int) -> Iterator[str]:
    """Yield the gang's own setting, and its next victims or the reason why there are none."""
    if preview.ready_at is None:
        yield "its own setting says that no gang is to be evicted for it"
    elif preview.ready_at > now:
        wait = duration_in_words(preview.ready_at - now)
        yield f"its own setting says that it waits for free room first, for {wait} more"
    if preview.ways:
        victims = dict.fromkeys(f"{display_name(way.gang)} ({way.rule})" for way in preview.ways)
        if preview.ready_at is None:
            yield f"otherwise it would evict {join_names(victims)}"
        else:
            when = "then" if preview.ready_at > now else "next"
            yield f"{when} it would evict {join_names(victims)}"
    elif preview.patient_until is not None:
        wait = duration_in_words(preview.patient_until - now)
        yield f"others would lose far more than it needs: it waits {wait} more for a smaller loss"
    elif preview.too_dear:
        yield (
            "others could be moved, but that would cost more GPU time than it has lost by waiting "
            "so far; this is compared again while it waits"
        )
    elif not preview.full and preview.lent and preview.free + preview.may_take >= preview.need:
        yield "that would be enough GPUs, but not on nodes where it fits"


def _side(side: QueueSide, now: int, verb: str) -> str:
    """Return what one queue has, may lose and why, as a clause."""
    has = f"{verb} {amount_in_words(GPU, side.has)}"
    wait = duration_in_words(side.until - now) if side.until is not None else ""
    if side.bar is None and side.rule is not None:
        more = f"; more of it may go in {wait}" if wait else ""
        return f"queue {side.queue} {has} and may lose {_gpus(side.may_lose)}, {_by(side)}{more}"
    return f"queue {side.queue} {has} and loses none: {_blocked(side, wait)}"


def _by(side: QueueSide) -> str:
    """Return the rule by which a queue may lose GPUs."""
    if side.rule == EvictionRule.PRIORITY or side.loser is None:
        return "of lower priority"
    return f"by {side.rule}: {_has(side.loser)}"


def _blocked(side: QueueSide, wait: str) -> str:
    """Return why no task of a queue may be evicted for the gang."""
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
                rule = "as it must be while past usage counts"
                other = f"queue {loser.queue} is not fuller by a quarter, {rule}"
                return f"{_has(gainer, 'would have')}, and {other}"
            if loser.has > max(loser.guarantee, loser.share):
                return f"{_has(gainer, 'would have')}, more of its share than queue {loser.queue}"
            return f"{_has(loser)}, no more than it is entitled to"


def _fullness(line: QueueComparison) -> float:
    """Return the allocation of a queue as a part of its entitlement."""
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
    return amount_in_words(GPU, milli) if milli else "none"


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE:g}"


def _leaving_for(task: Task, now: int) -> int | None:
    """Return the seconds since the task began to terminate; None if it still runs."""
    if task.state != TaskState.RELEASING:
        return None
    return now - (now if task.releasing_since is None else task.releasing_since)
