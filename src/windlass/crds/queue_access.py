"""Which queue a pod stands in: the one it names, if its namespace may use it; else its namespace's.

A namespace's queues are those that name it, then those whose selector matches its labels. Queues
with others below them take no jobs and are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.crds.queue_validation import mended
from windlass.crds.read import OwnedQueue, Users
from windlass.model.constraints import matches
from windlass.model.errors import close_names
from windlass.model.validation.problems import listed


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, as far as it matters here."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A queue, or the sentence that says why there is none that takes jobs."""

    queue: str = ""
    sentence: str = ""


class Doors:
    """Who may use which queue."""

    def __init__(self, queues: Sequence[OwnedQueue], default: str = "") -> None:
        # as they stand: one with a parent that cannot be its own has none
        parents = {each.parent for each in mended([each.queue for each in queues])}
        users = {each.queue.name: each.users for each in queues}
        self._users = {name: each for name, each in users.items() if name not in parents}
        self._inner = {name: each for name, each in users.items() if name in parents}
        """Who may use queues that have others below them, if those had not."""
        self._default = default
        """For namespaces that no queue names."""

    def choose(self, asked: str, namespace: Namespace) -> Choice:
        """The queue for a pod that asks for one by name, or for none ("")."""
        if asked:
            return self._asked(asked, namespace)
        found = _best(self._users, namespace)
        if len(found) == 1:
            return Choice(found[0])
        if found:
            several = f'namespace "{namespace.name}" may use several queues ({listed(found)})'
            return Choice(sentence=f"{several}; name one of them with the label windlass.dev/queue")
        if inner := _best(self._inner, namespace):
            # what runs already is still charged to it
            told = f'{_has_below(inner[0])}; add namespace "{namespace.name}" to one of those'
            return Choice(inner[0], told)
        if self._default in self._users:
            return Choice(self._default)
        return Choice(
            sentence=f'no queue names namespace "{namespace.name}"; '
            "add it to the namespaces of a queue"
        )

    def open_to(self, namespace: Namespace) -> list[str]:
        """The queues that its pods may name."""
        return [name for name in sorted(self._users) if self._asked(name, namespace).queue]

    def is_named(self, namespace: Namespace) -> bool:
        """Is it one whose users have a queue of their own, by name or by label?"""
        return bool(_best(self._users | self._inner, namespace))

    def charged(self, namespace: Namespace) -> str:
        """The queue that pays for pods of a namespace that we did not place; "": none."""
        return next(iter(_best(self._users, namespace)), self._default)

    def _asked(self, asked: str, namespace: Namespace) -> Choice:
        if asked in self._inner:
            is_its = _rank(self._inner[asked], namespace) is not None
            return Choice(asked if is_its else "", f"{_has_below(asked)}; name one of those")
        if asked not in self._users:
            close = close_names(asked, self._users)
            hint = f'; did you mean "{close[0]}"?' if close else "; name one that does"
            return Choice(sentence=f'queue "{asked}" does not exist{hint}')
        if asked == self._default or _rank(self._users[asked], namespace) is not None:
            return Choice(asked)
        return Choice(
            sentence=f'namespace "{namespace.name}" may not use queue "{asked}"; '
            "add it to the namespaces of that queue, or name another"
        )


def _best(queues: Mapping[str, Users], namespace: Namespace) -> list[str]:
    """The queues that name it, or else those that select it, in order of their names."""
    ranks = {name: _rank(users, namespace) for name, users in queues.items()}
    named = sorted(name for name, rank in ranks.items() if rank == 0)
    return named or sorted(name for name, rank in ranks.items() if rank == 1)


def _has_below(queue: str) -> str:
    return f'queue "{queue}" has queues below it and takes no jobs'


def _rank(users: Users, namespace: Namespace) -> int | None:
    """0: named; 1: selected by label; None: neither."""
    if namespace.name in users.names:
        return 0
    is_selected = users.term is not None and matches(users.term, namespace.labels)
    return 1 if is_selected else None
