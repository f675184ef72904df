"""Write checkpoint requests on pods, after the promise to the preemptor.

    promise on the preemptor --> request on each pod (and to its endpoint) --> answers
                                     |                                            |
                                     +--> withdrawn: the annotation is removed    +--> noted: saved

The promise comes first, so that a new leader after a crash knows for whom the pods checkpoint. A
request that can never be written is reported; the daemon then does not wait for its pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from windlass.checkpoint.protocol import REQUEST, CheckpointRequest
from windlass.kube.client import Api, ApiError, Conflict, NotFound, Patch, Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers.binder import Binder
from windlass.kube.writers.checkpoint_http import CheckpointEndpoints
from windlass.kube.writes import (
    CheckpointSaved,
    CheckpointTarget,
    CheckpointWithdrawal,
    EvictRefused,
    GangCheckpoint,
    Heard,
    RequestUnwritable,
)
from windlass.model.jobs import TaskId
from windlass.workloads.objects import SAVED

News: TypeAlias = RequestUnwritable | Heard | EvictRefused
Report: TypeAlias = Callable[[News], None]


class CheckpointRequester:
    """Requests checkpoints from pods, withdraws requests, and notes saved checkpoints."""

    def __init__(self, api: Api, workers: WriteQueue, binder: Binder, report: Report) -> None:
        self._api, self._workers, self._binder, self._report = api, workers, binder, report
        self._standing: set[str] = set()
        """The ids of the requests that are neither ended nor withdrawn. A queued write checks this
        when it begins: the request may have ended while the write waited."""
        self.endpoints = CheckpointEndpoints(lambda task, ack: report(Heard(task, ack)))

    def ask(self, asking: GangCheckpoint) -> None:
        """Write the request on every pod, once the promise to the preemptor is written."""
        self._standing.add(asking.request.id)

        def go_on() -> None:
            for target in asking.pods:
                self._ask(target, asking.request)

        def give_up(error: ApiError) -> None:
            why = f"the promise could not be written: {error.message}"
            for target in asking.pods:
                self._report(EvictRefused(target.pod.task, why))

        if asking.gainer is None or not asking.promise:
            go_on()
        else:
            self._binder.promise(asking.gainer, asking.promise, go_on, give_up)

    def withdraw(self, withdrawal: CheckpointWithdrawal) -> None:
        """Remove a request from every pod, and from its endpoint."""
        self.end(withdrawal.id, ())
        for target in withdrawal.pods:
            if target.url:
                self.endpoints.withdraw(target.pod.task, target.url, withdrawal.id)
            self._put(target.pod, None, _ignore)

    def end(self, request_id: str, tasks: Iterable[TaskId]) -> None:
        """End a request: drop what is not written yet, and stop polling the endpoints."""
        self._standing.discard(request_id)
        for task in tasks:
            self.endpoints.forget(task)

    def note(self, saved: CheckpointSaved) -> None:
        """Note on a pod that its checkpoint is saved.

        The note is a condition in its status, which schedulers and kubelets may write and users may
        not.
        """
        condition = {
            "type": SAVED,
            "status": "True",
            "reason": "WorkIsSafe",
            "message": saved.ack.text(),
        }
        body = {"metadata": {"uid": saved.pod.uid}, "status": {"conditions": [condition]}}

        async def write() -> None:
            await self._api.patch(f"{saved.pod.path}/status", body, kind=Patch.STRATEGIC)

        self._workers.put(Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, _ignore))

    def _ask(self, target: CheckpointTarget, request: CheckpointRequest) -> None:
        task = target.pod.task
        if target.url and request.id in self._standing:
            self.endpoints.ask(task, target.url, request)

        def give_up(error: ApiError) -> None:
            if not isinstance(error, NotFound | Conflict):  # those mean that the pod is gone
                self._report(RequestUnwritable(task, request.id, error.message))

        self._put(target.pod, request, give_up)

    def _put(
        self, pod: PodRef, request: CheckpointRequest | None, give_up: Callable[[ApiError], None]
    ) -> None:
        """Queue the write of a request on a pod, or of its removal if `request` is None."""
        annotations = {REQUEST: request.text() if request else None}
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}

        async def write() -> None:
            if request is None or request.id in self._standing:
                # The status subresource can change annotations too. So the scheduler needs no right
                # to patch pods, which would allow it to change their images.
                await self._api.patch(f"{pod.path}/status", body)

        self._workers.put(Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, give_up))


def _ignore(_error: ApiError) -> None:
    """Do nothing: a pod that is gone needs no note."""
