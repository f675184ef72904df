"""The record of a cycle and of the start of a stretch, as values and as bytes.

The engine is deterministic, so a record holds its inputs (the events), its actions, and a digest of
the whole plan. A replay of the stretch gives every reason with its numbers again, and the digest
proves that the plan is the recorded one. Changes of verdicts and reason codes per gang are recorded
too, so that they can be read without a replay.
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
"""An event, or the second to which the clock advanced."""

LEVEL = 1
"""The zlib level: most of the gain of higher levels, at a fraction of their time."""
_OLD_NAMES: dict[str, Any] = {
    "Asked": CheckpointRequestSeen,
    "Ask": RequestCheckpoint,
    "Withdraw": WithdrawCheckpoint,
}
"""The names of events and actions in histories that version 0.1.0 wrote."""
_BY_NAME: dict[str, Any] = _OLD_NAMES | {
    kind.__name__: kind for kind in (*get_args(Event), *get_args(Action))
}


class RecordError(ValueError):
    """The bytes are not a record that this version can read."""


@dataclass(frozen=True, slots=True)
class RecordedUsage:
    """One entry of the usage ledger, without rounding."""

    queue: str
    user: str
    model: str
    value: float
    at: int


@dataclass(frozen=True, slots=True)
class StretchStart:
    """The start of a stretch: the cluster as its first plan saw it."""

    snapshot: Snapshot
    ledger: tuple[RecordedUsage, ...] = ()

    @classmethod
    def of(cls, cluster: Cluster) -> StretchStart:
        """Return a start with the present state of the cluster."""
        ledger = (
            RecordedUsage(*holder, value, at) for holder, value, at in cluster.ledger.entries()
        )
        return cls(cluster.snapshot(), tuple(ledger))

    def cluster(self) -> Cluster:
        """Return a new cluster in the recorded state."""
        cluster = Cluster.of(self.snapshot)
        for usage in self.ledger:
            cluster.ledger.put(Holder(usage.queue, usage.user, usage.model), usage.value, usage.at)
        return cluster


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """A gang whose verdict or reason codes differ from those of the plan before."""

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
    """The events since the cycle before; in the first cycle of a stretch the start includes
    them."""
    holds: tuple[Hold, ...] | None
    """The holds before the plan, if they do not follow from the last plan and the events (a new
    leader took over promises); None if they do."""
    actions: tuple[Action, ...]
    changes: tuple[DecisionChange, ...]
    gone: tuple[GangId, ...]
    """The gangs of the plan before that this plan does not contain."""
    waiting: int
    """The number of waiting gangs."""
    digest: str
    """The digest of the whole plan."""


class _Wire(msgspec.Struct, array_like=True):
    """A cycle as it is encoded. Events and actions are pairs of class name and body.

    Old databases hold this layout: fields are arrays, so that their order must not change.
    """

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
    """Return a digest that is equal for equal plans only.

    The order of the shares, a dictionary, does not matter; the order of everything else does.
    """
    hashed = hashlib.sha256()
    for field in fields(Plan):
        value = getattr(plan, field.name)
        if field.name == "shares":
            value = {queue: dict(sorted(value[queue].items())) for queue in sorted(value)}
        hashed.update(_encoder.encode(value))
    return hashed.hexdigest()


def actions_as_bytes(actions: Sequence[Action]) -> bytes:
    """Return the actions as bytes, for an exact comparison."""
    return _encoder.encode([_named(action) for action in actions])


def to_bytes(cycle: RecordedCycle) -> bytes:
    """Return a cycle as bytes, without its number and time, which are columns of the store."""
    wire = (
        [entry if isinstance(entry, int) else _named(entry) for entry in cycle.heard],
        cycle.holds,
        [_named(action) for action in cycle.actions],
        cycle.changes,
        cycle.gone,
        cycle.waiting,
        cycle.digest,
    )
    return zlib.compress(_encoder.encode(wire), LEVEL)


def from_bytes(number: int, at: int, data: bytes) -> RecordedCycle:
    """Return the cycle in these bytes; RecordError if they cannot be read."""
    try:
        wire = _wire.decode(zlib.decompress(data))
        heard: Iterable[Any] = (
            entry if isinstance(entry, int) else _decode(*entry) for entry in wire.heard
        )
        actions: Iterable[Any] = (_decode(*action) for action in wire.actions)
        changes, gone = wire.changes, wire.gone
        return RecordedCycle(
            number, at, tuple(heard), wire.holds, tuple(actions), changes, gone, wire.waiting,
            wire.digest,
        )  # fmt: skip
    except (zlib.error, msgspec.DecodeError, KeyError) as error:
        raise RecordError(f"cycle {number} cannot be read: {error}") from error


def start_to_bytes(start: StretchStart) -> bytes:
    """Return a start as bytes."""
    return zlib.compress(_encoder.encode(start), LEVEL)


def start_from_bytes(data: bytes) -> StretchStart:
    """Return the start in these bytes; RecordError if they cannot be read."""
    try:
        return _start.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise RecordError(f"the start of a stretch cannot be read: {error}") from error


def _named(value: Event | Action) -> tuple[str, Event | Action]:
    return type(value).__name__, value


def _decode(name: str, body: msgspec.Raw) -> Any:
    return _decoders[name].decode(body)
