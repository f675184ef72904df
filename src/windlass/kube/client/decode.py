"""Turns the lines of a watch and the pages of a list into typed objects.

The fast way reads a whole line or page by one typed decoder. If that fails, each object is tried by
itself: what cannot be read is named and left out, and the rest goes on.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Generic

import msgspec

from windlass.kube.client.errors import Garbled
from windlass.kube.client.object_cache import Key, T

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Added(msgspec.Struct, Generic[T], tag_field="type", tag="ADDED", gc=False):
    """An object came to be, or to be selected."""

    object: T


class Modified(msgspec.Struct, Generic[T], tag_field="type", tag="MODIFIED", gc=False):
    """An object has another version."""

    object: T


class Deleted(msgspec.Struct, Generic[T], tag_field="type", tag="DELETED", gc=False):
    """An object is gone, or no longer selected; this is its last version."""

    object: T


class BookmarkMeta(msgspec.Struct, rename="camel", frozen=True):
    """All that a bookmark says."""

    resource_version: str
    annotations: dict[str, str] = {}


class BookmarkObject(msgspec.Struct, frozen=True):
    """What a bookmark says, where objects say it."""

    metadata: BookmarkMeta


class Bookmark(msgspec.Struct, tag_field="type", tag="BOOKMARK", frozen=True):
    """Everything up to this resourceVersion has been sent."""

    object: BookmarkObject

    def ends_list(self) -> bool:
        """Ask whether this is the one that ends the list at the start of a watch."""
        return self.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


class WatchFailure(msgspec.Struct, tag_field="type", tag="ERROR", frozen=True):
    """The watch cannot go on; the object is a Status."""

    object: msgspec.Raw


class Unreadable(msgspec.Struct, frozen=True):
    """An object that is not of the shape we expect."""

    key: Key
    why: str
    resource_version: str = ""
    is_deleted: bool = False


Event = Added[T] | Modified[T] | Deleted[T] | Bookmark | WatchFailure | Unreadable


class ListPage(msgspec.Struct, Generic[T], gc=False):
    """A part of a list; `next` names the part that follows, if any."""

    items: list[T]
    unreadable: list[Unreadable]
    resource_version: str
    next: str


class KindDecoder(Generic[T]):
    """The decoders for one kind."""

    def __init__(self, kind: type[T]) -> None:
        of: Any = kind  # built at run time, so beyond a type checker
        events: Any = Added[of] | Modified[of] | Deleted[of] | Bookmark | WatchFailure
        self._event = msgspec.json.Decoder(events)
        self._list = msgspec.json.Decoder(_List[of])
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
                found = self._list.decode(body)
            except _NOT_READ as error:
                return self._page_one_by_one(body, error)
        return _page(found.metadata, found.items, [])

    def _page_one_by_one(self, body: bytes, cause: Exception) -> ListPage[T]:
        items: list[T] = []
        unreadable: list[Unreadable] = []
        found = _decode_or_garbled(_raw_list, body, cause)
        for raw in found.items:
            try:
                items.append(self._one.decode(raw))
            except _NOT_READ as error:
                unreadable.append(_unreadable(bytes(raw), error))
        return _page(found.metadata, items, unreadable)


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


class _Bare(msgspec.Struct):
    metadata: _BareMeta = msgspec.field(default_factory=_BareMeta)


_NOT_READ = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_raw_list = msgspec.json.Decoder(_RawList)
_raw_event = msgspec.json.Decoder(_RawEvent)
_bare = msgspec.json.Decoder(_Bare)


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
    found = _unreadable(bytes(event.object), why)
    return msgspec.structs.replace(found, is_deleted=event.type == "DELETED")


def _unreadable(text: bytes, why: Exception) -> Unreadable:
    try:
        meta = _bare.decode(text).metadata
    except _NOT_READ:
        meta = _BareMeta()  # not even a name
    return Unreadable((meta.namespace, meta.name), str(why), meta.resource_version)


@contextmanager
def _collector_paused() -> Generator[None, None, None]:
    """Keep the cyclic collector from looking at objects that are only just coming to be."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
