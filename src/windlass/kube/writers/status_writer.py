"""Write conditions, Events and statuses, which people and autoscalers read.

These writes come after all others, and nothing depends on them. The conditions of one gang are one
entry of the write queue: once it has begun, no bind comes in between, so that an autoscaler that
gathers pods for a second sees all pods of the gang.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from windlass.kube.client import Api, ApiError, NotAllowed, Patch, Urgency, Write, WriteQueue
from windlass.kube.writers.binder import AGAIN, Binder
from windlass.kube.writers.conditions import (
    ConditionWrite,
    EventMessage,
    GangMessages,
    body_of,
    patch_of,
)
from windlass.model import units

AT_ONCE = 8
"""Conditions of one gang that are written concurrently."""
TRIES = 5
"""Attempts to write one condition. They are retried in place and not put back into the queue, so
that the pods of a gang stay together; after the last attempt the condition is left as it was."""


class StatusWriter:
    """Writes conditions, Events and statuses."""

    def __init__(self, api: Api, workers: WriteQueue, binder: Binder) -> None:
        self._api, self._workers, self._binder = api, workers, binder

    def messages(self, messages: GangMessages) -> None:
        """Write the conditions and the Event of one gang."""
        if messages.conditions:
            self._workers.put(Urgency.STATUS, self._conditions(messages.conditions))
        if messages.note is not None:
            self._put(self._event(messages.note))

    def status(self, path: str, status: dict[str, Any]) -> None:
        """Replace the status of an object; a merge patch would keep keys that are gone."""
        body = [{"op": "add", "path": "/status", "value": status}]

        async def write() -> None:
            await self._api.patch(path, body, kind=Patch.JSON)

        self._put(write)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Apply a strategic merge patch to an object, such as to its status and annotations."""

        async def write() -> None:
            await self._api.patch(path, body, kind=Patch.STRATEGIC)

        self._put(write)

    def _put(self, write: Write) -> None:
        self._workers.put(Urgency.STATUS, self._binder.repeated(Urgency.STATUS, write, _ignore))

    def _conditions(self, conditions: tuple[ConditionWrite, ...]) -> Write:
        async def write() -> None:
            left = list(reversed(conditions))

            async def work() -> None:
                while left:
                    await self._condition(left.pop())

            await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(left)))))

        return write

    async def _condition(self, condition: ConditionWrite) -> None:
        path = f"{condition.pod.path}/status"
        for attempt in range(TRIES):
            if self._binder.has_begun(condition.pod):
                return  # it is being bound: a late "waits" would overwrite the newer state
            try:
                body = patch_of(condition, units.format_timestamp(time.time()))
                await self._api.patch(path, body, kind=Patch.STRATEGIC)
            except AGAIN:
                await asyncio.sleep(0.1 * 2**attempt)
            except (ApiError, NotAllowed):
                return  # the pod is gone, or another process leads and writes it
            else:
                return

    def _event(self, note: EventMessage) -> Write:
        key = f"{time.time_ns():x}"

        async def write() -> None:
            body = body_of(note, units.format_timestamp(time.time()), key)
            await self._api.post(f"/api/v1/namespaces/{note.pod.namespace}/events", body)

        return write


def _ignore(_error: ApiError) -> None:
    """Do nothing: the object is gone and needs no status, or the next change writes it again."""
