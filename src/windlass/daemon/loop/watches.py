"""The watches of a term: one for each kind, also for kinds that are installed later.

Our own kinds and those of Kubernetes itself must be read before anything is decided. The kinds of
pod owners (job kinds) are optional: those that the cluster does not serve are not waited for, and a
kind that is installed later is watched from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from windlass.daemon.decide import StepInput
from windlass.kube.client import Api, ApiError, Change, NotFound, ObjectGone, Watch, key_of
from windlass.kube.refs import ObjectLost, ObjectObserved, PodRef
from windlass.kube.writers import allow
from windlass.workloads.kinds import KINDS, Kinds
from windlass.workloads.objects import storage_wire, wire

NEEDED: dict[str, tuple[str, type[Any]]] = {
    "namespaces": ("/api/v1/namespaces", wire.Owner),
    "queues": ("/apis/windlass.dev/v1alpha1/queues", wire.Owner),
    "topologies": ("/apis/windlass.dev/v1alpha1/topologies", wire.Owner),
    "policies": ("/apis/windlass.dev/v1alpha1/policies", wire.Owner),
    "Gang.windlass.dev": ("/apis/windlass.dev/v1alpha1/gangs", wire.Owner),
    "priorities": ("/apis/scheduling.k8s.io/v1/priorityclasses", wire.PriorityClass),
    "budgets": ("/apis/policy/v1/poddisruptionbudgets", wire.Owner),
    "claims": ("/api/v1/persistentvolumeclaims", storage_wire.PersistentVolumeClaim),
    "volumes": ("/api/v1/persistentvolumes", storage_wire.PersistentVolume),
    "storageclasses": ("/apis/storage.k8s.io/v1/storageclasses", storage_wire.StorageClass),
    "csidrivers": ("/apis/storage.k8s.io/v1/csidrivers", storage_wire.CsiDriver),
    "csicapacities": ("/apis/storage.k8s.io/v1/csistoragecapacities", storage_wire.CsiCapacity),
    "csinodes": ("/apis/storage.k8s.io/v1/csinodes", storage_wire.CsiNode),
    "nodes": ("/api/v1/nodes", wire.NodeObject),
    "pods": ("/api/v1/pods", wire.Pod),
}


def paths_of(kinds: Kinds) -> dict[str, str]:
    """Return the API paths of the kinds of pod owners, by kind."""
    return {str(key): row.path for key, row in kinds.items() if row.path}


OWNERS = paths_of(KINDS)
FRESH_S = 90.0
"""A watch that has received nothing for longer is reported; bookmarks come every minute."""
LOOK_AGAIN_S = 30.0
"""The interval at which newly installed job kinds are looked for."""


class _ApiGroup(msgspec.Struct):
    name: str
    versions: list[dict[str, str]]


class _ApiGroupList(msgspec.Struct):
    groups: list[_ApiGroup]


class _ApiResource(msgspec.Struct):
    name: str


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource]


class Watches:
    """Watches all kinds, and passes every change on as an input of the scheduler step."""

    def __init__(
        self,
        api: Api,
        see: Callable[[list[StepInput]], None],
        chance: Random,
        owners: Mapping[str, str] = OWNERS,
    ) -> None:
        self._api, self._see, self._chance, self._owners = api, see, chance, owners
        self._watches: dict[str, Watch[Any]] = {}
        """The open watches by kind; entries are never removed."""
        self._is_open = False
        """The job kinds that the cluster serves have been discovered at least once."""

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, (path, struct) in NEEDED.items():
                self._open(group, kind, path, struct)
            while True:
                await self._discover_owner_kinds(group)
                await asyncio.sleep(LOOK_AGAIN_S if self._is_open else 0.5)

    def are_open(self) -> bool:
        """Return whether all objects that existed at the start have been read."""
        return self._is_open and all(watch.synced.is_set() for watch in self._watches.values())

    def trouble(self) -> str:
        """Return which kind cannot be read and why, in a sentence; empty if all can be read."""
        for kind, watch in self._watches.items():
            if watch.trouble is not None:
                return f"{kind} cannot be read: {watch.trouble.message}{_advice(watch.path)}"
            if not watch.synced.is_set():
                return f"{kind} have not all been read yet"
            if time.monotonic() - watch.fresh_at > FRESH_S:
                return f"nothing was heard about {kind} for {FRESH_S:.0f} s"
        return "" if self._is_open else "it is not known yet what kinds of jobs there are"

    def has_budget(self, namespace: str) -> bool:
        """Return whether there are disruption budgets in this namespace."""
        return any(place == namespace for place, _ in self._watches["budgets"].items)

    def budgets_allow(self, pods: Sequence[PodRef]) -> bool:
        """Return whether the budgets of their namespace allow that all these pods go at once."""
        namespace = pods[0].namespace
        budgets = [
            budget
            for (place, _), budget in self._watches["budgets"].items.items()
            if place == namespace
        ]
        cached = self._watches["pods"].items
        objects = (cached.get((ref.namespace, ref.name)) for ref in pods)
        return allow(budgets, [pod.metadata.labels or {} for pod in objects if pod])

    def is_news(self, pod: wire.Pod) -> bool:
        """Return whether a pod that was read is newer than the watched one, and still exists."""
        cached: wire.Pod | None = self._watches["pods"].items.get(key_of(pod))
        return (
            cached is not None
            and cached.metadata.uid == pod.metadata.uid
            and int(cached.metadata.resource_version) < int(pod.metadata.resource_version)
        )

    async def _discover_owner_kinds(self, group: asyncio.TaskGroup) -> None:
        """Watch the job kinds that the cluster serves and that are not watched yet.

        A cluster may serve only some kinds of an API group.
        """
        unwatched = {k: path for k, path in self._owners.items() if k not in self._watches}
        try:
            served = await self._served({path.rpartition("/")[0] for path in unwatched.values()})
        except ApiError:
            return  # the watches report what is wrong
        for kind, path in unwatched.items():
            if path in served:
                self._open(group, kind, path, wire.Owner)
        self._is_open = True

    async def _served(self, places: set[str]) -> set[str]:
        """Return the paths of all kinds that are served at these versions of API groups."""
        listed = msgspec.json.decode(await self._api.get("/apis"), type=_ApiGroupList)
        versions = {
            f"/apis/{version['groupVersion']}"
            for group in listed.groups
            for version in group.versions
        }
        paths: set[str] = set()
        for place in sorted(places & versions):
            with suppress(NotFound):  # it was removed meanwhile
                kinds = msgspec.json.decode(await self._api.get(place), type=_ApiResourceList)
                paths |= {f"{place}/{resource.name}" for resource in kinds.resources}
        return paths

    def _open(self, group: asyncio.TaskGroup, kind: str, path: str, struct: type[Any]) -> None:
        self._watches[kind] = watch = Watch(self._api, path, struct, chance=self._chance)
        group.create_task(watch.run(self._sink(kind)))

    def _sink(self, kind: str) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            if kind == "budgets":
                return  # no input of the step: `has_budget` and `budgets_allow` read the cache
            self._see(
                [
                    ObjectLost(kind, change.object)
                    if isinstance(change, ObjectGone)
                    else ObjectObserved(kind, change.object)
                    for change in changes
                ]
            )

        return take


def sort_inputs(inputs: list[StepInput]) -> list[StepInput]:
    """Return the inputs of a first read in the order of their dependencies.

    Settings and nodes come first, then owners, then pods: so each object is translated once, and
    not again when an object arrives to which it refers.
    """
    stored = ("csidrivers", "csicapacities", "csinodes", "storageclasses", "volumes", "claims")
    first = ("namespaces", "queues", "topologies", "policies", "priorities", *stored, "nodes")
    rank = {kind: at for at, kind in enumerate(first)} | {"pods": len(first) + 1}
    return sorted(
        inputs,
        key=lambda item: (
            rank.get(item.kind, len(first))
            if isinstance(item, ObjectObserved | ObjectLost)
            else len(first) + 2
        ),
    )


def _advice(path: str) -> str:
    if "windlass.dev" in path:
        return "; if the CRDs are missing, apply what `windlass crds` prints"
    return ""
