"""The recent failures of work, as evidence against nodes and against gangs.

Three rules decide which failures count:

- A gang that runs on several nodes fails on all of them once one member does. So of the failures of
  a gang whose work ran at the same time only the earliest counts; the others are *merged* into it.
- A task that succeeds forgives its node and its gang all failures up to that time, and a person or
  a controller that trusts a node again forgives that node.
- An event that is told again changes nothing. The daemon sees finished pods again at every relist,
  and a new leader learns from the pods that still exist.

What counts is a function of the set of events, not of their order: a merged failure is remembered,
because an old success that arrives late may forgive the failure that it was merged into.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.model.events import NodeTrusted, WorkEnded
from windlass.model.jobs import GangId

MOST = 4096
"""The most failures that count; of more, the oldest are forgotten.

Also the most failures of one gang that are remembered: further ones are not merged, but dropped.
"""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failure of a gang's work on a node; times in seconds since 1970."""

    gang: GangId
    node: str
    since: int
    """The time at which the work started."""
    at: int
    """The time at which it failed."""
    against_node: bool = True
    """False once the node was forgiven."""
    against_gang: bool = True
    """False once the gang was forgiven."""


@dataclass(frozen=True, slots=True)
class ForgivenFailures:
    """A node or a gang (the other one is empty) whose failures up to a time do not count."""

    node: str
    gang: GangId
    at: int


_FailureKey = tuple[int, GangId, str, int]
"""Time of the failure, gang, node, start of the work: the identity of a failure, and its order."""


class FailureLog:
    """The failures that count, the merged ones behind them, and the times of forgiveness."""

    __slots__ = ("_against_gang", "_by_gang", "_counted", "_gangs", "_nodes", "_remembered")

    def __init__(
        self, known: Iterable[TaskFailure] = (), acquitted: Iterable[ForgivenFailures] = ()
    ) -> None:
        self._nodes: dict[str, int] = {}
        """The time until which a node is forgiven, by name; latest written last."""
        self._gangs: dict[str, int] = {}
        """The same for gangs."""
        self._remembered: dict[GangId, dict[_FailureKey, TaskFailure]] = {}
        """All failures that are not forgiven, merged ones too. A gang without any is absent."""
        self._counted: list[TaskFailure] = []
        """Those of `_remembered` that count, by `_key`. This and the two below are derived from
        `_remembered` by `_count_anew`: change nothing in them elsewhere."""
        self._by_gang: dict[GangId, list[TaskFailure]] = {}
        """The same failures by gang; no gang has an empty list."""
        self._against_gang: dict[GangId, list[TaskFailure]] = {}
        """Those of `_by_gang` that still speak against their gang; no gang has an empty list."""
        for forgiven in acquitted:
            if forgiven.node:
                self._nodes[forgiven.node] = forgiven.at
            else:
                self._gangs[forgiven.gang] = forgiven.at
        for failure in known:
            self._remembered.setdefault(failure.gang, {})[_key(failure)] = failure
        self._judge_anew(list(self._remembered))

    def __len__(self) -> int:
        return len(self._counted)

    def __iter__(self) -> Iterator[TaskFailure]:
        return iter(self._counted)

    def is_news(self, ended: WorkEnded) -> bool:
        """Return whether `take` would remember anything of this event."""
        if ended.succeeded:
            until = min(self._nodes.get(ended.node, -1), self._gangs.get(ended.gang, -1))
            return ended.at > until
        failure = self._judged(_failure_of(ended))
        if not _stands(failure) or _key(failure) in self._remembered.get(failure.gang, ()):
            return False
        return self._is_within_bounds(failure) or not self._is_merged(failure)

    def take(self, event: WorkEnded | NodeTrusted) -> None:
        """Remember that work succeeded or failed, or that a node is trusted again."""
        if isinstance(event, NodeTrusted):
            _forgive(self._nodes, event.name, event.at)
            self._judge_anew(self._gangs_failed_on(event.name))
        elif event.succeeded:
            _forgive(self._nodes, event.node, event.at)
            _forgive(self._gangs, event.gang, event.at)
            self._judge_anew({event.gang, *self._gangs_failed_on(event.node)})
        elif self.is_news(event):
            self._remember(self._judged(_failure_of(event)))

    def forget_until(self, at: int) -> None:
        """Forget forgiveness and failures up to a time, with the failures merged into them."""
        for forgiven in (self._nodes, self._gangs):
            while forgiven and (oldest := next(iter(forgiven.items())))[1] <= at:
                del forgiven[oldest[0]]
        # The earliest failure of a gang always counts, so none that is merged is older than these.
        if self._counted and self._counted[0].at <= at:
            self._drop([failure for failure in self._counted if failure.at <= at])

    def of_gang(self, gang: GangId) -> Sequence[TaskFailure]:
        """Return the failures that count against a gang, by time."""
        return self._against_gang.get(gang, ())

    def gangs(self) -> Iterable[GangId]:
        """Return the gangs against which any failure counts."""
        return self._against_gang

    def now(self) -> tuple[TaskFailure, ...]:
        """Return all failures that count, by time; merged ones are not part of a snapshot."""
        return tuple(self._counted)

    def forgiven(self) -> tuple[ForgivenFailures, ...]:
        """Return the nodes and gangs that were forgiven, by time."""
        nodes = [ForgivenFailures(node, GangId(""), at) for node, at in self._nodes.items()]
        gangs = [ForgivenFailures("", GangId(gang), at) for gang, at in self._gangs.items()]
        return tuple(sorted(nodes + gangs, key=lambda entry: (entry.at, entry.node, entry.gang)))

    def _remember(self, failure: TaskFailure) -> None:
        is_merged = self._is_merged(failure)
        self._remembered.setdefault(failure.gang, {})[_key(failure)] = failure
        if is_merged:
            return  # it changes nothing that counts, and gangs of thousands fail at once
        self._count_anew([failure.gang])
        if len(self._counted) > MOST:
            self._drop(self._counted[:-MOST])

    def _is_merged(self, failure: TaskFailure) -> bool:
        """Return whether an earlier failure that counts ran at the same time."""
        return any(
            _ran_together(counted, failure) and _key(counted) < _key(failure)
            for counted in self._by_gang.get(failure.gang, ())
        )

    def _is_within_bounds(self, failure: TaskFailure) -> bool:
        """Return whether one more merged failure of the gang may be remembered."""
        return len(self._remembered.get(failure.gang, ())) < MOST

    def _gangs_failed_on(self, node: str) -> list[GangId]:
        return [
            gang
            for gang, failures in self._remembered.items()
            if any(failure.node == node for failure in failures.values())
        ]

    def _drop(self, failures: Sequence[TaskFailure]) -> None:
        """Forget failures that count, and those that were merged into them."""
        for failure in failures:
            remembered = self._remembered[failure.gang]
            for key, other in list(remembered.items()):
                if _ran_together(failure, other):
                    del remembered[key]
        self._count_anew({failure.gang for failure in failures})

    def _judge_anew(self, gangs: Collection[GangId]) -> None:
        """Drop the failures of some gangs that are forgiven by now, and count the others."""
        for gang in gangs:
            failures = self._remembered.get(gang, {})
            judged = ((key, self._judged(failure)) for key, failure in failures.items())
            self._remembered[gang] = {key: failure for key, failure in judged if _stands(failure)}
        self._count_anew(gangs)

    def _count_anew(self, gangs: Collection[GangId]) -> None:
        """Derive the failures of some gangs that count from those that are remembered."""
        counted = [failure for failure in self._counted if failure.gang not in gangs]
        for gang in gangs:
            self._by_gang.pop(gang, None)
            self._against_gang.pop(gang, None)
            failures = self._remembered[gang]
            if not failures:
                del self._remembered[gang]
                continue
            self._by_gang[gang] = _earliest(failures)
            counted += self._by_gang[gang]
            if against := [failure for failure in self._by_gang[gang] if failure.against_gang]:
                self._against_gang[gang] = against
        self._counted = sorted(counted, key=_key)

    def _judged(self, failure: TaskFailure) -> TaskFailure:
        """Return the failure without what was forgiven. Forgiveness is never taken back."""
        node = failure.against_node and failure.at > self._nodes.get(failure.node, -1)
        gang = failure.against_gang and failure.at > self._gangs.get(failure.gang, -1)
        if (node, gang) == (failure.against_node, failure.against_gang):
            return failure
        return replace(failure, against_node=node, against_gang=gang)


def _earliest(failures: dict[_FailureKey, TaskFailure]) -> list[TaskFailure]:
    """Return the failures of a gang that count, by time: none ran together with an earlier one."""
    counted: list[TaskFailure] = []
    for key in sorted(failures):
        # Work that overlaps any that counts overlaps the last one too, because that failed latest.
        if not counted or not _ran_together(counted[-1], failures[key]):
            counted.append(failures[key])
    return counted


def _forgive(forgiven: dict[str, int], name: str, at: int) -> None:
    """Forgive a node or a gang until a time; of more than MOST, forget the oldest entry."""
    forgiven[name] = max(at, forgiven.pop(name, at))
    if len(forgiven) > MOST:
        del forgiven[next(iter(forgiven))]


def _failure_of(ended: WorkEnded) -> TaskFailure:
    return TaskFailure(ended.gang, ended.node, ended.since, ended.at)


def _stands(failure: TaskFailure) -> bool:
    """Return whether a failure speaks against its node or its gang still."""
    return failure.against_node or failure.against_gang


def _ran_together(one: TaskFailure, other: TaskFailure) -> bool:
    """Return whether the work of two failures of one gang ran at the same time."""
    return one.since <= other.at and other.since <= one.at


def _key(failure: TaskFailure) -> _FailureKey:
    return failure.at, failure.gang, failure.node, failure.since
