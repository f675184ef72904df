"""Who waits and why, who runs and where, who has finished: lists of which viewers see a window.

A list may have a hundred thousand entries. It is put in order once per moment, as names alone; only
the rows of a window are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeVar

from windlass.engine.plan import Decision, Verdict
from windlass.model.jobs import Gang, GangId
from windlass.model.reasons import Reason
from windlass.model.resources import describe
from windlass.state.queue_accounts import models_of
from windlass.web.documents.requested_gpus import given_milli, is_waiting
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.view import ClusterView
from windlass.web.schema.documents import (
    Eta,
    FinishedJob,
    JobDocument,
    JobsDocument,
    PlaceRow,
    ReasonRow,
    RunningJob,
    WaitingJob,
)

MOST_ROWS = 200
"""Of each list at a time; more than any screen shows."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class ListWindow:
    """Which part of the lists is wanted."""

    waiting: int = 0
    """The first row of each list."""
    running: int = 0
    finished: int = 0
    count: int = MOST_ROWS
    find: str = ""
    """Only jobs of whose name, queue or user this is a part."""


TOP = ListWindow()


class Lists:
    """The lists of one moment."""

    def __init__(self, look: ClusterView, members: GangMemberIndex) -> None:
        self.stamp = look.stamp
        self._look = look
        self._members = members
        self._starts = {
            hold.gang: hold.starts_at for hold in look.plan.holds if hold.starts_at > look.now
        }

    def document(self, window: ListWindow = TOP) -> JobsDocument:
        """What the window shows, and how long the lists are."""
        word = window.find.lower()
        line = self._matching(self.line, word, lambda each: each.gang)
        running = self._matching(self.running, word, lambda gang: gang)
        finished = [each for each in self._look.beside.finished if _is_found(each, word)]
        count = window.count
        return JobsDocument(
            stamp=self.stamp,
            waiting_in_all=len(line),
            running_in_all=len(running),
            finished_in_all=len(finished),
            waiting_first=min(window.waiting, len(line)),
            running_first=min(window.running, len(running)),
            finished_first=min(window.finished, len(finished)),
            waiting=[self._waiting(each) for each in _cut(line, window.waiting, count)],
            running=[self._running(gang) for gang in _cut(running, window.running, count)],
            finished=_cut(finished, window.finished, count),
            asked=self._asked_in_all,
            given=self._members.given,
            median_wait=int(median(self._waits)) if self._waits else None,
            longest_wait=self._waits[-1] if self._waits else None,
            promised=sum(each.gang in self._starts for each in self.line),
        )

    def one(self, gang: str) -> JobDocument | None:
        """One gang alone; None if it is in no list."""
        name = GangId(gang)
        decision = next((each for each in self.line if each.gang == name), None)
        ended = (each for each in self._look.beside.finished if each.gang == gang)
        is_running, finished = name in self._members.running, next(ended, None)
        if decision is None and not is_running and finished is None:
            return None
        return JobDocument(
            stamp=self.stamp,
            waiting=self._waiting(decision) if decision else None,
            running=self._running(name) if is_running else None,
            finished=finished,
            places=self._places(name),
            waiting_in_all=len(self.line),
        )

    @cached_property
    def line(self) -> list[Decision]:
        """Who waits, in the order of the line; who can never start stands last."""
        gangs = self._look.gangs
        found = [
            each for each in self._look.plan.decisions if is_waiting(each) and each.gang in gangs
        ]
        found.sort(key=lambda each: (each.verdict is Verdict.NEVER, each.position, each.gang))
        return found

    @cached_property
    def running(self) -> list[GangId]:
        """Who has tasks on nodes, the newest first."""
        there = [gang for gang in self._members.running if gang in self._look.gangs]
        return sorted(there, key=lambda gang: (-self._since(gang), gang))

    @cached_property
    def _waits(self) -> list[int]:
        """How long everybody has waited, the shortest first."""
        gangs, now = self._look.gangs, self._look.now
        return sorted(now - gangs[each.gang].created_at for each in self.line)

    @cached_property
    def _asked_in_all(self) -> int:
        return sum(self._members.asked.get(each.gang, 0) for each in self.line)

    def _eta(self, gang: GangId) -> Eta | None:
        """When it is expected; a forecast that time has overtaken says now."""
        found, now = self._look.beside.etas.get(gang), self._look.now
        return found and Eta(max(found.at, now), max(found.early, now), max(found.late, now))

    def _since(self, gang: GangId) -> int:
        started = self._members.running[gang]
        return self._look.gangs[gang].created_at if started is None else started

    def _matching(
        self, entries: list[Entry], word: str, gang_of: Callable[[Entry], GangId]
    ) -> list[Entry]:
        if not word:
            return entries
        gangs = self._look.gangs
        return [each for each in entries if _is_found(gangs[gang_of(each)], word)]

    def _waiting(self, decision: Decision) -> WaitingJob:
        gang = self._look.gangs[decision.gang]
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
            milli=self._members.asked.get(gang.id, 0),
            since=gang.created_at,
            starts_at=self._starts.get(gang.id),
            eta=self._eta(gang.id),
            reasons=reason_rows(decision.reasons),
        )

    def _running(self, name: GangId) -> RunningJob:
        gang, tasks = self._look.gangs[name], self._members.placed(name)
        nodes = self._look.nodes
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
                devices=sorted({each.device for each in task.devices}),
                milli=given_milli(task, self._look.nodes.get(task.node)),
                state=task.state,
                started=task.started_at,
            )
            for task in tasks[:MOST_ROWS]
        ]


def reason_rows(reasons: Iterable[Reason]) -> list[ReasonRow]:
    """Reasons as programs and people read them."""
    return [ReasonRow(str(each.why), str(each)) for each in reasons]


def _is_found(job: Gang | FinishedJob, word: str) -> bool:
    name = job.id if isinstance(job, Gang) else job.gang
    return not word or any(word in part.lower() for part in (name, job.queue, job.user))


def _cut(entries: Sequence[Entry], first: int, count: int) -> list[Entry]:
    return list(entries[first : first + min(count, MOST_ROWS)])
