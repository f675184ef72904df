"""The observed claims, volumes, classes and drivers, and the pods that depend on them.

Claims, volumes and classes may be observed after the pods that need them, or change: then those
pods are evaluated again. The volumes that a driver can attach to a node are counted like any other
resource of the node. A volume that several pods of a node share is counted once for each pod, which
is never too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from windlass.model.jobs import Shape, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.objects import (
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    Stored,
)
from windlass.workloads.pods import ONE_POD, VolumeNeeds, claims_of, needs_of

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
    """All observed storage objects, and the claims that each pod uses."""

    def __init__(self) -> None:
        self._claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._drivers: dict[str, CsiDriver] = {}
        self._room: dict[str, dict[ClaimKey, CsiCapacity]] = {}
        """The free capacity that drivers publish, by storage class."""
        self._limits: dict[str, dict[str, int]] = {}
        """The number of volumes that each driver can attach, by node."""
        self._limited: Counter[str] = Counter()
        """The drivers with limits, and on how many nodes; always the counts of `_limits`."""
        self._users: dict[TaskId, _ClaimUser] = {}
        self._used_by: dict[ClaimKey, set[TaskId]] = {}

    # -- observations

    def see(self, thing: Stored, *, gone: bool = False) -> Iterable[TaskId]:
        """Store or remove an object; return the tasks to evaluate again."""
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
        """Note that a pod uses its claims; return the tasks that wait for the same ones."""
        keys = tuple((pod.metadata.namespace, name) for name, _ in claims_of(pod))
        user = _ClaimUser(pod.metadata.name, keys, is_placed)
        if self._users.get(task) == user:
            return []
        self._users[task] = user
        for key in keys:
            self._used_by.setdefault(key, set()).add(task)
        return self._rivals(task, user)

    def forget(self, task: TaskId) -> list[TaskId]:
        """Forget a pod that is gone; return the tasks that waited for its claims."""
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

    # -- questions

    def needs(self, pod: Pod) -> VolumeNeeds:
        """Return the needs of the volumes of a pod."""
        return needs_of(pod, self)

    def limited(self) -> Set[str]:
        """Return the drivers that have a limit on some node."""
        return frozenset(self._limited)

    def limits(self, node: str) -> dict[str, int]:
        """Return the volumes that drivers can attach to a node, as resources.

        `LARGEST_AMOUNT` for a driver that has a limit only on other nodes.
        """
        there = self._limits.get(node, {})
        return {resource_of(each): there.get(each, LARGEST_AMOUNT) for each in self._limited}

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim; None if it was not observed."""
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume; None if it was not observed."""
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class; None if it was not observed."""
        return self._classes.get(name)

    def tracks_capacity(self, driver: str) -> bool:
        """Return whether the driver publishes its free capacity."""
        found = self._drivers.get(driver)
        return found is not None and bool(found.spec.storage_capacity)

    def capacities(self, storage_class: str) -> Iterable[CsiCapacity]:
        """Return the free capacity that drivers publish for a class, in a fixed order."""
        there = self._room.get(storage_class, {})
        return (there[key] for key in sorted(there))

    def has_limit(self, driver: str) -> bool:
        """Return whether the driver has a limit on some node."""
        return driver in self._limited

    def user_of(self, namespace: str, claim: str, but: Pod) -> str:
        """Return another pod that has the claim on a node, or comes first; empty if none does."""
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
        """Return the tasks that wait for a volume of a class: drivers publish capacity often."""
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
    """Return the name of the resource that counts the volumes of a driver on a node."""
    return f"volumes of {driver}"


def with_volumes(shape: Shape, needs: VolumeNeeds) -> Shape:
    """Return the shape of a pod with the needs of its volumes."""
    attached = Counter(resource_of(driver) for driver, _ in needs.attached)
    extra = tuple(sorted((*shape.request.extra, *attached.items())))
    return Shape(
        replace(shape.request, extra=extra),
        replace(shape.constraints, reach=tuple(needs.reach)),
    )


def refusal_of(needs: VolumeNeeds) -> Reason | None:
    """Return the reason why its volumes keep a pod waiting; None if they do not."""
    if needs.lacking:
        return Reason(ReasonCode.NO_VOLUME, {"what": needs.lacking})
    return Reason(ReasonCode.LEFT_OUT, {"what": needs.left_out}) if needs.left_out else None
