"""What was seen of storage, and which pods depend on it.

Claims, volumes and classes may come after the pods that need them, or change: then those pods are
looked at again. What drivers can attach to a node is counted like any other resource of the node;
a volume that several pods of a node share is counted once for each, which is never too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from windlass.model.jobs import Shape, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.objects.storage_wire import (
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Stored,
)
from windlass.workloads.objects.wire import Pod
from windlass.workloads.pods.volumes import ONE_POD, Needs, claims_of, needs_of

K = TypeVar("K")
V = TypeVar("V")
ClaimKey: TypeAlias = tuple[str, str]
"""A namespace and a name in it."""


@dataclass(frozen=True, slots=True)
class _ClaimUser:
    """A pod that uses claims."""

    name: str
    claims: tuple[ClaimKey, ...]
    is_placed: bool


class Storage:
    """The book of storage."""

    def __init__(self) -> None:
        self._claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._drivers: dict[str, CsiDriver] = {}
        self._room: dict[str, dict[ClaimKey, CsiCapacity]] = {}
        """Per class, what drivers say about it."""
        self._limits: dict[str, dict[str, int]] = {}
        """Per node, how many volumes each driver attaches."""
        self._limited: Counter[str] = Counter()
        """The drivers that have limits, and on how many nodes."""
        self._users: dict[TaskId, _ClaimUser] = {}
        self._used_by: dict[ClaimKey, set[TaskId]] = {}

    # -- told

    def see(self, thing: Stored, *, gone: bool = False) -> Iterable[TaskId]:
        """Something is new, has changed or is gone; answers which pods to look at again."""
        name, key = thing.metadata.name, (thing.metadata.namespace, thing.metadata.name)
        match thing:
            case PersistentVolumeClaim():
                _put(self._claims, key, None if gone else thing)
                return sorted(self._used_by.get(key, ()))
            case PersistentVolume():
                _put(self._volumes, name, None if gone else thing)
                return self._bound_to(name)
            case StorageClass():
                _put(self._classes, name, None if gone else thing)
                return sorted(self._users)
            case CsiDriver():
                _put(self._drivers, name, None if gone else thing)
                return sorted(self._users)
            case CsiNode():
                return self._limit(name, CsiNode() if gone else thing)
            case CsiCapacity():
                there = self._room.setdefault(thing.storage_class_name, {})
                _put(there, key, None if gone else thing)
                return self._unbound(thing.storage_class_name)
            case _:
                return ()

    def use(self, task: TaskId, pod: Pod, is_placed: bool) -> list[TaskId]:
        """A pod uses its claims, and has a node or not; answers who waits for the same ones."""
        keys = tuple((pod.metadata.namespace, name) for name, _ in claims_of(pod))
        user = _ClaimUser(pod.metadata.name, keys, is_placed)
        if self._users.get(task) == user:
            return []
        self._users[task] = user
        for key in keys:
            self._used_by.setdefault(key, set()).add(task)
        return self._rivals(task, user)

    def forget(self, task: TaskId) -> list[TaskId]:
        """A pod is gone; answers who waited for its claims."""
        user = self._users.pop(task, None)
        if user is None:
            return []
        rivals = self._rivals(task, user)
        for key in user.claims:
            there = self._used_by.get(key, set())
            there.discard(task)
            if not there:
                self._used_by.pop(key, None)
        return rivals

    # -- asked

    def needs(self, pod: Pod) -> Needs:
        """What the volumes of a pod ask for."""
        return needs_of(pod, self)

    def limited(self) -> Set[str]:
        """The drivers that have a limit on some node."""
        return frozenset(self._limited)

    def limits(self, node: str) -> dict[str, int]:
        """What drivers attach to a node, as resources of it; MOST where there is no limit."""
        there = self._limits.get(node, {})
        return {resource_of(each): there.get(each, LARGEST_AMOUNT) for each in self._limited}

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim that has been seen."""
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume that has been seen."""
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        """A class that has been seen."""
        return self._classes.get(name)

    def tracks_capacity(self, driver: str) -> bool:
        """Does the driver say where it has how much room?"""
        found = self._drivers.get(driver)
        return found is not None and bool(found.spec.storage_capacity)

    def capacities(self, storage_class: str) -> Iterable[CsiCapacity]:
        """What drivers say about the room for volumes of a class, in order."""
        there = self._room.get(storage_class, {})
        return (there[key] for key in sorted(there))

    def has_limit(self, driver: str) -> bool:
        """Is there a node to which the driver attaches only so many volumes?"""
        return driver in self._limited

    def user_of(self, namespace: str, claim: str, but: Pod) -> str:
        """Another pod that has the claim on its node, or comes first; empty if none does."""
        others = [
            (not user.is_placed, user.name)
            for task in self._used_by.get((namespace, claim), ())
            if (user := self._users[task]).name != but.metadata.name
        ]
        first = min(others, default=(True, ""))
        comes_first = not first[0] or "" < first[1] < but.metadata.name
        return first[1] if comes_first else ""

    def _limit(self, node: str, found: CsiNode) -> list[TaskId]:
        before = self.limited()
        counts = {
            each.name: each.allocatable.count
            for each in found.spec.drivers or ()
            if each.allocatable and each.allocatable.count is not None
        }
        limited = self._limited + Counter(counts.keys())
        self._limited = limited - Counter(self._limits.pop(node, {}).keys())
        if counts:
            self._limits[node] = counts
        return sorted(self._users) if self.limited() != before else []

    def _bound_to(self, volume: str) -> list[TaskId]:
        return sorted(
            task
            for key, tasks in self._used_by.items()
            if (claim := self._claims.get(key)) and claim.spec.volume_name == volume
            for task in tasks
        )

    def _unbound(self, storage_class: str) -> list[TaskId]:
        """Who waits for a volume of a class; drivers often say anew how much room they have."""
        return sorted(
            task
            for key, tasks in self._used_by.items()
            if (claim := self._claims.get(key))
            and not claim.spec.volume_name
            and claim.spec.storage_class_name == storage_class
            for task in tasks
        )

    def _rivals(self, task: TaskId, user: _ClaimUser) -> list[TaskId]:
        for_one = [
            key
            for key in user.claims
            if (claim := self._claims.get(key)) and ONE_POD in (claim.spec.access_modes or ())
        ]
        return sorted({each for key in for_one for each in self._used_by.get(key, ())} - {task})


def _put(book: dict[K, V], key: K, thing: V | None) -> None:
    if thing is None:
        book.pop(key, None)
    else:
        book[key] = thing


def resource_of(driver: str) -> str:
    """What the places for a driver's volumes are called among a node's resources."""
    return f"volumes of {driver}"


def with_volumes(shape: Shape, needs: Needs) -> Shape:
    """The shape of a pod whose volumes ask for this besides."""
    attached = Counter(resource_of(driver) for driver, _ in needs.attached)
    extra = tuple(sorted((*shape.request.extra, *attached.items())))
    return Shape(
        replace(shape.request, extra=extra),
        replace(shape.constraints, reach=tuple(needs.reach)),
    )


def refusal_of(needs: Needs) -> Reason | None:
    """What its volumes keep a pod waiting for."""
    if needs.lacking:
        return Reason(ReasonCode.NO_VOLUME, {"what": needs.lacking})
    return Reason(ReasonCode.LEFT_OUT, {"what": needs.left_out}) if needs.left_out else None
