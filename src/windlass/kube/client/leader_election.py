"""One leader, by a Lease, and no write by anybody else.

    standing by --lease free or expired--> leading --released, or not renewed--> standing by

The leader may write until `renew_deadline_s` after it began its last successful renewal; others
wait `duration_s`, counted by their own clock from when they last saw the lease change. Requests
time out within the gap between the two, so that nothing of an old leader arrives after a new one
has begun. All clocks are monotonic: a wall clock that jumps changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic, time

import msgspec

from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError, Conflict, NotAllowed, NotFound
from windlass.model import units
from windlass.workloads.objects.annotations import PREFIX
from windlass.workloads.objects.wire import ObjectMeta, WireStruct

PAUSED = PREFIX + "paused"
"""Annotation of the lease: no evictions while it says `true`."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Where the lease is and how long it holds."""

    name: str = "windlass"
    namespace: str = "kube-system"
    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    @property
    def path(self) -> str:
        """Where the lease is found."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"

    @property
    def request_s(self) -> float:
        """How long a write may take: less than the gap after the leader's own deadline."""
        return max(0.5, (self.duration_s - self.renew_deadline_s) * 0.8)


class LeaseSpec(WireStruct, frozen=True, omit_defaults=True):
    """Who leads."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseRecord(WireStruct, frozen=True):
    """The lease as it stands."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


_lease = msgspec.json.Decoder(LeaseRecord)


@dataclass(slots=True)
class Election:
    """This process's standing; `api` must be one without a guard."""

    api: Api
    identity: str
    terms: LeaseTerms = LeaseTerms()
    on_error: Callable[[ApiError], None] = lambda _error: None
    paused: bool = False
    leader: str = ""
    """Who leads, as far as is known."""
    lead: asyncio.Event = field(default_factory=asyncio.Event)
    reign: int = 0
    """Counts the times of leading: after a gap, however short, another one has begun."""
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Annotations that whoever leads puts on the lease."""
    _until: float = 0.0
    _seen: tuple[str, str] = ("", "")
    _seen_at: float = 0.0
    _lease: LeaseRecord | None = None

    @property
    def is_leader(self) -> bool:
        """May this process write now?"""
        return monotonic() < self._until

    @property
    def told(self) -> Mapping[str, str]:
        """What stands on the lease, as it was read last."""
        return (self._lease.metadata.annotations or {}) if self._lease else {}

    def leads_on(self, reign: int) -> bool:
        """Has this process led without a gap since that time of leading began?"""
        return self.is_leader and reign == self.reign

    def guard(self, reign: int) -> None:
        """Refuse a write that was decided on in another time of leading, or in none."""
        if not self.leads_on(reign):
            raise NotAllowed("this process does not lead; another one may")

    def step_down(self) -> None:
        """Take note that the lease was lost, before the next attempt to renew it does."""
        if not self.is_leader:
            self.lead.clear()

    async def run(self) -> None:
        """Try to lead, and go on leading, for ever."""
        while True:
            try:
                async with asyncio.timeout(self.terms.request_s):
                    await self._try()
            except TimeoutError:
                pass
            except ApiError as error:
                self.on_error(error)
            self.step_down()
            await asyncio.sleep(self.terms.retry_s)

    async def release(self) -> None:
        """Stop leading and let another begin at once."""
        lease, leading = self._lease, self.is_leader
        self._until = 0.0
        self.lead.clear()
        if lease is None or not leading:
            return
        try:
            await self._put(lease, _given_up(lease))
        except Conflict:  # a renewal came through whose answer was not waited for, or a pause
            lease = await self._read()
            if lease.spec.holder_identity == self.identity:
                await self._put(lease, _given_up(lease))

    async def _try(self) -> None:
        began = monotonic()
        lease = await self._read()
        holder = lease.spec.holder_identity or ""
        self._note(lease)
        if holder not in ("", self.identity) and not self._has_expired(lease):
            self._until = 0.0
            return
        mine = holder == self.identity
        changes = (lease.spec.lease_transitions or 0) + (not mine)
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, int(self.terms.duration_s)),
            acquire_time=lease.spec.acquire_time if mine else _now(),
            renew_time=_now(),
            lease_transitions=changes,
        )
        try:
            self._note(await self._put(lease, spec))
        except Conflict:
            return
        self.reign += not self.is_leader
        self._until = began + self.terms.renew_deadline_s
        self.lead.set()

    async def _read(self) -> LeaseRecord:
        try:
            return _lease.decode(await self.api.get(self.terms.path))
        except NotFound:
            folder, name = self.terms.path.rsplit("/", 1)
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": self.terms.namespace},
            }
            try:
                return _lease.decode(await self.api.post(folder, body))
            except Conflict:  # another replica made it
                return _lease.decode(await self.api.get(self.terms.path))

    async def _put(self, lease: LeaseRecord, spec: LeaseSpec) -> LeaseRecord:
        meta = lease.metadata
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "resourceVersion": meta.resource_version,
                "annotations": (meta.annotations or {}) | self.notes,
                "labels": meta.labels or {},
            },
            "spec": spec,
        }
        return _lease.decode(await self.api.put(self.terms.path, body))

    def _note(self, lease: LeaseRecord) -> None:
        self._lease = lease
        self.leader = lease.spec.holder_identity or ""
        self.paused = (lease.metadata.annotations or {}).get(PAUSED) == "true"
        seen = (self.leader, lease.spec.renew_time or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, monotonic()

    def _has_expired(self, lease: LeaseRecord) -> bool:
        duration_s = lease.spec.lease_duration_seconds or self.terms.duration_s
        return monotonic() - self._seen_at > duration_s


def _given_up(lease: LeaseRecord) -> LeaseSpec:
    return msgspec.structs.replace(lease.spec, holder_identity="", renew_time=_now())


def _now() -> str:
    return units.format_timestamp_micros(time())
