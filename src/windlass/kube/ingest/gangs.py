"""The gangs of the observed pods, as the engine knows them.

A gang follows from its pods (`gang_builder.py`), from its queue, from the PriorityClass that its
owner names and from its Gang object. Whenever one of these changes, the gang is made again, and an
event is returned if it differs from the gang that was reported last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from windlass.crds.gang import GangSpec
from windlass.crds.read import OwnedQueue, ReadResult, apply_gang_spec, read_gang
from windlass.kube.ingest.assumed import Assumed
from windlass.kube.ingest.gang_builder import GangMembers, PodClaims, forgiven, gang_of
from windlass.kube.ingest.queue_assignment import Priorities, Queues
from windlass.model import events
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.validation import join_names
from windlass.workloads.kinds import UNLIMITED, Key
from windlass.workloads.objects import GROUP, QUEUE, ObjectMeta, Owner, Pod, PriorityClass

GANGS = Key("Gang", "windlass.dev")
"""The kind of Gang objects."""


class GangRegistry:
    """All gangs that have pods or placeholders. Methods that change one return the events."""

    def __init__(
        self, queues: Queues, assumed: Assumed, asks_gpu: Callable[[TaskId], bool]
    ) -> None:
        self._queues, self._assumed = queues, assumed
        self._asks_gpu = asks_gpu
        self._crews: dict[GangId, GangMembers] = {}
        """The members of each gang; a gang without members is removed."""
        self._objects = GangObjects()
        self.count_orphans: Callable[[str], int] = lambda _owner: 0
        """Returns how many pods of an owner are on nodes that are gone; set by the pod table."""
        self.priorities = Priorities()
        self._now = 0

    def __iter__(self) -> Iterator[GangId]:
        return iter(self._crews)

    def members(self, gang: GangId) -> list[TaskId]:
        """Return the tasks of a gang in the order in which the engine takes them: 2 before 10."""
        crew = self._crews.get(gang)
        return sorted(crew.members, key=lambda task: (len(task), task)) if crew else []

    def needed(self, gang: GangId) -> int:
        """Return how many tasks a gang needs to start."""
        reported = self._crews[gang].gang
        return reported.needed() if reported else 1

    def forgiven(self, gang: GangId) -> tuple[int, str]:
        """Return how many evictions a gang's owner forgives, and the owner that counts them."""
        crew = self._crews.get(gang)
        return forgiven(crew) if crew else (UNLIMITED, "")

    def open_to(self, namespace: str) -> list[str]:
        """Return the queues that gangs of a namespace may name."""
        return self._queues.open_to(namespace)

    def is_named(self, namespace: str) -> bool:
        """Return whether a queue names this namespace, or selects it by its labels."""
        return self._queues.is_named(namespace)

    # -- changes of pods

    def join(self, gang: GangId, task: TaskId, claims: PodClaims, pod: Pod) -> list[Event]:
        """Add a pod to its gang, or replace what it says about the gang; return the events."""
        crew = self._crews.setdefault(gang, GangMembers(gang))
        is_new = task not in crew.members
        if crew.join(task, claims, pod) or (is_new and _is_counted(claims)):
            return self.refresh(gang)
        return []

    def leave(self, gang: GangId, task: TaskId) -> list[Event]:
        """Remove a pod from its gang, and the gang with its last pod; return the events."""
        crew = self._crews[gang]
        claims = crew.members.get(task)
        changed = crew.leave(task) or (claims is not None and _is_counted(claims))
        if not crew.members:
            del self._crews[gang]
            self._assumed.succeed(gang)
            return [events.GangGone(gang)]
        return self.refresh(gang) if changed else []

    def advance(self, now: int) -> list[Event]:
        """Move the clock; return the events of gangs whose backoff or protection has ended."""
        before, self._now = self._now, max(self._now, now)
        ended = self._assumed.ended_backoffs(before, self._now)
        return [event for gang in ended for event in self.refresh(gang)]

    def refresh(self, gang: GangId) -> list[Event]:
        """Make a gang again; return `GangSeen` if it differs from the one reported last."""
        crew = self._crews.get(gang)
        if crew is None or not crew.members:
            return []
        queue, refusal = self._queue_of(crew)
        refusal = refusal or self._assumed.backoff_reason(gang, self._now)
        trusts_creator = self._queues.is_managed(crew.namespace)
        orphans = self.count_orphans(forgiven(crew)[1])
        made = gang_of(crew, queue, refusal, trusts_creator, orphans)
        made = self._with_objects(made, crew)
        if self._assumed.is_protected(gang, self._now):
            made = replace(made, preemptible=False, stale_after_s=-1)
        if made == crew.gang:
            return []
        crew.gang = made
        return [events.GangSeen(made)]

    def _queue_of(self, crew: GangMembers) -> tuple[str, Reason | None]:
        claims, *others = crew.said
        if others:
            claims = min(crew.said, key=lambda one: (one.foreign, repr(one)))
        if not claims.foreign:
            asked = claims.queue or self._objects.queue_of(crew.id)
            return self._queues.choose(asked, claims.namespace)
        # GPUs of foreign pods are charged to the queue of their namespace, and never refused
        asks = any(self._asks_gpu(task) for task in crew.members)
        return self._queues.charged(claims.namespace) if asks else "", None

    def _with_objects(self, gang: Gang, crew: GangMembers) -> Gang:
        """Return the gang with the priority that its owner names, and as its Gang object asks."""
        chosen = next((claims.member.priority_class for claims in crew.said), "")
        named = self.priorities.named
        if chosen in named:
            gang = replace(gang, priority=named[chosen])
        elif chosen and named and gang.refusal is None:  # without the right to list there are none
            what = f"its PriorityClass {chosen} does not exist; create it, or name another"
            gang = replace(gang, refusal=Reason(ReasonCode.UNREADABLE, {"what": what}))
        queues = {claims.queue for claims in crew.said}
        return self._objects.shape(gang, queues, {claims.member.group for claims in crew.said})

    # -- changes of other objects

    def object_seen(self, owner: Owner) -> list[Event]:
        """Take note of a Gang object that is new or has changed; return the events."""
        return self.refresh(self._objects.see(owner))

    def object_gone(self, owner: Owner) -> list[Event]:
        """Take note that a Gang object was deleted; return the events."""
        return self.refresh(self._objects.lose(owner))

    def topology_seen(self, name: str) -> list[Event]:
        """Take note of a topology; gangs that name none may mean it. Return their events."""
        concerned = self._objects.see_topology(name)
        return [event for gang in concerned for event in self.refresh(gang)]

    def topology_gone(self, name: str) -> list[Event]:
        """Take note that a topology was deleted; return the events."""
        concerned = self._objects.lose_topology(name)
        return [event for gang in concerned for event in self.refresh(gang)]

    def priority_seen(self, priority: PriorityClass, *, gone: bool = False) -> list[Event]:
        """Take note of a PriorityClass that is new, has changed or is gone; return the events."""
        return self._refresh_all() if self.priorities.see(priority, gone) else []

    def queue_seen(self, owned: OwnedQueue) -> list[Event]:
        """Take note of a queue that is new or has changed; return the events."""
        if self._queues.knows(owned):  # most changes are of its status
            return []
        return self._refresh_all(self._queues.see(owned))

    def queue_gone(self, name: str) -> list[Event]:
        """Take note that a queue was deleted; return the events."""
        return self._refresh_all(self._queues.lose(name))

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> list[Event]:
        """Take note of the labels of a namespace; return the events."""
        return self._refresh_all() if self._queues.see_namespace(name, labels) else []

    def namespace_gone(self, name: str) -> None:
        """Take note that a namespace was deleted."""
        self._queues.lose_namespace(name)

    def _refresh_all(self, changes: Iterable[Event] = ()) -> list[Event]:
        # queues first: a gang is never in a queue that the engine does not know
        made = list(changes)
        for gang in sorted(self._crews):
            made += self.refresh(gang)
        return made


class GangObjects:
    """All Gang objects, by the gang that they describe; pods name it by a label."""

    def __init__(self) -> None:
        self._read: dict[GangId, ReadResult[GangSpec]] = {}
        self._topologies: set[str] = set()

    def see(self, owner: Owner) -> GangId:
        """Store an object that is new or has changed; return the gang that it describes."""
        gang = gang_id(owner.metadata)
        self._read[gang] = read_gang(owner.metadata.name, owner.spec)
        return gang

    def lose(self, owner: Owner) -> GangId:
        """Remove an object that was deleted; return the gang that it described."""
        gang = gang_id(owner.metadata)
        self._read.pop(gang, None)
        return gang

    def see_topology(self, name: str) -> list[GangId]:
        """Store the name of a topology; return the gangs that it may concern."""
        self._topologies.add(name)
        return sorted(self._read)

    def lose_topology(self, name: str) -> list[GangId]:
        """Remove a topology that was deleted; return the gangs that it may concern."""
        self._topologies.discard(name)
        return sorted(self._read)

    def queue_of(self, gang: GangId) -> str:
        """Return the queue that the object of a gang names; empty if there is none."""
        read = self._read.get(gang)
        return (read.value.queue or "") if read and read.value else ""

    def shape(self, gang: Gang, queues: Iterable[str], groups: Iterable[str]) -> Gang:
        """Return a gang as its object describes it, whose pods name these queues and groups.

        The gang is refused if the object cannot be read, or contradicts its pods.
        """
        read = self._read.get(gang.id)
        if read is None:
            return gang
        if read.value is None:
            return _refused(gang, read.complaints[0])
        wrong = _contradiction(read.value, queues, groups) or self._unknown_topology(read.value)
        only = next(iter(self._topologies)) if len(self._topologies) == 1 else ""
        described = apply_gang_spec(gang, read.value, only)
        return _refused(described, wrong) if wrong else described

    def _unknown_topology(self, spec: GangSpec) -> str:
        """Return a sentence about a domain in a topology that does not exist; empty if none is."""
        domains = [spec.domain, *(group.domain for group in spec.groups)]
        for domain in (each for each in domains if each is not None):
            if domain.topology and domain.topology not in self._topologies:
                return f"its topology {domain.topology} does not exist; create it, or name another"
            if not domain.topology and len(self._topologies) != 1:
                names = join_names(sorted(self._topologies)) or "none"
                return f"it names no topology, and there is not one alone ({names}); name one"
        return ""


def gang_id(meta: ObjectMeta) -> GangId:
    """Return the gang that a Gang object describes: its pods name it in its namespace."""
    return GangId(f"{meta.namespace}/{meta.name}")


def _refused(gang: Gang, what: str) -> Gang:
    return replace(gang, refusal=gang.refusal or Reason(ReasonCode.UNREADABLE, {"what": what}))


def _contradiction(spec: GangSpec, queues: Iterable[str], groups: Iterable[str]) -> str:
    others = {queue for queue in queues if queue and spec.queue and queue != spec.queue}
    if others:
        return f"its Gang names queue {spec.queue}, and label {QUEUE} of a pod {min(others)}"
    known = {group.name for group in spec.groups}
    unknown = {group for group in groups if group not in known} if known else set[str]()
    if unknown:
        value = f'"{min(unknown)}"' if min(unknown) else "not set"
        return f"label {GROUP} of a pod is {value}; its Gang has {join_names(sorted(known))}"
    return ""


def _is_counted(claims: PodClaims) -> bool:
    """Return whether the number of members decides if their owner survives their eviction."""
    return claims.member.forgives < UNLIMITED and not claims.member.stops_with
