"""The queues as they stand, and which of them a gang stands in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.crds.queue_access import Doors, Namespace
from windlass.crds.queue_validation import mended
from windlass.crds.read import OwnedQueue
from windlass.model import events
from windlass.model.events import Event
from windlass.model.queues import Queue
from windlass.model.reasons import Reason, ReasonCode
from windlass.workloads.objects.annotations import MANAGED


class Queues:
    """All queues, and the labels of all namespaces."""

    def __init__(self, default: str = "") -> None:
        self._default = default
        self._owned: dict[str, OwnedQueue] = {}
        self._told: dict[str, Queue] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._doors = Doors((), default)

    def knows(self, owned: OwnedQueue) -> bool:
        """Has exactly this been seen already?"""
        return self._owned.get(owned.queue.name) == owned

    def see(self, owned: OwnedQueue) -> Iterator[Event]:
        """A queue is new or has changed."""
        self._owned[owned.queue.name] = owned
        return self._changes()

    def lose(self, name: str) -> Iterator[Event]:
        """A queue was deleted."""
        self._owned.pop(name, None)
        return self._changes()

    def see_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """A namespace is new or has changed; answers whether that may matter."""
        if self._labels.get(name) == labels:
            return False
        was_managed = self.is_managed(name)
        self._labels[name] = labels
        is_chosen = any(each.users.term is not None for each in self._owned.values())
        return is_chosen or self.is_managed(name) != was_managed

    def is_managed(self, namespace: str) -> bool:
        """Does the webhook write there who made a pod, and the policies let nobody else?"""
        return self._labels.get(namespace, {}).get(MANAGED) == "true"

    def lose_namespace(self, name: str) -> None:
        """A namespace was deleted."""
        self._labels.pop(name, None)

    def choose(self, asked: str, namespace: str) -> tuple[str, Reason | None]:
        """The queue for a gang that asks for one, or for none, and what speaks against it."""
        choice = self._doors.choose(asked, self._namespace(namespace))
        if not choice.sentence:
            return choice.queue, None
        return choice.queue, Reason(ReasonCode.NO_QUEUE, {"what": choice.sentence})

    def open_to(self, namespace: str) -> list[str]:
        """The queues that gangs of a namespace may ask for."""
        return self._doors.open_to(self._namespace(namespace))

    def is_named(self, namespace: str) -> bool:
        """Does a queue name this namespace, or select it by its labels?"""
        return self._doors.is_named(self._namespace(namespace))

    def charged(self, namespace: str) -> str:
        """The queue that pays for pods of a namespace that others placed."""
        return self._doors.charged(self._namespace(namespace))

    def _namespace(self, name: str) -> Namespace:
        return Namespace(name, self._labels.get(name, {}))

    def _changes(self) -> Iterator[Event]:
        owned = [self._owned[name] for name in sorted(self._owned)]
        self._doors = Doors(owned, self._default)
        # a queue with a parent that cannot be its own stands at the top until that is mended
        queues = {queue.name: queue for queue in mended([each.queue for each in owned])}
        for name in sorted(set(self._told) - set(queues)):
            del self._told[name]
            yield events.QueueGone(name)
        for name, queue in queues.items():
            if self._told.get(name) != queue:
                self._told[name] = queue
                yield events.QueueSeen(queue)
