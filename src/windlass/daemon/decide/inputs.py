"""The inputs of a step: observed objects and results of writes, and the events that they become.

    input --> the parts of the step that remember it --> translator --> events --> cluster

`InputHandler` passes each input on. `ClusterFeed` applies events to the cluster and drops those
that change nothing, so that the plan of the last step stays valid after the echo of an own write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.crds.read import read_settings
from windlass.daemon.decide.checkpoint_answers import CheckpointAnswers, CheckpointComplaints
from windlass.daemon.decide.finished_gangs import FinishedGangs
from windlass.daemon.decide.gang_status import GangStatuses
from windlass.daemon.decide.gpu_health import GpuHealth
from windlass.daemon.decide.nominations import FailedBindHolds, Nominations
from windlass.daemon.decide.quarantine import QuarantineMarks
from windlass.daemon.decide.queue_status import QueueStatuses
from windlass.daemon.decide.suspended_gangs import GangResumer
from windlass.engine.preemption import DisplacedGangs
from windlass.kube.ingest import GANGS, Translator
from windlass.kube.refs import Kind, ObjectLost, ObjectObserved, Observation, PodLost, PodRead
from windlass.kube.writes import (
    CheckRefused,
    EvictRefused,
    GpuReadings,
    Heard,
    OwnerWriteFailed,
    RequestUnwritable,
)
from windlass.model import events
from windlass.model.events import BindFailed, Event
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

StepInput: TypeAlias = (
    Observation
    | BindFailed
    | PodRead
    | PodLost
    | EvictRefused
    | Heard
    | RequestUnwritable
    | OwnerWriteFailed
    | GpuReadings
    | CheckRefused
)
Apply: TypeAlias = Callable[[Iterable[Event]], None]
"""Applies events to the cluster."""
POLICY = "default"
"""The name of the Policy that is in force; others are ignored."""


class ClusterFeed:
    """Applies the events of a step to the cluster, and lets `FinishedGangs` see them."""

    def __init__(
        self,
        cluster: Cluster,
        displaced: DisplacedGangs,
        answers: CheckpointAnswers,
        finished: FinishedGangs,
    ) -> None:
        self._cluster, self._displaced = cluster, displaced
        self._answers, self._finished = answers, finished

    def apply(self, some: Iterable[Event]) -> None:
        """Apply events in their order; skip those that change nothing."""
        for event in map(self._completed, some):
            if self._is_news(event):
                self._finished.before(event)
                self._cluster.apply(event)
                self._finished.after(event)

    def _completed(self, event: Event) -> Event:
        """Return the event, a gang with what this process remembers: its stops and its saves."""
        if not isinstance(event, events.GangSeen):
            return event
        gang = self._displaced.standing(event.gang)
        return events.GangSeen(self._answers.standing(gang))

    def _is_news(self, event: Event) -> bool:
        cluster = self._cluster
        match event:
            case events.TaskSeen(task):
                return cluster.tasks.get(task.id) != task
            case events.WorkEnded():
                recent = event.at > cluster.now - cluster.settings.failure_window_s
                return recent and cluster.failures.is_news(event)
            case events.HoldSeen(hold):
                return cluster.holds.get(hold.gang) != hold
            case events.HoldGone(gang, retry_searches):
                return gang in cluster.holds or retry_searches
            case _:
                return True


@dataclass(frozen=True, slots=True)
class InputParts:
    """The parts of a step that remember inputs."""

    answers: CheckpointAnswers
    complaints: CheckpointComplaints
    gpu_health: GpuHealth
    quarantines: QuarantineMarks
    queue_statuses: QueueStatuses
    gang_statuses: GangStatuses
    nominations: Nominations
    failed_binds: FailedBindHolds
    resumer: GangResumer


class InputHandler:
    """Passes each input to the translator and to the parts that remember it."""

    def __init__(
        self, cluster: Cluster, translator: Translator, apply: Apply, parts: InputParts
    ) -> None:
        self._cluster, self._translator = cluster, translator
        self._apply, self._parts = apply, parts
        self._settings = Settings()
        """The settings of the Policy, as if nothing were paused."""
        self.paused = False

    def take(self, given: StepInput) -> None:
        """Handle one input: change the cluster, and remember what the step needs later."""
        parts = self._parts
        match given:
            case ObjectObserved() | ObjectLost():
                self._observe(given)
            case Heard():
                parts.answers.hear(given)
            case RequestUnwritable():
                parts.answers.cannot(given)
            case OwnerWriteFailed():
                parts.resumer.failed(given)
            case CheckRefused(check, why):
                parts.quarantines.cannot_check(check, why)
            case GpuReadings(readings):
                parts.gpu_health.hear(readings, self._cluster.now)
            case _:
                self._take_result(given)

    def _take_result(self, given: StepInput) -> None:
        """Handle the result of a bind or of an eviction."""
        translator = self._translator
        match given:
            case PodRead(pod):
                self._observe(ObjectObserved("pods", pod))
            case PodLost(ref):
                if pod := translator.pod(ref.task):
                    self._apply(translator.pod_gone(pod))
            case BindFailed(task, why):
                # the hold first: it copies the place of the bind, which the events take away
                self._parts.failed_binds.keep(task)
                self._apply(translator.bind_failed(task, why))
            case EvictRefused():
                self._refuse(given)
            case _:
                raise TypeError(f"unhandled input type: {type(given).__name__}")

    def pause(self, paused: bool) -> None:
        """Plan no evictions while paused."""
        if paused != self.paused:
            self.paused = paused
            self._set(self._settings)

    def _observe(self, observation: Observation) -> None:
        gone = isinstance(observation, ObjectLost)
        match observation.object:
            case wire.Pod() as pod:
                self._observe_pod(observation, pod, gone)
            case wire.NodeObject() as node:
                self._observe_node(observation, node, gone)
            case wire.Owner() as owner:
                self._remember_owner(observation.kind, owner, gone)
                self._apply(self._translator.observe(observation))
            case _:
                self._apply(self._translator.observe(observation))

    def _observe_pod(self, observation: Observation, pod: wire.Pod, gone: bool) -> None:
        parts = self._parts
        if gone:
            self._apply(self._translator.observe(observation))
            parts.answers.lose(pod)
            parts.gpu_health.lose(pod)
            return
        # answers first: the events may remove the task that the answer is about
        parts.answers.see(pod)
        self._apply(self._translator.observe(observation))
        parts.complaints.see(pod)
        parts.gpu_health.see(pod)

    def _observe_node(self, observation: Observation, node: wire.NodeObject, gone: bool) -> None:
        parts, name = self._parts, node.metadata.name
        if gone:
            parts.gpu_health.is_stale = True
            parts.quarantines.lose(name)
        else:
            parts.gpu_health.is_stale |= self._translator.node(name) is None
            observation = ObjectObserved(observation.kind, parts.quarantines.see(node))
        self._apply(self._translator.observe(observation))

    def _remember_owner(self, kind: Kind, owner: wire.Owner, gone: bool) -> None:
        parts, name = self._parts, owner.metadata.name
        parts.gpu_health.is_stale |= kind in ("queues", "namespaces")
        match kind:
            case "queues":
                if gone:
                    parts.queue_statuses.lose(name)
                else:
                    parts.queue_statuses.read(owner)
            case "policies" if name == POLICY:
                settings = Settings() if gone else read_settings(name, owner.spec).value
                if settings is not None:
                    self._set(settings)
            case "Job.batch":
                parts.quarantines.see_job(owner, gone)
            case _ if kind == str(GANGS) and gone:
                parts.gang_statuses.lose(owner)
            case _ if kind == str(GANGS):
                parts.gang_statuses.read(owner)
            case _:
                pass

    def _refuse(self, refused: EvictRefused) -> None:
        """Undo an eviction that was refused: the victim runs on, and its preemptors back off."""
        translator = self._translator
        if refused.fails_owner:
            self._apply(translator.protect(refused.task))
        self._apply(translator.evict_failed(refused.task))
        for gang in self._parts.nominations.take_back(refused.task):
            self._apply(translator.back_off(gang, refused.why, ReasonCode.EVICTION_REFUSED))

    def _set(self, settings: Settings) -> None:
        self._settings = settings
        if self.paused:  # a Policy that changes meanwhile does not end the pause
            calm = replace(settings, lost_after_s=-1, heed_notices=False)
            settings = replace(calm, displacing=(), stale_after_s=1 << 30)
        self._cluster.apply(events.SettingsSeen(settings))
