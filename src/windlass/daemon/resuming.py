"""Gangs that come back without their pods: placed by stand-ins, resumed, held until they are there.

A plan may start a gang whose owner we have suspended. Its tasks are stand-ins, which nobody can
bind. So its places are held instead, and its owner is resumed with them written on it. The pods
that it then makes take the stand-ins' places; once none is left, the engine binds them like any
others, and the mark is taken away. If they do not come in time, the gang is suspended again and
left alone for a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.promises import Promise, hold_of, promise_of, read
from windlass.kube.standins import Absent
from windlass.kube.suspend import To, Turn, TurnFailed
from windlass.kube.translate import Translator
from windlass.model import events
from windlass.model.actions import Bind, Claim, Hold, Rule
from windlass.model.jobs import OCCUPYING, GangId, TaskId, TaskState
from windlass.model.moments import read_if_any
from windlass.model.reasons import Reason, Why, in_words
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.workloads.suspended import Mark, Standing, again

COME_WITHIN_S = 60
"""So long places are held for pods that an owner is to make."""


@dataclass(frozen=True, slots=True)
class Back:
    """A plan without the binds of those that have no pods yet, and what is held for them."""

    plan: Plan
    held: tuple[Hold, ...] = ()
    binds: tuple[Bind, ...] = ()
    """What cannot be carried out yet."""


class Resuming:
    """Knows which owners are being changed."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._since: dict[GangId, int] = {}
        """Since when places are held."""
        self._said: dict[GangId, tuple[To | None, Standing, Mark]] = {}
        """What was last to be written on an owner, and how that stood."""
        self._later: dict[GangId, int] = {}
        """When that is tried again which could not be written."""

    def hold_back(self, decided: Plan) -> Back:
        """The plan that can be carried out: who has no pods yet is held its places."""
        away = {each.gang for each in self._translator.absent if self._is_away(each)}
        if not away:
            return Back(decided)
        by_gang = self._cluster.by_gang(decided.binds)
        gangs = {gang: binds for gang, binds in by_gang.items() if gang in away}
        self._since = {gang: self._since.get(gang, self._cluster.now) for gang in gangs}
        held = tuple(self._hold(gang, binds) for gang, binds in gangs.items())
        binds = tuple(bind for some in gangs.values() for bind in some)
        tasks = {bind.task for bind in binds}
        plan = replace(
            decided,
            actions=tuple(
                e for e in decided.actions if not (isinstance(e, Bind) and e.task in tasks)
            ),
            decisions=tuple(self._told(each, gangs) for each in decided.decisions),
            holds=tuple(each for each in decided.holds if each.gang not in gangs) + held,
        )
        return Back(plan, held, binds)

    def give_back(self, back: Back) -> None:
        """The cluster has assumed the engine's plan: what could not be done waits again."""
        for bind in back.binds:
            self._cluster.apply(events.BindFailed(bind.task))
        for hold in back.held:
            self._cluster.holds[hold.gang] = hold

    def honour(self) -> None:
        """Hold the places that were promised to those that were resumed before us."""
        for absent in self._translator.absent:
            promise = read(absent.mark.promise) if absent.mark.promise else None
            if absent.standing is not Standing.RESUMED or promise is None or self._is_late(absent):
                continue
            # whoever may write on an owner may have written this: it has nobody evicted
            hold = hold_of(absent.gang, self._kept(absent, promise), self._requests(absent.gang))
            if hold is not None:
                now = self._cluster.now
                self._cluster.holds[absent.gang] = replace(hold, starts_at=now, firm=True)
                self._since[absent.gang] = now

    def turns(self, back: Back) -> list[Turn]:
        """What is to be written on owners now; each thing once."""
        held = {hold.gang: hold for hold in back.held}
        found: list[Turn] = []
        for absent in self._translator.absent:
            to = self._due(absent, held)
            said = (to, absent.standing, absent.mark)
            if self._later.get(absent.gang, self._cluster.now + 1) <= self._cluster.now:
                del self._later[absent.gang]
                self._said.pop(absent.gang, None)
            if to is not None and self._said.get(absent.gang) != said:
                self._said[absent.gang] = said
                found.append(self._turn(absent, to, held.get(absent.gang)))
        for gang in [each for each in self._said if self._translator.absent.of(each) is None]:
            del self._said[gang]
            self._later.pop(gang, None)
        return found

    def failed(self, failed: TurnFailed) -> None:
        """An owner could not be changed."""
        gang = failed.turn.gang
        if failed.turn.to is To.RESUMED:
            self._said.pop(gang, None)
            self._leave_alone(gang, f"its owner could not be resumed: {failed.why}")
        else:
            self._later[gang] = self._cluster.now + COME_WITHIN_S

    def wake_at(self) -> int | None:
        """When the next pods are late, or an owner is tried again."""
        resumed = (e for e in self._translator.absent if e.standing is Standing.RESUMED)
        late = [each.mark.resumed_at + COME_WITHIN_S for each in resumed]
        return min(
            (e for e in (*late, *self._later.values()) if e > self._cluster.now), default=None
        )

    def _is_away(self, absent: Absent) -> bool:
        """Has the gang no pods, or not all of them, because of us?"""
        if absent.standing is Standing.RESUMED:
            return bool(self._translator.filling.of(absent.gang))
        return absent.standing is Standing.SUSPENDED

    def _due(self, absent: Absent, held: Mapping[GangId, Hold]) -> To | None:
        if not self._is_away(absent):
            return To.UNMARKED
        if absent.standing is Standing.SUSPENDED:
            return To.RESUMED if absent.gang in held and self._has_gone(absent.gang) else None
        return To.SUSPENDED_AGAIN if self._is_late(absent) else None

    def _turn(self, absent: Absent, to: To, hold: Hold | None) -> Turn:
        mark: Mark | None = None
        if to is To.RESUMED and hold is not None:
            promise = promise_of(hold.claims, hold, ())
            mark = again(absent.mark, resumed_at=self._cluster.now, promise=promise)
        elif to is To.SUSPENDED_AGAIN:
            why = f"its pods did not come within {COME_WITHIN_S} s after its owner was resumed"
            self._leave_alone(absent.gang, why)
            mark = again(absent.mark, resumed_at=0, promise="")
        return Turn(absent.gang, absent.switch, to, mark)

    def _leave_alone(self, gang: GangId, why: str) -> None:
        self._cluster.holds.pop(gang, None)
        self._translator.leave_alone(gang, why)

    def _has_gone(self, gang: GangId) -> bool:
        """Are its former pods gone? Its controller might take them for the new ones.

        Who should be gone by now is stuck, perhaps on a node that is lost: nobody waits for it.
        """
        members = self._cluster.members(gang)
        return all(each.state not in OCCUPYING or self._is_stuck(each.id) for each in members)

    def _is_stuck(self, task: TaskId) -> bool:
        pod = self._translator.pod(task)
        ends_at = read_if_any(pod.metadata.deletion_timestamp) if pod else None
        return ends_at is not None and ends_at < self._cluster.now

    def _is_late(self, absent: Absent) -> bool:
        # what lies far ahead was written by a clock, or a user, that is not to be believed
        return abs(self._cluster.now - absent.mark.resumed_at) >= COME_WITHIN_S

    def _hold(self, gang: GangId, binds: list[Bind]) -> Hold:
        tasks = self._cluster.tasks
        claims = tuple(
            Claim(each.task, each.node, each.devices, tasks[each.task].shape.request)
            for each in binds
        )
        return Hold(gang, claims, self._since[gang], firm=True)

    def _told(self, decision: Decision, held: Collection[GangId]) -> Decision:
        """A decision about a gang that was suspended: what it waits for, and why it stands."""
        absent = self._translator.absent.of(decision.gang)
        if absent is None or not self._is_away(absent):
            return decision
        if decision.gang in held:
            reasons = (Reason(Why.RESUMES),)
            return replace(decision, verdict=Verdict.WAITS, reasons=reasons)
        if decision.verdict not in (Verdict.WAITS, Verdict.NEVER):
            return decision
        ago = in_words(max(0, self._cluster.now - absent.mark.at))
        stood = Reason(Why.SUSPENDED_FOR, {"why": _why(absent.mark), "ago": ago})
        return replace(decision, reasons=(*decision.reasons, stood))

    def _kept(self, absent: Absent, promise: Promise) -> Promise:
        """A promise in which pods that are there already have the places of their stand-ins."""
        took = self._translator.filling.took(absent.gang)
        return msgspec.structs.replace(
            promise,
            places={
                node: tuple(
                    msgspec.structs.replace(each, task=took.get(TaskId(each.task), each.task))
                    for each in there
                )
                for node, there in promise.places.items()
            },
        )

    def _requests(self, gang: GangId) -> dict[TaskId, Request]:
        members = self._cluster.members(gang)
        return {e.id: e.shape.request for e in members if e.state == TaskState.WAITING}


def _why(mark: Mark) -> str:
    """Why an owner was suspended, as its mark says; a user may have written that."""
    if mark.rule == Rule.OVERRUN:
        return "because it had run for as long as it may"
    if mark.rule in (Rule.LEAVING, Rule.LOST):
        return "to leave a node in trouble"
    return f"to make room for {mark.gainer or 'others'}"
