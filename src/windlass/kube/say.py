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
from windlass.model.reasons import Reason, Why

LONGEST = 1024
"""Of a message; conditions allow more, people do not."""


class Says(StrEnum):
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

    reason: Says
    text: str


def message_of(decision: Decision, expected: str = "") -> Message:
    """What to tell the pods of a gang that was not placed, and when it is expected to be."""
    first = decision.reasons[0] if decision.reasons else None
    says = SAYS.get(first.why, Says.UNSCHEDULABLE) if first else Says.UNSCHEDULABLE
    text = "; ".join(_sentences(decision.reasons))
    waits_in_line = decision.verdict is Verdict.WAITS and says is not Says.REFUSED
    if waits_in_line and decision.position:
        text = f"{text} (number {decision.position} in line)" if text else "it waits in line"
    if waits_in_line and expected:
        text = f"{text}; {expected}" if text else expected
    return Message(says, _capital(_printable(text))[:LONGEST])


def lacks_nodes(decision: Decision) -> bool:
    """Is the gang admitted, and does it wait for nothing but nodes?"""
    if decision.verdict not in (Verdict.WAITS, Verdict.NEVER) or not decision.reasons:
        return False
    return SAYS.get(decision.reasons[0].why, Says.UNSCHEDULABLE) is Says.UNSCHEDULABLE


ELASTIC = Message(Says.ELASTIC, "Its gang runs; this pod joins when there is room")


def _sentences(reasons: tuple[Reason, ...]) -> list[str]:
    return [str(reason) for reason in reasons]


def _printable(text: str) -> str:
    # users' own words may be quoted, and they may have written anything
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


SAYS: dict[Why, Says] = {
    Why.UNREADABLE: Says.REFUSED,
    Why.LEFT_OUT: Says.REFUSED,
    Why.OWNER_UNSEEN: Says.GANG_INCOMPLETE,
    Why.OWNER_SUSPENDED: Says.GANG_INCOMPLETE,
    Why.NO_QUEUE: Says.REFUSED,
    Why.NO_VOLUME: Says.REFUSED,
    Why.UNKNOWN_QUEUE: Says.REFUSED,
    Why.FAILED_BEFORE: Says.PLACE_HELD,
    Why.EVICTION_REFUSED: Says.EVICTION_REFUSED,
    Why.FAILS_EVERYWHERE: Says.REFUSED,
    Why.INCOMPLETE: Says.GANG_INCOMPLETE,
    Why.SAVING: Says.GANG_INCOMPLETE,
    Why.NEVER_LIMIT: Says.QUEUE_FULL,
    Why.NEVER_GUARANTEE: Says.QUEUE_FULL,
    Why.AT_LIMIT: Says.QUEUE_FULL,
    Why.BEYOND_GUARANTEE: Says.QUEUE_FULL,
    Why.SPARED_BEYOND_GUARANTEE: Says.QUEUE_FULL,
    Why.NOT_LENT: Says.QUEUE_FULL,
    Why.HELD: Says.PLACE_HELD,
    Why.AWAITS_SAVE: Says.PLACE_HELD,
    Why.RESUMES: Says.PLACE_HELD,
    Why.AWAITS_FOLLOWERS: Says.PLACE_HELD,
}
"""Everything else lacks nodes."""
