"""The queues, the queue that each gang waits in, and the PriorityClasses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.crds.queue_access import Namespace, QueueAccess
from windlass.crds.queue_validation import with_usable_parents
from windlass.crds.read import OwnedQueue
from windlass.model import events
from windlass.model.events import Event
from windlass.model.queues import Queue
from windlass.model.reasons import Reason, ReasonCode
from windlass.workloads.objects import MANAGED, PriorityClass


class Queues:
    """All queues with the namespaces that may use them, and the labels of all namespaces."""

    def __init__(self, default: str = "") -> None:
        self._default = default
        self._owned: dict[str, OwnedQueue] = {}
        """The queues as their objects describe them."""
        self._reported: dict[str, Queue] = {}
        """The queues as the engine knows them; a parent that makes no sense is removed."""
        self._labels: dict[str, Mapping[str, str]] = {}
        self._doors = QueueAccess((), default)
        """Made of `_owned`; replaced whenever that changes."""

    def knows(self, owned: OwnedQueue) -> bool:
        """Return whether exactly this queue was observed already."""
        return self._owned.get(owned.queue.name) == owned

    def see(self, owned: OwnedQueue) -> Iterator[Event]:
        """Store a queue that is new or has changed; yield the events that follow."""
        self._owned[owned.queue.name] = owned
        return self._changes()

    def lose(self, name: str) -> Iterator[Event]:
        """Remove a queue that was deleted; yield the events that follow."""
        self._owned.pop(name, None)
        return self._changes()

    def see_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Store the labels of a namespace; return whether the queue of a gang may change."""
        if self._labels.get(name) == labels:
            return False
        was_managed = self.is_managed(name)
        self._labels[name] = labels
        is_chosen = any(owned.users.term is not None for owned in self._owned.values())
        return is_chosen or self.is_managed(name) != was_managed

    def is_managed(self, namespace: str) -> bool:
        """Return whether the webhook writes the creator of pods in a namespace, and no user can."""
        return self._labels.get(namespace, {}).get(MANAGED) == "true"

    def lose_namespace(self, name: str) -> None:
        """Remove a namespace that was deleted."""
        self._labels.pop(name, None)

    def choose(self, asked: str, namespace: str) -> tuple[str, Reason | None]:
        """Return the queue for a gang that names `asked` or no queue, and why it may not use it."""
        choice = self._doors.choose(asked, self._namespace(namespace))
        if not choice.sentence:
            return choice.queue, None
        return choice.queue, Reason(ReasonCode.NO_QUEUE, {"what": choice.sentence})

    def open_to(self, namespace: str) -> list[str]:
        """Return the queues that gangs of a namespace may name."""
        return self._doors.open_to(self._namespace(namespace))

    def is_named(self, namespace: str) -> bool:
        """Return whether a queue names this namespace, or selects it by its labels."""
        return self._doors.is_named(self._namespace(namespace))

    def charged(self, namespace: str) -> str:
        """Return the queue that is charged for pods of a namespace that others placed."""
        return self._doors.charged(self._namespace(namespace))

    def _namespace(self, name: str) -> Namespace:
        return Namespace(name, self._labels.get(name, {}))

    def _changes(self) -> Iterator[Event]:
        owned = [self._owned[name] for name in sorted(self._owned)]
        self._doors = QueueAccess(owned, self._default)
        # a queue whose parent makes no sense stands at the top until that is mended
        queues = {
            queue.name: queue for queue in with_usable_parents([each.queue for each in owned])
        }
        for name in sorted(set(self._reported) - set(queues)):
            del self._reported[name]
            yield events.QueueGone(name)
        for name, queue in queues.items():
            if self._reported.get(name) != queue:
                self._reported[name] = queue
                yield events.QueueSeen(queue)


class Priorities:
    """The PriorityClasses by name. The API server writes their values into pods."""

    __slots__ = ("_usual", "meek", "named", "version")

    def __init__(self) -> None:
        self.named: dict[str, int] = {}
        """The value of each class."""
        self.meek: set[str] = set()
        """The classes with `preemptionPolicy: Never`: their pods preempt nothing."""
        self._usual: set[str] = set()
        """The classes that are the global default, for pods that name none."""
        self.version = 0
        """Counts the observed changes; what is made from classes compares it."""

    def see(self, priority: PriorityClass, gone: bool) -> bool:
        """Store a class, or remove it if it is gone; return whether its value has changed."""
        self.version += 1
        name, is_meek = priority.metadata.name, priority.preemption_policy == "Never"
        for names, belongs in ((self.meek, is_meek), (self._usual, priority.global_default)):
            (names.add if belongs and not gone else names.discard)(name)
        value = None if gone else priority.value
        if self.named.get(name) == value:
            return False
        if value is None:
            del self.named[name]
        else:
            self.named[name] = value
        return True

    def values(self) -> dict[str, int]:
        """Return the values by class name; under the empty name, that of the global default."""
        defaults = (self.named[name] for name in self._usual if name in self.named)
        usual = min(defaults, default=None)
        return self.named if usual is None else self.named | {"": usual}
