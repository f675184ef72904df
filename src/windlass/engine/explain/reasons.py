"""The decisions of a plan, and the reasons why gangs wait, with their numbers.

Worked out after all placement is done, so that the numbers describe the cluster as the plan leaves
it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from windlass.engine.draft import Draft
from windlass.engine.nodes import INFEASIBLE, Topologies, bounds, overlay
from windlass.engine.plan import Decision, Verdict
from windlass.engine.preemption import PreemptionResult, describe_node_trouble, troubled_nodes
from windlass.engine.queueing import Limits, Progress, Refusals
from windlass.model.actions import Evict, EvictionRule, Hold
from windlass.model.jobs import GangId, Overrun, Shape
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import describe
from windlass.model.units import duration_in_words
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
    """Return a decision for every gang: placed, grown, evicted, and waiting ones in queue order."""
    explainer = _Explainer(draft, limits, room)
    decisions = [
        Decision(progress.gang.id, progress.gang.queue, Verdict.PLACED) for progress in placed
    ]
    started = {decision.gang for decision in decisions}
    for gang in sorted(grown):
        if gang not in started:
            queue = draft.cluster.gangs[gang].queue
            decisions.append(Decision(gang, queue, Verdict.GREW))
    decisions += eviction_decisions(draft.cluster, room.evictions)
    evicted = {decision.gang for decision in decisions if decision.verdict == Verdict.DISPLACED}
    still = (progress for progress in waiting if progress.gang.id not in evicted)
    for position, progress in enumerate(still, 1):
        decisions.append(explainer.decision(progress, position))
    return tuple(decisions)


def eviction_decisions(cluster: Cluster, evictions: Iterable[Evict]) -> list[Decision]:
    """Return the decisions for gangs that lose tasks, with the preemptor and the rule."""
    causes: dict[GangId, dict[tuple[str, str, bool], int]] = {}
    for evict in evictions:
        key = (evict.rule.value, str(evict.gainer), bool(evict.moves_to))
        counts = causes.setdefault(cluster.tasks[evict.task].gang, {})
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
    """Return the values of an eviction reason: preemptor, node trouble, or longest run time."""
    if gainer:
        return {"gang": gainer}
    if rule == EvictionRule.OVERRUN:
        gang = cluster.gangs[name]
        return {"longest": duration_in_words(gang.max_run_s or 0), "then": _THEN[gang.overrun]}
    return {"what": describe_node_trouble(cluster, name)}


class _Explainer:
    """Explains why gangs wait; equal gangs are worked out once."""

    def __init__(self, draft: Draft, limits: Limits, room: PreemptionResult) -> None:
        self._draft, self._limits = draft, limits
        self._topologies = draft.cluster.recall(Topologies)
        self._refusals = Refusals(draft.cluster)
        self._cached: dict[Hashable, tuple[Verdict, tuple[Reason, ...]]] = {}
        """Verdicts by traits of gangs. Valid while the draft does not change."""
        self._gave_way = {ended.gang: ended.gainer for ended in room.yielded_holds()}
        """The gangs whose hold ends in this plan, with the preemptor that gets the places."""

    def decision(self, progress: Progress, position: int) -> Decision:
        """Return the decision for a gang that was not placed."""
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
            reasons = (*reasons, _reservation(hold, self._draft.cluster.now))
        if gang.id in self._gave_way:
            tasks = len(self._draft.cluster.holds[gang.id].claims)
            gave = Reason(ReasonCode.GAVE_WAY, {"tasks": tasks, "gang": self._gave_way[gang.id]})
            reasons = (*reasons, gave)
        return Decision(gang.id, gang.queue, verdict, reasons, position)

    def _awaited(self, gang: GangId) -> list[Reason]:
        """Return the pending checkpoints of the gang's victims, as reasons."""
        cluster = self._draft.cluster
        return [
            Reason(
                ReasonCode.AWAITS_SAVE,
                {
                    "gang": pending.gang,
                    "saved": len(pending.saved),
                    "tasks": len(pending.evictions),
                    "at": pending.deadline,
                    "wait": duration_in_words(max(0, pending.deadline - cluster.now)),
                },
            )
            for pending in cluster.partings.now()
            if any(evict.gainer == gang for evict in pending.evictions)
        ]

    def _verdict(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        """Return the first of these that speaks against a gang: eligibility, queue rules, nodes."""
        gang = progress.gang
        refusal = self._refusals.reason(progress)
        if refusal is not None:
            return Verdict.WAITS, (refusal,)
        need = self._limits.need(progress.counts)
        reason = self._limits.why_never(gang, need)
        if reason is not None:
            return Verdict.NEVER, (reason,)
        reason = self._limits.why_not_now(gang, need)
        if reason is not None:
            return Verdict.WAITS, (reason,)
        verdict, reasons = self._lacking_room(progress)
        closed = self._limits.refused_model(gang, progress.counts)
        if closed is not None and verdict == Verdict.WAITS:
            reasons = (closed, *reasons)
        return verdict, reasons

    def _lacking_room(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        """Return what is lacking on the nodes, cached for gangs that are alike."""
        holds, gang = self._draft.holds, progress.gang
        view = holds.view(gang)
        key = (view, progress.signature, _affinity_traits(progress))
        if view is None or key not in self._cached:
            with holds.lifted(gang):
                answer = self._work_out(progress)
            if view is None:
                return answer
            self._cached[key] = answer
        return self._cached[key]

    def _work_out(self, progress: Progress) -> tuple[Verdict, tuple[Reason, ...]]:
        index = self._draft.index
        reason = bounds.why_never(index, self._topologies, progress)
        if reason is not None:
            # A gang that an empty cluster could not run is explained without what is free now.
            return Verdict.NEVER, (reason, *self._causes(progress, when_empty=True))
        reason = bounds.why_not_now(index, self._topologies, progress) or self._crowded_out(
            progress
        )
        if reason is None:
            reason = Reason(ReasonCode.NO_ARRANGEMENT)
        return Verdict.WAITS, (reason, *self._reserved(progress), *self._causes(progress))

    def _crowded_out(self, progress: Progress) -> Reason | None:
        """Return that there is too little room on the nodes that pod affinity and spread allow."""
        for shape, need in progress.counts.items():
            closed = self._closed_by_tasks(progress, shape)
            if closed is not None:
                room = int(self._draft.index.of(shape).room()[~closed].sum())
                if room < need:
                    values = {"need": need, "shape": describe(shape.request), "room": room}
                    return Reason(ReasonCode.NO_ROOM, values)
        return None

    def _closed_by_tasks(self, progress: Progress, shape: Shape) -> Mask | None:
        """Return the nodes that other tasks close to a shape; None if it has no pod rules."""
        if not _has_pod_rules(shape):
            return None
        tasks = (task for part in progress.parts for task in part.tasks)
        task = next(task for task in tasks if task.shape == shape)
        over = overlay(self._draft.neighbours, self._draft.index, task, progress.gang)
        return None if over is None else over >= INFEASIBLE

    def _reserved(self, progress: Progress) -> list[Reason]:
        """Return the holds of others on nodes that the gang could use if they were empty."""
        gang, now = progress.gang, self._draft.cluster.now
        holds = self._draft.holds.reservations_against(gang)
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
                    "wait": duration_in_words(max(0, hold.starts_at - now)),
                },
            )
            for hold in holds
            if (nodes := usable & {claim.node for claim in hold.claims})
        ]

    def _causes(self, progress: Progress, when_empty: bool = False) -> list[Reason]:
        """Return the causes of rejection per node, for the first shape that some node rejects."""
        for shape in progress.counts:
            rules = self._permanent_causes(shape)
            if not when_empty:
                rules += self._current_causes(shape, self._closed_by_tasks(progress, shape))
            causes = _counted(rules, len(self._draft.columns))
            if causes:
                return [
                    Reason(ReasonCode.REFUSED_BY, {"nodes": count, "cause": cause})
                    for cause, count in causes
                ]
        return []

    def _troubles(self) -> list[tuple[str, Mask]]:
        """Return the troubles of nodes, each with the nodes that have it."""
        columns, troubles = self._draft.columns, dict[str, Mask]()
        for node in self._draft.cluster.recall(troubled_nodes):
            mask = troubles.setdefault(node.ailment, np.zeros(len(columns), np.bool_))
            mask[columns.slot[node.name]] = True
        return list(troubles.items())

    def _permanent_causes(self, shape: Shape) -> list[tuple[str, Mask]]:
        """Return the causes that keep a shape off nodes even when they are empty."""
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

    def _current_causes(self, shape: Shape, closed: Mask | None) -> list[tuple[str, Mask]]:
        """Return the causes that keep a shape off nodes because of what runs there now."""
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
        if closed is not None:
            rules.append(("other tasks keep it away, or those that it seeks are not there", closed))
        return rules


def _counted(rules: Iterable[tuple[str, Mask]], nodes: int) -> list[tuple[str, int]]:
    """Return the rejecting nodes per cause; a node counts for the first cause only."""
    refused = np.zeros(nodes, np.bool_)
    counts: list[tuple[str, int]] = []
    for cause, mask in rules:
        count = int((mask & ~refused).sum())
        refused |= mask
        if count:
            counts.append((cause, count))
    return counts


def _has_pod_rules(shape: Shape) -> bool:
    """Return whether a shape has pod affinity, anti-affinity or topology spread."""
    wants = shape.constraints
    return bool(wants.near or wants.apart or wants.spread)


def _affinity_traits(progress: Progress) -> Hashable:
    """Return the labels and the namespace that pod rules see; None without such rules."""
    if not any(_has_pod_rules(shape) for shape in progress.counts):
        return None
    tasks = (task for part in progress.parts for task in part.tasks)
    return progress.gang.namespace, tuple((task.shape, task.labels) for task in tasks)


def _reservation(hold: Hold, now: int) -> Reason:
    """Return when the gang's reservation starts, or that it is overdue."""
    if hold.starts_at <= now:
        return Reason(ReasonCode.OVERDUE)
    wait = duration_in_words(hold.starts_at - now)
    return Reason(ReasonCode.RESERVATION, {"at": hold.starts_at, "wait": wait})
