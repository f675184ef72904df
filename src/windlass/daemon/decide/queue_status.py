"""The status of Queue objects: written when it changes and once in a while, read by a new leader.

The usage ledger is kept there, so that past usage counts for every leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from windlass.controllers.queue_status import queue_numbers
from windlass.crds.base import StatusCondition
from windlass.crds.definitions import QUEUE
from windlass.crds.queue_status import queue_status, read_ledger
from windlass.crds.queue_validation import (
    QueueVerdict,
    ready_condition,
    unreadable_verdict,
    validate_queues,
)
from windlass.crds.read import read_queue
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
class StatusWrite:
    """A status to write, and the path of its object."""

    path: str
    status: dict[str, Any]


@dataclass(slots=True)
class _QueueStatusWritten:
    """A Queue object, and the status that was written last."""

    object: wire.Owner
    queue: Queue | None
    complaints: tuple[str, ...]
    written: dict[str, Any]
    written_at: int


class QueueStatuses:
    """All Queue objects, and the status that was written last on each."""

    def __init__(self) -> None:
        self._objects: dict[str, _QueueStatusWritten] = {}

    def read(self, owner: wire.Owner) -> None:
        """Take note of an object that is new or has changed."""
        name = owner.metadata.name
        read = read_queue(name, owner.spec)
        before = self._objects.get(name)
        queue = read.value.queue if read.value else before.queue if before else None
        written, at = (before.written, before.written_at) if before else (_steady(owner.status), 0)
        self._objects[name] = _QueueStatusWritten(owner, queue, read.complaints, written, at)

    def lose(self, name: str) -> None:
        """Forget an object that was deleted."""
        self._objects.pop(name, None)

    def restore(self, cluster: Cluster) -> None:
        """Put the usage in the statuses into the ledger of the cluster."""
        half_life_s = cluster.settings.half_life_s
        for name, known in sorted(self._objects.items()):
            for used in read_ledger(known.object.status.get("ledger"), half_life_s, cluster.now):
                holder = Holder(name, used.user, used.model)
                cluster.ledger.restore(holder, used.milli_seconds, cluster.now)

    def due(self, cluster: Cluster, plan: Plan) -> list[StatusWrite]:
        """Return the statuses to write now."""
        now = cluster.now
        waiting = [
            name for name, known in self._objects.items() if now >= known.written_at + SOONEST_S
        ]
        if not waiting:
            return []
        numbers = queue_numbers(cluster, plan)
        verdicts = self._verdicts()
        due: list[StatusWrite] = []
        for name in sorted(waiting):
            known = self._objects[name]
            if name not in numbers:
                continue
            ready = ready_condition(
                verdicts[name],
                _generation(known),
                units.format_timestamp(now),
                ready_in(known.object.status),
            )
            status = queue_status(numbers[name], now, _generation(known), [ready]).as_json()
            if _steady(status) != known.written or now >= known.written_at + LATEST_S:
                known.written, known.written_at = _steady(status), now
                due.append(StatusWrite(QUEUE.path(name, sub="status"), status))
        return due

    def _verdicts(self) -> dict[str, QueueVerdict]:
        # the oldest first: of queues that ask for too much together, the newest gets the verdict
        queues = sorted(self._objects.items(), key=lambda each: (_age(each[1]), each[0]))
        verdicts = validate_queues([known.queue for _, known in queues if known.queue is not None])
        for name, known in queues:
            if known.complaints:
                verdicts[name] = unreadable_verdict(known.complaints)
        return verdicts


def _steady(status: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key not in _MOVES_ALWAYS}


def _age(known: _QueueStatusWritten) -> str:
    return known.object.metadata.creation_timestamp or ""


def _generation(known: _QueueStatusWritten) -> int:
    return known.object.metadata.generation


def ready_in(status: dict[str, Any]) -> StatusCondition | None:
    """Return the condition `Ready` of a status; None if it has none."""
    conditions = cast(list[dict[str, Any]], status.get("conditions") or [])
    for each in conditions:
        if each.get("type") == "Ready":
            return StatusCondition.model_validate(each)
    return None
