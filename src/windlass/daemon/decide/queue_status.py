"""The status of Queue objects: written when it changes and once in a while, read by a new leader.

The usage ledger is kept there, so that past usage counts for every leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from windlass.controllers.queue_status import queue_numbers
from windlass.crds.base import StatusCondition
from windlass.crds.definitions import QUEUE
from windlass.crds.ledger import read_ledger
from windlass.crds.queue_validation import QueueVerdict, condition, judge, unreadable
from windlass.crds.read import read_queue
from windlass.crds.status import queue_status
from windlass.engine.plan import Plan
from windlass.model import units
from windlass.model.queues import Queue
from windlass.state.cluster import Cluster
from windlass.usage.ledger import Holder
from windlass.workloads.objects import wire

SOONEST_S = 5
"""Seconds between two writes of one status, at least."""
LATEST_S = 60
"""Seconds after which a status is written although only usage has changed."""
_MOVES_ALWAYS = ("ledger", "usage")
"""Parts of a status that change by time alone: written with others, or after `LATEST_S`."""


@dataclass(frozen=True, slots=True)
class Written:
    """A status to write, and the path of its object."""

    path: str
    status: dict[str, Any]


@dataclass(slots=True)
class _QueueStatusWritten:
    """A Queue object, and the status that was written last."""

    object: wire.Owner
    queue: Queue | None
    complaints: tuple[str, ...]
    told: dict[str, Any]
    told_at: int


class QueueStatuses:
    """All Queue objects, and the status that was written last on each."""

    def __init__(self) -> None:
        self._files: dict[str, _QueueStatusWritten] = {}

    def read(self, found: wire.Owner) -> None:
        """Take note of an object that is new or has changed."""
        name = found.metadata.name
        read = read_queue(name, found.spec)
        before = self._files.get(name)
        queue = read.noun.queue if read.noun else before.queue if before else None
        told, at = (before.told, before.told_at) if before else (_steady(found.status), 0)
        self._files[name] = _QueueStatusWritten(found, queue, read.complaints, told, at)

    def lose(self, name: str) -> None:
        """Forget an object that was deleted."""
        self._files.pop(name, None)

    def restore(self, cluster: Cluster) -> None:
        """Put the usage in the statuses into the ledger of the cluster."""
        half_life_s = cluster.settings.half_life_s
        for name, file in sorted(self._files.items()):
            for used in read_ledger(file.object.status.get("ledger"), half_life_s, cluster.now):
                holder = Holder(name, used.user, used.model)
                cluster.ledger.restore(holder, used.milli_seconds, cluster.now)

    def due(self, cluster: Cluster, plan: Plan) -> list[Written]:
        """Return the statuses to write now."""
        now = cluster.now
        waiting = [name for name, file in self._files.items() if now >= file.told_at + SOONEST_S]
        if not waiting:
            return []
        numbers = queue_numbers(cluster, plan)
        verdicts = self._verdicts()
        found: list[Written] = []
        for name in sorted(waiting):
            file = self._files[name]
            if name not in numbers:
                continue
            ready = condition(
                verdicts[name],
                _generation(file),
                units.format_timestamp(now),
                ready_in(file.object.status),
            )
            status = queue_status(numbers[name], now, _generation(file), [ready]).as_json()
            if _steady(status) != file.told or now >= file.told_at + LATEST_S:
                file.told, file.told_at = _steady(status), now
                found.append(Written(QUEUE.path(name, sub="status"), status))
        return found

    def _verdicts(self) -> dict[str, QueueVerdict]:
        # the oldest first: of queues that ask for too much together, the newest gets the verdict
        files = sorted(self._files.items(), key=lambda each: (_age(each[1]), each[0]))
        verdicts = judge([file.queue for _, file in files if file.queue is not None])
        for name, file in files:
            if file.complaints:
                verdicts[name] = unreadable(file.complaints)
        return verdicts


def _steady(status: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key not in _MOVES_ALWAYS}


def _age(file: _QueueStatusWritten) -> str:
    return file.object.metadata.creation_timestamp or ""


def _generation(file: _QueueStatusWritten) -> int:
    return file.object.metadata.generation


def ready_in(status: dict[str, Any]) -> StatusCondition | None:
    """Return the condition `Ready` of a status; None if it has none."""
    conditions = cast(list[dict[str, Any]], status.get("conditions") or [])
    for each in conditions:
        if each.get("type") == "Ready":
            return StatusCondition.model_validate(each)
    return None
