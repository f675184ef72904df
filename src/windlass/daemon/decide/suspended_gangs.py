"""Gangs that come back without their pods: placed by stand-ins, resumed, held until they are there.

A plan may start a gang whose owner we have suspended. Its tasks are stand-ins, which nobody can
bind. So its places are held instead, and its owner is resumed with them written on it. The pods
that it then makes take the stand-ins' places; once none is left, the engine binds them like any
others, and the mark is taken away. If they do not come in time, the gang is suspended again and
left alone for a moment.

A gang that its queue admits, and that lacks nothing but nodes, is resumed without places: its pods
wait as Unschedulable, and so an autoscaler sees what to buy. Owners of several gangs are resumed
for the first of them that may start; the others stand in line as they did at first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.ingest.suspended_gangs import COME_WITHIN_S, AbsentPod
from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.conditions import lacks_nodes
from windlass.kube.writers.placement_promises import Promise, hold_of, promise_of, read
from windlass.kube.writers.suspend import To, Turn, TurnFailed
from windlass.model import events
from windlass.model.actions import Bind, EvictionRule, Hold, PlaceClaim
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.model.queues import GPU, guaranteed
from windlass.model.reasons import Reason, ReasonCode, in_words
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.workloads.kinds.suspension import Mark, OwnerState, again

YIELDS_AGAIN_S = 600
"""A borrower gives up the places of its missing pods no more often."""
SHOWN_AFTER_S = 30
"""After so long a suspended gang that lacks only nodes is resumed, so that autoscalers see its
pods; at once if no node of the cluster could ever hold it. Most find a place again before that."""


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
        self._said: dict[str, tuple[To | None, OwnerState, Mark]] = {}
        """What was last to be written on an owner, by its uid, and how that stood."""
        self._later: dict[str, int] = {}
        """When a write that failed is tried again, by the uid of the owner."""
        self._yielded: dict[GangId, int] = {}
        """When a borrower last gave up places that were held for its missing pods."""
        self._shown_at: int | None = None
        """When the next suspended gang is resumed for autoscalers to see."""

    def hold_back(self, decided: Plan) -> Back:
        """Return the plan that can be carried out: places are held for pods that are not there.

        Of a suspended gang all binds wait; of one whose followers come later only theirs do.
        """
        away = {each.gang for each in self._translator.absent if self._is_away(each)}
        if not away and not self._translator.filling:
            return Back(decided)
        by_gang, filling = self._cluster.by_gang(decided.binds), self._translator.filling
        gangs = {
            gang: waiting
            for gang, binds in by_gang.items()
            if (waiting := [each for each in binds if gang in away or each.task in filling])
        }
        late = {gang for gang, waiting in gangs.items() if len(waiting) == len(by_gang[gang])}
        self._since = {gang: self._since.get(gang, self._cluster.now) for gang in gangs}
        held = tuple(self._hold(gang, binds) for gang, binds in gangs.items())
        binds = tuple(bind for some in gangs.values() for bind in some)
        tasks = {bind.task for bind in binds}
        plan = replace(
            decided,
            actions=tuple(
                e for e in decided.actions if not (isinstance(e, Bind) and e.task in tasks)
            ),
            decisions=tuple(self._told(each, late) for each in decided.decisions),
            holds=tuple(each for each in decided.holds if each.gang not in gangs) + held,
        )
        return Back(plan, held, binds)

    def give_back(self, back: Back) -> None:
        """The cluster has assumed the engine's plan: what could not be done waits again."""
        for bind in back.binds:
            self._cluster.apply(events.BindFailed(bind.task))
        for hold in back.held:
            self._cluster.holds[hold.gang] = hold
        self._yield_to_guarantees(back)

    def _yield_to_guarantees(self, back: Back) -> None:
        """Give up places of borrowers whose pods are not there while a guaranteed gang waits.

        The engine takes such places as bound again in each cycle, so no claim could reach them.
        Each gang yields once in a while: the claim then has its try, and if that is in vain the
        borrower has its places again.
        """
        now, waiting = self._cluster.now, (e for e in back.plan.decisions if lacks_nodes(e))
        self._yielded = {
            gang: at for gang, at in self._yielded.items() if at + YIELDS_AGAIN_S > now
        }
        borrowers = [e for e in back.held if e.gang not in self._yielded and self._borrows(e)]
        claims = [
            each.queue
            for each in waiting
            if borrowers and each.verdict is Verdict.WAITS and self._is_guaranteed(each.gang)
        ]
        for hold in borrowers:
            if any(queue != self._cluster.gangs[hold.gang].queue for queue in claims):
                self._yielded[hold.gang] = now
                self._cluster.searched = ()
                why = "the places of its missing pods are guaranteed to another queue"
                self._leave_alone(hold.gang, why)

    def _borrows(self, hold: Hold) -> bool:
        """Is the queue of a gang above its guarantee of GPUs with the places that are held?"""
        queue = self._cluster.gangs[hold.gang].queue
        held = sum(_gpu_milli(each.request) for each in hold.claims)
        return self._cluster.allocated(queue, GPU) + held > self._guarantee(queue)

    def _is_guaranteed(self, gang: GangId) -> bool:
        """Does a waiting gang stay within its queue's guarantee of GPUs?"""
        queue = self._cluster.gangs[gang].queue
        wanted = sum(map(_gpu_milli, self._requests(gang).values()))
        return self._cluster.allocated(queue, GPU) + wanted <= self._guarantee(queue)

    def _guarantee(self, queue: str) -> int:
        found = self._cluster.queues.get(queue)
        return guaranteed(found, GPU) if found else 0

    def honour(self) -> None:
        """Hold the places that were promised to those that were resumed before us."""
        for absent in self._translator.absent:
            promise = read(absent.mark.promise) if absent.mark.promise else None
            if (
                absent.standing is not OwnerState.RESUMED
                or promise is None
                or self._is_late(absent)
            ):
                continue
            # whoever may write on an owner may have written this: it has nobody evicted
            hold = hold_of(absent.gang, self._kept(absent, promise), self._requests(absent.gang))
            if hold is not None:
                now = self._cluster.now
                self._cluster.holds[absent.gang] = replace(hold, starts_at=now, firm=True)
                self._since[absent.gang] = now

    def turns(self, back: Back) -> list[Turn]:
        """Return what is to be written on owners now; each thing once."""
        held = {hold.gang: hold for hold in back.held}
        lacking = {each.gang: each.verdict for each in back.plan.decisions if lacks_nodes(each)}
        found: list[Turn] = []
        now, self._shown_at = self._cluster.now, None
        owners = {
            gangs[0].switch.uid: gangs for gangs in self._translator.absent.by_owner() if gangs
        }
        for uid, gangs in owners.items():
            first = next((each for each in gangs if each.gang in held), gangs[0])
            to = self._due(gangs, held, lacking)
            said = (to, first.standing, first.mark)
            if self._later.get(uid, now + 1) <= now:
                del self._later[uid]
                self._said.pop(uid, None)
            if to is not None and self._said.get(uid) != said:
                self._said[uid] = said
                found.append(self._turn(first, to, held.get(first.gang)))
        for uid in [each for each in self._said if each not in owners]:
            del self._said[uid]
            self._later.pop(uid, None)
        return found

    def failed(self, failed: TurnFailed) -> None:
        """Take note that an owner could not be changed."""
        uid = failed.turn.switch.uid
        if failed.turn.to is not To.RESUMED:
            self._later[uid] = self._cluster.now + COME_WITHIN_S
            return
        self._said.pop(uid, None)
        for absent in self._translator.absent:
            if absent.switch.uid == uid:
                why = f"its owner could not be resumed: {failed.why}"
                self._leave_alone(absent.gang, why)

    def wake_at(self) -> int | None:
        """Return when the next pods are late, an owner is tried again, or a gang is shown."""
        resumed = (e for e in self._translator.absent if e.standing is OwnerState.RESUMED)
        late = [each.mark.resumed_at + each.comes_within_s for each in resumed]
        shown = [] if self._shown_at is None else [self._shown_at]
        instants = (*late, *self._later.values(), *shown)
        return min((each for each in instants if each > self._cluster.now), default=None)

    def _is_away(self, absent: AbsentPod) -> bool:
        """Has the gang no pods, or not all of them, because of us?"""
        if absent.standing is OwnerState.RESUMED:
            is_led = self._translator.is_led(absent.gang)
            return bool(self._translator.filling.of(absent.gang)) and not is_led
        return absent.standing is OwnerState.SUSPENDED

    def _due(
        self,
        gangs: Sequence[AbsentPod],
        held: Mapping[GangId, Hold],
        lacking: Mapping[GangId, Verdict],
    ) -> To | None:
        """Return what is to become of the owner of these gangs; None: nothing yet."""
        if not any(map(self._is_away, gangs)):
            return To.UNMARKED
        if gangs[0].standing is OwnerState.SUSPENDED:
            may_start = any(e.gang in held or self._is_shown(e, lacking) for e in gangs)
            return (
                To.RESUMED if may_start and self._translator.has_left(gangs[0].switch.uid) else None
            )
        if not self._is_late(gangs[0]):
            return None
        # what came is enough for one of its gangs: the owner makes no more, or makes it later
        is_there = any(self._has_enough(each.gang) for each in gangs)
        return To.UNMARKED if is_there else To.SUSPENDED_AGAIN

    def _is_shown(self, absent: AbsentPod, lacking: Mapping[GangId, Verdict]) -> bool:
        """Is it time to resume a gang that no free node could take, for autoscalers to see it?"""
        verdict = lacking.get(absent.gang)
        if verdict is None or self._cluster.gangs[absent.gang].refusal is not None:
            return False
        at = absent.mark.at + (0 if verdict is Verdict.NEVER else SHOWN_AFTER_S)
        if at > self._cluster.now:
            self._shown_at = at if self._shown_at is None else min(at, self._shown_at)
        return at <= self._cluster.now

    def _has_enough(self, gang: GangId) -> bool:
        """Has a gang as many pods as it needs to start?"""
        stand_ins = self._translator.filling.of(gang)
        pods = [each for each in self._cluster.members(gang) if each.id not in stand_ins]
        return gang in self._cluster.gangs and len(pods) >= self._cluster.gangs[gang].needed()

    def _turn(self, absent: AbsentPod, to: To, hold: Hold | None) -> Turn:
        mark: Mark | None = None
        if to is To.RESUMED:
            promise = promise_of(hold.claims, hold, ()) if hold else ""
            mark = again(absent.mark, resumed_at=self._cluster.now, promise=promise)
        elif to is To.SUSPENDED_AGAIN:
            within = f"within {absent.comes_within_s} s after its owner was resumed"
            self._leave_alone(absent.gang, f"its pods did not come {within}")
            mark = again(absent.mark, resumed_at=0, promise="")
        return Turn(absent.gang, absent.switch, to, mark)

    def _leave_alone(self, gang: GangId, why: str) -> None:
        self._cluster.holds.pop(gang, None)
        self._translator.leave_alone(gang, why)

    def _is_late(self, absent: AbsentPod) -> bool:
        # what lies far ahead was written by a clock, or a user, that is not to be believed
        return abs(self._cluster.now - absent.mark.resumed_at) >= absent.comes_within_s

    def _hold(self, gang: GangId, binds: list[Bind]) -> Hold:
        tasks = self._cluster.tasks
        claims = tuple(
            PlaceClaim(each.task, each.node, each.devices, tasks[each.task].shape.request)
            for each in binds
        )
        return Hold(gang, claims, self._since[gang], firm=True)

    def _told(self, decision: Decision, held: Collection[GangId]) -> Decision:
        """Return a decision that also says for which pods of the gang places are held, and why."""
        absent = self._translator.absent.of(decision.gang)
        if absent is None or not self._is_away(absent):
            if decision.gang not in held:
                return decision
            reasons = (Reason(ReasonCode.AWAITS_FOLLOWERS),)
            return replace(decision, verdict=Verdict.WAITS, reasons=reasons)
        if decision.gang in held:
            reasons = (Reason(ReasonCode.RESUMES),)
            return replace(decision, verdict=Verdict.WAITS, reasons=reasons)
        if decision.verdict not in (Verdict.WAITS, Verdict.NEVER):
            return decision
        if absent.standing is not OwnerState.SUSPENDED:
            return decision
        ago = in_words(max(0, self._cluster.now - absent.mark.at))
        stood = Reason(ReasonCode.SUSPENDED_FOR, {"why": _why(absent.mark), "ago": ago})
        return replace(decision, reasons=(*decision.reasons, stood))

    def _kept(self, absent: AbsentPod, promise: Promise) -> Promise:
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
    if mark.rule == EvictionRule.OVERRUN:
        return "because it had run for as long as it may"
    if mark.rule in (EvictionRule.LEAVING, EvictionRule.LOST):
        return "to leave a node in trouble"
    return f"to make room for {mark.gainer or 'others'}"


def _gpu_milli(request: Request) -> int:
    """Return the thousandths of GPUs that a request names."""
    return request.gpu.count * request.gpu.milli if request.gpu else 0
