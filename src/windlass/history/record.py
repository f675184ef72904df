"""What is recorded of a cycle, as values and as bytes.

What the engine is told decides what it answers. So the events are kept as they came, the actions as
they were decided, and of the whole plan a digest: playing the stretch again gives back every
reason with its numbers, and the digest proves that they are the ones of that day. Which gang
waited for which kind of reason is kept as well, where it changed, to be read without playing.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, get_args

import msgspec

from windlass.engine.plan import Plan, Verdict
from windlass.model.actions import Action, Hold, RequestCheckpoint, WithdrawCheckpoint
from windlass.model.events import CheckpointRequestSeen, Event
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot
from windlass.usage.ledger import Holder

Heard: TypeAlias = Event | int
"""Something happened, or the clock moved to this second."""

LEVEL = 1
"""Of compression: most of what there is to gain, at a fraction of the time."""
_OLD_NAMES: dict[str, Any] = {
    "Asked": CheckpointRequestSeen,
    "Ask": RequestCheckpoint,
    "Withdraw": WithdrawCheckpoint,
}
"""Names of events and actions in histories that version 0.1.0 wrote."""
_BY_NAME: dict[str, Any] = _OLD_NAMES | {
    kind.__name__: kind for kind in (*get_args(Event), *get_args(Action))
}


class RecordError(ValueError):
    """The bytes are not what this version records."""


@dataclass(frozen=True, slots=True)
class RecordedUsage:
    """One entry of the ledger, exactly as it is kept."""

    queue: str
    user: str
    model: str
    value: float
    at: int


@dataclass(frozen=True, slots=True)
class StretchStart:
    """Where a stretch begins: the cluster as its first plan found it."""

    snapshot: Snapshot
    ledger: tuple[RecordedUsage, ...] = ()

    @classmethod
    def of(cls, cluster: Cluster) -> StretchStart:
        """The cluster as it is."""
        ledger = (
            RecordedUsage(*holder, value, at) for holder, value, at in cluster.ledger.entries()
        )
        return cls(cluster.snapshot(), tuple(ledger))

    def cluster(self) -> Cluster:
        """A cluster that decides as that one did."""
        cluster = Cluster.of(self.snapshot)
        for each in self.ledger:
            cluster.ledger.put(Holder(each.queue, each.user, each.model), each.value, each.at)
        return cluster


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """A gang of which a plan says something else than the plan before, numbers apart."""

    gang: GangId
    queue: str
    verdict: Verdict
    whys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """One recorded cycle."""

    number: int
    at: int
    heard: tuple[Heard, ...]
    """Since the cycle before; of a stretch's first cycle, the start has it already."""
    holds: tuple[Hold, ...] | None
    """What was held before it, where that follows from nothing heard: a promise taken over."""
    actions: tuple[Action, ...]
    changes: tuple[DecisionChange, ...]
    gone: tuple[GangId, ...]
    """Of whom the plan before still spoke."""
    waiting: int
    digest: str
    """Of the whole plan."""


class _Wire(msgspec.Struct, array_like=True):
    """A cycle as it is written: what can be one of several kinds carries its name."""

    heard: list[int | tuple[str, msgspec.Raw]]
    holds: tuple[Hold, ...] | None
    actions: list[tuple[str, msgspec.Raw]]
    changes: tuple[DecisionChange, ...]
    gone: tuple[GangId, ...]
    waiting: int
    digest: str


_encoder = msgspec.json.Encoder()
_wire = msgspec.json.Decoder(_Wire)
_start = msgspec.json.Decoder(StretchStart)
_decoders = {name: msgspec.json.Decoder(kind) for name, kind in _BY_NAME.items()}


def digest_of(plan: Plan) -> str:
    """The same for the same plan, and for no other."""
    hashed = hashlib.sha256()
    for each in fields(Plan):
        value = getattr(plan, each.name)
        if each.name == "shares":
            value = {queue: dict(sorted(value[queue].items())) for queue in sorted(value)}
        hashed.update(_encoder.encode(value))
    return hashed.hexdigest()


def actions_as_bytes(actions: Sequence[Action]) -> bytes:
    """Actions to the letter, to be compared."""
    return _encoder.encode([_named(each) for each in actions])


def to_bytes(cycle: RecordedCycle) -> bytes:
    """A cycle without its number and time, which the store keeps beside it."""
    wire = (
        [each if isinstance(each, int) else _named(each) for each in cycle.heard],
        cycle.holds,
        [_named(each) for each in cycle.actions],
        cycle.changes,
        cycle.gone,
        cycle.waiting,
        cycle.digest,
    )
    return zlib.compress(_encoder.encode(wire), LEVEL)


def from_bytes(number: int, at: int, data: bytes) -> RecordedCycle:
    """The cycle that these bytes tell of."""
    try:
        wire = _wire.decode(zlib.decompress(data))
        heard: Iterable[Any] = (e if isinstance(e, int) else _of(*e) for e in wire.heard)
        actions: Iterable[Any] = (_of(*each) for each in wire.actions)
        changes, gone = wire.changes, wire.gone
        return RecordedCycle(
            number, at, tuple(heard), wire.holds, tuple(actions), changes, gone, wire.waiting,
            wire.digest,
        )  # fmt: skip
    except (zlib.error, msgspec.DecodeError, KeyError) as error:
        raise RecordError(f"cycle {number} cannot be read: {error}") from error


def start_to_bytes(start: StretchStart) -> bytes:
    """A start, packed."""
    return zlib.compress(_encoder.encode(start), LEVEL)


def start_from_bytes(data: bytes) -> StretchStart:
    """The start in these bytes."""
    try:
        return _start.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise RecordError(f"the start of a stretch cannot be read: {error}") from error


def _named(each: Event | Action) -> tuple[str, Event | Action]:
    return type(each).__name__, each


def _of(name: str, body: msgspec.Raw) -> Any:
    return _decoders[name].decode(body)
