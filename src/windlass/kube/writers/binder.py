"""Bind the pods of gangs, after their promise; report failures.

The meaning of each answer to a bind:

    201                     bound; the watch will show it
    409, 404                the pod is read: it is bound already, replaced, or gone
    400, 422, 401, 403      the bind failed, and is not retried at once
    429, 5xx, no answer     the same bind is retried later: it cannot take effect twice

The places of a gang are promised before its first bind; if the promise cannot be written, nothing
is bound. A pod whose volume claims wait for its node is bound once they have volumes
(`volume_claims.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random

import msgspec

from windlass.kube.client import (
    Api,
    ApiError,
    Backoff,
    Conflict,
    NotAllowed,
    NotFound,
    Patch,
    ServerFault,
    TooMany,
    Unanswered,
    Urgency,
    Write,
    WriteQueue,
)
from windlass.kube.refs import PodLost, PodRead, PodRef
from windlass.kube.writers import volume_claims as claims
from windlass.kube.writers.placement_promises import condition_of
from windlass.kube.writes import Binding, BindResult, GangBinds
from windlass.model.events import BindFailed
from windlass.workloads.objects import Pod

_pod = msgspec.json.Decoder(Pod)


Report = Callable[[BindResult], None]

MOST_BEGUN = 20_000
"""The number of recent binds that are remembered, so that no late condition "waits" is written on a
pod that is already bound."""
LOOK_AGAIN_S, MOST_LOOKS = 1.0, 600
"""The pause in seconds between two reads of claims whose volumes are being provisioned, and the
number of reads before the bind fails."""
AGAIN = (TooMany, ServerFault, Unanswered)
"""Errors after which the same request is retried."""


class Binder:
    """Writes promises and binds pods."""

    def __init__(self, api: Api, workers: WriteQueue, report: Report, chance: Random) -> None:
        self._api, self._workers, self._report, self._chance = api, workers, report, chance
        self._under_way: set[str] = set()
        """The uids of pods whose bind has neither succeeded nor failed."""
        self._begun: dict[str, None] = {}
        """The uids of pods whose bind has begun and has not failed, the oldest first: a dict is
        used as an ordered set. A superset of `_under_way`, up to `MOST_BEGUN`."""

    def start(self, start: GangBinds) -> None:
        """Bind the pods of a gang, after its promise if there is one."""
        self._under_way.update(each.pod.uid for each in start.bindings)
        self._begun |= {each.pod.uid: None for each in start.bindings}
        for uid in list(islice(self._begun, max(0, len(self._begun) - MOST_BEGUN))):
            del self._begun[uid]
        if not start.promise:
            self._bind_all(start.bindings)
            return
        first = start.bindings[0].pod

        def go_on() -> None:
            self._bind_all(start.bindings)

        def give_up(error: ApiError) -> None:
            self._fail(start.bindings, f"the promise could not be written: {error.message}")

        self.promise(first, start.promise, go_on, give_up)

    def promise(
        self,
        pod: PodRef,
        text: str,
        then: Callable[[], None],
        give_up: Callable[[ApiError], None],
    ) -> None:
        """Write a promise on a pod, or end it if the text is empty; then call `then`.

        `give_up` is called instead if it cannot be written.
        """
        body = condition_of(pod.uid, text)

        async def write() -> None:
            await self._api.patch(f"{pod.path}/status", body, kind=Patch.STRATEGIC)
            then()

        self._workers.put(Urgency.PROMISE, self.repeated(Urgency.PROMISE, write, give_up))

    def has_begun(self, pod: PodRef) -> bool:
        """Return whether the pod is being bound, or was bound a short while ago."""
        return pod.uid in self._begun

    def read(self, pod: PodRef) -> None:
        """Read a pod whose bind is overdue, and report its state."""
        if pod.uid in self._under_way:
            return  # the bind may still take effect: its place must stay taken

        async def look() -> None:
            await self._look(pod)

        def give_up(_error: ApiError) -> None:
            """Do nothing: the pod is read again when it is overdue again."""

        self._workers.put(Urgency.BIND, self.repeated(Urgency.BIND, look, give_up))

    def repeated(
        self, urgency: Urgency, write: Write, give_up: Callable[[ApiError], None]
    ) -> Write:
        """Return a write that is queued again, with backoff, while the server is busy or silent.

        `give_up` is called with any other error. A write that the guard refuses is dropped: this
        process no longer leads.
        """
        backoff = Backoff(self._chance, first_s=0.05, cap_s=5.0)

        async def attempt() -> None:
            try:
                await write()
            except NotAllowed:
                return
            except AGAIN as error:
                self._workers.put(urgency, attempt, backoff.failed(error.retry_after_s))
            except ApiError as error:
                give_up(error)

        return attempt

    def _bind_all(self, bindings: Sequence[Binding]) -> None:
        for each in bindings:
            bind = self._provision(each) if each.claims else self._bind(each)
            self._workers.put(Urgency.BIND, bind)

    def _provision(self, binding: Binding) -> Write:
        """Return a write that has volumes provisioned for the node, and then binds."""

        async def write() -> None:
            await claims.select(self._api, binding.pod.namespace, binding.claims, binding.node)
            self._await_volumes(binding, MOST_LOOKS)

        def give_up(error: ApiError) -> None:
            why = f"could not set volume.kubernetes.io/selected-node on its PVCs: {error.message}"
            self._fail([binding], why)

        return self.repeated(Urgency.BIND, write, give_up)

    def _await_volumes(self, binding: Binding, looks: int) -> None:
        async def look() -> None:
            where = (binding.pod.namespace, binding.claims, binding.node)
            found = await claims.look(self._api, *where)
            if found is claims.Volumes.THERE:
                self._workers.put(Urgency.BIND, self._bind(binding))
            elif found is claims.Volumes.FAILED:
                self._fail([binding], "a volume for it could not be made there")
            elif looks:
                self._await_volumes(binding, looks - 1)
            else:
                self._fail([binding], "its volumes were not made in time")

        def give_up(error: ApiError) -> None:
            self._fail([binding], f"its claims could not be read: {error.message}")

        again = self.repeated(Urgency.BIND, look, give_up)
        self._workers.put(Urgency.BIND, again, LOOK_AGAIN_S)

    def _bind(self, binding: Binding) -> Write:
        pod = binding.pod
        path = f"{pod.path}/binding"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }

        async def write() -> None:
            try:
                await self._api.post(path, body)
            except (Conflict, NotFound) as error:
                await self._look(pod, error.message)
            self._under_way.discard(pod.uid)

        def give_up(error: ApiError) -> None:
            self._fail([binding], error.message)

        return self.repeated(Urgency.BIND, write, give_up)

    async def _look(self, pod: PodRef, why: str = "it was not bound in time") -> None:
        """Read a pod and report its state: lost, rejected because it has no node, or as read."""
        try:
            found = _pod.decode(await self._api.get(pod.path))
        except NotFound:
            self._report(PodLost(pod))
            return
        if found.metadata.uid != pod.uid:
            self._report(PodLost(pod))
            return
        if not found.spec.node_name:
            self._begun.pop(pod.uid, None)
            self._report(BindFailed(pod.task, why))
        self._report(PodRead(found))

    def _fail(self, bindings: Sequence[Binding], why: str) -> None:
        for each in bindings:
            self._under_way.discard(each.pod.uid)
            self._begun.pop(each.pod.uid, None)
            self._report(BindFailed(each.pod.task, why))
