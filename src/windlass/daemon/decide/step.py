"""One step of the scheduler: inputs in, writes out, without waiting or writing.

    inputs        observed objects and results of writes become events for the cluster (`inputs.py`)
    clock         waits that have ended: backoff, followers, exporters, held places, answers
    quarantine    nodes that failed gang after gang are marked; check Jobs of nodes are due
    plan          the engine's plan (`engine/cycle.py`), from here on fixed
    hold back     binds of placeholders become holds until their pods exist
    record        the plan is recorded, before the cluster assumes it
    starts        binds of each gang, with the promise of its places
    evictions     victims, pod by pod or through their owner, with the promise to the preemptor
    assume        cluster and translator act as if the plan were carried out
    nominations   promises that begin or end with this plan
    conditions    messages on the pods of gangs that wait
    checkpoints   requests, withdrawals and notes of saved work
    owners        owners to resume, to suspend again or to unmark
    status        the status of Queue and Gang objects
    stuck pods    pods that do not terminate in time
    wake          the next second at which a step is due without any input

Writes of promises come before the binds and evictions that rely on them (`docs/holds.md`). All that
reads the cluster as the plan found it comes before `assume`.

A step runs in a thread of its own, so that the event loop goes on draining watches meanwhile.
Nothing else uses this state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.controllers.node_checks import NO_CHECKS, NodeCheck, NodeCheckRules
from windlass.daemon.decide.checkpoint_answers import (
    CheckpointAnswers,
    CheckpointComplaints,
    RefusedAnswer,
)
from windlass.daemon.decide.checkpoint_requests import EndedRequest, OpenRequests, lost_by_rule
from windlass.daemon.decide.evictions import EvictionPlanner, Promises
from windlass.daemon.decide.finished_gangs import FinishedGangs
from windlass.daemon.decide.gang_status import GangStatuses
from windlass.daemon.decide.gpu_health import GpuHealth
from windlass.daemon.decide.inputs import ClusterFeed, InputHandler, InputParts, StepInput
from windlass.daemon.decide.nominations import FailedBindHolds, Nominations
from windlass.daemon.decide.pod_refs import PodRefs
from windlass.daemon.decide.quarantine import NodeMark, QuarantineMarks
from windlass.daemon.decide.queue_status import QueueStatuses, StatusWrite
from windlass.daemon.decide.stuck_pods import OverlongTerminations, Shortening, StuckPods
from windlass.daemon.decide.suspended_gangs import GangResumer, HeldBack
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan, Verdict
from windlass.engine.preemption import DisplacedGangs
from windlass.forecast.eta import StartEta
from windlass.kube.ingest import Scope, Translator, UnsignedMark
from windlass.kube.refs import PodRef
from windlass.kube.writers import (
    ConditionWriter,
    GangMessages,
    promise_of,
    text_of,
    withdrawn_event,
)
from windlass.kube.writes import (
    Binding,
    CheckpointSaved,
    CheckpointWithdrawal,
    GangBinds,
    GangCheckpoint,
    GangEvictions,
    OwnerWrite,
    StuckPod,
)
from windlass.model import events
from windlass.model.actions import Bind, EvictionRule, PlaceClaim
from windlass.model.jobs import COUNTED, GangId, TaskId, TaskState
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

RecordPlan: TypeAlias = Callable[[Cluster, Plan], None]
"""Records a plan before it is assumed."""


@dataclass(slots=True)
class StepOutput:
    """All that is to be written and logged after a step."""

    plan: Plan
    starts: list[GangBinds] = field(default_factory=list[GangBinds])
    evictions: list[GangEvictions] = field(default_factory=list[GangEvictions])
    checkpoint_requests: list[GangCheckpoint] = field(default_factory=list[GangCheckpoint])
    """Checkpoint requests to write."""
    checkpoint_withdrawals: list[CheckpointWithdrawal] = field(
        default_factory=list[CheckpointWithdrawal]
    )
    checkpoint_notes: list[CheckpointSaved] = field(default_factory=list[CheckpointSaved])
    """Accepted answers to note on their pods."""
    refused_answers: list[RefusedAnswer] = field(default_factory=list[RefusedAnswer])
    ended_requests: list[EndedRequest] = field(default_factory=list[EndedRequest])
    """Checkpoint requests that have ended."""
    lost: dict[str, int] = field(default_factory=dict[str, int])
    """Thousandths of GPU-seconds that are lost by evictions, by rule."""
    promises: list[tuple[PodRef, str]] = field(default_factory=list[tuple[PodRef, str]])
    """Promises to write on pods; an empty text clears the promise."""
    owner_writes: list[OwnerWrite] = field(default_factory=list[OwnerWrite])
    """Owners to resume, to suspend again or to unmark."""
    unsigned_marks: list[UnsignedMark] = field(default_factory=list[UnsignedMark])
    """Suspended owners whose marks are not signed, to be logged."""
    messages: list[GangMessages] = field(default_factory=list[GangMessages])
    """Conditions and Events to write."""
    statuses: list[StatusWrite] = field(default_factory=list[StatusWrite])
    node_marks: list[NodeMark] = field(default_factory=list[NodeMark])
    """Quarantine marks to write on nodes."""
    node_checks: list[NodeCheck] = field(default_factory=list[NodeCheck])
    """Nodes for which a check Job is to be created."""
    overdue_binds: list[PodRef] = field(default_factory=list[PodRef])
    """Pods whose bind was not confirmed for long, to be read again."""
    stuck_pods: list[StuckPod] = field(default_factory=list[StuckPod])
    overlong_terminations: list[Shortening] = field(default_factory=list[Shortening])
    """Terminating pods that have more time for that than the Policy allows."""
    wake_at: int | None = None
    """The second at which the next step is due without any input; None if there is none."""


class SchedulerStep:
    """The known cluster, and everything that is remembered from step to step."""

    def __init__(
        self,
        scope: Scope,
        now: int,
        *,
        shadow: bool = False,
        note: RecordPlan | None = None,
        exporters_in: Collection[str] = (),
        node_checks: NodeCheckRules = NO_CHECKS,
    ) -> None:
        self.cluster = Cluster(Settings(), now)
        self.etas: Mapping[GangId, StartEta] = {}
        self._shadow, self._note = shadow, note
        self._translator = translator = Translator(scope)
        self._displaced = DisplacedGangs()
        self._answers = CheckpointAnswers(self.cluster, translator.pod)
        self.finished = FinishedGangs(self.cluster)
        feed = ClusterFeed(self.cluster, self._displaced, self._answers, self.finished)
        self._apply = feed.apply
        self._apply(translator.advance(now))
        self._pods = PodRefs(self.cluster, translator)
        self._nominations = Nominations(self.cluster, self._apply)
        self._failed_binds = FailedBindHolds(self.cluster, self._apply)
        self.evictions = EvictionPlanner(self.cluster, translator, self._nominations, self._pods)
        self._resumer = GangResumer(self.cluster, translator, self._apply)
        self._complaints = CheckpointComplaints(translator.gang)
        self._requests = OpenRequests(self.cluster, self._answers, translator.pod)
        self._conditions = ConditionWriter()
        self._queue_statuses, self._gang_statuses = QueueStatuses(), GangStatuses()
        self._stuck_pods = StuckPods(self.cluster, translator)
        self._overlong = OverlongTerminations(self.cluster, translator)
        self._quarantines = QuarantineMarks(self.cluster, translator, self._apply, node_checks)
        self.gpu_health = GpuHealth(translator, self._apply, exporters_in)
        parts = InputParts(
            self._answers,
            self._complaints,
            self.gpu_health,
            self._quarantines,
            self._queue_statuses,
            self._gang_statuses,
            self._nominations,
            self._failed_binds,
            self._resumer,
        )
        self._inputs = InputHandler(self.cluster, translator, self._apply, parts)

    # -- inputs

    def take(self, inputs: Iterable[StepInput]) -> None:
        """Take note of observed objects and results of writes."""
        for given in inputs:
            self._inputs.take(given)

    def pause(self, paused: bool) -> None:
        """Plan no evictions while paused."""
        self._inputs.pause(paused)

    def queues_open_to(self, namespace: str) -> list[str]:
        """Return the queues that jobs of a namespace may name."""
        return self._translator.gangs.open_to(namespace)

    def placeholders(self) -> dict[TaskId, wire.Pod]:
        """Return the placeholders, each with the pod that it stands for."""
        return self._translator.placeholders.all()

    def expect(self, etas: Mapping[GangId, StartEta], words: Mapping[GangId, str]) -> None:
        """Set the expected starts of waiting gangs, as values and in words for their conditions."""
        self.etas, self._conditions.expected = etas, words

    def resume(self) -> None:
        """Take over from the previous leader: hold promised places, and finish evictions.

        To be called once, after all objects were taken and before the first step.
        """
        for gang in sorted(self._translator.gangs):
            for task in self._translator.gangs.members(gang):
                pod = self._translator.pod(task)
                if pod is not None and (text := text_of(pod)):
                    self._honour(gang, task, text)
        self._answers.resume()
        self._resumer.honour()
        self._queue_statuses.restore(self.cluster)
        self.finished.is_on = True

    def _honour(self, gang: GangId, task: TaskId, text: str) -> None:
        promise = self._nominations.honour(gang, task, text)
        if promise is None:
            return
        for victim in promise.evicts:
            self._apply(self._translator.evict_again(TaskId(victim)))
        for pending in promise.pending_checkpoints:
            if any(evict.task in self.cluster.tasks for evict in pending.evictions):
                for evict in pending.evictions:
                    self._apply(self._translator.evict_again(evict.task))
                self.cluster.apply(events.CheckpointRequestSeen(pending))

    # -- the step

    def step(self, now: int) -> StepOutput:
        """Plan, assume the plan, and return all writes that follow; in shadow mode only plan."""
        self._advance(now)
        marks = [] if self._shadow else self._quarantines.due()
        wanted = plan(self.cluster)
        held = self._resumer.hold_back(wanted)
        if self._shadow:
            return StepOutput(held.plan, wake_at=held.plan.wake_at)
        if self._note is not None:
            self._note(self.cluster, wanted)
        output = StepOutput(held.plan, node_marks=marks)
        output.node_checks = self._quarantines.checks_due()
        self._start(held, output)
        promises = self._evict(output)
        self._assume(wanted, held)
        self._nominate(output)
        self._explain(output)
        self._request_checkpoints(promises, output)
        output.owner_writes = self._resumer.turns(held)
        output.unsigned_marks = self._translator.marks.due()
        output.statuses = self._queue_statuses.due(self.cluster, held.plan)
        output.statuses += self._gang_statuses.due(self.cluster, held.plan)
        self._hasten(output, now)
        output.wake_at = self._wake_at(held.plan, now)
        return output

    def _advance(self, now: int) -> None:
        """Move the clock, and end all waits that have expired."""
        self.cluster.advance(now)
        self._apply(self._translator.advance(now))
        self.gpu_health.advance(now)
        self._failed_binds.let_go()
        for gang in self._displaced.changes(self.cluster):
            self.cluster.apply(events.GangSeen(gang))
        self._answers.settle()

    def _start(self, held: HeldBack, output: StepOutput) -> None:
        """Bind the gangs that the plan starts; promise the places of their followers as well."""
        decided = held.plan
        grew = {each.gang for each in decided.decisions if each.verdict is Verdict.GREW}
        followers = {hold.gang: hold.claims for hold in held.holds}
        for gang, binds in self.cluster.by_gang(decided.binds).items():
            bindings = tuple(self._binding(bind) for bind in binds)
            promise = ""
            claims = [*(_claim(bind) for bind in binds), *followers.get(gang, ())]
            # a single bind succeeds or fails as a whole, and growth may stop at any task
            if len(claims) > 1 and gang not in grew:
                promise = promise_of(claims, None, ())
                self._nominations.write(gang, binds[0].task, promise)
            output.starts.append(GangBinds(bindings, promise))
            refs = [binding.pod for binding in bindings]
            if note := self._conditions.started(gang, refs, [bind.node for bind in binds]):
                output.messages.append(GangMessages(note=note))

    def _binding(self, bind: Bind) -> Binding:
        claims = self._translator.selecting(bind.task)
        return Binding(self._pods.surely(bind.task), bind.node, claims)

    def _evict(self, output: StepOutput) -> Promises:
        """Set the evictions of the plan, and the end of checkpoint requests; return the promises.

        Both compare the plan with the cluster, so they come before the plan is assumed.
        """
        decided = output.plan
        output.ended_requests = self._requests.ended(decided)
        output.lost = lost_by_rule(self.cluster, decided.evictions)
        promises = self.evictions.promises(decided)
        output.evictions = self.evictions.evictions_of(decided, promises)
        output.messages += self.evictions.pages(decided)
        return promises

    def _assume(self, wanted: Plan, held: HeldBack) -> None:
        """Let cluster and translator act as if the plan were carried out."""
        decided = held.plan
        # the engine's own plan, as it is recorded: a replay assumes the same
        self.cluster.assume(wanted)
        self._resumer.give_back(held)
        self._apply(self._translator.assume(decided.actions))
        for gang, lost in self.cluster.by_gang(decided.evictions).items():
            # a gang that has run for as long as it may is not protected from the next eviction
            if not self.cluster.has_minimum(gang) and lost[0].rule is not EvictionRule.OVERRUN:
                nodes = (self.cluster.tasks[evict.task].node for evict in lost)
                self._displaced.note(gang, nodes)

    def _nominate(self, output: StepOutput) -> None:
        """Write the promises that begin with this plan, and clear those that have ended."""
        holds = {hold.gang: hold for hold in output.plan.holds}
        for gang, hold in holds.items():
            pod = self._pods.lead(gang)
            if self._nominations.lacks(gang) and pod is not None:
                text = self._nominations.compose(hold, output.plan)
                self._nominations.write(gang, pod.task, text)
                output.promises.append((pod, text))
        for name in self._nominations.end(holds):
            task, ref = self.cluster.tasks.get(name), self._pods.of(name)
            if task is not None and task.state == TaskState.WAITING and ref is not None:
                output.promises.append((ref, ""))

    def _explain(self, output: StepOutput) -> None:
        """Write the reasons of the plan on the pods of gangs that wait."""
        waiting = [gang for line in self.cluster.waiting.values() for gang in line]
        now = self.cluster.now
        for gang in self._conditions.update(output.plan, waiting, now, self.cluster.stamps):
            pods = self._pods.waiting(gang)
            # a refusal concerns all pods of a gang, also those beyond its minimum
            is_refused = self.cluster.gangs[gang].refusal is not None
            needed = len(pods) if is_refused else self._needed(gang)
            output.messages.append(self._conditions.messages_of(gang, pods, needed, now))

    def _needed(self, gang: GangId) -> int:
        counted = sum(task.state in COUNTED for task in self.cluster.members(gang))
        return self.cluster.gangs[gang].needed() - counted

    def _request_checkpoints(self, promises: Promises, output: StepOutput) -> None:
        """Set the checkpoint requests, withdrawals and notes, now that the plan is assumed."""
        output.messages += self._complaints.due()
        output.checkpoint_requests = list(self._requests.asks(promises))
        output.checkpoint_withdrawals = list(self._requests.withdrawals())
        for withdrawn in output.plan.withdrawals:
            if pod := self._pods.first(withdrawn.gang):
                output.messages.append(GangMessages(note=withdrawn_event(pod)))
        accepted, output.refused_answers = self._answers.take_results()
        output.checkpoint_notes = [
            CheckpointSaved(ref, ack) for task, ack in accepted if (ref := self._pods.of(task))
        ]

    def _hasten(self, output: StepOutput, now: int) -> None:
        """Set the pods to delete again or to read again, because something takes too long."""
        if not self._inputs.paused:
            output.stuck_pods, output.overlong_terminations = (
                self._stuck_pods.due(now),
                self._overlong.due(now),
            )
        late = self._translator.assumed.overdue(now)
        output.overdue_binds = [ref for task in late if (ref := self._pods.of(task))]

    def _wake_at(self, decided: Plan, now: int) -> int | None:
        instants = (
            decided.wake_at,
            self._conditions.wake_at(),
            self._translator.assumed.wake_at(now),
            self._stuck_pods.wake_at(now),
            self._resumer.wake_at(),
        )
        return min((at for at in instants if at is not None), default=None)


def _claim(bind: Bind) -> PlaceClaim:
    return PlaceClaim(bind.task, bind.node, bind.devices)
