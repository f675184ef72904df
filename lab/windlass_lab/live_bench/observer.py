"""The observer of a measurement: when each pod is bound, refused or running, seen on its own watch.

It does not use what a scheduler says of itself. Times are those of the wall clock, because they are
compared with times in logs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress

import msgspec

from windlass.kube.client import Api, Change, Key, ObjectGone, Watch
from windlass_lab.control_plane.errors import LabError

PATIENCE_S = 180.0
"""The seconds without any change after which nothing more is expected."""
QUIET_S = 2.0
"""The seconds of silence that end a measurement; longer than Windlass delays a message before
writing it."""
POLL_S = 0.1


class ObservedStruct(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of all structs: unknown fields are skipped."""


class ObservedMeta(ObservedStruct, frozen=True):
    """The identity of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Spec(ObservedStruct, frozen=True):
    """The node of a pod."""

    node_name: str = ""


class ObservedCondition(ObservedStruct, frozen=True):
    """One condition of a pod."""

    type: str
    status: str


class ObservedStatus(ObservedStruct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    conditions: list[ObservedCondition] = []


class ObservedPod(ObservedStruct, frozen=True):
    """A pod."""

    metadata: ObservedMeta
    spec: Spec = Spec()
    status: ObservedStatus = ObservedStatus()


@asynccontextmanager
async def watching(api: Api) -> AsyncGenerator[Eyes]:
    """Watch all pods while the context is open; it opens when all existing pods have been seen."""
    eyes = Eyes(api)
    task = asyncio.create_task(eyes.run())
    try:
        await eyes.watch.synced.wait()
        yield eyes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Eyes:
    """The times at which each pod was first seen bound, refused and running."""

    def __init__(self, api: Api) -> None:
        self.bound: dict[Key, float] = {}
        self.nodes: dict[Key, str] = {}
        self.refused: dict[Key, float] = {}
        self.running: set[Key] = set()
        self.changed_at = 0.0
        self.watch = Watch(api, "/api/v1/pods", ObservedPod)
        self._api = api
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Watch for ever."""
        await self.watch.run(self._see)

    async def wait_bound(self, keys: Collection[Key]) -> float:
        """Wait until all of these are bound, and return the time of the last bind."""
        await self._wait(keys, self.bound, "bound")
        return max(self.bound[key] for key in keys)

    def count_bound(self, keys: Iterable[Key]) -> int:
        """Return how many of these are bound."""
        return sum(key in self.bound for key in keys)

    async def wait_running(self, keys: Collection[Key]) -> None:
        """Wait until all of these run."""
        await self._wait(keys, self.running, "running")

    async def wait_refused(self, keys: Collection[Key]) -> list[float]:
        """Wait until each of these has a refusal, and return the times in order."""
        await self._wait(keys, self.refused, "told that they cannot be placed")
        return sorted(self.refused[key] for key in keys)

    async def wait_quiet(self) -> float:
        """Wait until no pod changes and no Event comes any more, and return the time of the last
        change."""
        count, at = await self._count_events(), self.changed_at
        while time.time() - max(at, self.changed_at) < QUIET_S:
            await asyncio.sleep(POLL_S)
            found = await self._count_events()
            if found != count:
                count, at = found, time.time()
        return max(at, self.changed_at)

    async def _wait(self, keys: Collection[Key], seen: Collection[Key], what: str) -> None:
        left = set(keys).difference(seen)
        while left:
            self._news.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._news.wait()
            except TimeoutError:
                first = "/".join(min(left))
                raise LabError(
                    f"{len(left)} of {len(keys)} pods, such as {first}, are not {what}, and "
                    f"nothing has happened for {PATIENCE_S:.0f} s; look into the scheduler's log"
                ) from None
            left.difference_update(seen)

    def _see(self, changes: list[Change[ObservedPod]]) -> None:
        now = time.time()
        for change in changes:
            if not isinstance(change, ObjectGone):
                self._see_pod(change.object, now)
        self.changed_at = now
        self._news.set()

    def _see_pod(self, pod: ObservedPod, now: float) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        if pod.spec.node_name and key not in self.bound:
            self.bound[key], self.nodes[key] = now, pod.spec.node_name
        if pod.status.phase == "Running":
            self.running.add(key)
        if key not in self.refused and any(_refuses(each) for each in pod.status.conditions):
            self.refused[key] = now

    async def _count_events(self) -> int:
        """Return the number of Events: one is read, and the server says how many remain."""
        found = _count.decode(await self._api.get("/api/v1/events", {"limit": "1"}))
        return len(found.items) + found.metadata.remaining_item_count


class _ObservedListMeta(ObservedStruct, frozen=True):
    remaining_item_count: int = 0


class _Count(ObservedStruct, frozen=True):
    metadata: _ObservedListMeta
    items: list[msgspec.Raw]


_count = msgspec.json.Decoder(_Count)


def _refuses(condition: ObservedCondition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "False"


Say = Callable[[str], None]
"""A callback for progress messages."""
