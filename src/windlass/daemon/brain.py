"""What was seen in, what to do out: one step of the daemon, without waiting or writing.

It runs in a thread of its own, so that the event loop goes on draining watches meanwhile; nobody
else touches what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.crds.read import read_settings, read_topology
from windlass.daemon.gang_statuses import GangStatuses
from windlass.daemon.kept import Kept
from windlass.daemon.promised import Promised
from windlass.daemon.statuses import Statuses, Written
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan, Verdict
from windlass.engine.spare import Displaced
from windlass.kube.carry_out import BindFailed, Binding, PodLost, PodRead, PodRef, Start
from windlass.kube.evict import Clearing, EvictRefused, Victim
from windlass.kube.explicit import GANGS
from windlass.kube.promises import promise_of, text_of
from windlass.kube.scribe import Page, Scribe, Waiting, displaced
from windlass.kube.translate import Scope, Translator
from windlass.model import events
from windlass.model.actions import Bind, Claim, Evict, Rule
from windlass.model.jobs import ACTIVE, GangId, TaskId, TaskState
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.workloads import wire
from windlass.workloads.kinds import Key
from windlass.workloads.volumes_wire import Stored

Kind: TypeAlias = str
POLICY = "default"
"""The Policy that is in force."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of a kind is new or has changed."""

    kind: Kind
    object: wire.Pod | wire.Node | wire.Owner | wire.PriorityClass | Stored


@dataclass(frozen=True, slots=True)
class Lost:
    """An object of a kind is gone."""

    kind: Kind
    object: wire.Pod | wire.Node | wire.Owner | wire.PriorityClass | Stored


Piece: TypeAlias = Seen | Lost | BindFailed | PodRead | PodLost | EvictRefused


@dataclass(slots=True)
class Work:
    """What to do after a step."""

    plan: Plan
    starts: list[Start] = field(default_factory=list[Start])
    clearings: list[Clearing] = field(default_factory=list[Clearing])
    promises: list[tuple[PodRef, str]] = field(default_factory=list[tuple[PodRef, str]])
    """Reservations that changed, and promises that are over."""
    pages: list[Page] = field(default_factory=list[Page])
    statuses: list[Written] = field(default_factory=list[Written])
    overdue: list[PodRef] = field(default_factory=list[PodRef])
    wake_at: int | None = None


class Brain:
    """The cluster as it is known, and what follows from it."""

    def __init__(self, scope: Scope, now: int, *, shadow: bool = False) -> None:
        self.cluster = Cluster(Settings(), now)
        self._translator = Translator(scope, self._tell)
        self._translator.advance(now)
        self._scribe, self._statuses, self._gangs = Scribe(), Statuses(), GangStatuses()
        self._settings, self._paused = Settings(), False
        self._promised, self._kept = Promised(self.cluster), Kept(self.cluster)
        self._displaced = Displaced()
        self._shadow = shadow

    # -- what was seen

    def take(self, pieces: Iterable[Piece]) -> None:
        """Take note of what was seen and what became of our writes."""
        for piece in pieces:
            self._take(piece)

    def pause(self, paused: bool) -> None:
        """Plan no evictions, or plan them again."""
        self._paused = paused
        self._set(self._settings)

    def resume(self) -> None:
        """Take over what was promised before: places are held, evictions are finished."""
        for gang in sorted(self._translator.gangs()):
            for task in self._translator.members(gang):
                pod = self._translator.pod(task)
                if pod is not None and (text := text_of(pod)):
                    for victim in self._promised.honour(gang, task, text):
                        self._translator.evict_again(victim)
        self._statuses.restore(self.cluster)

    def _tell(self, event: events.Event) -> None:
        """Pass on what is news; the echo of an assumption leaves the last plan in force."""
        if isinstance(event, events.TaskSeen):
            task = event.task
            if self.cluster.tasks.get(task.id) == task:
                return
        elif isinstance(event, events.GangSeen):
            event = events.GangSeen(self._displaced.standing(event.gang))
        self.cluster.apply(event)

    def _take(self, piece: Piece) -> None:
        match piece:
            case Seen("pods", wire.Pod() as pod) | PodRead(pod):
                self._translator.pod_seen(pod)
            case Lost("pods", wire.Pod() as pod):
                self._translator.pod_gone(pod)
            case Seen("nodes", wire.Node() as node):
                self._translator.node_seen(node)
            case Lost("nodes", wire.Node() as node):
                self._translator.node_gone(node.metadata.name)
            case Seen("priorities", wire.PriorityClass() as found):
                self._translator.priority_seen(found.metadata.name, found.value)
            case Lost("priorities", wire.PriorityClass() as found):
                self._translator.priority_seen(found.metadata.name, None)
            case Seen(kind, wire.Owner() as found):
                self._take_object(kind, found)
            case Lost(kind, wire.Owner() as found):
                self._lose_object(kind, found)
            case _:
                self._take_news(piece)

    def _take_news(self, piece: Piece) -> None:
        match piece:
            case BindFailed(task, why):
                self._kept.keep(task)
                self._translator.bind_failed(task, why)
            case EvictRefused(task):
                self._translator.evict_failed(task)
                self._promised.take_back(task)
            case PodLost(ref):
                if pod := self._translator.pod(ref.task):
                    self._translator.pod_gone(pod)
            case Seen(_, Stored() as thing):
                self._translator.storage_seen(thing)
            case Lost(_, Stored() as thing):
                self._translator.storage_seen(thing, gone=True)
            case _:
                raise TypeError(f"nobody reads {piece}")

    def _set(self, settings: Settings) -> None:
        self._settings = settings
        if self._paused:  # a Policy that changes meanwhile does not end the pause
            settings = replace(settings, displacing=(), stale_after_s=1 << 30)
        self.cluster.apply(events.SettingsSeen(settings))

    def _take_object(self, kind: Kind, found: wire.Owner) -> None:
        name = found.metadata.name
        match kind:
            case "queues":
                if (owned := self._statuses.read(found)) is not None:
                    self._translator.queue_seen(owned)
            case "topologies":
                topology = read_topology(name, found.spec)
                if topology.noun is not None:
                    self.cluster.apply(events.TopologySeen(topology.noun))
                    self._translator.topology_seen(name)
            case "policies":
                settings = read_settings(name, found.spec)
                if name == POLICY and settings.noun is not None:
                    self._set(settings.noun)
            case "namespaces":
                self._translator.namespace_seen(name, found.metadata.labels or {})
            case _:
                if kind == str(GANGS):
                    self._gangs.read(found)
                self._translator.owner_seen(Key.of(kind), found)

    def _lose_object(self, kind: Kind, found: wire.Owner) -> None:
        match kind:
            case "queues":
                self._statuses.lose(found.metadata.name)
                self._translator.queue_gone(found.metadata.name)
            case "policies" if found.metadata.name == POLICY:
                self._set(Settings())
            case "namespaces":
                self._translator.namespace_gone(found.metadata.name)
            case "topologies":
                self.cluster.apply(events.TopologyGone(found.metadata.name))
                self._translator.topology_gone(found.metadata.name)
            case "policies":
                pass  # only one of them is in force
            case _:
                if kind == str(GANGS):
                    self._gangs.lose(found)
                self._translator.owner_gone(Key.of(kind), found)

    # -- what follows

    def step(self, now: int) -> Work:
        """Decide, assume, and say what there is to do."""
        self.cluster.advance(now)
        self._translator.advance(now)
        self._kept.let_go()
        for gang in self._displaced.changes(self.cluster):
            self.cluster.apply(events.GangSeen(gang))
        decided = plan(self.cluster)
        if self._shadow:
            return Work(decided, wake_at=decided.wake_at)
        work = Work(decided)
        victims = self._victims(decided)
        self._start(decided, work)
        self._clear(decided, victims, work)
        self.cluster.assume(decided)
        self._translator.assume(decided.actions)
        for gang in {self.cluster.tasks[each.task].gang for each in decided.evictions}:
            if self._needed(gang) > 0:
                self._displaced.note(gang)
        self._write(decided, work)
        work.statuses = self._statuses.due(self.cluster, decided)
        work.statuses += self._gangs.due(self.cluster, decided)
        work.overdue = [ref for task in self._overdue(now) if (ref := self._ref(task))]
        work.wake_at = self._wake_at(decided, now)
        return work

    def finish(self) -> list[Clearing]:
        """The evictions that were promised before us and are not done."""
        found: list[Clearing] = []
        for promised in self._promised.evictions():
            victims = [
                self._victim(Evict(each, Rule.GUARANTEE), "it was promised to another gang")
                for each in promised
                if each in self.cluster.tasks
            ]
            if victims:
                found.append(Clearing(tuple(victims)))
        return found

    def _start(self, decided: Plan, work: Work) -> None:
        gangs: dict[GangId, list[Bind]] = {}
        for bind in decided.binds:
            gangs.setdefault(self.cluster.tasks[bind.task].gang, []).append(bind)
        grew = {each.gang for each in decided.decisions if each.verdict is Verdict.GREW}
        for gang, binds in gangs.items():
            bindings = tuple(self._binding(each) for each in binds)
            promise = ""
            if len(binds) > 1 and gang not in grew:
                promise = promise_of((_claim(each) for each in binds), None, ())
                self._promised.write(gang, binds[0].task, promise)
            work.starts.append(Start(bindings, promise))
            refs = [each.pod for each in bindings]
            if note := self._scribe.started(gang, refs, [each.node for each in binds]):
                work.pages.append(Page(note=note))

    def _victims(self, decided: Plan) -> dict[GangId, list[Victim]]:
        """Whom to evict for whom, and what to tell them."""
        reasons = {
            each.gang: each for each in decided.decisions if each.verdict is Verdict.DISPLACED
        }
        found: dict[GangId, list[Victim]] = {}
        for evict in decided.evictions:
            decision = reasons.get(self.cluster.tasks[evict.task].gang)
            why = "; ".join(str(each) for each in decision.reasons) if decision else ""
            found.setdefault(evict.gainer, []).append(self._victim(evict, why))
        return found

    def _binding(self, bind: Bind) -> Binding:
        claims = self._translator.selecting(bind.task)
        return Binding(self._must_ref(bind.task), bind.node, claims)

    def _victim(self, evict: Evict, why: str) -> Victim:
        gang = self.cluster.gangs[self.cluster.tasks[evict.task].gang]
        return Victim(self._must_ref(evict.task), gang.id, gang.queue, evict.rule, why)

    def _clear(self, decided: Plan, victims: dict[GangId, list[Victim]], work: Work) -> None:
        holds = {hold.gang: hold for hold in decided.holds}
        for gainer, each in victims.items():
            hold, pod = holds.get(gainer), self._lead(gainer)
            if hold is None or pod is None:
                work.clearings.append(Clearing(tuple(each)))
                continue
            text = promise_of(hold.claims, hold, (victim.pod.task for victim in each))
            self._promised.write(gainer, pod.task, text)
            work.clearings.append(Clearing(tuple(each), pod, text))
        for decision in decided.decisions:
            if decision.verdict is Verdict.DISPLACED and (pod := self._first(decision.gang)):
                work.pages.append(Page(note=displaced(decision, pod)))

    def _write(self, decided: Plan, work: Work) -> None:
        """Promises that begin or end with this plan, and what is said about those that wait."""
        holds = {hold.gang: hold for hold in decided.holds}
        for gang, hold in holds.items():
            pod = self._lead(gang)
            if self._promised.lacks(gang) and pod is not None:
                text = promise_of(hold.claims, hold, ())
                self._promised.write(gang, pod.task, text)
                work.promises.append((pod, text))
        for task in self._promised.end(holds):
            found = self.cluster.tasks.get(task)
            if found is not None and found.state == TaskState.WAITING and (ref := self._ref(task)):
                work.promises.append((ref, ""))
        waiting = [gang for line in self.cluster.waiting.values() for gang in line]
        now = self.cluster.now
        for gang in self._scribe.read(decided, waiting, now, self.cluster.stamps):
            pods = self._waiting(gang)
            # what keeps a gang out of the line keeps out all of it, also those beyond its minimum
            is_refused = self.cluster.gangs[gang].refusal is not None
            needed = len(pods) if is_refused else self._needed(gang)
            work.pages.append(self._scribe.page(gang, pods, needed, now))

    def _waiting(self, gang: GangId) -> list[Waiting]:
        return [
            Waiting.of(_ref_of(task, pod), pod)
            for task in self._translator.members(gang)
            if self.cluster.tasks[task].state == TaskState.WAITING
            and (pod := self._translator.pod(task))
        ]

    def _needed(self, gang: GangId) -> int:
        members = self.cluster.members(gang)
        there = sum(each.state in ACTIVE or each.state == TaskState.SUCCEEDED for each in members)
        return self.cluster.gangs[gang].needed() - there

    def _overdue(self, now: int) -> list[TaskId]:
        return self._translator.assumed.overdue(now)

    def _wake_at(self, decided: Plan, now: int) -> int | None:
        instants = (
            decided.wake_at,
            self._scribe.wake_at(),
            self._translator.assumed.wake_at(now),
        )
        return min((each for each in instants if each is not None), default=None)

    def _lead(self, gang: GangId) -> PodRef | None:
        """The first pod of a gang that waits: promises are written there."""
        for task in self._translator.members(gang):
            if self.cluster.tasks[task].state == TaskState.WAITING:
                return self._ref(task)
        return None

    def _first(self, gang: GangId) -> PodRef | None:
        members: Sequence[TaskId] = self._translator.members(gang)
        return self._ref(members[0]) if members else None

    def _ref(self, task: TaskId) -> PodRef | None:
        pod = self._translator.pod(task)
        return _ref_of(task, pod) if pod else None

    def _must_ref(self, task: TaskId) -> PodRef:
        pod = self._translator.pod(task)
        assert pod is not None, f"no pod behind {task}"
        return _ref_of(task, pod)


def _ref_of(task: TaskId, pod: wire.Pod) -> PodRef:
    return PodRef(task, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _claim(bind: Bind) -> Claim:
    return Claim(bind.task, bind.node, bind.devices)
