"""The jobs that wait, run and have finished: lists of which a viewer requests a window.

A list may have a hundred thousand entries. It is sorted once per view, as names alone; only the
rows of a window are written out. This module also lists the changes that would start a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeVar

from windlass.engine.plan import Decision, Verdict
from windlass.engine.suggestions import MOST_TOLD, ChangeKind, suggest
from windlass.model.jobs import Gang, GangId
from windlass.model.reasons import Reason
from windlass.model.resources import describe
from windlass.state.queue_accounts import models_of
from windlass.state.snapshot import Snapshot
from windlass.web.feed import ClusterView, GangMemberIndex, given_milli, is_waiting
from windlass.web.schema import (
    Eta,
    FinishedJob,
    JobDocument,
    JobsDocument,
    PlaceRow,
    ReasonRow,
    RunningJob,
    StartRow,
    WaitingJob,
)

MOST_ROWS = 200
"""The largest number of rows of each list in one document; more than any screen shows."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class ListWindow:
    """The part of each list that a request asks for."""

    waiting: int = 0
    """The first row of the list of waiting jobs; the next two likewise."""
    running: int = 0
    finished: int = 0
    count: int = MOST_ROWS
    find: str = ""
    """A part of the name, queue or user of the jobs to list; empty: all jobs."""


TOP = ListWindow()


class JobLists:
    """The lists of jobs of one view."""

    def __init__(self, view: ClusterView, members: GangMemberIndex) -> None:
        self.stamp = view.stamp
        self._view = view
        self._members = members
        self._starts = {
            hold.gang: hold.starts_at for hold in view.plan.holds if hold.starts_at > view.now
        }

    def document(self, window: ListWindow = TOP) -> JobsDocument:
        """Return the rows of a window, and the lengths of the lists."""
        word = window.find.lower()
        line = self._matching(self.line, word, lambda decision: decision.gang)
        running = self._matching(self.running, word, lambda gang: gang)
        finished = [job for job in self._view.beside.finished if _matches(job, word)]
        count = window.count
        return JobsDocument(
            stamp=self.stamp,
            waiting_in_all=len(line),
            running_in_all=len(running),
            finished_in_all=len(finished),
            waiting_first=min(window.waiting, len(line)),
            running_first=min(window.running, len(running)),
            finished_first=min(window.finished, len(finished)),
            waiting=[self._waiting(decision) for decision in _cut(line, window.waiting, count)],
            running=[self._running(gang) for gang in _cut(running, window.running, count)],
            finished=_cut(finished, window.finished, count),
            asked=self._asked_in_all,
            given=self._members.given,
            median_wait=int(median(self._waits)) if self._waits else None,
            longest_wait=self._waits[-1] if self._waits else None,
            promised=sum(decision.gang in self._starts for decision in self.line),
        )

    def one(self, gang: str) -> JobDocument | None:
        """Return the document of one gang; None if it is in no list."""
        name = GangId(gang)
        decision = next((decision for decision in self.line if decision.gang == name), None)
        ended = (job for job in self._view.beside.finished if job.gang == gang)
        is_running, finished = name in self._members.running, next(ended, None)
        if decision is None and not is_running and finished is None:
            return None
        return JobDocument(
            stamp=self.stamp,
            waiting=self._waiting(decision) if decision else None,
            running=self._running(name) if is_running else None,
            finished=finished,
            places=self._places(name),
            # Positions count all gangs that wait, so a part of the line has no length to compare.
            waiting_in_all=len(self.line) if self._view.has_all_gangs else None,
        )

    @cached_property
    def line(self) -> list[Decision]:
        """The gangs that wait, in queue order; those that can never start are last."""
        gangs, decisions = self._view.gangs, self._view.plan.decisions
        line = [
            decision for decision in decisions if is_waiting(decision) and decision.gang in gangs
        ]
        line.sort(key=lambda d: (d.verdict is Verdict.NEVER, d.position, d.gang))
        return line

    @cached_property
    def running(self) -> list[GangId]:
        """The gangs with tasks on nodes, the newest first."""
        gangs = [gang for gang in self._members.running if gang in self._view.gangs]
        return sorted(gangs, key=lambda gang: (-self._since(gang), gang))

    @cached_property
    def _waits(self) -> list[int]:
        """The waiting times so far in seconds, the shortest first."""
        gangs, now = self._view.gangs, self._view.now
        return sorted(now - gangs[decision.gang].created_at for decision in self.line)

    @cached_property
    def _asked_in_all(self) -> int:
        return sum(self._members.requested.get(decision.gang, 0) for decision in self.line)

    def _eta(self, gang: GangId) -> Eta | None:
        """Return the expected start; now if the forecast start has passed."""
        eta, now = self._view.beside.etas.get(gang), self._view.now
        return eta and Eta(max(eta.at, now), max(eta.early, now), max(eta.late, now))

    def _since(self, gang: GangId) -> int:
        started = self._members.running[gang]
        return self._view.gangs[gang].created_at if started is None else started

    def _matching(
        self, entries: list[Entry], word: str, gang_of: Callable[[Entry], GangId]
    ) -> list[Entry]:
        if not word:
            return entries
        gangs = self._view.gangs
        return [entry for entry in entries if _matches(gangs[gang_of(entry)], word)]

    def _waiting(self, decision: Decision) -> WaitingJob:
        gang = self._view.gangs[decision.gang]
        tasks = self._members.waiting(gang.id)
        never = decision.verdict is Verdict.NEVER
        return WaitingJob(
            gang=gang.id,
            job=gang.job,
            queue=gang.queue,
            user=gang.user,
            namespace=gang.namespace,
            priority=gang.priority,
            position=0 if never else decision.position,
            asks=describe(tasks[0].shape.request) if tasks else "",
            tasks=len(tasks),
            milli=self._members.requested.get(gang.id, 0),
            since=gang.created_at,
            starts_at=self._starts.get(gang.id),
            eta=self._eta(gang.id),
            reasons=reason_rows(decision.reasons),
        )

    def _running(self, name: GangId) -> RunningJob:
        gang, tasks = self._view.gangs[name], self._members.placed(name)
        nodes = self._view.nodes
        models = {
            model
            for task in tasks
            for model, _ in models_of(task.shape.request, task.devices, nodes.get(task.node))
        }
        return RunningJob(
            gang=gang.id,
            job=gang.job,
            queue=gang.queue,
            user=gang.user,
            namespace=gang.namespace,
            priority=gang.priority,
            tasks=len(tasks),
            milli=sum(given_milli(task, nodes.get(task.node)) for task in tasks),
            models=sorted(models),
            nodes=sorted({task.node for task in tasks}),
            since=self._since(name),
        )

    def _places(self, name: GangId) -> list[PlaceRow]:
        tasks = sorted(self._members.placed(name), key=lambda task: task.id)
        return [
            PlaceRow(
                task=task.id,
                node=task.node,
                devices=sorted({part.device for part in task.devices}),
                milli=given_milli(task, self._view.nodes.get(task.node)),
                state=task.state,
                started=task.started_at,
            )
            for task in tasks[:MOST_ROWS]
        ]


def reason_rows(reasons: Iterable[Reason]) -> list[ReasonRow]:
    """Return reasons as rows with a code for programs and a sentence for people."""
    return [ReasonRow(str(reason.why), str(reason)) for reason in reasons]


def _matches(job: Gang | FinishedJob, word: str) -> bool:
    name = job.id if isinstance(job, Gang) else job.gang
    return not word or any(word in part.lower() for part in (name, job.queue, job.user))


def _cut(entries: Sequence[Entry], first: int, count: int) -> list[Entry]:
    return list(entries[first : first + min(count, MOST_ROWS)])


def start_rows(snapshot: Snapshot, gang: GangId) -> tuple[list[StartRow], list[str]]:
    """Return the changes that would start a waiting gang now, and notes about them.

    The words are those of `windlass explain`. Changes that are not allowed stand last; otherwise
    the order of the engine stays, the smallest change first.
    """
    suggestions = suggest(snapshot, gang)
    listed = suggestions.suggestions[:MOST_TOLD]
    rows = [
        StartRow(entry.change.kind, str(entry), entry.change.kind is not ChangeKind.STOP)
        for entry in listed
    ]
    return sorted(rows, key=lambda row: not row.allowed), suggestions.sentences()[len(listed) :]
