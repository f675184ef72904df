"""Suspended gangs: their owners are resumed, and their places held until their pods exist.

A plan may start a gang whose owner this scheduler has suspended. Its tasks are placeholders, which
cannot be bound. So its places are held instead, and its owner is resumed with the places written on
it. The pods that the owner then creates take the places of the placeholders. Once no placeholder is
left, the engine binds the pods like any others, and the mark is removed from the owner. If the pods
do not come in time, the gang is suspended again and backs off.

A gang that its queue admits, and that lacks nothing but nodes, is resumed without places: its pods
wait as Unschedulable, so that an autoscaler sees which nodes to add. An owner of several gangs is
resumed for the first of them that may start; the others wait in their queue as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.ingest import COME_WITHIN_S, SuspendedGang, Translator
from windlass.kube.writers import Promise, hold_of, lacks_nodes, promise_of, read
from windlass.kube.writes import OwnerChange, OwnerWrite, OwnerWriteFailed
from windlass.model import events
from windlass.model.actions import Bind, EvictionRule, Hold, PlaceClaim
from windlass.model.events import Event
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.model.queues import GPU, guaranteed
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request
from windlass.model.units import duration_in_words
from windlass.state.cluster import Cluster
from windlass.workloads.kinds import OwnerState, SuspensionMark, with_resumption

YIELDS_AGAIN_S = 600
"""Seconds between two times that a borrower yields the places of its missing pods, at least."""
SHOWN_AFTER_S = 30
"""Seconds after which a suspended gang that lacks only nodes is resumed, so that autoscalers see
its pods; at once if no node of the cluster could ever hold it. Most gangs are placed before."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A plan without the binds of placeholders, and the holds that replace these."""

    plan: Plan
    """The plan that can be carried out."""
    holds: tuple[Hold, ...] = ()
    binds: tuple[Bind, ...] = ()
    """The binds that cannot be carried out yet."""


class GangResumer:
    """Resumes suspended owners, and remembers the changes that were asked for."""

    def __init__(
        self,
        cluster: Cluster,
        translator: Translator,
        apply: Callable[[Iterable[Event]], None],
    ) -> None:
        self._cluster, self._translator, self._apply = cluster, translator, apply
        self._since: dict[GangId, int] = {}
        """The second since which the places of a gang are held."""
        self._said: dict[str, tuple[OwnerChange | None, OwnerState, SuspensionMark]] = {}
        """The last change of an owner that was asked for, by its uid, and its state at the time."""
        self._later: dict[str, int] = {}
        """The second at which a change that failed is tried again, by the uid of the owner."""
        self._yielded: dict[GangId, int] = {}
        """The second at which a borrower last yielded the places of its missing pods."""
        self._shown_at: int | None = None
        """The second at which the next gang is resumed for autoscalers to see; None if none is."""

    def hold_back(self, decided: Plan) -> HeldBack:
        """Return the plan that can be carried out: places are held for pods that do not exist.

        All binds of a suspended gang wait; of a gang with late followers only those of followers.
        """
        placeholders = self._translator.placeholders
        away = {each.gang for each in self._translator.suspended if self._is_away(each)}
        if not away and not placeholders:
            return HeldBack(decided)
        by_gang = self._cluster.by_gang(decided.binds)
        gangs = {
            gang: waiting
            for gang, binds in by_gang.items()
            if (waiting := [bind for bind in binds if gang in away or bind.task in placeholders])
        }
        late = {gang for gang, waiting in gangs.items() if len(waiting) == len(by_gang[gang])}
        self._since = {gang: self._since.get(gang, self._cluster.now) for gang in gangs}
        holds = tuple(self._hold(gang, binds) for gang, binds in gangs.items())
        binds = tuple(bind for some in gangs.values() for bind in some)
        tasks = {bind.task for bind in binds}
        plan = replace(
            decided,
            actions=tuple(
                e for e in decided.actions if not (isinstance(e, Bind) and e.task in tasks)
            ),
            decisions=tuple(self._explained(each, late) for each in decided.decisions),
            holds=tuple(hold for hold in decided.holds if hold.gang not in gangs) + holds,
        )
        return HeldBack(plan, holds, binds)

    def give_back(self, held: HeldBack) -> None:
        """Undo the binds of placeholders, which the cluster has assumed, and hold their places."""
        for bind in held.binds:
            self._cluster.apply(events.BindFailed(bind.task))
        self._apply(events.HoldSeen(hold) for hold in held.holds)
        self._yield_to_guarantees(held)

    def _yield_to_guarantees(self, held: HeldBack) -> None:
        """While a gang within its guarantee waits, end the holds of borrowers that have no pods
        yet."""
        now, waiting = self._cluster.now, (e for e in held.plan.decisions if lacks_nodes(e))
        self._yielded = {
            gang: at for gang, at in self._yielded.items() if at + YIELDS_AGAIN_S > now
        }
        borrowers = [e for e in held.holds if e.gang not in self._yielded and self._borrows(e)]
        claims = [
            each.queue
            for each in waiting
            if borrowers and each.verdict is Verdict.WAITS and self._is_guaranteed(each.gang)
        ]
        for hold in borrowers:
            if any(queue != self._cluster.gangs[hold.gang].queue for queue in claims):
                self._yielded[hold.gang] = now
                why = "the places of its missing pods are guaranteed to another queue"
                self._back_off(hold.gang, why, retry_searches=True)

    def _borrows(self, hold: Hold) -> bool:
        """Return whether a hold brings the queue of its gang above its guarantee of GPUs."""
        queue = self._cluster.gangs[hold.gang].queue
        held = sum(_gpu_milli(each.request) for each in hold.claims)
        return self._cluster.allocated(queue, GPU) + held > self._guarantee(queue)

    def _is_guaranteed(self, gang: GangId) -> bool:
        """Return whether a waiting gang stays within the guarantee of GPUs of its queue."""
        queue = self._cluster.gangs[gang].queue
        wanted = sum(map(_gpu_milli, self._requests(gang).values()))
        return self._cluster.allocated(queue, GPU) + wanted <= self._guarantee(queue)

    def _guarantee(self, queue: str) -> int:
        found = self._cluster.queues.get(queue)
        return guaranteed(found, GPU) if found else 0

    def honour(self) -> None:
        """Hold the places that a previous leader promised to the owners that it resumed."""
        for suspended in self._translator.suspended:
            gang, mark = suspended.gang, suspended.mark
            promise = read(mark.promise) if mark.promise else None
            is_resumed = suspended.standing is OwnerState.RESUMED
            if not is_resumed or promise is None or self._is_late(suspended):
                continue
            # a user who may write on the owner may have written this: it evicts nothing
            hold = hold_of(gang, self._with_pods(suspended, promise), self._requests(gang))
            if hold is not None:
                now = self._cluster.now
                self._apply([events.HoldSeen(replace(hold, starts_at=now, firm=True))])
                self._since[gang] = now

    def turns(self, held: HeldBack) -> list[OwnerWrite]:
        """Return the changes of owners to write now, each once."""
        holds = {hold.gang: hold for hold in held.holds}
        lacking = {each.gang: each.verdict for each in held.plan.decisions if lacks_nodes(each)}
        turns: list[OwnerWrite] = []
        now, self._shown_at = self._cluster.now, None
        owners = {
            gangs[0].switch.uid: gangs for gangs in self._translator.suspended.by_owner() if gangs
        }
        for uid, gangs in owners.items():
            first = next((each for each in gangs if each.gang in holds), gangs[0])
            to = self._due(gangs, holds, lacking)
            said = (to, first.standing, first.mark)
            if self._later.get(uid, now + 1) <= now:
                del self._later[uid]
                self._said.pop(uid, None)
            if to is not None and self._said.get(uid) != said:
                self._said[uid] = said
                turns.append(self._turn(first, to, holds.get(first.gang)))
        for uid in [uid for uid in self._said if uid not in owners]:
            del self._said[uid]
            self._later.pop(uid, None)
        return turns

    def failed(self, failed: OwnerWriteFailed) -> None:
        """Take note that an owner could not be changed."""
        uid = failed.turn.switch.uid
        if failed.turn.to is not OwnerChange.RESUMED:
            self._later[uid] = self._cluster.now + COME_WITHIN_S
            return
        self._said.pop(uid, None)
        for suspended in self._translator.suspended:
            if suspended.switch.uid == uid:
                why = f"its owner could not be resumed: {failed.why}"
                self._back_off(suspended.gang, why)

    def wake_at(self) -> int | None:
        """Return when the next pods are late, an owner is tried again, or a gang is shown."""
        resumed = (e for e in self._translator.suspended if e.standing is OwnerState.RESUMED)
        late = [each.mark.resumed_at + each.comes_within_s for each in resumed]
        shown = [] if self._shown_at is None else [self._shown_at]
        instants = (*late, *self._later.values(), *shown)
        return min((each for each in instants if each > self._cluster.now), default=None)

    def _is_away(self, suspended: SuspendedGang) -> bool:
        """Return whether a gang lacks pods because this scheduler has suspended its owner."""
        if suspended.standing is OwnerState.RESUMED:
            is_led = self._translator.is_led(suspended.gang)
            return bool(self._translator.placeholders.of(suspended.gang)) and not is_led
        return suspended.standing is OwnerState.SUSPENDED

    def _due(
        self,
        gangs: Sequence[SuspendedGang],
        holds: Mapping[GangId, Hold],
        lacking: Mapping[GangId, Verdict],
    ) -> OwnerChange | None:
        """Return the state that the owner of these gangs is changed to; None: it stays as it is."""
        if not any(map(self._is_away, gangs)):
            return OwnerChange.UNMARKED
        if gangs[0].standing is OwnerState.SUSPENDED:
            may_start = any(e.gang in holds or self._is_shown(e, lacking) for e in gangs)
            has_left = may_start and self._translator.has_left(gangs[0].switch.uid)
            return OwnerChange.RESUMED if has_left else None
        if not self._is_late(gangs[0]):
            return None
        # enough pods for one gang have come: the owner creates no more, or creates them later
        is_there = any(self._has_enough(each.gang) for each in gangs)
        return OwnerChange.UNMARKED if is_there else OwnerChange.SUSPENDED_AGAIN

    def _is_shown(self, suspended: SuspendedGang, lacking: Mapping[GangId, Verdict]) -> bool:
        """Return whether a gang that lacks nodes is to be resumed now, for autoscalers to see."""
        verdict = lacking.get(suspended.gang)
        if verdict is None or self._cluster.gangs[suspended.gang].refusal is not None:
            return False
        at = suspended.mark.at + (0 if verdict is Verdict.NEVER else SHOWN_AFTER_S)
        if at > self._cluster.now:
            self._shown_at = at if self._shown_at is None else min(at, self._shown_at)
        return at <= self._cluster.now

    def _has_enough(self, gang: GangId) -> bool:
        """Return whether a gang has as many pods as it needs to start."""
        placeholders = self._translator.placeholders.of(gang)
        pods = [task for task in self._cluster.members(gang) if task.id not in placeholders]
        return gang in self._cluster.gangs and len(pods) >= self._cluster.gangs[gang].needed()

    def _turn(self, suspended: SuspendedGang, to: OwnerChange, hold: Hold | None) -> OwnerWrite:
        mark: SuspensionMark | None = None
        if to is OwnerChange.RESUMED:
            promise = promise_of(hold.claims, hold, ()) if hold else ""
            mark = with_resumption(suspended.mark, resumed_at=self._cluster.now, promise=promise)
        elif to is OwnerChange.SUSPENDED_AGAIN:
            within = f"within {suspended.comes_within_s} s after its owner was resumed"
            self._back_off(suspended.gang, f"its pods did not come {within}")
            mark = with_resumption(suspended.mark, resumed_at=0, promise="")
        return OwnerWrite(suspended.gang, suspended.switch, to, mark)

    def _back_off(self, gang: GangId, why: str, retry_searches: bool = False) -> None:
        """End the hold of a gang, and let it wait for a moment before its next try."""
        self._apply([events.HoldGone(gang, retry_searches)])
        self._apply(self._translator.back_off(gang, why))

    def _is_late(self, suspended: SuspendedGang) -> bool:
        # a time far ahead was written by a wrong clock, or by a user, and is not trusted
        return abs(self._cluster.now - suspended.mark.resumed_at) >= suspended.comes_within_s

    def _hold(self, gang: GangId, binds: list[Bind]) -> Hold:
        tasks = self._cluster.tasks
        claims = tuple(
            PlaceClaim(each.task, each.node, each.devices, tasks[each.task].shape.request)
            for each in binds
        )
        return Hold(gang, claims, self._since[gang], firm=True)

    def _explained(self, decision: Decision, held: Collection[GangId]) -> Decision:
        """Return a decision with the reason why the gang waits for its pods, or is suspended."""
        suspended = self._translator.suspended.of(decision.gang)
        if suspended is None or not self._is_away(suspended):
            if decision.gang not in held:
                return decision
            reasons = (Reason(ReasonCode.AWAITS_FOLLOWERS),)
            return replace(decision, verdict=Verdict.WAITS, reasons=reasons)
        if decision.gang in held:
            reasons = (Reason(ReasonCode.RESUMES),)
            return replace(decision, verdict=Verdict.WAITS, reasons=reasons)
        if decision.verdict not in (Verdict.WAITS, Verdict.NEVER):
            return decision
        if suspended.standing is not OwnerState.SUSPENDED:
            return decision
        ago = duration_in_words(max(0, self._cluster.now - suspended.mark.at))
        reason = Reason(ReasonCode.SUSPENDED_FOR, {"why": _why(suspended.mark), "ago": ago})
        return replace(decision, reasons=(*decision.reasons, reason))

    def _with_pods(self, suspended: SuspendedGang, promise: Promise) -> Promise:
        """Return a promise in which pods have the places of the placeholders that they replace."""
        took = self._translator.placeholders.took(suspended.gang)
        return msgspec.structs.replace(
            promise,
            places={
                node: tuple(
                    msgspec.structs.replace(place, task=took.get(TaskId(place.task), place.task))
                    for place in places
                )
                for node, places in promise.places.items()
            },
        )

    def _requests(self, gang: GangId) -> dict[TaskId, Request]:
        members = self._cluster.members(gang)
        return {e.id: e.shape.request for e in members if e.state == TaskState.WAITING}


def _why(mark: SuspensionMark) -> str:
    """Return in words why an owner was suspended, by its mark; a user may have written that."""
    if mark.rule == EvictionRule.OVERRUN:
        return "because it had run for as long as it may"
    if mark.rule in (EvictionRule.LEAVING, EvictionRule.LOST):
        return "to leave a node in trouble"
    return f"to make room for {mark.gainer or 'others'}"


def _gpu_milli(request: Request) -> int:
    """Return the GPUs of a request, in thousandths."""
    return request.gpu.count * request.gpu.milli if request.gpu else 0
