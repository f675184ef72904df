"""What is written about gangs that wait, start or lose their place, and when.

A message is written once it has held for a moment, so that a gang that starts at once costs
nothing; again as soon as its reason changes; and again with new numbers only after a while. All
pods of a gang are written together, so that an autoscaler sees all of them or none; one that joins
later is told at once what the others were told. Events are per gang: they stand on its first pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.refs import PodRef
from windlass.kube.writers.say import ELASTIC, ConditionReason, Message, message_of
from windlass.model import units
from windlass.model.actions import PendingCheckpoint
from windlass.model.jobs import GangId
from windlass.workloads.objects.wire import Pod, condition

HOLDS_FOR_S = 1
"""A message is written after it has been true for so long."""
RENEW_AFTER_S = 60
"""Numbers alone are written anew no more often."""
SCHEDULED = "PodScheduled"


@dataclass(frozen=True, slots=True)
class ConditionWrite:
    """A condition to write on a pod."""

    pod: PodRef
    message: Message
    is_first: bool = True
    """Was the pod told nothing before? Else its status stays, and with it the time of that."""


@dataclass(frozen=True, slots=True)
class EventMessage:
    """An Event to write for a gang."""

    pod: PodRef
    reason: str
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class GangMessages:
    """All that is to be written about one gang."""

    conditions: tuple[ConditionWrite, ...] = ()
    note: EventMessage | None = None


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits: where to write, and what its condition says now."""

    ref: PodRef
    says: tuple[str, str]

    @classmethod
    def of(cls, ref: PodRef, pod: Pod) -> WaitingPod:
        """A pod as it was seen last."""
        found = condition(pod, SCHEDULED)
        return cls(ref, (found.reason, found.message) if found else ("", ""))


@dataclass(slots=True)
class _Said:
    message: Message
    since: int
    written: Message | None = None
    written_at: int = 0
    stamp: int = 0
    """Of the gang as it was when its pods were written to."""
    told: str = ""
    """The reason of the last Event."""


class ConditionWriter:
    """Remembers what was said about whom."""

    def __init__(self) -> None:
        self.expected: Mapping[GangId, str] = {}
        """When waiting gangs are expected to start, in words."""
        self._said: dict[GangId, _Said] = {}

    def wake_at(self) -> int | None:
        """When a message will have held long enough."""
        fresh = (each.since for each in self._said.values() if each.written is None)
        return min((since + HOLDS_FOR_S for since in fresh), default=None)

    def read(
        self,
        plan: Plan,
        waiting: Iterable[GangId],
        now: int,
        stamps: Mapping[GangId, int] | None = None,
    ) -> list[GangId]:
        """Take note of a plan; answers the gangs about which something is to be written.

        `stamps` move whenever a gang or one of its pods changes.
        """
        found = {each.gang: each for each in plan.decisions if _is_waiting(each)}
        there = set(waiting)
        for gang in [each for each in self._said if each not in there]:
            del self._said[gang]
        due: list[GangId] = []
        for gang in sorted(there):
            stamp = stamps.get(gang, 0) if stamps else 0
            message = _message(found.get(gang), self.expected.get(gang, ""))
            if self._is_due(gang, message, now, stamp):
                self._said[gang].stamp = stamp
                due.append(gang)
        return due

    def page(self, gang: GangId, pods: Sequence[WaitingPod], needed: int, now: int) -> GangMessages:
        """What to write about a gang whose waiting pods are these, of which so many are needed."""
        said = self._said[gang]
        if said.written is None or now >= said.written_at + RENEW_AFTER_S:
            said.written, said.written_at = said.message, now
        message = said.written
        conditions = [
            ConditionWrite(each.ref, own, is_first=not each.says[0])
            for at, each in enumerate(pods)
            if each.says != _as_written(own := message if at < needed else ELASTIC)
        ]
        note = None
        if said.told != message.reason and pods:
            said.told = message.reason
            if pods[0].says[0] == message.reason:  # our predecessor has told it
                return GangMessages(tuple(conditions))
            note = EventMessage(
                pods[0].ref, message.reason, message.text, message.reason is ConditionReason.REFUSED
            )
        return GangMessages(tuple(conditions), note)

    def started(
        self, gang: GangId, pods: Sequence[PodRef], nodes: Sequence[str]
    ) -> EventMessage | None:
        """The Event about a gang that starts, unless it is a single pod that never had to wait."""
        said = self._said.pop(gang, None)
        if len(pods) < 2 and (said is None or said.written is None):
            return None
        return EventMessage(pods[0], "Scheduled", _where(len(pods), sorted(set(nodes))))

    def _is_due(self, gang: GangId, message: Message, now: int, stamp: int) -> bool:
        said = self._said.get(gang)
        if said is None or said.message.reason != message.reason:
            told = said.told if said else ""
            self._said[gang] = _Said(message, now, told=told)
            return False
        said.message = message
        if said.written is None:
            return now >= said.since + HOLDS_FOR_S
        return stamp != said.stamp or now >= said.written_at + RENEW_AFTER_S


def displaced(
    decision: Decision, pod: PodRef, asked: PendingCheckpoint | None = None
) -> EventMessage:
    """The Event about a gang that loses its place, now or once it has saved its work."""
    text = "; ".join(str(reason) for reason in decision.reasons)
    if asked is not None:
        until = units.format_timestamp(asked.deadline)
        text = f"asked to save its work until {until}, and goes then at the latest: {text}"
        return EventMessage(pod, "AskedToSave", text[:1].upper() + text[1:])
    return EventMessage(pod, "Displaced", text[:1].upper() + text[1:], is_warning=True)


def works_on(pod: PodRef) -> EventMessage:
    """The Event about a gang whose request to save is withdrawn."""
    text = "Its place is not needed any more: the request to save is withdrawn, and it works on"
    return EventMessage(pod, "WorksOn", text)


def body_of(note: EventMessage, at: str, key: str) -> dict[str, object]:
    """An Event as the API server takes it."""
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


def patch_of(each: ConditionWrite, at: str) -> dict[str, object]:
    """A condition as a strategic patch of the pod's status."""
    written = {
        "type": SCHEDULED,
        "status": "False",
        "reason": each.message.reason,
        "message": each.message.text,
    }
    if each.is_first:
        written["lastTransitionTime"] = at
    return {"metadata": {"uid": each.pod.uid}, "status": {"conditions": [written]}}


def _is_waiting(decision: Decision) -> bool:
    return decision.verdict in (Verdict.WAITS, Verdict.NEVER)


def _message(decision: Decision | None, expected: str) -> Message:
    return message_of(decision, expected) if decision else ELASTIC


def _as_written(message: Message) -> tuple[str, str]:
    return (message.reason.value, message.text)


def _where(count: int, nodes: list[str]) -> str:
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"{count} pod{'s' * (count > 1)} start on {shown}"
