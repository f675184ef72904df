"""Owners that can be stopped whole, and the mark on those that we have stopped.

    runs --suspend, mark--> suspended --resume, promise places--> resumed --all pods there--> runs
                                ^                                    |
                                +---------- they did not come -------+

Each arrow is one write, so that whoever comes after a crash finds one of these states. Mark and
field must agree: a marked owner that runs though nobody resumed it, or stands though we did, was
taken over by its user, and is no longer ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.objects.annotations import SUSPENDED
from windlass.workloads.objects.spec_fields import Spec, inner, items
from windlass.workloads.objects.wire import ObjectMeta, Owner

Second: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]


class Mark(msgspec.Struct, frozen=True, omit_defaults=True, rename={"gainer": "for"}):
    """Why an owner stands, and how far its return has come."""

    at: Second
    """When it was suspended."""
    rule: str = ""
    gainer: str = ""
    """The gang that it made room for."""
    since: Second = 0
    """Since when it stood in line before it ran."""
    resumed_at: Second = 0
    promise: str = ""
    """The places that are kept for the pods it makes now."""
    by: str = ""
    """The scheduler of its pods: another one leaves it alone."""


class OwnerState(StrEnum):
    """How a marked owner stands."""

    SUSPENDED = "suspended"
    """We have stopped it: it waits."""
    RESUMED = "resumed"
    """We have let it go on: its pods are expected."""
    TAKEN = "taken"
    """Its user has stopped it or let it go on meanwhile: that counts."""


def mark_of(meta: ObjectMeta) -> Mark | None:
    """The mark on an owner; None if there is none that can be read."""
    text = (meta.annotations or {}).get(SUSPENDED, "")
    try:
        return msgspec.json.decode(text, type=Mark) if text else None
    except msgspec.MsgspecError:
        return None


def text_of(mark: Mark) -> str:
    """A mark as it is written."""
    return msgspec.json.encode(mark).decode()


def again(mark: Mark, resumed_at: int, promise: str) -> Mark:
    """The mark of an owner that is let go on, or stopped anew."""
    return msgspec.structs.replace(mark, resumed_at=resumed_at, promise=promise)


def standing(owner: Owner, field: str) -> OwnerState | None:
    """How an owner with that field stands; None if it is not marked."""
    mark = mark_of(owner.metadata)
    if mark is None or not field:
        return None
    if is_suspended(owner.spec, field) == bool(mark.resumed_at):
        return OwnerState.TAKEN
    return OwnerState.RESUMED if mark.resumed_at else OwnerState.SUSPENDED


def is_suspended(spec: Spec, field: str) -> bool:
    """Does the field say that the owner is to have no pods?"""
    *way, last = field.split(".")[1:]
    for step in way:
        spec = inner(spec, step)
    return spec.get(last) is True


ENDED = frozenset({"Complete", "Completed", "Failed", "FailureTarget", "Succeeded"})
"""Conditions of owners that make no pods any more."""


def has_ended(status: Spec) -> bool:
    """Has an owner ended for good, well or badly?"""
    return any(
        each.get("type") in ENDED and each.get("status") == "True"
        for each in items(status, "conditions")
    )


def with_field(field: str, value: bool) -> dict[str, Any]:
    """A field set, as a merge patch."""
    found: Any = value
    for step in reversed(field.split(".")):
        found = {step: found}
    return found
