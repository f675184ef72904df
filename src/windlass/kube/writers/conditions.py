"""The conditions and Events of gangs that wait, start or are displaced: their text and their time.

The reason of `PodScheduled=False` is a contract with autoscalers: `Unschedulable` means that nodes
are lacking for an admitted gang, and is written on all members that start together or on none. A
gang that waits for its queue, for its other pods or for places being freed gets another reason, so
that no autoscaler adds nodes for it.

A message is written once it has been stable for a moment, so that a gang that starts at once causes
no write; again as soon as its reason changes; and with new numbers alone only after a while. All
pods of a gang are written together, so that an autoscaler sees all of them or none; a pod that
joins later gets the message of the others at once. Events are per gang, on its first pod.

This module is pure: `status_writer.py` does the writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.refs import PodRef
from windlass.model import units
from windlass.model.actions import PendingCheckpoint
from windlass.model.jobs import GangId
from windlass.model.reasons import ReasonCode
from windlass.workloads.objects import Pod, condition

HOLDS_FOR_S = 1
"""A message is written after its reason has been the same for so long."""
RENEW_AFTER_S = 60
"""A message whose numbers alone have changed is written at most once in so long."""
SCHEDULED = "PodScheduled"
"""The type of the condition."""
LONGEST = 1024
"""Characters of a message at most; the API allows more, but nobody would read it."""


class ConditionReason(StrEnum):
    """The reasons of the `PodScheduled` condition."""

    UNSCHEDULABLE = "Unschedulable"
    QUEUE_FULL = "QueueFull"
    GANG_INCOMPLETE = "GangIncomplete"
    PLACE_HELD = "PlaceHeld"
    EVICTION_REFUSED = "EvictionRefused"
    ELASTIC = "WaitsToGrow"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class ConditionMessage:
    """The reason and the text of a condition."""

    reason: ConditionReason
    text: str


@dataclass(frozen=True, slots=True)
class ConditionWrite:
    """A condition to write on a pod."""

    pod: PodRef
    message: ConditionMessage
    is_first: bool = True
    """The pod has no such condition yet. If it has, its status does not change, and so its
    lastTransitionTime must stay."""


@dataclass(frozen=True, slots=True)
class EventMessage:
    """An Event to write for a gang."""

    pod: PodRef
    reason: str
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class GangMessages:
    """The conditions and the Event to write for one gang."""

    conditions: tuple[ConditionWrite, ...] = ()
    note: EventMessage | None = None


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits, and its current condition."""

    ref: PodRef
    says: tuple[str, str]
    """The reason and message of its condition; empty strings if it has none."""

    @classmethod
    def of(cls, ref: PodRef, pod: Pod) -> WaitingPod:
        """Return a pod as last observed."""
        current = condition(pod, SCHEDULED)
        return cls(ref, (current.reason, current.message) if current else ("", ""))


@dataclass(slots=True)
class _MessageRecord:
    """The message of one waiting gang, and what has been written of it."""

    message: ConditionMessage
    """The latest message; its numbers may be newer than those of `written`."""
    since: int
    """The second since which the reason of the message is the same."""
    written: ConditionMessage | None = None
    """The message on the pods; None until the current reason has been written."""
    written_at: int = 0
    stamp: int = 0
    """The stamp of the gang when its pods were last written."""
    event_reason: str = ""
    """The reason of the last Event, so that it is not repeated; empty if there was none."""


class ConditionWriter:
    """Decides which conditions and Events of waiting gangs are to be written now."""

    def __init__(self) -> None:
        self.expected: Mapping[GangId, str] = {}
        """The expected start of waiting gangs, as text for people."""
        self._records: dict[GangId, _MessageRecord] = {}
        """One record for each gang that waits."""

    def wake_at(self) -> int | None:
        """Return the next second at which a pending message has been stable for `HOLDS_FOR_S`.

        None if no message is pending.
        """
        fresh = (record.since for record in self._records.values() if record.written is None)
        return min((since + HOLDS_FOR_S for since in fresh), default=None)

    def update(
        self,
        plan: Plan,
        waiting: Iterable[GangId],
        now: int,
        stamps: Mapping[GangId, int] | None = None,
    ) -> list[GangId]:
        """Update the messages from a plan; return the gangs for which something must be written.

        `waiting` are all gangs that wait now. The stamp of a gang changes whenever the gang or one
        of its pods does.
        """
        decisions = {
            decision.gang: decision for decision in plan.decisions if _is_waiting(decision)
        }
        present = set(waiting)
        for gang in self._records.keys() - present:
            del self._records[gang]
        due: list[GangId] = []
        for gang in sorted(present):
            stamp = stamps.get(gang, 0) if stamps else 0
            decision = decisions.get(gang)
            # A gang that waits without a decision has its minimum running: these pods are extra.
            message = message_of(decision, self.expected.get(gang, "")) if decision else ELASTIC
            if self._is_due(gang, message, now, stamp):
                self._records[gang].stamp = stamp
                due.append(gang)
        return due

    def messages_of(
        self, gang: GangId, pods: Sequence[WaitingPod], needed: int, now: int
    ) -> GangMessages:
        """Return what to write for a gang that is due; the record then counts it as written.

        `pods` are its waiting pods. The first `needed` of them complete its minimum and get the
        message of the gang; the others get `ELASTIC`.
        """
        record = self._records[gang]
        if record.written is None or now >= record.written_at + RENEW_AFTER_S:
            record.written, record.written_at = record.message, now
        message = record.written
        conditions = [
            ConditionWrite(pod.ref, own, is_first=not pod.says[0])
            for at, pod in enumerate(pods)
            if pod.says != _as_written(own := message if at < needed else ELASTIC)
        ]
        note = None
        if record.event_reason != message.reason and pods:
            record.event_reason = message.reason
            if pods[0].says[0] == message.reason:  # the previous leader has written this Event
                return GangMessages(tuple(conditions))
            note = EventMessage(
                pods[0].ref, message.reason, message.text, message.reason is ConditionReason.REFUSED
            )
        return GangMessages(tuple(conditions), note)

    def started(
        self, gang: GangId, pods: Sequence[PodRef], nodes: Sequence[str]
    ) -> EventMessage | None:
        """Return the Event for a gang that starts; None for a single pod that never had to wait."""
        record = self._records.pop(gang, None)
        if len(pods) < 2 and (record is None or record.written is None):
            return None
        return EventMessage(pods[0], "Scheduled", _where(len(pods), sorted(set(nodes))))

    def _is_due(self, gang: GangId, message: ConditionMessage, now: int, stamp: int) -> bool:
        """Update the record of a gang; return whether its pods must be written now."""
        record = self._records.get(gang)
        if record is None or record.message.reason != message.reason:
            event_reason = record.event_reason if record else ""
            self._records[gang] = _MessageRecord(message, now, event_reason=event_reason)
            return False
        record.message = message
        if record.written is None:
            return now >= record.since + HOLDS_FOR_S
        return stamp != record.stamp or now >= record.written_at + RENEW_AFTER_S


def message_of(decision: Decision, expected: str = "") -> ConditionMessage:
    """Return the message for the pods of a gang that was not placed.

    `expected` is the expected start as text; it is added if the gang waits in its queue.
    """
    reason = _condition_reason(decision)
    text = "; ".join(str(sentence) for sentence in decision.reasons)
    waits_in_line = decision.verdict is Verdict.WAITS and reason is not ConditionReason.REFUSED
    if waits_in_line and decision.position:
        text = f"{text} (number {decision.position} in line)" if text else "it waits in line"
    if waits_in_line and expected:
        text = f"{text}; {expected}" if text else expected
    return ConditionMessage(reason, _capital(_printable(text))[:LONGEST])


def lacks_nodes(decision: Decision) -> bool:
    """Return whether the gang is admitted by its queue and only lacks nodes."""
    if not _is_waiting(decision) or not decision.reasons:
        return False
    return _condition_reason(decision) is ConditionReason.UNSCHEDULABLE


ELASTIC = ConditionMessage(
    ConditionReason.ELASTIC, "Its gang runs; this pod joins when there is room"
)
"""The message of pods beyond the minimum of a gang that runs."""


def _condition_reason(decision: Decision) -> ConditionReason:
    """Return the condition reason for the first, that is the decisive, reason of a decision."""
    if not decision.reasons:
        return ConditionReason.UNSCHEDULABLE
    return CONDITION_REASONS.get(decision.reasons[0].why, ConditionReason.UNSCHEDULABLE)


def _printable(text: str) -> str:
    """Replace characters that cannot be printed: reasons may quote text that users wrote."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


CONDITION_REASONS: dict[ReasonCode, ConditionReason] = {
    ReasonCode.UNREADABLE: ConditionReason.REFUSED,
    ReasonCode.LEFT_OUT: ConditionReason.REFUSED,
    ReasonCode.OWNER_UNSEEN: ConditionReason.GANG_INCOMPLETE,
    ReasonCode.OWNER_SUSPENDED: ConditionReason.GANG_INCOMPLETE,
    ReasonCode.NO_QUEUE: ConditionReason.REFUSED,
    ReasonCode.NO_VOLUME: ConditionReason.REFUSED,
    ReasonCode.UNKNOWN_QUEUE: ConditionReason.REFUSED,
    ReasonCode.FAILED_BEFORE: ConditionReason.PLACE_HELD,
    ReasonCode.EVICTION_REFUSED: ConditionReason.EVICTION_REFUSED,
    ReasonCode.FAILS_EVERYWHERE: ConditionReason.REFUSED,
    ReasonCode.INCOMPLETE: ConditionReason.GANG_INCOMPLETE,
    ReasonCode.SAVING: ConditionReason.GANG_INCOMPLETE,
    ReasonCode.NEVER_LIMIT: ConditionReason.QUEUE_FULL,
    ReasonCode.NEVER_GUARANTEE: ConditionReason.QUEUE_FULL,
    ReasonCode.AT_LIMIT: ConditionReason.QUEUE_FULL,
    ReasonCode.BEYOND_GUARANTEE: ConditionReason.QUEUE_FULL,
    ReasonCode.SPARED_BEYOND_GUARANTEE: ConditionReason.QUEUE_FULL,
    ReasonCode.NOT_LENT: ConditionReason.QUEUE_FULL,
    ReasonCode.HELD: ConditionReason.PLACE_HELD,
    ReasonCode.AWAITS_SAVE: ConditionReason.PLACE_HELD,
    ReasonCode.RESUMES: ConditionReason.PLACE_HELD,
    ReasonCode.AWAITS_FOLLOWERS: ConditionReason.PLACE_HELD,
}
"""The condition reason for each reason of a decision. All others mean that nodes are lacking:
`Unschedulable`."""


def displaced_event(
    decision: Decision, pod: PodRef, pending: PendingCheckpoint | None = None
) -> EventMessage:
    """Return the Event for a gang that is displaced, now or after its pending checkpoint."""
    text = "; ".join(str(reason) for reason in decision.reasons)
    if pending is not None:
        until = units.format_timestamp(pending.deadline)
        text = f"asked to save its work until {until}, and goes then at the latest: {text}"
        return EventMessage(pod, "AskedToSave", text[:1].upper() + text[1:])
    return EventMessage(pod, "Displaced", text[:1].upper() + text[1:], is_warning=True)


def withdrawn_event(pod: PodRef) -> EventMessage:
    """Return the Event for a gang whose checkpoint request is withdrawn."""
    text = "Its place is not needed any more: the request to save is withdrawn, and it works on"
    return EventMessage(pod, "WorksOn", text)


def body_of(note: EventMessage, at: str, key: str) -> dict[str, object]:
    """Return the body of an Event; `at` is its time, and `key` makes its name unique."""
    pod = note.pod
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name[:200].rstrip('-.')}.{key}", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
        },
        "reason": note.reason,
        "message": note.text[:1024],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": "windlass"},
        "reportingComponent": "windlass",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def patch_of(write: ConditionWrite, at: str) -> dict[str, object]:
    """Return a condition as a strategic merge patch of the pod's status; `at` is the time now."""
    written = {
        "type": SCHEDULED,
        "status": "False",
        "reason": write.message.reason,
        "message": write.message.text,
    }
    if write.is_first:
        written["lastTransitionTime"] = at
    return {"metadata": {"uid": write.pod.uid}, "status": {"conditions": [written]}}


def _is_waiting(decision: Decision) -> bool:
    return decision.verdict in (Verdict.WAITS, Verdict.NEVER)


def _as_written(message: ConditionMessage) -> tuple[str, str]:
    return (message.reason.value, message.text)


def _where(count: int, nodes: list[str]) -> str:
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"1 pod starts on {shown}" if count == 1 else f"{count} pods start on {shown}"
