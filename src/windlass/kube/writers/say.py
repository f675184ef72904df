"""What a pod's condition and its gang's Event say about a decision.

The reason of `PodScheduled=False` is a contract with autoscalers: `Unschedulable` means that nodes
are lacking for an admitted gang, and is said of all members that start together or of none.
Whoever waits for a queue, for its other pods or for a place being freed gets another reason, and
nobody buys nodes for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.engine.plan import Decision, Verdict
from windlass.model.reasons import Reason, ReasonCode

LONGEST = 1024
"""Of a message; conditions allow more, people do not."""


class ConditionReason(StrEnum):
    """The reasons of a pod's condition."""

    UNSCHEDULABLE = "Unschedulable"
    QUEUE_FULL = "QueueFull"
    GANG_INCOMPLETE = "GangIncomplete"
    PLACE_HELD = "PlaceHeld"
    EVICTION_REFUSED = "EvictionRefused"
    ELASTIC = "WaitsToGrow"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class Message:
    """What is said about a pod that waits."""

    reason: ConditionReason
    text: str


def message_of(decision: Decision, expected: str = "") -> Message:
    """What to tell the pods of a gang that was not placed, and when it is expected to be."""
    first = decision.reasons[0] if decision.reasons else None
    says = (
        SAYS.get(first.why, ConditionReason.UNSCHEDULABLE)
        if first
        else ConditionReason.UNSCHEDULABLE
    )
    text = "; ".join(_sentences(decision.reasons))
    waits_in_line = decision.verdict is Verdict.WAITS and says is not ConditionReason.REFUSED
    if waits_in_line and decision.position:
        text = f"{text} (number {decision.position} in line)" if text else "it waits in line"
    if waits_in_line and expected:
        text = f"{text}; {expected}" if text else expected
    return Message(says, _capital(_printable(text))[:LONGEST])


def lacks_nodes(decision: Decision) -> bool:
    """Is the gang admitted, and does it wait for nothing but nodes?"""
    if decision.verdict not in (Verdict.WAITS, Verdict.NEVER) or not decision.reasons:
        return False
    return (
        SAYS.get(decision.reasons[0].why, ConditionReason.UNSCHEDULABLE)
        is ConditionReason.UNSCHEDULABLE
    )


ELASTIC = Message(ConditionReason.ELASTIC, "Its gang runs; this pod joins when there is room")


def _sentences(reasons: tuple[Reason, ...]) -> list[str]:
    return [str(reason) for reason in reasons]


def _printable(text: str) -> str:
    # users' own words may be quoted, and they may have written anything
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


SAYS: dict[ReasonCode, ConditionReason] = {
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
"""Everything else lacks nodes."""
