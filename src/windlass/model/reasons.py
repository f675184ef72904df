"""The reasons for which a gang waits or is evicted, as a code with numbers.

Terminal, dashboard, Kubernetes events and metrics all show these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReasonCode(StrEnum):
    """The codes of reasons; each has a sentence for people."""

    UNREADABLE = "Unreadable"
    LEFT_OUT = "LeftOut"
    OWNER_UNSEEN = "OwnerUnseen"
    OWNER_SUSPENDED = "OwnerSuspended"
    NO_QUEUE = "NoQueue"
    NO_VOLUME = "NoVolume"
    FAILED_BEFORE = "FailedBefore"
    EVICTION_REFUSED = "EvictionRefused"
    FAILS_EVERYWHERE = "FailsEverywhere"
    INCOMPLETE = "Incomplete"
    SAVING = "Saving"
    UNKNOWN_QUEUE = "UnknownQueue"
    NEVER_LIMIT = "NeverLimit"
    NEVER_GUARANTEE = "NeverGuarantee"
    NEVER_NODE = "NeverNode"
    NEVER_ROOM = "NeverRoom"
    NEVER_DOMAIN = "NeverDomain"
    AT_LIMIT = "AtLimit"
    BEYOND_GUARANTEE = "BeyondGuarantee"
    SPARED_BEYOND_GUARANTEE = "SparedBeyondGuarantee"
    NOT_LENT = "NotLent"
    NO_ROOM = "NoRoom"
    NO_DOMAIN = "NoDomain"
    NO_ARRANGEMENT = "NoArrangement"
    REFUSED_BY = "RefusedBy"
    RESERVED = "Reserved"
    RESERVATION = "Reservation"
    OVERDUE = "Overdue"
    HELD = "Held"
    GAVE_WAY = "GaveWay"
    AWAITS_SAVE = "AwaitsSave"
    RESUMES = "Resumes"
    AWAITS_FOLLOWERS = "AwaitsFollowers"
    SUSPENDED_FOR = "SuspendedFor"
    LOST_BY_GUARANTEE = "LostByGuarantee"
    LOST_BY_SHARE = "LostByShare"
    LOST_BY_PRIORITY = "LostByPriority"
    LOST_BY_ORDER = "LostByOrder"
    MOVES = "Moves"
    STALE = "Stale"
    NODE_LEAVES = "NodeLeaves"
    NODE_LOST = "NodeLost"
    OVERRAN = "Overran"


def _nothing() -> dict[str, int | str]:
    return {}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its code, and the values that its sentence names."""

    why: ReasonCode
    values: Mapping[str, int | str] = field(default_factory=_nothing)

    def __hash__(self) -> int:
        return hash((self.why, tuple(sorted(self.values.items()))))

    def __str__(self) -> str:
        return SENTENCES[self.why].format_map(_Words(self.values))


class _Words(dict[str, int | str]):
    """The values of a sentence, with endings for counts.

    `{tasks} task{tasks_s} move{tasks_v}` becomes "1 task moves" or "2 tasks move". The value `gang`
    is shown by its display name.
    """

    def __getitem__(self, key: str) -> int | str:
        value = super().__getitem__(key)
        return display_name(value) if key == "gang" and isinstance(value, str) else value

    def __missing__(self, key: str) -> str:
        name, _, ending = key.rpartition("_")
        # plural "s" unless one; verbal "s" only if one
        return "s" if (self.get(name) == 1) == (ending == "v") else ""


SENTENCES: dict[ReasonCode, str] = {
    ReasonCode.UNREADABLE: "it cannot be read: {what}",
    ReasonCode.LEFT_OUT: (
        "it asks for {what}, which Windlass does not place yet; use another scheduler for it"
    ),
    ReasonCode.OWNER_UNSEEN: (
        "its owner, {kind} {owner}, has not been seen, so the size of its gang is not known"
    ),
    ReasonCode.OWNER_SUSPENDED: "its owner, {kind} {owner}, is suspended; resume that to start it",
    ReasonCode.NO_QUEUE: "{what}",
    ReasonCode.NO_VOLUME: "{what}",
    ReasonCode.FAILED_BEFORE: "it could not be bound ({what}); it is tried again in {wait}",
    ReasonCode.EVICTION_REFUSED: (
        "a pod that would have made room for it could not be evicted ({what}); it is tried "
        "again in {wait}"
    ),
    ReasonCode.FAILS_EVERYWHERE: (
        "it failed {failures} time{failures_s} on {nodes} different nodes; mend it and submit "
        "it anew, or it is tried again in {wait}"
    ),
    ReasonCode.INCOMPLETE: (
        "{seen} of the {needed} task{needed_s} it starts with exist; it waits for the others"
    ),
    ReasonCode.SAVING: "the rest of it was asked to save its work, and goes or stays as a whole",
    ReasonCode.UNKNOWN_QUEUE: (
        "queue {queue} does not exist, or has queues below it; name a queue at the end of the tree"
    ),
    ReasonCode.NEVER_LIMIT: (
        "it needs {need} {unit} and queue {queue} may never have more than {limit}"
    ),
    ReasonCode.NEVER_GUARANTEE: (
        "it cannot be preempted, so it must stay within the guarantee of queue {queue}: it "
        "needs {need} {unit}, the guarantee is {guarantee}"
    ),
    ReasonCode.NEVER_NODE: "no node could ever run a task that asks for {shape}",
    ReasonCode.NEVER_ROOM: (
        "it needs {need} task{need_s} of {shape} at once and the empty cluster holds {room}"
    ),
    ReasonCode.NEVER_DOMAIN: (
        "it needs {need} task{need_s} inside one {level} and the largest, empty, holds {room}"
    ),
    ReasonCode.AT_LIMIT: (
        "queue {queue} has {held} of at most {limit} {unit}; this needs {need} more"
    ),
    ReasonCode.SPARED_BEYOND_GUARANTEE: (
        "it lost its place to others before and is to lose no other, so it starts within the "
        "guarantee of queue {queue}, {guarantee} {unit}: {held} are in firm use and it needs "
        "{need}"
    ),
    ReasonCode.BEYOND_GUARANTEE: (
        "it cannot be preempted, so it must stay within the guarantee of queue {queue}: {held} "
        "of {guarantee} {unit} are in use, this needs {need} more"
    ),
    ReasonCode.NOT_LENT: (
        "queue {queue} would have to borrow, and of the {free} {unit} that nobody holds {kept} "
        "are guaranteed to others and not lent; this needs {need}"
    ),
    ReasonCode.NO_ROOM: (
        "it needs room for {need} task{need_s} of {shape} at once; there is room for {room}"
    ),
    ReasonCode.NO_DOMAIN: (
        "it needs {need} task{need_s} inside one {level}; the best has room for {room} now"
    ),
    ReasonCode.NO_ARRANGEMENT: (
        "each of its tasks by itself has room, but no arrangement of all of them was found"
    ),
    ReasonCode.REFUSED_BY: "{nodes} node{nodes_s}: {cause}",
    ReasonCode.RESERVED: (
        "on {nodes} node{nodes_s} places are reserved for {gang} in {wait}, and this may still "
        "run then"
    ),
    ReasonCode.RESERVATION: "a place is reserved for it; by what is known now it starts in {wait}",
    ReasonCode.OVERDUE: (
        "a place is reserved for it, and whoever was expected to have left it by now is still there"
    ),
    ReasonCode.HELD: "places are held for it and are being freed",
    ReasonCode.GAVE_WAY: (
        "the place{tasks_s} held for {tasks} task{tasks_s} of it went to {gang}, whose queue is"
        " within its guarantee while this one is above its own"
    ),
    ReasonCode.AWAITS_SAVE: (
        "{gang} is asked to save its work first and goes in {wait} at the latest; {saved} of "
        "{tasks} task{tasks_s} have"
    ),
    ReasonCode.AWAITS_FOLLOWERS: (
        "its leaders have started, and places are held for the pods that its owner makes now"
    ),
    ReasonCode.RESUMES: (
        "places are held for it until its owner, which had been suspended, has made its pods again"
    ),
    ReasonCode.SUSPENDED_FOR: (
        "its owner was suspended {ago} ago {why}, and is resumed when there is room"
    ),
    ReasonCode.LOST_BY_GUARANTEE: (
        "{tasks} task{tasks_s} make{tasks_v} room for {gang}, whose queue is within its "
        "guarantee while this one is above its own"
    ),
    ReasonCode.LOST_BY_SHARE: (
        "{tasks} task{tasks_s} make{tasks_v} room for {gang}, whose queue has less of its share"
        " than this one"
    ),
    ReasonCode.LOST_BY_PRIORITY: (
        "{tasks} task{tasks_s} make{tasks_v} room for {gang}, which has a higher priority in "
        "the same queue"
    ),
    ReasonCode.LOST_BY_ORDER: (
        "{tasks} task{tasks_s} make{tasks_v} room for {gang}, which comes far before it by the "
        "order of their queue"
    ),
    ReasonCode.MOVES: (
        "{tasks} task{tasks_s} move{tasks_v} to places kept elsewhere, so that {gang} fits"
    ),
    ReasonCode.STALE: (
        "it has been below its minimum for too long; what is left of it, {tasks} task{tasks_s},"
        " is given back"
    ),
    ReasonCode.NODE_LEAVES: "{what}; it gives up {tasks} task{tasks_s} to start elsewhere",
    ReasonCode.NODE_LOST: (
        "{what}; {tasks} task{tasks_s} of it stop{tasks_v}, and it starts elsewhere"
    ),
    ReasonCode.OVERRAN: (
        "it has run for as long as it may, {longest}; {tasks} task{tasks_s} stop{tasks_v}, and "
        "it {then}"
    ),
}


def display_name(gang: str) -> str:
    """Return the name of a gang without the suffix that tells it from an earlier namesake."""
    return gang.partition("~")[0]
