"""Who runs where, as seen by pod (anti-)affinity and topology spread.

For each term that any task uses, a tally counts per domain the tasks that match it, and the tasks
that carry it as their own anti-affinity (which also binds newcomers). Tallies are kept while tasks
come and go; placement reads them as `counts[domain_of]`. What a spread counts depends on the nodes
that its owner may use, so its tallies count per node, and are added up when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from windlass.model.constraints import Constraints, PodTerm, Spread, Term, matches
from windlass.model.jobs import Task, TaskState
from windlass.model.resources import Pairs
from windlass.state.device_states import MOST_REMEMBERED
from windlass.state.node_columns import Ints, NodeTable

EVERYWHERE = "*"
EACH_NODE = ""
"""Instead of a label: each node is a domain of its own."""


class TaskLabels(NamedTuple):
    """What terms see of a task."""

    labels: Pairs
    namespace: str
    is_leaving: bool = False


class Subject(NamedTuple):
    """What a tally counts: matching tasks of these namespaces, per domain of a label."""

    selector: Term
    topology_key: str
    namespaces: tuple[str, ...]
    overlooks_leaving: bool = False
    """Tasks on their way out do not count."""


class Even(NamedTuple):
    """Somebody with a kept place must be spread evenly among those that match."""

    slot: int
    spread: Spread
    constraints: Constraints
    is_own: bool
    """Is it one of them?"""


class Awaited(NamedTuple):
    """Tasks for which places are kept, per domain: not there yet, but not to be spoilt either."""

    matching: Ints
    holders: Ints
    seekers: Ints
    """Those that must be near a match."""
    founders: Ints
    """Those of them that match themselves: the first may go anywhere."""
    even: list[Even]


class DomainCounts:
    """Counts per domain; the last entry collects nodes without the label and is ignored."""

    __slots__ = ("awaited", "domain_of", "holders", "leaving", "matching", "names", "subject")

    def __init__(self, subject: Subject, columns: NodeTable) -> None:
        self.subject = subject
        if subject.topology_key == EACH_NODE:
            self.domain_of, self.names = np.arange(len(columns)), columns.names
        else:
            self.domain_of, self.names = columns.labels(subject.topology_key)
        self.matching: Ints = np.zeros(len(self.names) + 1, np.int64)
        self.leaving: Ints = np.zeros_like(self.matching)
        """Those of them that are on their way out."""
        self.holders: Ints = np.zeros(len(self.names) + 1, np.int64)
        self.awaited: Awaited | None = None

    def expect(self) -> Awaited:
        """The counts of those for whom places are kept, from now on."""
        if self.awaited is None:
            none = np.zeros_like(self.matching)
            self.awaited = Awaited(none, none.copy(), none.copy(), none.copy(), [])
        return self.awaited

    def has_any(self) -> bool:
        """Does anybody match who stays?"""
        return bool((self.matching - self.leaving)[:-1].any())

    def matching_soon(self) -> Ints:
        """Who matches, is there or awaited."""
        return self.matching if self.awaited is None else self.matching + self.awaited.matching

    def holders_soon(self) -> Ints:
        """Who keeps others away, is there or awaited."""
        return self.holders if self.awaited is None else self.holders + self.awaited.holders


class PodAffinityIndex:
    """All tallies of a cluster."""

    __slots__ = ("_columns", "_matching", "tallies")

    def __init__(self, columns: NodeTable, subjects: Iterable[Subject]) -> None:
        self._columns = columns
        self.tallies = {subject: DomainCounts(subject, columns) for subject in subjects}
        self._matching: dict[TaskLabels, list[DomainCounts]] = {}

    def count(self, who: TaskLabels, constraints: Constraints, slot: int, sign: int) -> None:
        """A task comes to a node (sign 1) or leaves it (-1)."""
        if not self.tallies:
            return
        for tally in self.matching(who):
            tally.matching[tally.domain_of[slot]] += sign
            if who.is_leaving:
                tally.leaving[tally.domain_of[slot]] += sign
        for term in constraints.apart:
            tally = self.tallies[subject_of(term, who.namespace)]
            tally.holders[tally.domain_of[slot]] += sign

    def expect(self, who: TaskLabels, constraints: Constraints, slot: int, sign: int) -> None:
        """A place on a node is kept for a task (sign 1), or is so no longer (-1)."""
        for tally in self.matching(who):
            tally.expect().matching[tally.domain_of[slot]] += sign
        for term in constraints.apart:
            tally = self.tallies[subject_of(term, who.namespace)]
            tally.expect().holders[tally.domain_of[slot]] += sign
        for subject in near_subjects(constraints, who.namespace):
            tally = self.tallies[subject]
            tally.expect().seekers[tally.domain_of[slot]] += sign
            if tally in self.matching(who):
                tally.expect().founders[tally.domain_of[slot]] += sign
        for spread in constraints.spread:
            tally = self.tallies[spread_subject(spread, who.namespace)]
            even = Even(slot, spread, constraints, tally in self.matching(who))
            if spread.required:
                (tally.expect().even.append if sign > 0 else tally.expect().even.remove)(even)

    def saver(self) -> Callable[[], None]:
        """Remember everything as it is; the answer puts it back."""
        counts = [
            (each, each.matching.copy(), each.leaving.copy(), each.holders.copy(), each.awaited)
            for each in self.tallies.values()
        ]

        def put_back() -> None:
            for tally, matching, leaving, holders, awaited in counts:
                tally.matching, tally.leaving = matching, leaving
                tally.holders, tally.awaited = holders, awaited

        return put_back

    def matching(self, who: TaskLabels) -> list[DomainCounts]:
        """The tallies that count such a task."""
        found = self._matching.get(who)
        if found is None:
            if len(self._matching) >= MOST_REMEMBERED:
                self._matching.clear()
            found = self._matching[who] = [
                tally for tally in self.tallies.values() if _matches(tally.subject, who)
            ]
        return found


def who_is(task: Task, namespace: str) -> TaskLabels:
    """What terms see of a task."""
    return TaskLabels(task.labels, namespace, task.state == TaskState.RELEASING)


def subjects_of(constraints: Constraints, namespace: str) -> list[Subject]:
    """All that a task's constraints want counted."""
    terms = [*constraints.apart, *(each.term for each in constraints.pod_preferences)]
    return [
        *near_subjects(constraints, namespace),
        *(subject_of(term, namespace) for term in terms),
        *(spread_subject(spread, namespace) for spread in constraints.spread),
    ]


def near_subjects(constraints: Constraints, namespace: str) -> list[Subject]:
    """What the terms of a pod affinity count, one for each: tasks that match all of them."""
    if not constraints.near:
        return []
    selector: Term = ()
    spaces = (EVERYWHERE,)
    for term in constraints.near:
        selector += term.selector
        also = term.namespaces or (namespace,)
        if EVERYWHERE in spaces:
            spaces = also
        elif EVERYWHERE not in also:
            spaces = tuple(each for each in spaces if each in also)
    return [Subject(selector, term.topology_key, spaces) for term in constraints.near]


def subject_of(term: PodTerm, namespace: str) -> Subject:
    """What a term counts, seen from its owner's namespace."""
    return Subject(term.selector, term.topology_key, term.namespaces or (namespace,))


def spread_subject(spread: Spread, namespace: str) -> Subject:
    """What a spread constraint counts."""
    return Subject(spread.selector, EACH_NODE, (namespace,), overlooks_leaving=True)


def _matches(subject: Subject, who: TaskLabels) -> bool:
    inside = who.namespace in subject.namespaces or EVERYWHERE in subject.namespaces
    counts = not (subject.overlooks_leaving and who.is_leaving)
    return inside and counts and matches(subject.selector, dict(who.labels))
