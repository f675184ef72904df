"""The documents for one viewer: the shared ones, or those of the viewer's own redacted view.

Viewers who may see everything share the bytes of the document cache. For the others the view is
redacted once per moment and scope, and documents are made of it, in turn and with pauses
(`feed/throttle.py`); viewers with the same scope share both.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from windlass.model.viewers import ReviewUnavailable, Viewer
from windlass.web.auth import AccessDenied, AccessRights, Names, VisibleScope
from windlass.web.documents import (
    JobLists,
    ListWindow,
    LiveState,
    ServedDocument,
    ShownMoment,
    decisions_document,
    summarize,
)
from windlass.web.feed import GangMemberIndex, ReplaySource, ReplayUnavailable, WorkThrottle
from windlass.web.redact.cycles import names_in_cycles, redact_cycle
from windlass.web.redact.text import names_in_room, redact_room
from windlass.web.redact.view import ViewRedactor, names_in_view
from windlass.web.schema import CycleDocument, DecisionsDocument, RoomDocument, Stamp

MOST_KEPT = 8
"""The documents, and as many views, that were made for some viewers and may serve others."""
NOT_YET = "Nothing has been decided yet; ask again in a moment."


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class VersionedDocument:
    """A document, and a tag that differs whenever the document does."""

    body: bytes
    tag: str


class ViewReader:
    """Answers requests of viewers; each sees only what the rights of the viewer allow."""

    def __init__(self, board: LiveState, rights: AccessRights | None = None) -> None:
        self._board, self._rights = board, rights
        self._pace, self._replay_pace = WorkThrottle(), WorkThrottle()
        self._redactor = ViewRedactor()
        self._views = _MomentCache(MOST_KEPT, self._pace)
        """The redacted moments, by scope."""
        self._documents = _MomentCache(MOST_KEPT, self._pace)
        """The documents that were made of them, by name and scope."""
        self._names: dict[str, tuple[Stamp, Names]] = {}

    @property
    def kept(self) -> int:
        """The number of documents that are kept for other viewers with the same scope."""
        return len(self._documents)

    # -- the present

    async def document(
        self, viewer: Viewer | None, name: str, since: str = ""
    ) -> VersionedDocument:
        """Return a document; its delta since a tag only if the viewer may see everything."""
        whole = self._shown()
        if await self._sees_all(viewer):
            return await _whole(lambda: self._board.documents.answer(name, since))
        names = await self._names_of(name, whole)
        scope = await self._scope(viewer, names)
        if name == "decisions":
            hidden = _hidden(names, scope)
            make = partial(self._decisions, whole.view.stamp, scope, hidden)
        else:
            seen = await self._seen(scope, whole)
            make = partial(self._board.documents.make, name, whole, seen)
        body = await self._documents.get((name, scope), whole.view.stamp, lambda: _encode(make()))
        return VersionedDocument(body, f"{whole.view.stamp.tag}-{_digest(scope)}")

    async def jobs(self, viewer: Viewer | None, window: ListWindow) -> VersionedDocument:
        """Return a window of the lists of jobs."""
        if await self._sees_all(viewer):
            return await _whole(lambda: self._board.documents.jobs(window))
        lists, scope = await self._lists(viewer)
        document = await asyncio.to_thread(lists.document, window)
        return VersionedDocument(_encode(document), f"{lists.stamp.tag}-{_digest(scope)}")

    async def job(self, viewer: Viewer | None, gang: str) -> VersionedDocument | None:
        """Return the document of one gang; None if it is unknown, or hidden from the viewer."""
        self._shown()
        if await self._sees_all(viewer):
            served = await asyncio.to_thread(self._board.documents.job, gang)
            return VersionedDocument(served.body, served.tag) if served else None
        lists, scope = await self._lists(viewer)
        document = await asyncio.to_thread(lists.one, gang)
        if document is None:
            return None
        return VersionedDocument(_encode(document), f"{lists.stamp.tag}-{_digest(scope)}")

    async def _lists(self, viewer: Viewer | None) -> tuple[JobLists, VisibleScope]:
        whole = self._shown()
        scope = await self._scope(viewer, await self._names_of("jobs", whole))
        seen = await self._seen(scope, whole)

        def make() -> JobLists:
            members = GangMemberIndex()
            members.follow(seen.view)
            return JobLists(seen.view, members)

        return await self._documents.get(("jobs", scope), whole.view.stamp, make), scope

    async def _seen(self, scope: VisibleScope, whole: ShownMoment) -> ShownMoment:
        """Return the part of a moment that is in the scope, redacted once for all documents."""
        return await self._views.get(
            scope, whole.view.stamp, lambda: self._redactor.redact_shown(whole, scope)
        )

    def _shown(self) -> ShownMoment:
        shown = self._board.documents.shown
        if shown is None:
            raise AccessDenied(503, NOT_YET)
        return shown

    # -- remembered and recorded cycles

    async def cycle(self, viewer: Viewer | None, number: int) -> bytes | None:
        """Return one remembered cycle; None if it is forgotten."""
        body = self._board.cycle(number)
        if body is None or await self._sees_all(viewer):
            return body
        document = _cycle_decoder.decode(body)
        names = self._with_all_queues(names_in_cycles([document]))
        scope = await self._scope(viewer, names)
        return _encode(redact_cycle(document, scope, _hidden(names, scope)))

    async def recorded(self, viewer: Viewer | None, since: int | None, until: int | None) -> bytes:
        """Return recorded cycles in short."""
        record = await self._record(viewer)
        return _encode(await self._replay(lambda: record.window(since, until)))

    async def recorded_cycle(self, viewer: Viewer | None, key: str) -> bytes | None:
        """Return one recorded cycle; None if it is not kept."""
        record = await self._record(viewer)
        document = await self._replay(lambda: record.cycle(key))
        return document and _encode(document)

    async def _replay(self, ask: Callable[[], Answer]) -> Answer:
        """Ask the record, throttled apart from the rest because it may take long."""
        try:
            return await self._replay_pace.do(ask)
        except ReplayUnavailable as error:
            raise AccessDenied(503, str(error)) from None

    async def _record(self, viewer: Viewer | None) -> ReplaySource:
        """Return the record; it is not redacted, so only for viewers who may see everything."""
        if not await self._sees_all(viewer):
            raise AccessDenied(
                403, "Only viewers who may see everything can look further back than this."
            )
        if self._board.recorded is None:
            raise AccessDenied(
                404, "Nothing is recorded here; `history.url` says where it would be."
            )
        return self._board.recorded

    def _decisions(
        self, stamp: Stamp, scope: VisibleScope, hidden: Collection[str]
    ) -> DecisionsDocument:
        """Make the list of remembered cycles; the numbers count only what the scope shows."""
        cycles = [redact_cycle(cycle, scope, hidden) for cycle in self._cycles()]
        shorts = [
            summarize(cycle, waiting=sum(count.gangs for count in cycle.waiting))
            for cycle in cycles
        ]
        # The record of older cycles is not redacted, so it is not offered.
        return decisions_document(stamp, shorts, is_recorded=False)

    def _cycles(self) -> list[CycleDocument]:
        bodies = (self._board.cycle(short.cycle) for short in self._board.cycles())
        return [_cycle_decoder.decode(body) for body in bodies if body]

    # -- room

    async def room(self, viewer: Viewer | None, gang: str) -> bytes | None:
        """Return what it would take to make room for a gang.

        None if the gang does not wait, or the viewer may not see it.
        """
        if await self._sees_all(viewer):
            return await self._room(gang)
        own = Names(frozenset({gang.partition("/")[0]}))
        if not (await self._scope(viewer, own)).sees_gang(gang):
            return None
        body = await self._room(gang)
        if body is None:
            return None
        document = msgspec.json.decode(body, type=RoomDocument)
        names = self._with_all_queues(names_in_room(document))
        scope = await self._scope(viewer, names)
        return _encode(redact_room(document, scope, _hidden(names, scope)))

    async def _room(self, gang: str) -> bytes | None:
        # The cluster is locked meanwhile, so questions are throttled like all other work.
        return await self._pace.do(lambda: self._board.room(gang))

    # -- rights

    async def _sees_all(self, viewer: Viewer | None) -> bool:
        return self._rights is None or (await self._scope(viewer, Names())).is_whole

    async def _scope(self, viewer: Viewer | None, names: Names) -> VisibleScope:
        """Return the part of these names that the viewer may see."""
        assert self._rights is not None
        if viewer is None:
            return VisibleScope(frozenset(), frozenset(), nodes=False)
        try:
            return await self._rights.scope(viewer, names)
        except ReviewUnavailable as error:
            raise AccessDenied(503, f"What you may see is not known now: {error}.") from None

    async def _names_of(self, name: str, whole: ShownMoment) -> Names:
        """Return the names that need a right: those of the view, or those of all cycles."""
        if name != "decisions":
            name = "view"
        cached = self._names.get(name)
        if cached is None or cached[0] != whole.view.stamp:
            names = self._with_all_queues(await self._pace.do(lambda: self._read(name, whole)))
            self._names[name] = cached = (whole.view.stamp, names)
        return cached[1]

    def _read(self, name: str, whole: ShownMoment) -> Names:
        if name == "decisions":
            return names_in_cycles(self._cycles())
        return names_in_view(whole.view)

    def _with_all_queues(self, names: Names) -> Names:
        """Add all queues of the newest view: a sentence may name any of them."""
        shown = self._board.documents.shown
        queues = frozenset(shown.view.queues) if shown else frozenset[str]()
        return Names(names.namespaces, names.queues | queues)


class _MomentCache:
    """The values of the newest moments, by key; the least recently used is dropped first."""

    def __init__(self, most: int, pace: WorkThrottle) -> None:
        self._most, self._pace = most, pace
        self._kept: dict[Hashable, tuple[Stamp, Any]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: Hashable, stamp: Stamp, make: Callable[[], Any]) -> Any:
        """Return the value of this moment; make it, in a thread and in turn, if it is not kept."""
        cached = self._kept.pop(key, None)
        if cached is None or cached[0] != stamp:
            cached = (stamp, await self._pace.do(make))
        self._kept[key] = cached
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return cached[1]


async def _whole(ask: Callable[[], ServedDocument | None]) -> VersionedDocument:
    """Make a shared document in a thread, so that the event loop serves others meanwhile."""
    served = await asyncio.to_thread(ask)
    if served is None:
        raise AccessDenied(503, NOT_YET)
    return VersionedDocument(served.body, served.tag)


def _hidden(names: Names, scope: VisibleScope) -> frozenset[str]:
    return frozenset(queue for queue in names.queues if not scope.sees_queue(queue))


def _digest(scope: VisibleScope) -> str:
    """Return a tag that is equal for all viewers with the same scope."""
    parts = [scope.namespaces, scope.queues]
    sorted_parts = [None if part is None else sorted(part) for part in parts]
    return hashlib.sha256(_encode([*sorted_parts, scope.nodes])).hexdigest()[:16]


_encode = msgspec.json.Encoder().encode
_cycle_decoder = msgspec.json.Decoder(CycleDocument)
