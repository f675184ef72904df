"""Why a gang waits: the reasons of a decision, with their numbers.

Asked after all placing is done, so that the numbers describe the cluster as the plan leaves it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from windlass.engine.draft.draft import Draft
from windlass.engine.nodes import bounds
from windlass.engine.nodes.pod_affinity import overlay
from windlass.engine.nodes.score import NOWHERE
from windlass.engine.nodes.topology import Topologies
from windlass.engine.plan import Decision, Verdict
from windlass.engine.preemption.forced_evictions import told, troubled
from windlass.engine.preemption.make_room import PreemptionResult
from windlass.engine.queueing.eligibility import Refusals
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress
from windlass.model.actions import Evict, EvictionRule, Hold
from windlass.model.jobs import GangId, Overrun, Shape
from windlass.model.reasons import Reason, ReasonCode, in_words
from windlass.model.resources import describe
from windlass.state.cluster import Cluster
from windlass.state.node_columns import CPU, MEMORY, PODS, Mask

_DISPLACED_BY = {
    EvictionRule.GUARANTEE: ReasonCode.LOST_BY_GUARANTEE,
    EvictionRule.SHARE: ReasonCode.LOST_BY_SHARE,
    EvictionRule.PRIORITY: ReasonCode.LOST_BY_PRIORITY,
    EvictionRule.ORDER: ReasonCode.LOST_BY_ORDER,
    EvictionRule.CONSOLIDATE: ReasonCode.MOVES,
    EvictionRule.STALE: ReasonCode.STALE,
    EvictionRule.LEAVING: ReasonCode.NODE_LEAVES,
    EvictionRule.LOST: ReasonCode.NODE_LOST,
    EvictionRule.OVERRUN: ReasonCode.OVERRAN,
}
_FIELDS = {CPU: "too little CPU free", MEMORY: "too little memory free", PODS: "no pod slot free"}


def decide(
    draft: Draft,
    limits: Limits,
    placed: Iterable[Progress],
    grown: Mapping[GangId, int],
    room: PreemptionResult,
    waiting: Iterable[Progress],
) -> tuple[Decision, ...]:
    """A decision for every gang: placed, grown, displaced, and those that wait, in line."""
    explainer = _Explainer(draft, limits, room)
    decisions = [Decision(each.gang.id, each.gang.queue, Verdict.PLACED) for each in placed]
    started = {each.gang for each in decisions}
    for gang in sorted(grown):
        if gang not in started:
            queue = draft.cluster.gangs[gang].queue
            decisions.append(Decision(gang, queue, Verdict.GREW))
    decisions += displaced(draft.cluster, room.evictions)
    losing = {each.gang for each in decisions if each.verdict == Verdict.DISPLACED}
    still = (each for each in waiting if each.gang.id not in losing)
    for position, progress in enumerate(still, 1):
        decisions.append(explainer.decision(progress, position))
    return tuple(decisions)


def displaced(cluster: Cluster, evictions: Iterable[Evict]) -> list[Decision]:
    """Who loses a place, for whom and by which right."""
    causes: dict[GangId, dict[tuple[str, str, bool], int]] = {}
    for each in evictions:
        key = (each.rule.value, str(each.gainer), bool(each.moves_to))
        counts = causes.setdefault(cluster.tasks[each.task].gang, {})
        counts[key] = counts.get(key, 0) + 1
    return [
        Decision(
            gang,
            cluster.gangs[gang].queue,
            Verdict.DISPLACED,
            tuple(
                Reason(
                    _DISPLACED_BY[EvictionRule(rule)],
                    {"tasks": count, **_cause(cluster, gang, rule, gainer)},
                )
                for (rule, gainer, _), count in sorted(counts.items())
            ),
        )
        for gang, counts in sorted(causes.items())
    ]


_THEN = {Overrun.END: "ends", Overrun.REQUEUE: "stands in line again"}


def _cause(cluster: Cluster, name: GangId, rule: str, gainer: str) -> dict[str, str]:
    """For whom a gang goes, away from what, or after how long."""
    if gainer:
        return {"gang": gainer}
    if rule == EvictionRule.OVERRUN:
        gang = cluster.gangs[name]
        return {"longest": in_words(gang.max_run_s or 0), "then": _THEN[gang.overrun]}
    return {"what": told(cluster, name)}


class _Explainer:
    """Says why gangs wait; equal gangs are worked out once."""

    def __init__(self, draft: Draft, limits: Limits, room: PreemptionResult) -> None:
        self._draft, self._limits = draft, limits
        self._topologies = draft.cluster.recall(Topologies)
        self._refusals = Refusals(draft.cluster)
        self._known: dict[Hashable, tuple[Verdict, tuple[Reason, ...]]] = {}
        self._gave_way = {each.gang: each.gainer for each in room.gave_way()}

    def decision(self, progress: Progress, position: int) -> Decision:
        """The decision for a gang that was not placed."""
        gang = progress.gang
        hold = self._draft.holds.standing.get(gang.id)
        if hold is not None and hold.firm:
            reasons = (
                Reason(ReasonCode.HELD, {"tasks": len(hold.claims)}),
                *self._awaited(gang.id),
            )
            return Decision(gang.id, gang.queue, Verdict.WAITS, reasons, position)
        verdict, reasons = self._verdict(progress)
        if hold is not None and verdict == Verdict.WAITS:
            reasons = (*reasons, _promise(hold, self._draft.cluster.now))
        if gang.id in self._gave_way:
            tasks = len(self._draft.cluster.holds[gang.id].claims)
            gave = Reason(ReasonCode.GAVE_WAY, {"tasks": tasks, "gang": self._gave_way[gang.id]})
            reasons = (*reasons, gave)
        return Decision(gang.id, gang.queue, verdict, reasons, position)

    def _awaited(self, gang: GangId) -> list[Reason]:
        """Who has been asked to save before it makes room for the gang."""
        cluster = self._draft.cluster
        return [
            Reason(
                ReasonCode.AWAITS_SAVE,
                {
                    "gang": each.gang,
                    "saved": len(each.saved),
                    "tasks": len(each.evictions),
                    "at": each.deadline,
                    "wait": in_words(max(0, each.deadline - cluster.now)),
                },
            )
            for each in cluster.partings.now()
            if any(evict.gainer == gang for evict in each.evictions)
        ]

    def _verdict(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        gang = progress.gang
        refusal = self._refusals.of(progress)
        if refusal is not None:
            return Verdict.WAITS, (refusal,)
        need = self._limits.need(progress.counts)
        reason = self._limits.never(gang, need)
        if reason is not None:
            return Verdict.NEVER, (reason,)
        reason = self._limits.now(gang, need)
        if reason is not None:
            return Verdict.WAITS, (reason,)
        verdict, reasons = self._lack(progress)
        closed = self._limits.refused_model(gang, progress.counts)
        if closed is not None and verdict == Verdict.WAITS:
            reasons = (closed, *reasons)
        return verdict, reasons

    def _lack(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        """What is lacking on the nodes, remembered for gangs that are alike."""
        holds, gang = self._draft.holds, progress.gang
        view = holds.view(gang)
        key = (view, progress.signature, _company(progress))
        if view is None or key not in self._known:
            with holds.lifted(gang):
                found = self._work_out(progress)
            if view is None:
                return found
            self._known[key] = found
        return self._known[key]

    def _work_out(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        index = self._draft.index
        reason = bounds.never(index, self._topologies, progress)
        if reason is not None:
            # what is free now does not matter to what could not run on an empty cluster either
            return Verdict.NEVER, (reason, *self._causes(progress, when_empty=True))
        reason = bounds.not_now(index, self._topologies, progress) or self._crowded_out(progress)
        if reason is None:
            reason = Reason(ReasonCode.NO_ARRANGEMENT)
        return Verdict.WAITS, (reason, *self._reserved(progress), *self._causes(progress))

    def _crowded_out(self, progress: Progress) -> Reason | None:
        """Too little room where the tasks of others, and those it seeks, let it go."""
        for shape, need in progress.counts.items():
            walls = self._walls(progress, shape)
            if walls is not None:
                room = int(self._draft.index.of(shape).room()[~walls].sum())
                if room < need:
                    values = {"need": need, "shape": describe(shape.request), "room": room}
                    return Reason(ReasonCode.NO_ROOM, values)
        return None

    def _walls(self, progress: Progress, shape: Shape) -> Mask | None:
        """The nodes that other tasks close to one of this shape; None if it minds no others."""
        if not _minds_others(shape):
            return None
        tasks = (task for part in progress.parts for task in part.tasks)
        task = next(each for each in tasks if each.shape == shape)
        over = overlay(self._draft.neighbours, self._draft.index, task, progress.gang)
        return None if over is None else over >= NOWHERE

    def _reserved(self, progress: Progress) -> list[Reason]:
        """The holds in the way, on nodes that the gang could use if they were empty."""
        gang, now = progress.gang, self._draft.cluster.now
        holds = self._draft.holds.in_the_way(gang)
        if not holds:
            return []
        room = sum(self._draft.index.room_when_empty(shape) for shape in progress.counts)
        usable = {self._draft.columns.names[slot] for slot in np.flatnonzero(room).tolist()}
        return [
            Reason(
                ReasonCode.RESERVED,
                {
                    "nodes": len(nodes),
                    "gang": hold.gang,
                    "at": hold.starts_at,
                    "wait": in_words(max(0, hold.starts_at - now)),
                },
            )
            for hold in holds
            if (nodes := usable & {claim.node for claim in hold.claims})
        ]

    def _causes(self, progress: Progress, when_empty: bool = False) -> list[Reason]:
        """What the nodes refuse the first shape that does not fit everywhere it should."""
        for shape in progress.counts:
            rules = self._lasting(shape)
            if not when_empty:
                rules += self._passing(shape, self._walls(progress, shape))
            causes = _counted(rules, len(self._draft.columns))
            if causes:
                return [
                    Reason(ReasonCode.REFUSED_BY, {"nodes": count, "cause": cause})
                    for cause, count in causes
                ]
        return []

    def _troubles(self) -> list[tuple[str, Mask]]:
        """What is wrong with nodes, and with which."""
        columns, found = self._draft.columns, dict[str, Mask]()
        for node in self._draft.cluster.recall(troubled):
            mask = found.setdefault(node.ailment, np.zeros(len(columns), np.bool_))
            mask[columns.slot[node.name]] = True
        return list(found.items())

    def _lasting(self, shape: Shape) -> list[tuple[str, Mask]]:
        """What keeps a shape off nodes, whatever else is there."""
        index, columns = self._draft.index, self._draft.columns
        if columns.amounts(shape.request) is None:
            everywhere = np.ones(len(columns), np.bool_)
            return [("an extra resource it asks for is not there", everywhere)]
        room, _ = index.chooser(shape.request.gpu).look_up(columns.empty_number)
        return [
            *self._troubles(),
            (
                "cordoned, or kept away by a taint, selector, affinity or volume",
                ~index.admits(shape.constraints),
            ),
            ("not the GPUs it asks for", room <= 0),
        ]

    def _passing(self, shape: Shape, walls: Mask | None) -> list[tuple[str, Mask]]:
        """What keeps a shape off nodes because of others that are there."""
        columns = self._draft.columns
        amounts = columns.amounts(shape.request)
        if amounts is None:
            return []
        room, _ = self._draft.index.chooser(shape.request.gpu).look_up(columns.device_number)
        rules = [("too little GPU free", room <= 0)]
        names = {field: f"too little {name} free" for name, field in columns.extras.items()}
        names |= {field: f"its {name} is taken" for name, field in columns.ports.items()}
        for field in np.flatnonzero(amounts).tolist():
            cause = _FIELDS.get(field) or names[field]
            rules.append((cause, columns.free[field] < amounts[field]))
        if walls is not None:
            rules.append(("other tasks keep it away, or those that it seeks are not there", walls))
        return rules


def _counted(rules: Iterable[tuple[str, Mask]], nodes: int) -> list[tuple[str, int]]:
    """Each refusing node counted once, by the first rule that refuses it."""
    refused = np.zeros(nodes, np.bool_)
    counts: list[tuple[str, int]] = []
    for cause, mask in rules:
        count = int((mask & ~refused).sum())
        refused |= mask
        if count:
            counts.append((cause, count))
    return counts


def _minds_others(shape: Shape) -> bool:
    wants = shape.constraints
    return bool(wants.near or wants.apart or wants.spread)


def _company(progress: Progress) -> Hashable:
    """What neighbours see of a gang that minds others; to the rest they are not explained."""
    if not any(_minds_others(shape) for shape in progress.counts):
        return None
    tasks = (task for part in progress.parts for task in part.tasks)
    return progress.gang.namespace, tuple((task.shape, task.labels) for task in tasks)


def _promise(hold: Hold, now: int) -> Reason:
    if hold.starts_at <= now:
        return Reason(ReasonCode.OVERDUE)
    wait = in_words(hold.starts_at - now)
    return Reason(ReasonCode.RESERVATION, {"at": hold.starts_at, "wait": wait})
