"""Keeps a mirror of the objects of one kind, and tells what changes in it.

    list ──> follow ──┬─ clean end, silence, lost connection ──> follow again from the last version
     ^                └─ 410, an ERROR event, no JSON ─────────┐
     └─────────────────────────────────────────────────────────┘

The list comes as the first part of the watch where the server offers that, else in pages. A server
ends every watch now and then, and cuts those that read too slowly, without a word: that is no error
and costs no new list. Bookmarks come about once a minute, so a longer silence means that nobody is
there. Waits between attempts grow and are jittered.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import Generic

from windlass.kube.client import errors
from windlass.kube.client.backoff import Backoff
from windlass.kube.client.client import Api
from windlass.kube.client.decode import (
    Added,
    Bookmark,
    Deleted,
    KindDecoder,
    ListPage,
    Modified,
    Unreadable,
    WatchFailure,
)
from windlass.kube.client.lines import Lines
from windlass.kube.client.object_cache import (
    Change,
    Key,
    ObjectCache,
    ObjectGone,
    ObjectSeen,
    T,
    key_of,
)

__all__ = ["Change", "Key", "ObjectGone", "ObjectSeen", "Watch"]

Sink = Callable[[list[Change[T]]], None]

LIST_TIMEOUT_S = 60.0
LIFETIME_S = (300, 600)  # of one stream: drawn, so that not all streams end at once


def _ignore(key: Key, why: str) -> None:
    pass


@dataclass(eq=False)
class Watch(Generic[T]):
    """The objects at a path, of a kind, as far as they are known."""

    api: Api
    path: str
    kind: type[T]
    _: KW_ONLY
    params: Mapping[str, str] | None = None
    page: int = 500
    idle_s: float = 90.0
    chance: Random = field(default_factory=Random)
    on_unreadable: Callable[[Key, str], None] = _ignore
    """Told of each object that is not of the kind's shape; its last readable version is kept."""

    synced: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set once everything that was there at the start has been told."""
    fresh_at: float = field(init=False, default=float("-inf"))
    """Monotonic seconds of the last that was heard."""
    trouble: errors.ApiError | None = field(init=False, default=None)
    """Why nothing is heard at the moment."""

    def __post_init__(self) -> None:
        self._mirror = ObjectCache[T]()
        self._reader = KindDecoder(self.kind)
        self._version: str | None = None  # None: a list is needed
        self._is_listing = False  # the watch is telling what was there at its start
        self._offers_list = True  # the server can begin a watch with a list
        self._prefers_pages = False  # for once, because such a watch did not come to its list's end
        self._prefers_whole = False  # for once, because pages did not come to theirs
        self._heard_event = False
        self._heard_line = False

    @property
    def items(self) -> dict[Key, T]:
        """Return the objects by namespace and name."""
        return self._mirror.items

    async def run(self, sink: Sink[T]) -> None:
        """Follow for ever; the sink is called in the event loop with each batch of changes."""
        backoff = Backoff(self.chance)
        while True:
            self._heard_event = self._heard_line = False
            wish_s = await self._round(sink)
            if self._heard_line:
                backoff.succeeded()
            if not self._heard_event or self.trouble:
                await asyncio.sleep(backoff.failed(wish_s))

    async def _round(self, sink: Sink[T]) -> float | None:
        """List if need be, and follow until that ends; return how long the server wants rest."""
        try:
            if self._version is None and (self._prefers_pages or not self._offers_list):
                await self._list(sink)
            await self._follow(sink)
        except errors.ApiError as error:
            self.trouble = error
            if _must_list_again(error):
                self._version = None
            if isinstance(error, errors.Invalid) and self._is_listing:
                self._offers_list = False
            return error.retry_after_s
        return None

    async def _list(self, sink: Sink[T]) -> None:
        self._is_listing = False
        self._mirror.begin_list()
        page = await self._list_page(sink, "")
        while page.next:
            page = await self._list_page(sink, page.next)
        self._prefers_whole = self._prefers_pages = False
        _tell(sink, self._mirror.end_list())
        self._version = page.resource_version
        self.synced.set()

    async def _list_page(self, sink: Sink[T], token: str) -> ListPage[T]:
        params = dict(self.params or {})
        if not self._prefers_whole:
            params["limit"] = str(self.page)
        if token:
            params["continue"] = token
        try:
            body = await self.api.get(self.path, params, timeout_s=LIST_TIMEOUT_S)
        except errors.ResourceExpired:
            self._prefers_whole = True  # pages took longer than the server keeps them
            raise
        self._heard()
        page = self._reader.page(body)
        self._report(page.unreadable)
        _tell(sink, self._mirror.listed(page.items, [each.key for each in page.unreadable]))
        return page

    async def _follow(self, sink: Sink[T]) -> None:
        self._is_listing = self._version is None
        if self._is_listing:
            self._mirror.begin_list()
        lines = Lines()
        async with self.api.stream(self.path, self._watch_params(), idle_s=self.idle_s) as chunks:
            self._prefers_pages = self._is_listing  # unless this one comes to its end
            async for chunk in chunks:
                self._heard()
                self._take(lines.feed(chunk), sink)

    def _watch_params(self) -> dict[str, str]:
        params = {
            **(self.params or {}),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self.chance.randint(*LIFETIME_S)),
        }
        if self._version is None:
            return {
                **params,
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
            }
        return {**params, "resourceVersion": self._version}

    def _heard(self) -> None:
        self.fresh_at = time.monotonic()
        self.trouble = None

    def _take(self, lines: list[bytes], sink: Sink[T]) -> None:
        """Take in what one chunk brought; what came before a failure in it is told first."""
        changes: list[Change[T]] = []
        try:
            for line in lines:
                changes += self._take_line(line)
                self._heard_line = True
        finally:
            _tell(sink, changes)
        if not self._is_listing and lines:
            self.synced.set()

    def _take_line(self, line: bytes) -> list[Change[T]]:
        match event := self._reader.event(line):
            case Added() | Modified():
                self._advance(event.object.metadata.resource_version)
                if self._is_listing:
                    return self._mirror.listed((event.object,))
                return self._mirror.seen(event.object)
            case Deleted():
                self._advance(event.object.metadata.resource_version)
                return self._mirror.deleted(key_of(event.object), event.object)
            case Bookmark():
                return self._take_bookmark(event)
            case Unreadable():
                return self._take_unreadable(event)
            case WatchFailure():
                self._version = None
                raise errors.from_status(bytes(event.object))

    def _advance(self, version: str) -> None:
        self._heard_event = True
        if not self._is_listing and version:
            self._version = version

    def _take_bookmark(self, bookmark: Bookmark) -> list[Change[T]]:
        changes: list[Change[T]] = []
        if self._is_listing:
            if not bookmark.ends_list():
                return changes
            self._is_listing = self._prefers_pages = False
            changes = self._mirror.end_list()
        self._version = bookmark.object.metadata.resource_version
        return changes

    def _take_unreadable(self, event: Unreadable) -> list[Change[T]]:
        self._report([event])
        self._advance(event.resource_version)
        if event.is_deleted:
            return self._mirror.deleted(event.key)
        return self._mirror.listed((), (event.key,))

    def _report(self, unreadable: list[Unreadable]) -> None:
        for each in unreadable:
            self.on_unreadable(each.key, each.why)


def _tell(sink: Sink[T], changes: list[Change[T]]) -> None:
    if changes:
        sink(changes)


def _must_list_again(error: errors.ApiError) -> bool:
    again = (errors.ResourceExpired, errors.Invalid, errors.NotFound, errors.Garbled)
    # A version from the future: the server's store was put back to an earlier day.
    return isinstance(error, again) or "ResourceVersionTooLarge" in error.causes
