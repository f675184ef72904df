"""Owners that can be suspended, and the mark on those that we have suspended.

    running --suspend, mark--> suspended --resume, promise--> resumed --all pods exist--> running
                                   ^                             |
                                   +------- pods are missing ----+

Each arrow is one write, so that a scheduler that starts after a crash finds one of these states.
The mark and the suspend field must agree. If they do not, the user has resumed or suspended the
owner since, and it is no longer ours to resume.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.objects import SUSPENDED, ObjectMeta, Owner, Spec, inner, items

Second: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]


class SuspensionMark(msgspec.Struct, frozen=True, omit_defaults=True, rename={"gainer": "for"}):
    """The mark on a suspended owner: the cause, and the progress of its resumption."""

    at: Second
    """The time of the suspension."""
    rule: str = ""
    """The rule by which it was suspended."""
    gainer: str = ""
    """The preemptor: the gang for which it was suspended; "for" in JSON."""
    since: Second = 0
    """The time from which it waited before it ran, which keeps its position in the order."""
    resumed_at: Second = 0
    """The time at which we resumed it; 0 while it is suspended."""
    promise: str = ""
    """The places that are held for its new pods, once it is resumed."""
    by: str = ""
    """The scheduler of its pods; other schedulers ignore the mark."""


class OwnerState(StrEnum):
    """The state of a marked owner."""

    SUSPENDED = "suspended"
    """We have suspended it, and it waits."""
    RESUMED = "resumed"
    """We have resumed it, and its pods are expected."""
    TAKEN = "taken"
    """Its user has suspended or resumed it since, and the mark is void."""


def mark_of(meta: ObjectMeta) -> SuspensionMark | None:
    """Return the mark on an owner; None if there is none, or none that can be read."""
    text = (meta.annotations or {}).get(SUSPENDED, "")
    try:
        return msgspec.json.decode(text, type=SuspensionMark) if text else None
    except msgspec.MsgspecError:
        return None


def mark_text(mark: SuspensionMark) -> str:
    """Return the value of the annotation for a mark."""
    return msgspec.json.encode(mark).decode()


def with_resumption(mark: SuspensionMark, resumed_at: int, promise: str) -> SuspensionMark:
    """Return the mark with another time of resumption and another promise."""
    return msgspec.structs.replace(mark, resumed_at=resumed_at, promise=promise)


def owner_state(owner: Owner, field: str) -> OwnerState | None:
    """Return the state of an owner with this suspend field; None if it has no mark."""
    mark = mark_of(owner.metadata)
    if mark is None or not field:
        return None
    if is_suspended(owner.spec, field) == bool(mark.resumed_at):
        return OwnerState.TAKEN
    return OwnerState.RESUMED if mark.resumed_at else OwnerState.SUSPENDED


def is_suspended(spec: Spec, field: str) -> bool:
    """Return whether the suspend field at this path is true."""
    *parents, last = field.split(".")[1:]
    for step in parents:
        spec = inner(spec, step)
    return spec.get(last) is True


ENDED = frozenset({"Complete", "Completed", "Failed", "FailureTarget", "Succeeded"})
"""The condition types which say that an owner has ended and creates no more pods."""


def has_ended(status: Spec) -> bool:
    """Return whether an owner has completed or failed."""
    return any(
        condition.get("type") in ENDED and condition.get("status") == "True"
        for condition in items(status, "conditions")
    )


def field_patch(field: str, value: bool) -> dict[str, Any]:
    """Return the merge patch that sets the field at this path."""
    patch: Any = value
    for step in reversed(field.split(".")):
        patch = {step: patch}
    return patch
