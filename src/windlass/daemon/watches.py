"""All that is read of a cluster: one watch for each kind, also for kinds that come later.

Kinds of our own and of Kubernetes itself must be there before anything is decided. Owners of pods
whose kind the cluster does not know are not missed; if it is installed later, it is read then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from windlass.daemon.brain import Lost, Piece, Seen
from windlass.kube.client import Api
from windlass.kube.errors import ApiError
from windlass.kube.mirror import key_of
from windlass.kube.watch import Change, Gone, Watch
from windlass.workloads import wire
from windlass.workloads.kinds import KINDS

NEEDED: dict[str, tuple[str, type[Any]]] = {
    "namespaces": ("/api/v1/namespaces", wire.Owner),
    "queues": ("/apis/windlass.dev/v1alpha1/queues", wire.Owner),
    "topologies": ("/apis/windlass.dev/v1alpha1/topologies", wire.Owner),
    "policies": ("/apis/windlass.dev/v1alpha1/policies", wire.Owner),
    "budgets": ("/apis/policy/v1/poddisruptionbudgets", wire.Owner),
    "nodes": ("/api/v1/nodes", wire.Node),
    "pods": ("/api/v1/pods", wire.Pod),
}
OWNERS = {kind: row.path for (kind, _), row in KINDS.items()}
FRESH_S = 90.0
"""A watch of which nothing was heard for longer is not trusted; bookmarks come every minute."""
LOOK_AGAIN_S = 30.0


class _Group(msgspec.Struct):
    name: str
    versions: list[dict[str, str]]


class _Groups(msgspec.Struct):
    groups: list[_Group]


class Watches:
    """Watches everything, and hands on what it sees."""

    def __init__(self, api: Api, see: Callable[[list[Piece]], None], chance: Random) -> None:
        self._api, self._see, self._chance = api, see, chance
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

    def is_news(self, pod: wire.Pod) -> bool:
        """Does a pod that was read say more than the watch has told, and is it still there?"""
        known: wire.Pod | None = self._watches["pods"].items.get(key_of(pod))
        return (
            known is not None
            and known.metadata.uid == pod.metadata.uid
            and int(known.metadata.resource_version) < int(pod.metadata.resource_version)
        )

    async def _look_for_kinds(self, group: asyncio.TaskGroup) -> None:
        try:
            found = msgspec.json.decode(await self._api.get("/apis"), type=_Groups)
        except ApiError:
            return  # the watches say what is wrong
        served = {version["groupVersion"] for each in found.groups for version in each.versions}
        for kind, path in OWNERS.items():
            is_served = "/".join(path.split("/")[2:4]) in served
            if is_served and kind not in self._watches:
                self._open(group, kind, path, wire.Owner)
        self._is_open = True

    def _open(self, group: asyncio.TaskGroup, kind: str, path: str, struct: type[Any]) -> None:
        self._watches[kind] = watch = Watch(self._api, path, struct, chance=self._chance)
        group.create_task(watch.run(self._sink(kind)))

    def _sink(self, kind: str) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            if kind == "budgets":
                return  # asked for, never told: see has_budget
            self._see(
                [
                    Lost(kind, each.object) if isinstance(each, Gone) else Seen(kind, each.object)
                    for each in changes
                ]
            )

        return take


def in_order(pieces: list[Piece]) -> list[Piece]:
    """The pieces in the order in which they are understood best: owners and then pods last."""
    order = ["namespaces", "queues", "topologies", "policies", "nodes", *OWNERS, "pods"]
    rank = {kind: at for at, kind in enumerate(order)}
    return sorted(
        pieces, key=lambda each: rank[each.kind] if isinstance(each, Seen | Lost) else len(rank)
    )


def _advice(path: str) -> str:
    if "windlass.dev" in path:
        return "; if the CRDs are missing, apply what `windlass crds` prints"
    return ""
