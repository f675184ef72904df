"""What one viewer gets of what the board shows: everything, or what is left of it for them.

Who may see everything shares the bytes that the board has made. For others documents are made
again with less in them, in turn and with pauses (`pace.py`), and shared by those who may see the
same.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from windlass.model.viewers import CannotAsk, Viewer
from windlass.web.auth.authentication import AccessDenied
from windlass.web.auth.authorization import AccessRights, Names, VisibleScope
from windlass.web.documents.cache import ServedDocument
from windlass.web.documents.decisions import first_gangs
from windlass.web.documents.jobs import Lists, ListWindow
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.live_state import LiveState
from windlass.web.feed.replay_source import CannotTell, ReplaySource
from windlass.web.feed.throttle import WorkThrottle
from windlass.web.feed.view import ClusterView
from windlass.web.redact.documents import (
    names_in_cycle,
    names_in_look,
    names_in_room,
    veil_cycle,
    veil_job,
    veil_jobs,
    veil_look,
    veil_queues,
    veil_room,
    veil_short,
)
from windlass.web.redact.gpu_map import veil_map
from windlass.web.schema.cycles import CycleDocument, Cycles, DecisionsDocument
from windlass.web.schema.documents import ClusterDocument, QueuesDocument, RoomDocument, Stamp

MOST_KEPT = 8
"""Documents that were made for some viewers and may serve others."""
NOT_YET = "Nothing has been decided yet; ask again in a moment."


Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class VersionedDocument:
    """A document, and a word that differs whenever it does."""

    body: bytes
    tag: str


class ViewReader:
    """Reads the board for everybody, or for viewers."""

    def __init__(self, board: LiveState, rights: AccessRights | None = None) -> None:
        self._board, self._rights = board, rights
        self._pace, self._back = WorkThrottle(), WorkThrottle()
        self._kept: dict[tuple[str, VisibleScope], tuple[Stamp, Any]] = {}
        self._names: dict[str, tuple[Stamp, Names]] = {}

    @property
    def kept(self) -> int:
        """How many documents wait for others who may see the same."""
        return len(self._kept)

    async def document(
        self, viewer: Viewer | None, name: str, since: str = ""
    ) -> VersionedDocument:
        """One of the documents, or what has changed in it; whole for who may not see all of it."""
        look = self._look()
        if await self._sees_all(viewer):
            return await _whole(lambda: self._board.pages.answer(name, since))
        names = await self._names_of(name, look)
        view = await self._view(viewer, names)
        body = await self._shared(
            name, view, look, lambda: self._made(name, look, view, _hidden(names, view))
        )
        return VersionedDocument(body, f"{look.stamp.tag}-{_digest(view)}")

    async def jobs(self, viewer: Viewer | None, window: ListWindow) -> VersionedDocument:
        """A window of the lists of jobs."""
        if await self._sees_all(viewer):
            return await _whole(lambda: self._board.pages.jobs(window))
        lists, view, hidden = await self._lists(viewer)
        made = await asyncio.to_thread(lists.document, window)
        return VersionedDocument(
            _encode(veil_jobs(made, view, hidden)), f"{lists.stamp.tag}-{_digest(view)}"
        )

    async def job(self, viewer: Viewer | None, gang: str) -> VersionedDocument | None:
        """One gang; None if it is not known, or not to this viewer."""
        self._look()
        if await self._sees_all(viewer):
            found = await asyncio.to_thread(self._board.pages.job, gang)
            return VersionedDocument(found.body, found.tag) if found else None
        lists, view, hidden = await self._lists(viewer)
        made = await asyncio.to_thread(lists.one, gang)
        if made is None:
            return None
        return VersionedDocument(
            _encode(veil_job(made, view, hidden)), f"{lists.stamp.tag}-{_digest(view)}"
        )

    async def _lists(self, viewer: Viewer | None) -> tuple[Lists, VisibleScope, frozenset[str]]:
        look = self._look()
        names = names_in_look(look)
        view = await self._view(viewer, names)

        def made() -> Lists:
            seen, members = veil_look(look, view), GangMemberIndex()
            members.follow(seen)
            return Lists(seen, members)

        lists = await self._shared("jobs", view, look, made)
        return lists, view, _hidden(names, view)

    async def _shared(
        self, name: str, view: VisibleScope, look: ClusterView, make: Callable[[], Any]
    ) -> Any:
        """What was made for who may see the same of this moment, or is made now."""
        known = self._kept.pop((name, view), None)
        if known is None or known[0] != look.stamp:
            known = (look.stamp, await self._pace.do(make))
        self._kept[name, view] = known
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return known[1]

    def _look(self) -> ClusterView:
        shown = self._board.pages.shown
        if shown is None:
            raise AccessDenied(503, NOT_YET)
        return shown.look

    async def cycle(self, viewer: Viewer | None, number: int) -> bytes | None:
        """One remembered cycle."""
        body = self._board.cycle(number)
        if body is None or await self._sees_all(viewer):
            return body
        document = _cycle.decode(body)
        names = self._with_queues(names_in_cycle(document))
        view = await self._view(viewer, names)
        return _encode(veil_cycle(document, view, _hidden(names, view)))

    async def recorded(self, viewer: Viewer | None, since: int | None, until: int | None) -> bytes:
        """Recorded cycles in short."""
        record = await self._record(viewer)
        return _encode(await self._told(lambda: record.window(since, until)))

    async def recorded_cycle(self, viewer: Viewer | None, key: str) -> bytes | None:
        """One recorded cycle; None if it is not kept."""
        record = await self._record(viewer)
        found = await self._told(lambda: record.cycle(key))
        return found and _encode(found)

    async def _told(self, ask: Callable[[], Told]) -> Told:
        """What the record answers, in a line of its own: it may take long."""
        try:
            return await self._back.do(ask)
        except CannotTell as error:
            raise AccessDenied(503, str(error)) from None

    async def _record(self, viewer: Viewer | None) -> ReplaySource:
        """What is recorded is not taken apart for who may see only a part of it."""
        if not await self._sees_all(viewer):
            raise AccessDenied(403, "Only who may see everything can look further back than this.")
        if self._board.recorded is None:
            raise AccessDenied(
                404, "Nothing is recorded here; `history.url` says where it would be."
            )
        return self._board.recorded

    async def room(self, viewer: Viewer | None, gang: str) -> bytes | None:
        """What it would take to make room for a gang; None if it does not wait, for this viewer."""
        if await self._sees_all(viewer):
            return await self._answer(gang)
        own = Names(frozenset({gang.partition("/")[0]}))
        if not (await self._view(viewer, own)).sees_gang(gang):
            return None
        body = await self._answer(gang)
        if body is None:
            return None
        document = msgspec.json.decode(body, type=RoomDocument)
        names = self._with_queues(names_in_room(document))
        view = await self._view(viewer, names)
        return _encode(veil_room(document, view, _hidden(names, view)))

    async def _answer(self, gang: str) -> bytes | None:
        # the cluster stands still meanwhile: so not one question after the other without a pause
        return await self._pace.do(lambda: self._board.room(gang))

    async def _sees_all(self, viewer: Viewer | None) -> bool:
        return self._rights is None or (await self._view(viewer, Names())).is_whole

    async def _view(self, viewer: Viewer | None, names: Names) -> VisibleScope:
        assert self._rights is not None
        if viewer is None:
            return VisibleScope(frozenset(), frozenset(), nodes=False)
        try:
            return await self._rights.view(viewer, names)
        except CannotAsk as error:
            raise AccessDenied(503, f"What you may see is not known now: {error}.") from None

    async def _names_of(self, name: str, look: ClusterView) -> Names:
        known = self._names.get(name)
        if known is None or known[0] != look.stamp:
            names = self._with_queues(await self._pace.do(lambda: self._read(name, look)))
            self._names[name] = known = (look.stamp, names)
        return known[1]

    def _with_queues(self, names: Names) -> Names:
        """Also all queues that there are: a sentence may speak of any of them."""
        shown = self._board.pages.shown
        there = frozenset(shown.look.queues) if shown else frozenset[str]()
        return Names(names.namespaces, names.queues | there)

    def _read(self, name: str, look: ClusterView) -> Names:
        if name == "decisions":
            return _all_names(names_in_cycle(each) for each in self._cycles().values())
        return names_in_look(look)

    def _made(
        self, name: str, look: ClusterView, view: VisibleScope, hidden: Collection[str]
    ) -> bytes:
        if name == "decisions":
            return _encode(self._decisions(look, view, hidden))
        found = self._board.pages.answer(name)
        assert found is not None  # something is shown
        return _encode(_VEILS[name](_DECODERS[name].decode(found.body), view))

    def _decisions(
        self, look: ClusterView, view: VisibleScope, hidden: Collection[str]
    ) -> DecisionsDocument:
        cycles = [veil_cycle(each, view, hidden) for each in self._cycles().values()]
        shorts = [veil_short(each) for each in cycles]
        return DecisionsDocument(
            look.stamp,
            Cycles(
                cycle=[each.cycle for each in cycles],
                at=[each.at for each in cycles],
                bound=[each[0] for each in shorts],
                evicted=[each[1] for each in shorts],
                held=[each[2] for each in shorts],
                waiting=[sum(why.gangs for why in each.waiting) for each in cycles],
                gangs=[first_gangs(each) for each in cycles],
            ),
            is_recorded=False,
        )

    def _cycles(self) -> dict[int, CycleDocument]:
        bodies = {each.cycle: self._board.cycle(each.cycle) for each in self._board.cycles()}
        return {number: _cycle.decode(body) for number, body in bodies.items() if body}


async def _whole(ask: Callable[[], ServedDocument | None]) -> VersionedDocument:
    """Made in a thread of its own, so that others are served meanwhile."""
    found = await asyncio.to_thread(ask)
    if found is None:
        raise AccessDenied(503, NOT_YET)
    return VersionedDocument(found.body, found.tag)


def _hidden(names: Names, view: VisibleScope) -> frozenset[str]:
    return frozenset(each for each in names.queues if not view.sees_queue(each))


def _all_names(some: Any) -> Names:
    found = list[Names](some)
    namespaces = frozenset[str]().union(*(each.namespaces for each in found))
    return Names(namespaces, frozenset[str]().union(*(each.queues for each in found)))


def _digest(view: VisibleScope) -> str:
    """The same for all who may see the same."""
    parts = [view.namespaces, view.queues]
    told = [None if part is None else sorted(part) for part in parts]
    return hashlib.sha256(_encode([*told, view.nodes])).hexdigest()[:16]


_encode = msgspec.json.Encoder().encode
_cycle = msgspec.json.Decoder(CycleDocument)
_DECODERS: dict[str, Any] = {
    "cluster": msgspec.json.Decoder(ClusterDocument),
    "queues": msgspec.json.Decoder(QueuesDocument),
}
_VEILS: dict[str, Callable[[Any, VisibleScope], Any]] = {"cluster": veil_map, "queues": veil_queues}
