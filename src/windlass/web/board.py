"""What is shown now, and a bounded past of cycles: written by one thread, read by any.

Whoever runs cycles calls `note` after each one and `show` when it is worth a look. Documents are
made and encoded there and then, so a reader never touches a cluster that is being changed: it
takes finished bytes, which are replaced as a whole. Only questions about room are answered from
the cluster itself: so whoever changes it after it was shown holds `lock` meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

import msgspec

from windlass.engine.plan import Plan, Verdict
from windlass.model.jobs import GangId
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.web.asked import is_waiting
from windlass.web.bell import Bell
from windlass.web.cluster import cluster_document
from windlass.web.decisions import cycle_document
from windlass.web.documents import (
    CycleDocument,
    Cycles,
    DecisionsDocument,
    FinishedJob,
    RoomDocument,
    Stamp,
)
from windlass.web.jobs import jobs_document
from windlass.web.past import Book
from windlass.web.queues import queues_document
from windlass.web.tree import in_order

MOST_CYCLES = 600

Told: TypeAlias = Callable[[Cluster, Plan, GangId], Sequence[str]]
"""Says in sentences what it would take to make room for a gang."""


@dataclass(frozen=True, slots=True)
class Short:
    """A remembered cycle in numbers; GPUs in thousandths."""

    cycle: int
    at: int
    bound: int
    evicted: int
    held: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Shown:
    """One state of everything, ready to be sent."""

    stamp: Stamp
    documents: dict[str, bytes]


class Board:
    """The newest documents and the cycles before them."""

    def __init__(self, run: str, played: bool = False, tell_room: Told | None = None) -> None:
        self.bell = Bell()
        self.lock = Lock()
        self.shown: Shown | None = None
        self._seen: tuple[Cluster, Plan] | None = None
        self._tell_room = tell_room
        self._run = run
        self._played = played
        self._cycle = 0
        self._version = 0
        self._shorts: list[Short] = []
        self._cycles: dict[int, bytes] = {}
        self._held: frozenset[GangId] = frozenset()
        self._book = Book()

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Remember what a cycle did; the oldest is forgotten."""
        self._cycle += 1
        document = cycle_document(self._cycle, cluster, plan, self._held)
        self._held = frozenset(hold.gang for hold in plan.holds)
        self._cycles[self._cycle] = msgspec.json.encode(document)
        self._shorts.append(_short(document, sum(is_waiting(each) for each in plan.decisions)))
        if len(self._shorts) > MOST_CYCLES:
            del self._cycles[self._shorts.pop(0).cycle]
        self._book.note(cluster, plan)

    def show(
        self,
        cluster: Cluster,
        plan: Plan,
        away: Sequence[Node] = (),
        finished: Sequence[FinishedJob] = (),
    ) -> None:
        """Put everything up as it is now, and tell those who look."""
        self._version += 1
        stamp = Stamp(self._run, self._version, self._cycle, cluster.now, self._played)
        past = self._book.past(queue.name for queue, _ in in_order(cluster.queues))
        documents = {
            "cluster": cluster_document(stamp, cluster, plan, away),
            "queues": queues_document(stamp, cluster, plan, past),
            "jobs": jobs_document(stamp, cluster, plan, finished),
            "decisions": DecisionsDocument(stamp, _columns(self._shorts)),
        }
        encoded = {name: msgspec.json.encode(each) for name, each in documents.items()}
        self.shown, self._seen = Shown(stamp, encoded), (cluster, plan)
        self.bell.ring()

    def room(self, gang: str) -> bytes | None:
        """What it would take to make room for a gang; None if it does not wait for any."""
        with self.lock:
            if self._seen is None or self._tell_room is None:
                return None
            cluster, plan = self._seen
            waits = {each.gang for each in plan.decisions if each.verdict is Verdict.WAITS}
            if gang not in waits or gang not in cluster.gangs:
                return None
            sentences = list(self._tell_room(cluster, plan, GangId(gang)))
            return msgspec.json.encode(RoomDocument(gang, self._cycle, sentences))

    def cycles(self) -> list[Short]:
        """The remembered cycles in short, the oldest first."""
        return self._shorts.copy()

    def cycle(self, number: int) -> bytes | None:
        """One remembered cycle in full."""
        return self._cycles.get(number)


def _short(cycle: CycleDocument, waiting: int) -> Short:
    return Short(
        cycle=cycle.cycle,
        at=cycle.at,
        bound=sum(each.milli for each in cycle.placed),
        evicted=sum(each.milli for each in cycle.evicted),
        held=sum(each.milli for each in cycle.held),
        waiting=waiting,
    )


def _columns(shorts: Sequence[Short]) -> Cycles:
    return Cycles(
        cycle=[each.cycle for each in shorts],
        at=[each.at for each in shorts],
        bound=[each.bound for each in shorts],
        evicted=[each.evicted for each in shorts],
        held=[each.held for each in shorts],
        waiting=[each.waiting for each in shorts],
    )
