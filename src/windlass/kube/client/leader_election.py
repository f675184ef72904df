"""Leader election by a Lease: at most one process leads, and only it may write.

    standby --lease free or expired--> leader --released, or not renewed in time--> standby

    leader    may write for `renew_deadline_s` after the START of its last successful renewal
    standby   takes over `duration_s` after it last saw the lease change, by its own clock

`renew_deadline_s` < `duration_s`, and requests time out within the gap between both
(`LeaseTerms.request_s`). So no write of an old leader reaches the API server after a new leader has
begun. All clocks are monotonic: a jump of a wall clock changes nothing.
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
from windlass.workloads.objects import PREFIX, ObjectMeta, WireStruct

PAUSED = PREFIX + "paused"
"""The annotation of the lease that pauses evictions while its value is `true`."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The place of the lease and its times."""

    name: str = "windlass"
    namespace: str = "kube-system"
    duration_s: float = 15.0
    """A standby takes over if the lease has not changed for so long."""
    renew_deadline_s: float = 10.0
    """The leader stops writing so long after its last renewal; must be less than `duration_s`."""
    retry_s: float = 2.0
    """The pause between two attempts to acquire or renew."""

    @property
    def path(self) -> str:
        """Return the path of the lease on the API server."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"

    @property
    def request_s(self) -> float:
        """Return the time-out of requests in seconds.

        A write that is sent right before the leader's deadline must have ended before another
        process can take over, so the time-out is less than the gap between both.
        """
        return max(0.5, (self.duration_s - self.renew_deadline_s) * 0.8)


class LeaseSpec(WireStruct, frozen=True, omit_defaults=True):
    """The spec of a Lease: its holder, and the time of the last renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseRecord(WireStruct, frozen=True):
    """A Lease, as far as we read it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


_lease = msgspec.json.Decoder(LeaseRecord)


@dataclass(slots=True)
class Election:
    """The state of this process in the election.

    `api` must have no guard: renewals are written while the guard forbids all other writes.
    """

    api: Api
    identity: str
    terms: LeaseTerms = LeaseTerms()
    on_error: Callable[[ApiError], None] = lambda _error: None
    paused: bool = False
    """Evictions are paused, as of the last read of the lease."""
    leader: str = ""
    """The identity of the holder, as of the last read of the lease; empty if there is none."""
    lead: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while this process leads. It is cleared late, by the next attempt or `step_down`, so
    decisions must check `is_leader` or `leads_in`."""
    term_number: int = 0
    """The number of the current or last term. It grows after each gap in leading, however short:
    during a gap another process may have led."""
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    """Annotations that this process writes on the lease with each renewal, while it leads."""
    _until: float = 0.0
    """Monotonic seconds up to which this process may write; 0 if it does not lead."""
    _seen: tuple[str, str] = ("", "")
    """The holder and its renew time as last read; any change of them proves that it is alive."""
    _seen_at: float = 0.0
    """Monotonic seconds at which `_seen` last changed; the expiry of the lease counts from here."""
    _lease: LeaseRecord | None = None
    """The lease as last read or written; its resourceVersion makes the next write conditional."""

    @property
    def is_leader(self) -> bool:
        """Return whether this process may write now."""
        return monotonic() < self._until

    @property
    def lease_annotations(self) -> Mapping[str, str]:
        """Return the annotations of the lease, as last read."""
        return (self._lease.metadata.annotations or {}) if self._lease else {}

    def leads_in(self, term_number: int) -> bool:
        """Return whether this process has led without a gap since that term began."""
        return self.is_leader and term_number == self.term_number

    def guard(self, term_number: int) -> None:
        """Raise `NotAllowed` unless that term lasts: a write of another term is outdated."""
        if not self.leads_in(term_number):
            raise NotAllowed("this process does not lead; another one may")

    def step_down(self) -> None:
        """Clear `lead` if the lease was lost, without waiting for the next attempt to renew it."""
        if not self.is_leader:
            self.lead.clear()

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled."""
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
        """Stop leading and free the lease, so that another process can take over at once."""
        lease, leading = self._lease, self.is_leader
        self._until = 0.0  # first: nothing may be written once the lease is free
        self.lead.clear()
        if lease is None or not leading:
            return
        try:
            await self._put(lease, _given_up(lease))
        except Conflict:  # a renewal whose answer we did not await, or a pause, changed the lease
            lease = await self._read()
            if lease.spec.holder_identity == self.identity:
                await self._put(lease, _given_up(lease))

    async def _try(self) -> None:
        """Make one attempt to acquire or renew the lease."""
        # The deadline counts from before the request: the server may have stored the renewal at
        # any time after it, and standbys count from then.
        began = monotonic()
        lease = await self._read()
        holder = lease.spec.holder_identity or ""
        self._note(lease)
        if holder not in ("", self.identity) and not self._has_expired(lease):
            self._until = 0.0
            return
        is_renewal = holder == self.identity
        transitions = (lease.spec.lease_transitions or 0) + (not is_renewal)
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, int(self.terms.duration_s)),
            acquire_time=lease.spec.acquire_time if is_renewal else _now(),
            renew_time=_now(),
            lease_transitions=transitions,
        )
        try:
            self._note(await self._put(lease, spec))
        except Conflict:  # another process, or a pause, changed the lease since it was read
            return
        self.term_number += not self.is_leader
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
            except Conflict:  # another replica created it meanwhile
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
                "annotations": (meta.annotations or {}) | self.annotations,
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
