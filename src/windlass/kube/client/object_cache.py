"""What we know of the objects of one kind, and how it changes.

A list is taken in piece by piece and compared with what was known, by uid and resourceVersion: only
differences come out, so that a list after an outage looks like the events that were missed.

    begin_list ──> listed* ──> end_list        what was not listed is gone
    seen, deleted                              at any time
"""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec


class CachedMeta(Protocol):
    """What has to be known of any object."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class KubeObject(Protocol):
    """An object of Kubernetes."""

    @property
    def metadata(self) -> CachedMeta: ...


T = TypeVar("T", bound=KubeObject)
Key = tuple[str, str]
"""Namespace (empty for what has none) and name."""


class ObjectSeen(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The object is there, in this version."""

    object: T


class ObjectGone(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The object is no more; this is the last that is known of it."""

    object: T


Change = ObjectSeen[T] | ObjectGone[T]


def key_of(thing: KubeObject) -> Key:
    """Return under what an object is kept."""
    meta = thing.metadata
    return meta.namespace or "", meta.name


class ObjectCache(Generic[T]):
    """The objects by key, and which of them the list that is being read has named."""

    def __init__(self) -> None:
        self.items: dict[Key, T] = {}
        self._listed: set[Key] = set()

    def begin_list(self) -> None:
        """Start to compare with a list; what an unfinished one has brought stays."""
        self._listed = set()

    def listed(self, things: Iterable[T], unreadable: Iterable[Key] = ()) -> list[Change[T]]:
        """Take in a part of a list; what cannot be read is there all the same."""
        changes: list[Change[T]] = []
        self._listed.update(unreadable)
        for thing in things:
            self._listed.add(key_of(thing))
            changes += self.seen(thing)
        return changes

    def end_list(self) -> list[Change[T]]:
        """Drop what the list did not name."""
        lost = [key for key in self.items if key not in self._listed]
        self._listed = set()
        return [ObjectGone(self.items.pop(key)) for key in lost]

    def seen(self, thing: T) -> list[Change[T]]:
        """Take in a new or changed object; another uid means that the old one is gone."""
        key = key_of(thing)
        old = self.items.get(key)
        if old and _is_same(old.metadata, thing.metadata):
            return []
        self.items[key] = thing
        if old and old.metadata.uid != thing.metadata.uid:
            return [ObjectGone(old), ObjectSeen(thing)]
        return [ObjectSeen(thing)]

    def deleted(self, key: Key, last: T | None = None) -> list[Change[T]]:
        """Drop an object; `last` is its final version, if that could be read."""
        old = self.items.pop(key, None)
        return [] if old is None else [ObjectGone(last or old)]


def _is_same(known: CachedMeta, now: CachedMeta) -> bool:
    return known.resource_version == now.resource_version and known.uid == now.uid
