"""Keep a cache of the objects of one kind, and report every change of it.

    list ──> follow ──┬─ clean end, silence, lost connection ──> follow again from the last version
     ^                └─ 410, an ERROR event, no JSON ─────────┐
     └─────────────────────────────────────────────────────────┘

The list is the first part of the watch if the server supports that, else it is read in pages. A
server ends every watch after a while, and cuts those that read too slowly, without a message: that
is no error and needs no new list. Bookmarks come about once a minute, so a longer silence means
that the connection is dead. The time between attempts grows, with jitter.
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
    Lines,
    ListPage,
    Modified,
    Unreadable,
    WatchFailure,
)
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
"""The time-out of one page of a list."""
LIFETIME_S = (300, 600)
"""The range of the life time of one stream. It is drawn at random, so that the streams of many
watches do not all end at once."""


def _ignore(key: Key, why: str) -> None:
    pass


@dataclass(eq=False)
class Watch(Generic[T]):
    """A watch on the objects of one kind at a path."""

    api: Api
    path: str
    kind: type[T]
    _: KW_ONLY
    params: Mapping[str, str] | None = None
    """Further query parameters, such as selectors."""
    page: int = 500
    """Objects in a page of a list."""
    idle_s: float = 90.0
    """A stream is given up after so many seconds of silence: more than a bookmark interval."""
    chance: Random = field(default_factory=Random)
    on_unreadable: Callable[[Key, str], None] = _ignore
    """Called for each object that cannot be decoded; its last readable version stays cached."""

    synced: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set once all objects that existed at the start have been reported; never cleared."""
    fresh_at: float = field(init=False, default=float("-inf"))
    """Monotonic seconds at which data last came."""
    trouble: errors.ApiError | None = field(init=False, default=None)
    """The error of the last attempt; None as soon as data comes again."""

    def __post_init__(self) -> None:
        self._cache = ObjectCache[T]()
        self._decoder = KindDecoder(self.kind)
        self._version: str | None = None
        """The resourceVersion from which to follow; None: a list is needed. It does not move while
        listing, because an unfinished list is no point to go on from."""
        self._is_listing = False
        """The stream is sending the objects that existed at its start."""
        self._offers_list = True
        """The server can begin a watch with a list; cleared for good when it rejects that."""
        self._prefers_pages = False
        """List in pages the next time, because a watch broke before the end of its list."""
        self._prefers_whole = False
        """List without pages the next time, because the pages expired while they were read."""
        self._heard_event = False
        """An object event came in this round: if not, the next round waits, so that a server which
        ends each watch at once is not called in a loop."""
        self._heard_line = False
        """A line was decoded in this round: the server works, and the backoff starts again."""

    @property
    def items(self) -> dict[Key, T]:
        """Return the objects by namespace and name."""
        return self._cache.items

    async def run(self, sink: Sink[T]) -> None:
        """Watch until cancelled; call the sink in the event loop with each batch of changes."""
        backoff = Backoff(self.chance)
        while True:
            self._heard_event = self._heard_line = False
            retry_after_s = await self._round(sink)
            if self._heard_line:
                backoff.succeeded()
            if not self._heard_event or self.trouble:
                await asyncio.sleep(backoff.failed(retry_after_s))

    async def _round(self, sink: Sink[T]) -> float | None:
        """List if needed, and follow until the stream ends; return the server's Retry-After."""
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
        self._cache.begin_list()
        page = await self._list_page(sink, "")
        while page.next:
            page = await self._list_page(sink, page.next)
        self._prefers_whole = self._prefers_pages = False
        _pass_on(sink, self._cache.end_list())
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
            self._prefers_whole = True  # reading the pages took longer than the server keeps them
            raise
        self._heard()
        page = self._decoder.page(body)
        self._report(page.unreadable)
        unreadable = [thing.key for thing in page.unreadable]
        _pass_on(sink, self._cache.listed(page.items, unreadable))
        return page

    async def _follow(self, sink: Sink[T]) -> None:
        self._is_listing = self._version is None
        if self._is_listing:
            self._cache.begin_list()
        lines = Lines()
        async with self.api.stream(self.path, self._watch_params(), idle_s=self.idle_s) as chunks:
            self._prefers_pages = self._is_listing  # until the list has come to its end
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
        """Handle the lines of one chunk; changes before a failing line are passed on first."""
        changes: list[Change[T]] = []
        try:
            for line in lines:
                changes += self._take_line(line)
                self._heard_line = True
        finally:
            _pass_on(sink, changes)
        if not self._is_listing and lines:
            self.synced.set()

    def _take_line(self, line: bytes) -> list[Change[T]]:
        match event := self._decoder.event(line):
            case Added() | Modified():
                self._advance(event.object.metadata.resource_version)
                if self._is_listing:
                    return self._cache.listed((event.object,))
                return self._cache.seen(event.object)
            case Deleted():
                self._advance(event.object.metadata.resource_version)
                return self._cache.deleted(key_of(event.object), event.object)
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
            changes = self._cache.end_list()
        self._version = bookmark.object.metadata.resource_version
        return changes

    def _take_unreadable(self, event: Unreadable) -> list[Change[T]]:
        self._report([event])
        self._advance(event.resource_version)
        if event.is_deleted:
            return self._cache.deleted(event.key)
        return self._cache.listed((), (event.key,))

    def _report(self, unreadable: list[Unreadable]) -> None:
        for thing in unreadable:
            self.on_unreadable(thing.key, thing.why)


def _pass_on(sink: Sink[T], changes: list[Change[T]]) -> None:
    if changes:
        sink(changes)


def _must_list_again(error: errors.ApiError) -> bool:
    outdated = (errors.ResourceExpired, errors.Invalid, errors.NotFound, errors.Garbled)
    # Our version is from the future: etcd was restored from an earlier backup.
    return isinstance(error, outdated) or "ResourceVersionTooLarge" in error.causes
