"""The documents of the newest moment: made on the first request, once for all who request them.

A request waits for the document that another request is making already. The scheduler does not use
this cache, so a request cannot delay it; without requests no document is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from windlass.web.documents.decisions import CycleSummary, decisions_document
from windlass.web.documents.gpu_map import GpuMap
from windlass.web.documents.jobs import JobLists, ListWindow
from windlass.web.documents.queues import QueueTable, in_tree_order, queue_table, queues_document
from windlass.web.feed import (
    ClusterView,
    DeltaTrail,
    GangMemberIndex,
    TimeseriesSample,
    as_bytes,
    past_of,
)
from windlass.web.schema import Stamp


@dataclass(frozen=True, slots=True)
class ShownMoment:
    """Everything that the documents of one moment are made of.

    `redact_shown` makes the one of a viewer who may not see everything.
    """

    view: ClusterView
    samples: Sequence[TimeseriesSample]
    cycles: Sequence[CycleSummary]


@dataclass(frozen=True, slots=True)
class ServedDocument:
    """A document as it is sent, and the tag that names it."""

    tag: str
    body: bytes


class DocumentCache:
    """Makes documents, one moment after the other, and keeps the state that makes the next cheap.

    All state below `_lock` follows the whole cluster. Redacted documents are made of the same state
    (`make`), with the names of the redacted view only.
    """

    def __init__(self) -> None:
        self.shown: ShownMoment | None = None
        """The newest moment; replaced as a whole, by the thread of the scheduler."""
        self._lock = Lock()
        self._map = GpuMap()
        self._members = GangMemberIndex()
        self._lists: JobLists | None = None
        self._queues: tuple[Stamp, QueueTable] | None = None
        self._trails = {name: DeltaTrail() for name in ("cluster", "queues", "decisions")}
        self.is_recorded = False
        """True: a record reaches further back than the cycles that are shown."""
        self._followed: set[str] = set()
        """The documents that were requested since `prepare` was called last."""

    def answer(self, name: str, since: str = "") -> ServedDocument | None:
        """Return a whole document, or its delta since the one with that tag; None before any."""
        with self._lock:
            shown, trail = self.shown, self._trails[name]
            if shown is None:
                return None
            self._followed.add(name)
            self._bring_up(name, shown)
            return ServedDocument(trail.tag, trail.answer(since))

    def prepare(self) -> None:
        """Make the documents that viewers follow, before they are told of the new moment."""
        with self._lock:
            followed, self._followed = self._followed, set()
            for name in sorted(followed):
                if self.shown is not None:
                    self._bring_up(name, self.shown)

    def make(self, name: str, whole: ShownMoment, seen: ShownMoment) -> object:
        """Make a document of `seen`: a whole moment, or the redacted part of it for a viewer."""
        with self._lock:
            return self._make(name, whole, seen)

    def jobs(self, window: ListWindow) -> ServedDocument | None:
        """Return a window of the lists of jobs; None before the first moment."""
        with self._lock:
            lists = self._newest_lists()
            return lists and ServedDocument(lists.stamp.tag, as_bytes(lists.document(window)))

    def job(self, gang: str) -> ServedDocument | None:
        """Return the document of one gang; None if it is in no list."""
        with self._lock:
            lists = self._newest_lists()
            document = lists and lists.one(gang)
            return document and ServedDocument(document.stamp.tag, as_bytes(document))

    def _bring_up(self, name: str, shown: ShownMoment) -> None:
        tag = shown.view.stamp.tag
        if self._trails[name].tag != tag:
            self._trails[name].put(tag, self._make(name, shown, shown))

    def _make(self, name: str, whole: ShownMoment, seen: ShownMoment) -> object:
        """Make a document; the map and the sums follow `whole`, all names come from `seen`."""
        if name == "cluster":
            self._map.follow(whole.view)
            return self._map.draw(seen.view)
        if name == "decisions":
            return decisions_document(seen.view.stamp, seen.cycles, self.is_recorded)
        names = [queue.name for queue, _ in in_tree_order(seen.view.queues)]
        return queues_document(seen.view, self._queue_table(whole), past_of(seen.samples, names))

    def _queue_table(self, whole: ShownMoment) -> QueueTable:
        """Return the numbers of all queues at this moment, computed once for all viewers."""
        if self._queues is None or self._queues[0] != whole.view.stamp:
            self._members.follow(whole.view)
            self._queues = whole.view.stamp, queue_table(whole.view, self._members)
        return self._queues[1]

    def _newest_lists(self) -> JobLists | None:
        shown = self.shown
        if shown is None:
            return None
        if self._lists is None or self._lists.stamp != shown.view.stamp:
            self._members.follow(shown.view)
            self._lists = JobLists(shown.view, self._members)
        return self._lists
