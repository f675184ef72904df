"""Who runs where, as seen by pod (anti-)affinity and topology spread.

For each term that any task uses, a tally counts per domain the tasks that match it, and the tasks
that carry it as their own anti-affinity (which also binds newcomers). Tallies are kept while tasks
come and go; placement reads them as `counts[domain_of]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from windlass.model.constraints import Constraints, PodTerm, Spread, Term, matches
from windlass.model.resources import Pairs
from windlass.state.columns import Columns, Ints
from windlass.state.devices import MOST_REMEMBERED

EVERYWHERE = "*"


class Subject(NamedTuple):
    """What a tally counts: matching tasks of these namespaces, per domain of a label."""

    selector: Term
    topology_key: str
    namespaces: tuple[str, ...]


class Tally:
    """Counts per domain; the last entry collects nodes without the label and is ignored."""

    __slots__ = ("domain_of", "holders", "matching", "names", "subject")

    def __init__(self, subject: Subject, columns: Columns) -> None:
        self.subject = subject
        self.domain_of, self.names = columns.labels(subject.topology_key)
        self.matching: Ints = np.zeros(len(self.names) + 1, np.int64)
        self.holders: Ints = np.zeros(len(self.names) + 1, np.int64)


class Neighbours:
    """All tallies of a cluster."""

    __slots__ = ("_columns", "_matching", "tallies")

    def __init__(self, columns: Columns, subjects: Iterable[Subject]) -> None:
        self._columns = columns
        self.tallies = {subject: Tally(subject, columns) for subject in subjects}
        self._matching: dict[tuple[Pairs, str], list[Tally]] = {}

    def count(self, who: tuple[Pairs, str], constraints: Constraints, slot: int, sign: int) -> None:
        """A task with these labels, of this namespace, comes to a node (sign 1) or leaves (-1)."""
        if not self.tallies:
            return
        for tally in self.matching(who):
            tally.matching[tally.domain_of[slot]] += sign
        for term in constraints.apart:
            tally = self.tallies[subject_of(term, who[1])]
            tally.holders[tally.domain_of[slot]] += sign

    def saver(self) -> Callable[[], None]:
        """Remember everything as it is; the answer puts it back."""
        counts = [
            (each, each.matching.copy(), each.holders.copy()) for each in self.tallies.values()
        ]

        def put_back() -> None:
            for tally, matching, holders in counts:
                tally.matching, tally.holders = matching, holders

        return put_back

    def matching(self, who: tuple[Pairs, str]) -> list[Tally]:
        """The tallies that count tasks with these labels in this namespace."""
        found = self._matching.get(who)
        if found is None:
            if len(self._matching) >= MOST_REMEMBERED:
                self._matching.clear()
            found = self._matching[who] = [
                tally for tally in self.tallies.values() if _matches(tally.subject, who)
            ]
        return found


def subjects_of(constraints: Constraints, namespace: str) -> list[Subject]:
    """All that a task's constraints want counted."""
    terms = [*constraints.near, *constraints.apart]
    terms += [each.term for each in constraints.pod_preferences]
    return [subject_of(term, namespace) for term in terms] + [
        spread_subject(spread, namespace) for spread in constraints.spread
    ]


def subject_of(term: PodTerm, namespace: str) -> Subject:
    """What a term counts, seen from its owner's namespace."""
    return Subject(term.selector, term.topology_key, term.namespaces or (namespace,))


def spread_subject(spread: Spread, namespace: str) -> Subject:
    """What a spread constraint counts."""
    return Subject(spread.selector, spread.topology_key, (namespace,))


def _matches(subject: Subject, who: tuple[Pairs, str]) -> bool:
    labels, namespace = who
    inside = namespace in subject.namespaces or EVERYWHERE in subject.namespaces
    return inside and matches(subject.selector, dict(labels))
