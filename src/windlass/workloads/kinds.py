"""Which pods start together: one row for each kind of owner.

A pod belongs to the gang that its row derives from the owner's spec, never from the pods seen so
far: pods come one at a time. The label `windlass.dev/gang` makes a gang of any pods; a pod whose
owner has no row, or none at all, is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, cast

from windlass.model.reasons import Reason, Why
from windlass.workloads.marks import GANG, MINIMUM, mark
from windlass.workloads.wire import Meta, Owner, OwnerRef, Pod, controller

MOST_MEMBERS = 100_000


class Survives(StrEnum):
    """What becomes of a pod that is evicted."""

    RECREATED = "recreated"
    """Its owner makes another."""
    LOST = "lost"
    """It is gone for good: not to be preempted unless its owner opted in."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang that a pod belongs to."""

    gang: str
    """Unique in the cluster: namespace, name and, where there is one, the owner's uid."""
    job: str
    minimum: int = 1
    survives: Survives = Survives.LOST
    refusal: Reason | None = None
    """Why it cannot be placed as it stands."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: where such owners are found, and how many of an owner's pods start together.

    `minimum` answers None if each pod stands for itself.
    """

    path: str
    minimum: Callable[[Mapping[str, Any]], int | None]
    survives: Survives = Survives.RECREATED


Owners: TypeAlias = Callable[[OwnerRef, str], Owner | None]
"""Finds an owner that has been seen, by reference and namespace."""


def membership(pod: Pod, owners: Owners) -> Membership:
    """The gang of a pod, with what speaks against it."""
    meta, ref = pod.metadata, controller(pod.metadata)
    row = KINDS.get((ref.kind, _group(ref.api_version))) if ref else None
    survives = row.survives if row else _survives(ref)
    if name := mark(meta, GANG):
        return _labelled(meta, name, survives)
    if ref is None or row is None or not row.path:
        return _alone(meta, ref, survives)
    owner = owners(ref, meta.namespace)
    if owner is None:
        missing = Reason(Why.OWNER_UNSEEN, {"kind": ref.kind, "owner": ref.name})
        return Membership(_id(meta, ref.name, ref.uid), ref.name, 1, survives, missing)
    return _owned(pod, owner, row, ref)


def _labelled(meta: Meta, name: str, survives: Survives) -> Membership:
    gang = f"{meta.namespace}/{name}"
    written = mark(meta, MINIMUM)
    if not written:
        missing = Reason(
            Why.UNREADABLE,
            {
                "what": f"label {GANG} is set but {MINIMUM} is not; "
                "say there how many pods the gang starts with"
            },
        )
        return Membership(gang, name, 1, survives, missing)
    return _sized(Membership(gang, name, 1, survives), written)


def _owned(pod: Pod, owner: Owner, row: Kind, ref: OwnerRef) -> Membership:
    meta = pod.metadata
    written = mark(owner.metadata, MINIMUM) or mark(meta, MINIMUM)
    minimum = row.minimum(owner.spec)
    if minimum is None and not written:
        return _alone(meta, ref, row.survives)
    found = Membership(_id(meta, ref.name, ref.uid), ref.name, minimum or 1, row.survives)
    return _sized(found, written) if written else found


def _alone(meta: Meta, ref: OwnerRef | None, survives: Survives) -> Membership:
    return Membership(_id(meta, meta.name, meta.uid), ref.name if ref else meta.name, 1, survives)


def _sized(found: Membership, written: str) -> Membership:
    if not _is_size(written):
        what = f'{MINIMUM} is "{written[:40]}"; write a whole number from 1 to {MOST_MEMBERS}'
        refusal = Reason(Why.UNREADABLE, {"what": what})
        return Membership(found.gang, found.job, found.minimum, found.survives, refusal)
    return Membership(found.gang, found.job, int(written), found.survives)


def _is_size(written: str) -> bool:
    # the length first: thousands of digits are no number to Python
    is_short = len(written) <= len(str(MOST_MEMBERS))
    is_number = is_short and written.isascii() and written.isdecimal()
    return is_number and 1 <= int(written) <= MOST_MEMBERS


def _id(meta: Meta, name: str, uid: str) -> str:
    # names are recycled: the uid tells a gang from its namesake, eight digits of it are plenty
    return f"{meta.namespace}/{name}~{uid[:8]}"


def _survives(ref: OwnerRef | None) -> Survives:
    return Survives.RECREATED if ref is not None and ref.kind in _RECREATING else Survives.LOST


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _job(spec: Mapping[str, Any]) -> int | None:
    """An Indexed Job starts whole; the pods of any other come and go by themselves."""
    if spec.get("completionMode") != "Indexed":
        return None
    parallelism = cast(int, spec.get("parallelism", 1))
    completions = cast(int, spec.get("completions") or parallelism)
    return max(1, min(parallelism, completions))


KINDS: dict[tuple[str, str], Kind] = {
    ("Job", "batch"): Kind("/apis/batch/v1/jobs", _job),
}
_RECREATING = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})
"""Owners whose pods stand for themselves and are made again."""
