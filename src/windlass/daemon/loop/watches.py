"""All that is read of a cluster: one watch for each kind, also for kinds that come later.

Kinds of our own and of Kubernetes itself must be there before anything is decided. Owners of pods
whose kind the cluster does not know are not missed; if it is installed later, it is read then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from windlass.daemon.decide.inputs import StepInput
from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError, NotFound
from windlass.kube.client.object_cache import key_of
from windlass.kube.client.watch import Change, ObjectGone, Watch
from windlass.kube.refs import Lost, ObjectObserved, PodRef
from windlass.kube.writers.disruption_budgets import allow
from windlass.workloads.kinds.table import KINDS, Kinds
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
    """Where the owners of pods are read, by kind."""
    return {str(key): row.path for key, row in kinds.items() if row.path}


OWNERS = paths_of(KINDS)
FRESH_S = 90.0
"""A watch of which nothing was heard for longer is not trusted; bookmarks come every minute."""
LOOK_AGAIN_S = 30.0


class _Group(msgspec.Struct):
    name: str
    versions: list[dict[str, str]]


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource]


class Watches:
    """Watches everything, and hands on what it sees."""

    def __init__(
        self,
        api: Api,
        see: Callable[[list[StepInput]], None],
        chance: Random,
        owners: Mapping[str, str] = OWNERS,
    ) -> None:
        self._api, self._see, self._chance, self._owners = api, see, chance, owners
        self._watches: dict[str, Watch[Any]] = {}
        self._is_open = False

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            for kind, (path, struct) in NEEDED.items():
                self._open(group, kind, path, struct)
            while True:
                await self._look_for_kinds(group)
                await asyncio.sleep(LOOK_AGAIN_S if self._is_open else 0.5)

    def are_open(self) -> bool:
        """Has everything been read that was there at the start?"""
        return self._is_open and all(each.synced.is_set() for each in self._watches.values())

    def trouble(self) -> str:
        """What cannot be read, in a sentence; empty if everything can."""
        for kind, watch in self._watches.items():
            if watch.trouble is not None:
                return f"{kind} cannot be read: {watch.trouble.message}{_advice(watch.path)}"
            if not watch.synced.is_set():
                return f"{kind} have not all been read yet"
            if time.monotonic() - watch.fresh_at > FRESH_S:
                return f"nothing was heard about {kind} for {FRESH_S:.0f} s"
        return "" if self._is_open else "it is not known yet what kinds of jobs there are"

    def has_budget(self, namespace: str) -> bool:
        """Are there disruption budgets in this namespace?"""
        return any(there == namespace for there, _ in self._watches["budgets"].items)

    def spares(self, pods: Sequence[PodRef]) -> bool:
        """May all these pods of one namespace go at once, by what its budgets say?"""
        namespace = pods[0].namespace
        budgets = [
            b for (there, _), b in self._watches["budgets"].items.items() if there == namespace
        ]
        known = self._watches["pods"].items
        found = (known.get((each.namespace, each.name)) for each in pods)
        return allow(budgets, [pod.metadata.labels or {} for pod in found if pod])

    def is_news(self, pod: wire.Pod) -> bool:
        """Does a pod that was read say more than the watch has told, and is it still there?"""
        known: wire.Pod | None = self._watches["pods"].items.get(key_of(pod))
        return (
            known is not None
            and known.metadata.uid == pod.metadata.uid
            and int(known.metadata.resource_version) < int(pod.metadata.resource_version)
        )

    async def _look_for_kinds(self, group: asyncio.TaskGroup) -> None:
        """Watch the owners that the cluster knows; of an API group it may know only some kinds."""
        unwatched = {k: path for k, path in self._owners.items() if k not in self._watches}
        try:
            served = await self._served({path.rpartition("/")[0] for path in unwatched.values()})
        except ApiError:
            return  # the watches say what is wrong
        for kind, path in unwatched.items():
            if path in served:
                self._open(group, kind, path, wire.Owner)
        self._is_open = True

    async def _served(self, places: set[str]) -> set[str]:
        """The paths of all kinds that are served at these versions of API groups."""
        found = msgspec.json.decode(await self._api.get("/apis"), type=_Groups)
        versions = {
            f"/apis/{each['groupVersion']}" for part in found.groups for each in part.versions
        }
        paths: set[str] = set()
        for place in sorted(places & versions):
            with suppress(NotFound):  # it went away meanwhile
                listed = msgspec.json.decode(await self._api.get(place), type=_Resources)
                paths |= {f"{place}/{each.name}" for each in listed.resources}
        return paths

    def _open(self, group: asyncio.TaskGroup, kind: str, path: str, struct: type[Any]) -> None:
        self._watches[kind] = watch = Watch(self._api, path, struct, chance=self._chance)
        group.create_task(watch.run(self._sink(kind)))

    def _sink(self, kind: str) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            if kind == "budgets":
                return  # asked for, never told: see has_budget
            self._see(
                [
                    Lost(kind, each.object)
                    if isinstance(each, ObjectGone)
                    else ObjectObserved(kind, each.object)
                    for each in changes
                ]
            )

        return take


def in_order(pieces: list[StepInput]) -> list[StepInput]:
    """The pieces in the order in which they are understood best: owners and then pods last."""
    stored = ("csidrivers", "csicapacities", "csinodes", "storageclasses", "volumes", "claims")
    first = ("namespaces", "queues", "topologies", "policies", "priorities", *stored, "nodes")
    rank = {kind: at for at, kind in enumerate(first)} | {"pods": len(first) + 1}
    return sorted(
        pieces,
        key=lambda each: (
            rank.get(each.kind, len(first))
            if isinstance(each, ObjectObserved | Lost)
            else len(first) + 2
        ),
    )


def _advice(path: str) -> str:
    if "windlass.dev" in path:
        return "; if the CRDs are missing, apply what `windlass crds` prints"
    return ""
