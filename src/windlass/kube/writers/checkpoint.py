"""Requests to save, on the pods: promised to the gang that gains, then written on every pod.

    promise to who gains --> request on each pod (and to its endpoint) --> answers
                                     |                                        |
                                     +--> withdrawn: the annotation is gone   +--> noted as saved

A request that can never be written comes back as news; its pod is then not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.checkpoint.protocol import REQUEST, Ack, CheckpointRequest
from windlass.kube.client.client import Api, Patch
from windlass.kube.client.errors import ApiError, Conflict, NotFound
from windlass.kube.client.write_queue import Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers.binder import Binder
from windlass.kube.writers.checkpoint_http import Endpoints
from windlass.kube.writers.evictor import EvictRefused
from windlass.model.jobs import TaskId
from windlass.workloads.objects.annotations import SAVED


@dataclass(frozen=True, slots=True)
class CheckpointTarget:
    """A pod that is asked, and its endpoint if it has one."""

    pod: PodRef
    url: str = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """A request to pods of one gang, and the promise to write before."""

    request: CheckpointRequest
    pods: tuple[CheckpointTarget, ...]
    gainer: PodRef | None = None
    promise: str = ""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A request that is void, and the pods that carry it."""

    id: str
    pods: tuple[CheckpointTarget, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """An answer that was believed, to be noted on its pod."""

    pod: PodRef
    ack: Ack


@dataclass(frozen=True, slots=True)
class Unasked:
    """A request that can never be written on a pod."""

    task: TaskId
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What the endpoint of a pod has answered."""

    task: TaskId
    ack: Ack


News: TypeAlias = Unasked | Heard | EvictRefused
Report: TypeAlias = Callable[[News], None]


class Asker:
    """Asks pods to save."""

    def __init__(self, api: Api, workers: WriteQueue, binder: Binder, report: Report) -> None:
        self._api, self._workers, self._binder, self._report = api, workers, binder, report
        self._standing: set[str] = set()
        """Requests, by id, that may still be written."""
        self.endpoints = Endpoints(lambda task, ack: report(Heard(task, ack)))

    def ask(self, asking: Asking) -> None:
        """Write the request on every pod, once the promise to the gang that gains is written."""
        self._standing.add(asking.request.id)

        def go_on() -> None:
            for each in asking.pods:
                self._ask(each, asking.request)

        def give_up(error: ApiError) -> None:
            why = f"the promise could not be written: {error.message}"
            for each in asking.pods:
                self._report(EvictRefused(each.pod.task, why))

        if asking.gainer is None or not asking.promise:
            go_on()
        else:
            self._binder.promise(asking.gainer, asking.promise, go_on, give_up)

    def withdraw(self, withdrawal: Withdrawal) -> None:
        """Take a request from every pod."""
        self.end(withdrawal.id, ())
        for each in withdrawal.pods:
            if each.url:
                self.endpoints.withdraw(each.pod.task, each.url, withdrawal.id)
            self._put(each.pod, None, _ignore)

    def end(self, name: str, tasks: Iterable[TaskId]) -> None:
        """A request is over: what is not written yet will not be, and nobody is asked how far."""
        self._standing.discard(name)
        for task in tasks:
            self.endpoints.forget(task)

    def note(self, saved: Saved) -> None:
        """Write down that a pod's work is safe, where only we and kubelets can."""
        written = {
            "type": SAVED,
            "status": "True",
            "reason": "WorkIsSafe",
            "message": saved.ack.text(),
        }
        body = {"metadata": {"uid": saved.pod.uid}, "status": {"conditions": [written]}}

        async def write() -> None:
            await self._api.patch(f"{saved.pod.path}/status", body, kind=Patch.STRATEGIC)

        self._workers.put(Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, _ignore))

    def _ask(self, asked: CheckpointTarget, request: CheckpointRequest) -> None:
        task = asked.pod.task
        if asked.url and request.id in self._standing:
            self.endpoints.ask(task, asked.url, request)

        def give_up(error: ApiError) -> None:
            if not isinstance(error, NotFound | Conflict):  # those mean that it is gone
                self._report(Unasked(task, request.id, error.message))

        self._put(asked.pod, request, give_up)

    def _put(
        self, pod: PodRef, request: CheckpointRequest | None, give_up: Callable[[ApiError], None]
    ) -> None:
        note = {REQUEST: request.text() if request else None}
        body = {"metadata": {"uid": pod.uid, "annotations": note}}

        async def write() -> None:
            if request is None or request.id in self._standing:
                # annotations can be written there too: who may patch pods could change their images
                await self._api.patch(f"{pod.path}/status", body)

        self._workers.put(Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, give_up))


def _ignore(_error: ApiError) -> None:
    """A pod that is gone has no use for it."""
