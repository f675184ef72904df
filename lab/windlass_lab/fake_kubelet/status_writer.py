"""Pod statuses and removals on their way to the API server.

The latest status of a pod wins: a status that has not been sent when the next one comes is merged
with it. A fixed number of workers send, and never two about one pod, so that statuses arrive in
order. Writes of a node that is cut off are parked until the node is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from windlass.kube.client import Api, ApiError, Conflict, Forbidden, Invalid, NotFound, Patch
from windlass_lab.fake_kubelet.pod_lifecycle import Write
from windlass_lab.fake_kubelet.wire import Pod

log = logging.getLogger(__name__)

_CONFLICTS = 3
_SHORTEST_S, _LONGEST_S = 0.1, 5.0


class StatusWriter:
    """Sends the latest status of each pod, and removes pods that are over."""

    def __init__(self, api: Api, workers: int, is_away: Callable[[str], bool]) -> None:
        self.rejected: list[str] = []
        """The writes that the API server refused, as sentences; there should be none."""
        self._api = api
        self._workers = workers
        self._is_away = is_away
        self._wanted: dict[str, Write] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._busy: set[str] = set()
        self._parked: dict[str, set[str]] = {}
        self._failures: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def order(self, write: Write) -> None:
        """Queue a write."""
        uid = write.pod.metadata.uid
        earlier = self._wanted.get(uid)
        if earlier is None:
            self._wanted[uid] = write
        else:
            status = earlier.status if write.status is None else write.status
            self._wanted[uid] = Write(write.pod, status, earlier.remove or write.remove)
        if earlier is None and uid not in self._busy:
            self._enqueue(uid)

    def unpark(self, node: str) -> None:
        """Send the writes that waited for a node that is back."""
        for uid in self._parked.pop(node, ()):
            self._enqueue(uid)

    def forget(self, node: str) -> None:
        """Drop the writes of a node that is gone for good."""
        for uid in self._parked.pop(node, ()):
            self._wanted.pop(uid, None)

    async def wait_idle(self) -> None:
        """Wait until everything is written but parked writes."""
        await self._idle.wait()

    @property
    def is_busy(self) -> bool:
        """Return whether a request is under way."""
        return bool(self._busy)

    async def run(self) -> None:
        """Send for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            write = self._wanted.pop(uid, None)
            if write is not None:
                await self._handle(uid, write)
            if not self._busy and len(self._wanted) == sum(map(len, self._parked.values())):
                self._idle.set()

    async def _handle(self, uid: str, write: Write) -> None:
        node = write.pod.spec.node_name
        if self._is_away(node):
            self._wanted[uid] = write
            self._parked.setdefault(node, set()).add(uid)
            return
        self._busy.add(uid)
        try:
            await self._send(write)
            self._failures.pop(uid, None)
        except ApiError as error:
            self._failed(uid, write, error)
        finally:
            self._busy.discard(uid)
            if uid in self._wanted and uid not in self._failures:
                self._enqueue(uid)

    async def _send(self, write: Write) -> None:
        meta = write.pod.metadata
        try:
            if write.status is not None:
                # With the uid in it, the patch cannot hit a successor of the same name.
                body = {"metadata": {"uid": meta.uid}, "status": write.status}
                await self._api.patch(f"{path(write.pod)}/status", body, kind=Patch.STRATEGIC)
            if write.remove:
                await self._api.delete(path(write.pod), _at_once(meta.uid))
        except NotFound:
            pass  # somebody was quicker
        except Invalid as error:
            if "metadata.uid" not in error.message:
                raise  # else it is a successor of the same name

    def _failed(self, uid: str, write: Write, error: ApiError) -> None:
        tries = self._failures[uid] = self._failures.get(uid, 0) + 1
        is_final = isinstance(error, Invalid | Forbidden)
        if is_final or (isinstance(error, Conflict) and tries >= _CONFLICTS):
            del self._failures[uid]
            if is_final:
                meta = write.pod.metadata
                self.rejected.append(f"pod {meta.namespace}/{meta.name}: {error}")
                log.error("The API server would not have the status of %s", self.rejected[-1])
            return
        later = self._wanted.get(uid)
        self._wanted[uid] = write
        if later is not None:
            self._wanted[uid] = Write(
                later.pod, later.status or write.status, later.remove or write.remove
            )
        delay = min(_LONGEST_S, _SHORTEST_S * 2**tries)
        asyncio.get_running_loop().call_later(delay, self._enqueue, uid)

    def _enqueue(self, uid: str) -> None:
        self._idle.clear()
        self._queue.put_nowait(uid)


def path(pod: Pod) -> str:
    """Return the API path of the pod."""
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _at_once(uid: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": uid},
    }
