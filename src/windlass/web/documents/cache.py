"""The documents of the newest moment: made when somebody asks, once, for all who ask.

Whoever asks waits for what another has made them make already. Nothing here is known to the
scheduler, so nothing here can hold it up, and nobody asking costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from windlass.web.documents.gpu_map import GpuMap
from windlass.web.documents.jobs import Lists, ListWindow
from windlass.web.documents.queues import queues_document
from windlass.web.documents.tree import in_order
from windlass.web.feed.deltas import as_bytes
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.timeseries import TimeseriesSample, past_of
from windlass.web.feed.trail import DeltaTrail
from windlass.web.feed.view import ClusterView
from windlass.web.schema.cycles import Cycles, DecisionsDocument


@dataclass(frozen=True, slots=True)
class Short:
    """A remembered cycle in numbers; GPUs in thousandths."""

    cycle: int
    at: int
    bound: int
    evicted: int
    held: int
    waiting: int
    gangs: list[str]
    """The first few that it did something with."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A moment, and what is remembered of those before."""

    look: ClusterView
    samples: Sequence[TimeseriesSample]
    cycles: Sequence[Short]


@dataclass(frozen=True, slots=True)
class ServedDocument:
    """A document as it is sent, and which one it is."""

    tag: str
    body: bytes


class Pages:
    """Makes documents, one moment after the other, and remembers what the next one needs."""

    def __init__(self) -> None:
        self.shown: Shown | None = None
        """The newest moment; replaced as a whole, by the thread that shows."""
        self._lock = Lock()
        self._map = GpuMap()
        self._members = GangMemberIndex()
        self._lists: Lists | None = None
        self._trails = {name: DeltaTrail() for name in ("cluster", "queues", "decisions")}
        self.is_recorded = False
        """Is there a record that reaches further back than the cycles that are shown?"""
        self._followed: set[str] = set()
        """What somebody has asked for since the last moment was prepared."""

    def answer(self, name: str, since: str = "") -> ServedDocument | None:
        """A document, or what has changed in it since the one with that tag."""
        with self._lock:
            shown, trail = self.shown, self._trails[name]
            if shown is None:
                return None
            self._followed.add(name)
            self._bring_up(name, shown)
            return ServedDocument(trail.tag, trail.answer(since))

    def prepare(self) -> None:
        """Make what is followed before anybody is told that there is something new."""
        with self._lock:
            followed, self._followed = self._followed, set()
            for name in sorted(followed):
                if self.shown is not None:
                    self._bring_up(name, self.shown)

    def jobs(self, window: ListWindow) -> ServedDocument | None:
        """A window of the lists of jobs."""
        with self._lock:
            lists = self._lists_now()
            return lists and ServedDocument(lists.stamp.tag, as_bytes(lists.document(window)))

    def job(self, gang: str) -> ServedDocument | None:
        """One gang; None if it is in no list."""
        with self._lock:
            lists = self._lists_now()
            found = lists and lists.one(gang)
            return found and ServedDocument(found.stamp.tag, as_bytes(found))

    def _bring_up(self, name: str, shown: Shown) -> None:
        tag = shown.look.stamp.tag
        if self._trails[name].tag != tag:
            self._trails[name].put(tag, self._made(name, shown))

    def _made(self, name: str, shown: Shown) -> object:
        look = shown.look
        if name == "cluster":
            return self._map.document(look)
        if name == "decisions":
            return DecisionsDocument(look.stamp, _columns(shown.cycles), self.is_recorded)
        self._members.follow(look)
        names = (queue.name for queue, _ in in_order(look.queues))
        return queues_document(look, self._members, past_of(shown.samples, names))

    def _lists_now(self) -> Lists | None:
        shown = self.shown
        if shown is None:
            return None
        if self._lists is None or self._lists.stamp != shown.look.stamp:
            self._members.follow(shown.look)
            self._lists = Lists(shown.look, self._members)
        return self._lists


def _columns(shorts: Sequence[Short]) -> Cycles:
    return Cycles(
        cycle=[each.cycle for each in shorts],
        at=[each.at for each in shorts],
        bound=[each.bound for each in shorts],
        evicted=[each.evicted for each in shorts],
        held=[each.held for each in shorts],
        waiting=[each.waiting for each in shorts],
        gangs=[each.gangs for each in shorts],
    )
