"""Why a gang waits, with its numbers; terminal, page, events and metrics render these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Why(StrEnum):
    """The kinds of reasons; `SENTENCES` says each in words."""

    INCOMPLETE = "Incomplete"
    UNKNOWN_QUEUE = "UnknownQueue"
    NEVER_LIMIT = "NeverLimit"
    NEVER_GUARANTEE = "NeverGuarantee"
    NEVER_NODE = "NeverNode"
    NEVER_ROOM = "NeverRoom"
    NEVER_DOMAIN = "NeverDomain"
    AT_LIMIT = "AtLimit"
    BEYOND_GUARANTEE = "BeyondGuarantee"
    NOT_LENT = "NotLent"
    NO_ROOM = "NoRoom"
    NO_DOMAIN = "NoDomain"
    NO_ARRANGEMENT = "NoArrangement"
    REFUSED_BY = "RefusedBy"
    RESERVED = "Reserved"
    RESERVATION = "Reservation"
    HELD = "Held"


def _nothing() -> dict[str, int | str]:
    return {}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason and the numbers that make it checkable."""

    why: Why
    values: Mapping[str, int | str] = field(default_factory=_nothing)

    def __str__(self) -> str:
        return SENTENCES[self.why].format_map(self.values)


SENTENCES: dict[Why, str] = {
    Why.INCOMPLETE: "{seen} of the {needed} tasks it starts with exist; it waits for the others",
    Why.UNKNOWN_QUEUE: "queue {queue} does not exist, or has queues below it; "
    "name a queue at the end of the tree",
    Why.NEVER_LIMIT: "it needs {need} {unit} and queue {queue} may never have more than {limit}",
    Why.NEVER_GUARANTEE: "it cannot be preempted, so it must stay within the guarantee of queue "
    "{queue}: it needs {need} {unit}, the guarantee is {guarantee}",
    Why.NEVER_NODE: "no node could ever run a task that asks for {shape}",
    Why.NEVER_ROOM: "it needs {need} tasks of {shape} at once and the empty cluster holds {room}",
    Why.NEVER_DOMAIN: "it needs {need} tasks inside one {level} and the largest, empty, "
    "holds {room}",
    Why.AT_LIMIT: "queue {queue} has {held} of at most {limit} {unit}; this needs {need} more",
    Why.BEYOND_GUARANTEE: "it cannot be preempted, so it must stay within the guarantee of queue "
    "{queue}: {held} of {guarantee} {unit} are in use, this needs {need} more",
    Why.NOT_LENT: "beyond the guarantee of queue {queue} it would have to borrow: {kept} of the "
    "{free} {unit} that nobody holds are guaranteed to others and not lent; this needs {need}",
    Why.NO_ROOM: "it needs room for {need} tasks of {shape} at once; there is room for {room}",
    Why.NO_DOMAIN: "it needs {need} tasks inside one {level}; the best has room for {room} now",
    Why.NO_ARRANGEMENT: "there is room, but no arrangement satisfies all its constraints together",
    Why.REFUSED_BY: "{nodes} nodes: {cause}",
    Why.RESERVED: "{nodes} nodes are reserved for {gang} from {at} s on, and this may still run "
    "then",
    Why.RESERVATION: "a place is reserved for it, from {at} s on at the latest",
    Why.HELD: "places are held for it and are being freed",
}
