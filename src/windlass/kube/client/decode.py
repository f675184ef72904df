"""Decode the lines of a watch and the pages of a list into typed objects.

Normally one typed decoder reads a whole line or page. If that fails, each object is decoded by
itself: objects that cannot be read are reported by name and left out, the others are returned.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Generic

import msgspec

from windlass.kube.client.errors import Garbled
from windlass.kube.client.object_cache import Key, T

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the list at the start of a watch."""


class Added(msgspec.Struct, Generic[T], tag_field="type", tag="ADDED", gc=False):
    """An object was created, or began to match the selector."""

    object: T


class Modified(msgspec.Struct, Generic[T], tag_field="type", tag="MODIFIED", gc=False):
    """An object was changed."""

    object: T


class Deleted(msgspec.Struct, Generic[T], tag_field="type", tag="DELETED", gc=False):
    """An object was deleted, or no longer matches the selector; this is its last version."""

    object: T


class BookmarkMeta(msgspec.Struct, rename="camel", frozen=True):
    """The metadata of a bookmark."""

    resource_version: str
    annotations: dict[str, str] = {}


class BookmarkObject(msgspec.Struct, frozen=True):
    """The object of a bookmark: nothing but metadata."""

    metadata: BookmarkMeta


class Bookmark(msgspec.Struct, tag_field="type", tag="BOOKMARK", frozen=True):
    """The event that says: everything up to this resourceVersion has been sent."""

    object: BookmarkObject

    def ends_list(self) -> bool:
        """Return whether this bookmark ends the list at the start of a watch."""
        return self.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


class WatchFailure(msgspec.Struct, tag_field="type", tag="ERROR", frozen=True):
    """The event that ends a watch which cannot go on; the object is a Status."""

    object: msgspec.Raw


class Unreadable(msgspec.Struct, frozen=True):
    """An object that does not have the fields or types that we expect."""

    key: Key
    why: str
    resource_version: str = ""
    is_deleted: bool = False


Event = Added[T] | Modified[T] | Deleted[T] | Bookmark | WatchFailure | Unreadable


class ListPage(msgspec.Struct, Generic[T], gc=False):
    """A page of a list; `next` is the token of the page that follows, empty on the last one."""

    items: list[T]
    unreadable: list[Unreadable]
    resource_version: str
    next: str


class KindDecoder(Generic[T]):
    """The decoders for one kind."""

    def __init__(self, kind: type[T]) -> None:
        struct: Any = kind  # built at run time, so beyond a type checker
        events: Any = Added[struct] | Modified[struct] | Deleted[struct] | Bookmark | WatchFailure
        self._event = msgspec.json.Decoder(events)
        self._list = msgspec.json.Decoder(_List[struct])
        self._one = msgspec.json.Decoder(kind)

    def event(self, line: bytes) -> Event[T]:
        """Read one line of a watch."""
        try:
            return self._event.decode(line)
        except _NOT_READ as error:
            return _unreadable_event(line, error)

    def page(self, body: bytes) -> ListPage[T]:
        """Read one page of a list."""
        with _collector_paused():
            try:
                decoded = self._list.decode(body)
            except _NOT_READ as error:
                return self._page_one_by_one(body, error)
        return _page(decoded.metadata, decoded.items, [])

    def _page_one_by_one(self, body: bytes, cause: Exception) -> ListPage[T]:
        items: list[T] = []
        unreadable: list[Unreadable] = []
        decoded = _decode_or_garbled(_raw_list, body, cause)
        for raw in decoded.items:
            try:
                items.append(self._one.decode(raw))
            except _NOT_READ as error:
                unreadable.append(_unreadable(bytes(raw), error))
        return _page(decoded.metadata, items, unreadable)


class Lines:
    """Splits a stream of chunks into lines of any length.

    The `readline` of aiohttp refuses lines that are longer than its buffer, and one object may have
    megabytes.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """The parts of the line that has not ended yet. They are joined only once, at its end: to
        join them at each chunk would cost the square of the length of the line."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the lines it completes, without line ends and empty lines."""
        pieces = chunk.split(b"\n")
        self._parts.append(pieces[0])
        if len(pieces) == 1:
            return []
        pieces[0] = b"".join(self._parts)
        self._parts = [pieces.pop()]
        return [line for line in pieces if line]


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str = ""
    next: str = ""


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T]


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BareMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _BareObject(msgspec.Struct):
    metadata: _BareMeta = msgspec.field(default_factory=_BareMeta)


_NOT_READ = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_raw_list = msgspec.json.Decoder(_RawList)
_raw_event = msgspec.json.Decoder(_RawEvent)
_bare = msgspec.json.Decoder(_BareObject)


def _decode_or_garbled(decoder: Any, text: bytes, cause: Exception) -> Any:
    try:
        return decoder.decode(text)
    except _NOT_READ as error:
        begin = text[:80].decode(errors="replace")
        raise Garbled(f"Expected JSON of a Kubernetes API, found {begin!r}: {error}") from cause


def _page(meta: _ListMeta, items: list[T], unreadable: list[Unreadable]) -> ListPage[T]:
    return ListPage(items, unreadable, meta.resource_version, meta.next)


def _unreadable_event(line: bytes, why: Exception) -> Unreadable:
    event = _decode_or_garbled(_raw_event, line, why)
    unreadable = _unreadable(bytes(event.object), why)
    return msgspec.structs.replace(unreadable, is_deleted=event.type == "DELETED")


def _unreadable(text: bytes, why: Exception) -> Unreadable:
    try:
        meta = _bare.decode(text).metadata
    except _NOT_READ:
        meta = _BareMeta()  # even the name cannot be read
    return Unreadable((meta.namespace, meta.name), str(why), meta.resource_version)


@contextmanager
def _collector_paused() -> Generator[None, None, None]:
    """Pause the cyclic garbage collector while many objects are created.

    It would scan them again and again, and none of them is garbage yet.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
