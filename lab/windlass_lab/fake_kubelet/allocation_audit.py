"""The entries of the device history, and an audit that reads nothing else.

The audit follows each device from entry to entry and knows nothing of the allocation code, so it
would notice if a device was allocated twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec


class AllocationEvent(StrEnum):
    """The kind of an entry about a device, or about all devices of a node."""

    ADDED = "added"
    REMOVED = "removed"
    HANDED_OUT = "handed out"
    GIVEN_BACK = "given back"
    FAILED = "failed"
    HEALED = "healed"


class Cause(StrEnum):
    """The cause of a refusal; only the first is a mistake of the scheduler."""

    OVERBOOKED = "overbooked"
    """More was bound to the node than it has, although the API server showed all of it."""
    LINGERING = "lingering"
    """It would fit without containers whose pods are already gone from the API server."""
    UNHEALTHY = "unhealthy"
    """It would fit if no device had failed."""
    MISPLACED = "misplaced"
    """The node's labels or taints do not suit the pod."""
    ORDERED = "ordered"
    """The test requested it."""


class AllocationEntry(msgspec.Struct, frozen=True):
    """One entry of the history."""

    number: int
    kind: AllocationEvent
    node: str
    device: str
    holder: str = ""


class AdmissionRefusal(msgspec.Struct, frozen=True):
    """A pod that was not admitted."""

    number: int
    node: str
    holder: str
    reason: str
    cause: Cause


def audit(history: Iterable[AllocationEntry]) -> Iterator[str]:
    """Yield a sentence for everything in the history that must never happen."""
    holders: dict[str, str] = {}
    usable: dict[str, bool] = {}
    for entry in history:
        for fault in _faults(entry, holders.get(entry.device), usable.get(entry.device)):
            yield f"line {entry.number}: {entry.device} of node {entry.node} {fault}"
        match entry.kind:
            case AllocationEvent.HANDED_OUT:
                holders[entry.device] = entry.holder
            case AllocationEvent.GIVEN_BACK:
                holders.pop(entry.device, None)
            case AllocationEvent.REMOVED:
                usable.pop(entry.device, None)
            case AllocationEvent.ADDED | AllocationEvent.HEALED | AllocationEvent.FAILED:
                usable[entry.device] = entry.kind is not AllocationEvent.FAILED


def _faults(entry: AllocationEntry, holder: str | None, usable: bool | None) -> Iterator[str]:
    if entry.kind is AllocationEvent.HANDED_OUT:
        if holder is not None:
            yield f"was given to {entry.holder} while {holder} held it"
        if usable is None:
            yield f"was given to {entry.holder} but is not there"
        if usable is False:
            yield f"was given to {entry.holder} although it had failed"
    if entry.kind is AllocationEvent.GIVEN_BACK and holder != entry.holder:
        yield f"came back from {entry.holder}, but {holder or 'nobody'} held it"
    if entry.kind is AllocationEvent.REMOVED and holder is not None:
        yield f"was removed while {holder} held it"
