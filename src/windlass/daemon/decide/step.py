"""What was seen in, what to do out: one step of the daemon, without waiting or writing.

It runs in a thread of its own, so that the event loop goes on draining watches meanwhile; nobody
else touches what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from windlass.crds.read import read_settings, read_topology
from windlass.daemon.decide.checkpoint_answers import Answers
from windlass.daemon.decide.checkpoint_requests import Requests, lost_by_rule
from windlass.daemon.decide.complaints import Complaints
from windlass.daemon.decide.evictions import Evicting, Promises
from windlass.daemon.decide.finished_gangs import Endings
from windlass.daemon.decide.gang_status import GangStatuses
from windlass.daemon.decide.gpu_health import Measures
from windlass.daemon.decide.inputs import Kind, Lost, ObjectObserved, StepInput
from windlass.daemon.decide.kept import Kept
from windlass.daemon.decide.nominations import Promised
from windlass.daemon.decide.overlong import Overlong
from windlass.daemon.decide.pod_refs import Pods
from windlass.daemon.decide.quarantine import Quarantines
from windlass.daemon.decide.queue_status import Statuses
from windlass.daemon.decide.step_output import StepOutput
from windlass.daemon.decide.stuck_pods import Strandeds
from windlass.daemon.decide.suspended_gangs import Resuming
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan, Verdict
from windlass.engine.preemption.repeat_protection import DisplacedGangs
from windlass.forecast.eta import StartEta
from windlass.kube.client.dcgm_scraper import Measured
from windlass.kube.ingest.gang_objects import GANGS
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.binder import Binding, BindRejected, GangBinds, PodLost, PodRead
from windlass.kube.writers.checkpoint import Heard, Saved, Unasked
from windlass.kube.writers.conditions import ConditionWriter, GangMessages, works_on
from windlass.kube.writers.evictor import EvictRefused
from windlass.kube.writers.placement_promises import promise_of, text_of
from windlass.kube.writers.suspend import TurnFailed
from windlass.model import events
from windlass.model.actions import Bind, EvictionRule, Hold, PlaceClaim
from windlass.model.jobs import COUNTED, GangId, TaskId, TaskState
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.workloads.kinds.table import Key
from windlass.workloads.objects import wire
from windlass.workloads.objects.storage_wire import Stored

Note: TypeAlias = Callable[[Cluster, Plan], None]
"""Records a plan before it is assumed."""
POLICY = "default"
"""The Policy that is in force."""


class SchedulerStep:
    """The cluster as it is known, and what follows from it."""

    def __init__(
        self,
        scope: Scope,
        now: int,
        *,
        shadow: bool = False,
        note: Note | None = None,
        exporters_in: Collection[str] = (),
    ) -> None:
        self.cluster = Cluster(Settings(), now)
        self.etas: Mapping[GangId, StartEta] = {}
        self.endings = Endings(self.cluster)
        self._translator = Translator(scope, self._tell)
        self._translator.advance(now)
        self._scribe, self._statuses, self._gangs = ConditionWriter(), Statuses(), GangStatuses()
        self._settings, self._paused = Settings(), False
        self._promised, self._kept = Promised(self.cluster), Kept(self.cluster)
        self._pods = Pods(self.cluster, self._translator)
        self.evicting = Evicting(self.cluster, self._translator, self._promised, self._pods)
        self._resuming = Resuming(self.cluster, self._translator)
        self._displaced = DisplacedGangs()
        self._complaints = Complaints(self._translator.gang)
        self._answers = Answers(self.cluster, self._translator.pod)
        self._requests = Requests(self.cluster, self._answers, self._translator.pod)
        self._strandeds = Strandeds(self.cluster, self._translator)
        self._overlong = Overlong(self.cluster, self._translator)
        self._quarantines = Quarantines(self.cluster, self._translator)
        self.measures = Measures(self._translator, exporters_in)
        self._shadow, self._note = shadow, note

    # -- what was seen

    def take(self, pieces: Iterable[StepInput]) -> None:
        """Take note of what was seen and what became of our writes."""
        for piece in pieces:
            self._take(piece)

    def pause(self, paused: bool) -> None:
        """Plan no evictions, or plan them again."""
        if paused != self._paused:
            self._paused = paused
            self._set(self._settings)

    def open_to(self, namespace: str) -> list[str]:
        """The queues that jobs of a namespace may name."""
        return self._translator.gangs.open_to(namespace)

    def without_pods(self) -> dict[TaskId, wire.Pod]:
        """The tasks that stand in for pods, and what they stand for."""
        return self._translator.filling.all()

    def resume(self) -> None:
        """Take over what was promised before: places are held, evictions are finished."""
        for gang in sorted(self._translator.gangs):
            for task in self._translator.gangs.members(gang):
                pod = self._translator.pod(task)
                if pod is not None and (text := text_of(pod)):
                    self._honour(gang, task, text)
        self._answers.resume()
        self._resuming.honour()
        self._statuses.restore(self.cluster)
        self.endings.is_on = True

    def _honour(self, gang: GangId, task: TaskId, text: str) -> None:
        promise = self._promised.honour(gang, task, text)
        if promise is None:
            return
        for victim in promise.evicts:
            self._translator.evict_again(TaskId(victim))
        for parting in promise.partings:
            if any(each.task in self.cluster.tasks for each in parting.evictions):
                for each in parting.evictions:
                    self._translator.evict_again(each.task)
                self.cluster.apply(events.CheckpointRequestSeen(parting))

    def _tell(self, event: events.Event) -> None:
        """Pass on what is news; the echo of an assumption leaves the last plan in force."""
        if isinstance(event, events.TaskSeen):
            task = event.task
            if self.cluster.tasks.get(task.id) == task:
                return
        elif isinstance(event, events.WorkEnded) and not self._is_news(event):
            return
        elif isinstance(event, events.GangSeen):
            gang = self._displaced.standing(event.gang)
            event = events.GangSeen(self._answers.standing(gang))
        self.endings.before(event)
        self.cluster.apply(event)
        self.endings.after(event)

    def _is_news(self, ended: events.WorkEnded) -> bool:
        recent = ended.at > self.cluster.now - self.cluster.settings.failure_window_s
        return recent and self.cluster.failures.is_news(ended)

    def _take(self, piece: StepInput) -> None:
        match piece:
            case ObjectObserved("pods", wire.Pod() as pod) | PodRead(pod):
                self._answers.see(pod)
                self._translator.pod_seen(pod)
                self._complaints.see(pod)
                self.measures.see(pod)
            case Lost("pods", wire.Pod() as pod):
                self._translator.pod_gone(pod)
                self._answers.lose(pod)
                self.measures.lose(pod)
            case ObjectObserved("nodes", wire.NodeObject() as node):
                self.measures.is_stale |= self._translator.node(node.metadata.name) is None
                self._translator.node_seen(self._quarantines.see(node))
            case Lost("nodes", wire.NodeObject() as node):
                self.measures.is_stale = True
                self._quarantines.lose(node.metadata.name)
                self._translator.node_gone(node.metadata.name)
            case ObjectObserved("priorities", wire.PriorityClass() as found):
                self._translator.gangs.priority_seen(found)
            case Lost("priorities", wire.PriorityClass() as found):
                self._translator.gangs.priority_seen(found, gone=True)
            case ObjectObserved(kind, wire.Owner() as found):
                self._take_object(kind, found)
            case Lost(kind, wire.Owner() as found):
                self._lose_object(kind, found)
            case _:
                self._take_news(piece)

    def _take_news(self, piece: StepInput) -> None:
        match piece:
            case BindRejected(task, why):
                self._kept.keep(task)
                self._translator.bind_failed(task, why)
            case EvictRefused():
                self._stay(piece)
            case Heard():
                self._answers.hear(piece)
            case Unasked():
                self._answers.cannot(piece)
            case TurnFailed():
                self._resuming.failed(piece)
            case Measured(readings):
                self.measures.hear(readings, self.cluster.now)
            case PodLost(ref):
                if pod := self._translator.pod(ref.task):
                    self._translator.pod_gone(pod)
            case ObjectObserved(_, Stored() as thing) | Lost(_, Stored() as thing):
                self._translator.storage_seen(thing, gone=isinstance(piece, Lost))
            case _:
                raise TypeError(f"nobody reads {piece}")

    def _stay(self, refused: EvictRefused) -> None:
        """A victim is not evicted: it runs on, and the gangs that waited for its place are told."""
        if refused.fails_owner:
            self._translator.keep(refused.task)
        self._translator.evict_failed(refused.task)
        for gang in self._promised.take_back(refused.task):
            self._translator.leave_alone(gang, refused.why, ReasonCode.EVICTION_REFUSED)

    def _set(self, settings: Settings) -> None:
        self._settings = settings
        if self._paused:  # a Policy that changes meanwhile does not end the pause
            rest = replace(settings, lost_after_s=-1, heed_notices=False)
            settings = replace(rest, displacing=(), stale_after_s=1 << 30)
        self.cluster.apply(events.SettingsSeen(settings))

    def _take_object(self, kind: Kind, found: wire.Owner) -> None:
        name = found.metadata.name
        self.measures.is_stale |= kind in ("queues", "namespaces")
        match kind:
            case "queues":
                if (owned := self._statuses.read(found)) is not None:
                    self._translator.gangs.queue_seen(owned)
            case "topologies":
                topology = read_topology(name, found.spec)
                if topology.noun is not None:
                    self.cluster.apply(events.TopologySeen(topology.noun))
                    self._translator.gangs.topology_seen(name)
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
        self.measures.is_stale |= kind in ("queues", "namespaces")
        match kind:
            case "queues":
                self._statuses.lose(found.metadata.name)
                self._translator.gangs.queue_gone(found.metadata.name)
            case "policies" if found.metadata.name == POLICY:
                self._set(Settings())
            case "namespaces":
                self._translator.namespace_gone(found.metadata.name)
            case "topologies":
                self.cluster.apply(events.TopologyGone(found.metadata.name))
                self._translator.gangs.topology_gone(found.metadata.name)
            case "policies":
                pass  # only one of them is in force
            case _:
                if kind == str(GANGS):
                    self._gangs.lose(found)
                self._translator.owner_gone(Key.of(kind), found)

    # -- what follows

    def expect(self, etas: Mapping[GangId, StartEta], words: Mapping[GangId, str]) -> None:
        """Tell those that wait when they are expected to start, in these words."""
        self.etas, self._scribe.expected = etas, words

    def step(self, now: int) -> StepOutput:
        """Decide, assume, and say what there is to do."""
        self.cluster.advance(now)
        for gang in self._translator.advance(now):
            self.cluster.holds.pop(gang, None)
        self.measures.advance(now)
        self._kept.let_go()
        for gang in self._displaced.changes(self.cluster):
            self.cluster.apply(events.GangSeen(gang))
        self._answers.settle()
        marks = [] if self._shadow else self._quarantines.due()
        wanted = plan(self.cluster)
        back = self._resuming.hold_back(wanted)
        decided = back.plan
        if self._shadow:
            return StepOutput(decided, wake_at=decided.wake_at)
        if self._note is not None:
            self._note(self.cluster, wanted)
        work = StepOutput(decided, marks=marks, ended=self._requests.ended(decided))
        work.lost = lost_by_rule(self.cluster, decided.evictions)
        self._start(decided, back.held, work)
        promises = self.evicting.promises(decided)
        work.clearings = self.evicting.clearings(decided, promises)
        work.pages += self.evicting.pages(decided)
        self.cluster.assume(wanted)
        self._resuming.give_back(back)
        self._translator.assume(decided.actions)
        for gang, lost in self.cluster.by_gang(decided.evictions).items():
            # who stops for its own sake is not spared for it
            if not self.cluster.has_minimum(gang) and lost[0].rule is not EvictionRule.OVERRUN:
                self._displaced.note(gang, (self.cluster.tasks[e.task].node for e in lost))
        self._write(decided, work)
        self._part(promises, work)
        work.turns = self._resuming.turns(back)
        work.unsigned = self._translator.believed.due()
        work.statuses = self._statuses.due(self.cluster, decided)
        work.statuses += self._gangs.due(self.cluster, decided)
        if not self._paused:
            work.stranded, work.overlong = self._strandeds.due(now), self._overlong.due(now)
        late = self._translator.assumed.overdue(now)
        work.overdue = [ref for task in late if (ref := self._pods.of(task))]
        work.wake_at = self._wake_at(decided, now)
        return work

    def _start(self, decided: Plan, held: Iterable[Hold], work: StepOutput) -> None:
        """Bind what a plan starts; places that are held for its followers are promised as well."""
        grew = {each.gang for each in decided.decisions if each.verdict is Verdict.GREW}
        followers = {hold.gang: hold.claims for hold in held}
        for gang, binds in self.cluster.by_gang(decided.binds).items():
            bindings = tuple(self._binding(each) for each in binds)
            promise = ""
            claims = [*(_claim(each) for each in binds), *followers.get(gang, ())]
            if len(claims) > 1 and gang not in grew:
                promise = promise_of(claims, None, ())
                self._promised.write(gang, binds[0].task, promise)
            work.starts.append(GangBinds(bindings, promise))
            refs = [each.pod for each in bindings]
            if note := self._scribe.started(gang, refs, [each.node for each in binds]):
                work.pages.append(GangMessages(note=note))

    def _binding(self, bind: Bind) -> Binding:
        claims = self._translator.selecting(bind.task)
        return Binding(self._pods.surely(bind.task), bind.node, claims)

    def _part(self, promises: Promises, work: StepOutput) -> None:
        """What is asked, withdrawn and noted, now that the plan is assumed."""
        work.pages += self._complaints.due()
        work.askings = list(self._requests.asks(promises))
        work.withdrawals = list(self._requests.withdrawals())
        for each in work.plan.withdrawals:
            if pod := self._pods.first(each.gang):
                work.pages.append(GangMessages(note=works_on(pod)))
        answers, pod_of = self._answers, self._pods.of
        work.saved = [Saved(ref, ack) for task, ack in answers.noted if (ref := pod_of(task))]
        work.disbelieved, answers.noted, answers.disbelieved = answers.disbelieved, [], []

    def _write(self, decided: Plan, work: StepOutput) -> None:
        """Promises that begin or end with this plan, and what is said about those that wait."""
        holds = {hold.gang: hold for hold in decided.holds}
        for gang, hold in holds.items():
            pod = self._pods.lead(gang)
            if self._promised.lacks(gang) and pod is not None:
                text = self._promised.compose(hold, decided)
                self._promised.write(gang, pod.task, text)
                work.promises.append((pod, text))
        for task in self._promised.end(holds):
            found, ref = self.cluster.tasks.get(task), self._pods.of(task)
            if found is not None and found.state == TaskState.WAITING and ref is not None:
                work.promises.append((ref, ""))
        waiting = [gang for line in self.cluster.waiting.values() for gang in line]
        now = self.cluster.now
        for gang in self._scribe.read(decided, waiting, now, self.cluster.stamps):
            pods = self._pods.waiting(gang)
            # what keeps a gang out of the line keeps out all of it, also those beyond its minimum
            is_refused = self.cluster.gangs[gang].refusal is not None
            needed = len(pods) if is_refused else self._needed(gang)
            work.pages.append(self._scribe.page(gang, pods, needed, now))

    def _needed(self, gang: GangId) -> int:
        there = sum(each.state in COUNTED for each in self.cluster.members(gang))
        return self.cluster.gangs[gang].needed() - there

    def _wake_at(self, decided: Plan, now: int) -> int | None:
        instants = (
            decided.wake_at,
            self._scribe.wake_at(),
            self._translator.assumed.wake_at(now),
            self._strandeds.wake_at(now),
            self._resuming.wake_at(),
        )
        return min((each for each in instants if each is not None), default=None)


def _claim(bind: Bind) -> PlaceClaim:
    return PlaceClaim(bind.task, bind.node, bind.devices)
