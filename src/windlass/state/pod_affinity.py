"""Counts of tasks per topology domain, for pod (anti-)affinity and topology spread.

For each *subject* (selector, topology key, namespaces) that a term of any task names, there is one
`DomainCounts`: the number of matching tasks in each domain, and the number of tasks that have the
term as their own anti-affinity, which also excludes later tasks. Counts follow tasks as they come
and go; placement reads them for all nodes at once as `counts.matching[counts.domain_of]`.

The tasks that a topology spread counts depend on the nodes that its owner may use. So spreads count
per node, and readers add up the nodes of each domain.
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
"""Instead of a namespace: all of them."""
EACH_NODE = ""
"""Instead of a topology key: each node is a domain of its own."""


class TaskLabels(NamedTuple):
    """The properties of a task that pod terms look at."""

    labels: Pairs
    namespace: str
    is_leaving: bool = False


class Subject(NamedTuple):
    """The tasks that are counted: matching ones of these namespaces, per domain of a label."""

    selector: Term
    topology_key: str
    namespaces: tuple[str, ...]
    overlooks_leaving: bool = False
    """Releasing tasks do not count."""


class HeldSpread(NamedTuple):
    """A required topology spread of a task for which a place is held at a slot."""

    slot: int
    spread: Spread
    constraints: Constraints
    is_own: bool
    """The task itself matches the selector of its spread."""


class HeldPlaceCounts(NamedTuple):
    """The tasks for which places are held, per domain.

    They do not run yet, but other placements must not make their places illegal.
    """

    matching: Ints
    """Tasks that match the subject."""
    holders: Ints
    """Tasks that have the subject as their anti-affinity."""
    seekers: Ints
    """Tasks that have the subject as their affinity."""
    founders: Ints
    """Those seekers that match the subject themselves: the first one may go anywhere."""
    even: list[HeldSpread]
    """The required spreads over the subject."""


class DomainCounts:
    """The counts of one subject per domain.

    Each array has one entry per domain and a last one, which collects the nodes without the label
    (`domain_of` is -1 there, the last index) and is ignored.
    """

    __slots__ = ("awaited", "domain_of", "holders", "leaving", "matching", "names", "subject")

    def __init__(self, subject: Subject, columns: NodeTable) -> None:
        self.subject = subject
        if subject.topology_key == EACH_NODE:
            self.domain_of, self.names = np.arange(len(columns)), columns.names
        else:
            self.domain_of, self.names = columns.labels(subject.topology_key)
        """The domain of each slot, and the names of the domains."""
        self.matching: Ints = np.zeros(len(self.names) + 1, np.int64)
        """Occupying tasks that match the subject."""
        self.leaving: Ints = np.zeros_like(self.matching)
        """Those of `matching` that are releasing."""
        self.holders: Ints = np.zeros(len(self.names) + 1, np.int64)
        """Occupying tasks that have the subject as their anti-affinity."""
        self.awaited: HeldPlaceCounts | None = None
        """The tasks for which places are held; None if there are none."""

    def expect(self) -> HeldPlaceCounts:
        """Return the counts of tasks with held places; make them if there are none."""
        if self.awaited is None:
            none = np.zeros_like(self.matching)
            self.awaited = HeldPlaceCounts(none, none.copy(), none.copy(), none.copy(), [])
        return self.awaited

    def has_any(self) -> bool:
        """Return whether any task matches that is not releasing."""
        return bool((self.matching - self.leaving)[:-1].any())

    def matching_soon(self) -> Ints:
        """Return the matching tasks per domain, including those with held places."""
        return self.matching if self.awaited is None else self.matching + self.awaited.matching

    def holders_soon(self) -> Ints:
        """Return the tasks with the anti-affinity per domain, including those with held places."""
        return self.holders if self.awaited is None else self.holders + self.awaited.holders


class PodAffinityIndex:
    """The counts of all subjects of a cluster."""

    __slots__ = ("_columns", "_matching", "tallies")

    def __init__(self, columns: NodeTable, subjects: Iterable[Subject]) -> None:
        self._columns = columns
        self.tallies = {subject: DomainCounts(subject, columns) for subject in subjects}
        """Every subject of a counted task must be among them."""
        self._matching: dict[TaskLabels, list[DomainCounts]] = {}
        """A cache of `matching`. Subjects never change, so it stays valid."""

    def count(self, who: TaskLabels, constraints: Constraints, slot: int, sign: int) -> None:
        """Count a task that comes to a node (sign 1) or leaves it (-1)."""
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
        """Count a task for which a place is held (sign 1), or no longer held (-1)."""
        for tally in self.matching(who):
            tally.expect().matching[tally.domain_of[slot]] += sign
        for term in constraints.apart:
            tally = self.tallies[subject_of(term, who.namespace)]
            tally.expect().holders[tally.domain_of[slot]] += sign
        for subject in affinity_subjects(constraints, who.namespace):
            tally = self.tallies[subject]
            tally.expect().seekers[tally.domain_of[slot]] += sign
            if tally in self.matching(who):
                tally.expect().founders[tally.domain_of[slot]] += sign
        for spread in constraints.spread:
            tally = self.tallies[spread_subject(spread, who.namespace)]
            even = HeldSpread(slot, spread, constraints, tally in self.matching(who))
            if spread.required:
                (tally.expect().even.append if sign > 0 else tally.expect().even.remove)(even)

    def saver(self) -> Callable[[], None]:
        """Save all counts of occupying tasks; return a function that restores them."""
        counts = [
            (
                tally,
                tally.matching.copy(),
                tally.leaving.copy(),
                tally.holders.copy(),
                tally.awaited,
            )
            for tally in self.tallies.values()
        ]

        def put_back() -> None:
            for tally, matching, leaving, holders, awaited in counts:
                tally.matching, tally.leaving = matching, leaving
                tally.holders, tally.awaited = holders, awaited

        return put_back

    def matching(self, who: TaskLabels) -> list[DomainCounts]:
        """Return the counts of the subjects that a task matches."""
        tallies = self._matching.get(who)
        if tallies is None:
            if len(self._matching) >= MOST_REMEMBERED:
                self._matching.clear()
            tallies = self._matching[who] = [
                tally for tally in self.tallies.values() if _matches(tally.subject, who)
            ]
        return tallies


def labels_of(task: Task, namespace: str) -> TaskLabels:
    """Return the properties of a task that pod terms look at."""
    return TaskLabels(task.labels, namespace, task.state == TaskState.RELEASING)


def subjects_of(constraints: Constraints, namespace: str) -> list[Subject]:
    """Return all subjects that the constraints of a task need counts of."""
    terms = [*constraints.apart, *(wish.term for wish in constraints.pod_preferences)]
    return [
        *affinity_subjects(constraints, namespace),
        *(subject_of(term, namespace) for term in terms),
        *(spread_subject(spread, namespace) for spread in constraints.spread),
    ]


def affinity_subjects(constraints: Constraints, namespace: str) -> list[Subject]:
    """Return one subject for each term of a pod affinity.

    As in Kubernetes, a task counts only if it matches the selectors and namespaces of all terms, so
    the subjects differ in their topology keys alone.
    """
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
            spaces = tuple(space for space in spaces if space in also)
    return [Subject(selector, term.topology_key, spaces) for term in constraints.near]


def subject_of(term: PodTerm, namespace: str) -> Subject:
    """Return the subject of a term whose owner is in a namespace."""
    return Subject(term.selector, term.topology_key, term.namespaces or (namespace,))


def spread_subject(spread: Spread, namespace: str) -> Subject:
    """Return the subject of a topology spread, counted per node."""
    return Subject(spread.selector, EACH_NODE, (namespace,), overlooks_leaving=True)


def _matches(subject: Subject, who: TaskLabels) -> bool:
    inside = who.namespace in subject.namespaces or EVERYWHERE in subject.namespaces
    counts = not (subject.overlooks_leaving and who.is_leaving)
    return inside and counts and matches(subject.selector, dict(who.labels))
