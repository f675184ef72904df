"""The cached objects of one kind, and the changes that lists and events make to them.

A list is added part by part and compared with the cache, by uid and resourceVersion. Only
differences are returned, so that a list after an outage looks like the events that were missed.

    begin_list ──> listed* ──> end_list        objects that were not listed are gone
    seen, deleted                              at any time
"""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec


class CachedMeta(Protocol):
    """The metadata that the cache needs of any object."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class KubeObject(Protocol):
    """Any object of Kubernetes."""

    @property
    def metadata(self) -> CachedMeta: ...


T = TypeVar("T", bound=KubeObject)
Key = tuple[str, str]
"""Namespace (empty for a cluster-scoped object) and name."""


class ObjectSeen(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that is new or has changed."""

    object: T


class ObjectGone(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that was deleted, in its last known version."""

    object: T


Change = ObjectSeen[T] | ObjectGone[T]


def key_of(thing: KubeObject) -> Key:
    """Return the key of an object."""
    meta = thing.metadata
    return meta.namespace or "", meta.name


class ObjectCache(Generic[T]):
    """The objects of one kind by key."""

    def __init__(self) -> None:
        self.items: dict[Key, T] = {}
        self._listed: set[Key] = set()
        """The keys that the current list has named so far; empty outside of a list."""

    def begin_list(self) -> None:
        """Start to compare with a list; objects of an unfinished earlier list stay."""
        self._listed = set()

    def listed(self, things: Iterable[T], unreadable: Iterable[Key] = ()) -> list[Change[T]]:
        """Add a part of a list and return the changes; unreadable objects count as present."""
        changes: list[Change[T]] = []
        self._listed.update(unreadable)
        for thing in things:
            self._listed.add(key_of(thing))
            changes += self.seen(thing)
        return changes

    def end_list(self) -> list[Change[T]]:
        """Remove the objects that the list did not name, and return these changes."""
        lost = [key for key in self.items if key not in self._listed]
        self._listed = set()
        return [ObjectGone(self.items.pop(key)) for key in lost]

    def seen(self, thing: T) -> list[Change[T]]:
        """Add a new or changed object and return the changes.

        Another uid under the same name means that the old object was deleted and recreated.
        """
        key = key_of(thing)
        old = self.items.get(key)
        if old and _is_same(old.metadata, thing.metadata):
            return []
        self.items[key] = thing
        if old and old.metadata.uid != thing.metadata.uid:
            return [ObjectGone(old), ObjectSeen(thing)]
        return [ObjectSeen(thing)]

    def deleted(self, key: Key, last: T | None = None) -> list[Change[T]]:
        """Remove an object and return the changes; `last` is its final version, if readable."""
        old = self.items.pop(key, None)
        return [] if old is None else [ObjectGone(last or old)]


def _is_same(old: CachedMeta, new: CachedMeta) -> bool:
    return old.resource_version == new.resource_version and old.uid == new.uid
