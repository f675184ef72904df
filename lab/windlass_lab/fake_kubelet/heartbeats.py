"""Lease renewals for all nodes, evenly over the period, so that the controllers see the nodes
alive.

A Lease is written whole with the version of the last answer, which costs the API server one write
and no read; it is read only after another client has written it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from windlass.kube.client import Api, ApiError, Conflict, NotFound
from windlass_lab.fake_kubelet.clock import micro_stamp
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_kubelet.wire import Versioned
from windlass_lab.fake_nodes.nodes import LEASES, lease_object
from windlass_lab.fake_nodes.register_nodes import in_parallel

log = logging.getLogger(__name__)

_BATCHES = 20
"""The number of batches in which the renewals of one period are sent."""

_decoder = msgspec.json.Decoder(Versioned)


class Heartbeats:
    """The Leases of the existing nodes."""

    def __init__(self, api: Api, habits: Habits, is_silent: Callable[[str], bool]) -> None:
        self.node_uids: dict[str, str] = {}
        """The nodes to renew for, with the uid of the Node that owns the Lease."""
        self.renewals = 0
        self._api = api
        self._habits = habits
        self._is_silent = is_silent
        self._versions: dict[str, str] = {}
        self._under_way = 0

    @property
    def is_busy(self) -> bool:
        """Return whether a request is under way."""
        return self._under_way > 0

    async def run(self) -> None:
        """Renew for ever; a batch that fails is tried again in the next period."""
        clock = asyncio.get_running_loop().time
        step, due = 0, clock()
        while True:
            names = sorted(self.node_uids)
            await in_parallel(
                self._habits.in_flight, (self._beat(name) for name in names[step::_BATCHES])
            )
            step = (step + 1) % _BATCHES
            due = max(clock(), due + self._habits.lease_period_s / _BATCHES)
            await asyncio.sleep(due - clock())

    async def _beat(self, name: str) -> None:
        if self._is_silent(name):
            return
        self._under_way += 1
        try:
            await self._renew(name)
            self.renewals += 1
        except ApiError as error:
            self._versions.pop(name, None)
            log.warning("The lease of node %s was not renewed: %s", name, error)
        finally:
            self._under_way -= 1

    async def _renew(self, name: str) -> None:
        version = self._versions.get(name)
        try:
            if version is None:
                answer = await self._api.post(LEASES, self._lease(name, None))
            else:
                answer = await self._api.put(f"{LEASES}/{name}", self._lease(name, version))
        except NotFound:
            self._versions.pop(name, None)  # deleted with its node, or too early after the start
            return
        except Conflict:
            found = _decoder.decode(await self._api.get(f"{LEASES}/{name}"))
            body = self._lease(name, found.metadata.resource_version)
            answer = await self._api.put(f"{LEASES}/{name}", body)
        self._versions[name] = _decoder.decode(answer).metadata.resource_version

    def _lease(self, name: str, version: str | None) -> dict[str, object]:
        seconds = self._habits.lease_duration_s
        lease = lease_object(name, self.node_uids.get(name, ""), seconds, micro_stamp())
        if version is not None:
            lease["metadata"]["resourceVersion"] = version
        return lease
