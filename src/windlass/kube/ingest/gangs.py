"""The gangs of the pods that were seen, as the engine is told of them.

What its pods say (`crews.py`) makes a gang; its queue, the priority that its owner names and its
Gang object have their say too. Whenever one of them changes, the gang is told again if it is
another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from windlass.crds.read import OwnedQueue
from windlass.kube.ingest.assumed import Assumed
from windlass.kube.ingest.gang_builder import GangMembers, PodClaims, forgiven, gang_of
from windlass.kube.ingest.gang_objects import Explicit
from windlass.kube.ingest.priorities import Priorities
from windlass.kube.ingest.queue_assignment import Queues
from windlass.model import events
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.workloads.kinds.eviction_survival import UNLIMITED
from windlass.workloads.objects.wire import Owner, Pod, PriorityClass

Tell = Callable[[Event], None]


class GangRegistry:
    """All gangs that have pods, and the queues in which they stand."""

    def __init__(
        self, tell: Tell, queues: Queues, assumed: Assumed, asks_gpu: Callable[[TaskId], bool]
    ) -> None:
        self._tell, self._queues, self._assumed = tell, queues, assumed
        self._asks_gpu = asks_gpu
        self._crews: dict[GangId, GangMembers] = {}
        self._explicit = Explicit()
        self.away: Callable[[str], int] = lambda _owner: 0
        """Counts the pods of an owner that are on nodes which are gone."""
        self.priorities = Priorities()
        self._now = 0

    def __iter__(self) -> Iterator[GangId]:
        return iter(self._crews)

    def members(self, gang: GangId) -> list[TaskId]:
        """The tasks of a gang, in the order in which the engine takes them: 2 before 10."""
        crew = self._crews.get(gang)
        return sorted(crew.members, key=lambda task: (len(task), task)) if crew else []

    def needed(self, gang: GangId) -> int:
        """How many tasks a gang needs to start."""
        told = self._crews[gang].gang
        return told.needed() if told else 1

    def forgiven(self, gang: GangId) -> tuple[int, str]:
        """Return how many evictions a gang's owner forgives, and the owner that counts them."""
        crew = self._crews.get(gang)
        return forgiven(crew) if crew else (UNLIMITED, "")

    def open_to(self, namespace: str) -> list[str]:
        """The queues that jobs of a namespace may name."""
        return self._queues.open_to(namespace)

    def is_named(self, namespace: str) -> bool:
        """Is there a queue for this namespace, other than the default?"""
        return self._queues.is_named(namespace)

    # -- told about pods

    def join(self, gang: GangId, task: TaskId, facts: PodClaims, pod: Pod) -> None:
        """A pod of a gang is new or has changed, and says this."""
        crew = self._crews.setdefault(gang, GangMembers(gang))
        is_new = task not in crew.members
        if crew.join(task, facts, pod) or (is_new and _is_counted(facts)):
            self.retell(gang)

    def leave(self, gang: GangId, task: TaskId) -> None:
        """A pod is gone; the last takes its gang with it."""
        crew = self._crews[gang]
        facts = crew.members.get(task)
        changed = crew.leave(task) or (facts is not None and _is_counted(facts))
        if not crew.members:
            del self._crews[gang]
            self._assumed.went_well(gang)
            self._tell(events.GangGone(gang))
        elif changed:
            self.retell(gang)

    def advance(self, now: int) -> None:
        """Move the clock: gangs that were left alone may be tried again."""
        before, self._now = self._now, max(self._now, now)
        for gang in self._assumed.over(before, self._now):
            self.retell(gang)

    def retell(self, gang: GangId) -> None:
        """Something may be different about a gang; if it is, the engine is told."""
        crew = self._crews.get(gang)
        if crew is None or not crew.members:
            return
        queue, refusal = self._queue_of(crew)
        refusal = refusal or self._assumed.trouble(gang, self._now)
        believes, away = self._queues.is_managed(crew.namespace), self.away(forgiven(crew)[1])
        found = gang_of(crew, queue, refusal, believes, away)
        found = self._as_asked(found, crew)
        if self._assumed.is_kept(gang, self._now):
            found = replace(found, preemptible=False, stale_after_s=-1)
        if found != crew.gang:
            crew.gang = found
            self._tell(events.GangSeen(found))

    def _queue_of(self, crew: GangMembers) -> tuple[str, Reason | None]:
        facts, *others = crew.said
        if others:
            facts = min(crew.said, key=lambda each: (each.foreign, repr(each)))
        if not facts.foreign:
            asked = facts.queue or self._explicit.queue_of(crew.id)
            return self._queues.choose(asked, facts.namespace)
        # others' GPUs are charged to their namespace's queue; there is nothing to refuse
        asks = any(self._asks_gpu(task) for task in crew.members)
        return self._queues.charged(facts.namespace) if asks else "", None

    def _as_asked(self, gang: Gang, crew: GangMembers) -> Gang:
        """With the priority that its owner names, and as its Gang object wants it."""
        chosen = next((each.member.priority_class for each in crew.said), "")
        named = self.priorities.named
        if chosen in named:
            gang = replace(gang, priority=named[chosen])
        elif chosen and named and gang.refusal is None:  # who looks may not see any
            what = f"its PriorityClass {chosen} does not exist; create it, or name another"
            gang = replace(gang, refusal=Reason(ReasonCode.UNREADABLE, {"what": what}))
        queues = {each.queue for each in crew.said}
        return self._explicit.shape(gang, queues, {each.member.group for each in crew.said})

    # -- told about what decides besides

    def object_seen(self, found: Owner) -> None:
        """A Gang object is new or has changed."""
        self.retell(self._explicit.see(found))

    def object_gone(self, found: Owner) -> None:
        """A Gang object was deleted."""
        self.retell(self._explicit.lose(found))

    def topology_seen(self, name: str) -> None:
        """A topology is there; gangs that name none may mean it."""
        for gang in self._explicit.see_topology(name):
            self.retell(gang)

    def topology_gone(self, name: str) -> None:
        """A topology was deleted."""
        for gang in self._explicit.lose_topology(name):
            self.retell(gang)

    def priority_seen(self, found: PriorityClass, *, gone: bool = False) -> None:
        """A PriorityClass is new, has changed or is gone."""
        if self.priorities.see(found, gone):
            self._retell_all()

    def queue_seen(self, owned: OwnedQueue) -> None:
        """A queue is new or has changed."""
        if not self._queues.knows(owned):  # most changes are of its status
            self._retell_all(self._queues.see(owned))

    def queue_gone(self, name: str) -> None:
        """A queue was deleted."""
        self._retell_all(self._queues.lose(name))

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace is new or has other labels."""
        if self._queues.see_namespace(name, labels):
            self._retell_all()

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted."""
        self._queues.lose_namespace(name)

    def _retell_all(self, changes: Iterable[Event] = ()) -> None:
        for event in changes:
            self._tell(event)
        for gang in sorted(self._crews):
            self.retell(gang)


def _is_counted(facts: PodClaims) -> bool:
    """Does the number of members decide whether their owner survives the eviction of all?"""
    return facts.member.forgives < UNLIMITED and not facts.member.stops_with
