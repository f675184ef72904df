"""The queues that a namespace may use, and the choice of the queue of a pod.

A pod gets the queue that it names, if its namespace may use that one, and otherwise the queue of
its namespace. The queues of a namespace are those that name it; if none does, those whose selector
matches its labels. Queues with children take no jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.crds.queue_validation import with_usable_parents
from windlass.crds.read import OwnedQueue, QueueUsers
from windlass.model.constraints import matches
from windlass.model.errors import close_names
from windlass.model.validation import join_names


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace with its labels."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """The queue of a pod, or a sentence that says why no queue takes it.

    Both are set for a queue with children: running pods are charged to it, but it takes no new
    ones.
    """

    queue: str = ""
    """The name of the queue; empty if there is none."""
    sentence: str = ""
    """The reason why the pod cannot be placed, and what to do; empty if it can."""


class QueueAccess:
    """The access of namespaces to queues."""

    def __init__(self, queues: Sequence[OwnedQueue], default: str = "") -> None:
        # Parents as the engine sees them: an unusable parent is replaced by the root.
        parents = {queue.parent for queue in with_usable_parents([owned.queue for owned in queues])}
        users = {owned.queue.name: owned.users for owned in queues}
        self._users = {name: its for name, its in users.items() if name not in parents}
        """The users of the queues that take jobs, by queue; disjoint from `_inner`."""
        self._inner = {name: its for name, its in users.items() if name in parents}
        """The users of the queues with children, which take no jobs, by queue."""
        self._default = default
        """The queue of namespaces that no queue names; "": none. Every namespace may use it."""

    def choose(self, asked: str, namespace: Namespace) -> QueueChoice:
        """Return the queue of a pod that names the queue `asked`, or none ("")."""
        if asked:
            return self._choose_named(asked, namespace)
        best = _best(self._users, namespace)
        if len(best) == 1:
            return QueueChoice(best[0])
        if best:
            several = f'namespace "{namespace.name}" may use several queues ({join_names(best)})'
            return QueueChoice(
                sentence=f"{several}; name one of them with the label windlass.dev/queue"
            )
        if inner := _best(self._inner, namespace):
            # Pods that run already are still charged to it.
            advice = f'{_has_below(inner[0])}; add namespace "{namespace.name}" to one of those'
            return QueueChoice(inner[0], advice)
        if self._default in self._users:
            return QueueChoice(self._default)
        return QueueChoice(
            sentence=f'no queue names namespace "{namespace.name}"; '
            "add it to the namespaces of a queue"
        )

    def open_to(self, namespace: Namespace) -> list[str]:
        """Return the names of the queues that pods of the namespace may use, in order."""
        return [name for name in sorted(self._users) if self._choose_named(name, namespace).queue]

    def is_named(self, namespace: Namespace) -> bool:
        """Return whether any queue names or selects the namespace."""
        return bool(_best(self._users | self._inner, namespace))

    def charged(self, namespace: Namespace) -> str:
        """Return the queue charged for pods that another scheduler placed; "" if there is none."""
        return next(iter(_best(self._users, namespace)), self._default)

    def _choose_named(self, asked: str, namespace: Namespace) -> QueueChoice:
        if asked in self._inner:
            may_use = _rank(self._inner[asked], namespace) is not None
            return QueueChoice(asked if may_use else "", f"{_has_below(asked)}; name one of those")
        if asked not in self._users:
            close = close_names(asked, self._users)
            hint = f'; did you mean "{close[0]}"?' if close else "; name one that does"
            return QueueChoice(sentence=f'queue "{asked}" does not exist{hint}')
        if asked == self._default or _rank(self._users[asked], namespace) is not None:
            return QueueChoice(asked)
        return QueueChoice(
            sentence=f'namespace "{namespace.name}" may not use queue "{asked}"; '
            "add it to the namespaces of that queue, or name another"
        )


def _best(queues: Mapping[str, QueueUsers], namespace: Namespace) -> list[str]:
    """Return the queues that name the namespace, or else those that select it, in order of name."""
    ranks = {name: _rank(users, namespace) for name, users in queues.items()}
    named = sorted(name for name, rank in ranks.items() if rank == 0)
    return named or sorted(name for name, rank in ranks.items() if rank == 1)


def _has_below(queue: str) -> str:
    return f'queue "{queue}" has queues below it and takes no jobs'


def _rank(users: QueueUsers, namespace: Namespace) -> int | None:
    """Return 0 if the namespace is named, 1 if it is selected by label, None if it is neither."""
    if namespace.name in users.names:
        return 0
    is_selected = users.term is not None and matches(users.term, namespace.labels)
    return 1 if is_selected else None
