"""The laws of a storm, checked from the outside: what really runs against what was promised.

A `Watch` looks after every cycle at the world (the tasks as they are), at the plan, and at what the
scheduler believes. It keeps books of its own: what was asked of whom, how far everybody had come,
and which work was acknowledged as safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.laws.preemption_storms import LONGEST_GRACE_S, LONGEST_SAVE_S, STALE_S
from windlass.model.actions import Bind, PendingCheckpoint
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.sim.gang_run import GangRun, Member, is_whole
from windlass.sim.run import Simulation


@dataclass
class Request:
    """What was asked, and how things stood then."""

    parting: PendingCheckpoint
    crew: GangRun
    progress: dict[TaskId, int]
    """By the first name of each task."""
    binds: dict[TaskId, Bind | None]
    lost: int
    """Tasks that its gang had lost by then."""


@dataclass
class Watch:
    """The books of one storm."""

    simulation: Simulation
    asked: list[PendingCheckpoint] = field(default_factory=list[PendingCheckpoint])
    refused: set[str] = field(default_factory=set[str])
    """The requests that somebody refused."""
    _open: dict[str, Request] = field(default_factory=dict[str, Request])
    _safe: dict[TaskId, int] = field(default_factory=dict[TaskId, int])
    _broken: dict[GangId, int] = field(default_factory=dict[GangId, int])
    _gone_by: dict[TaskId, int] = field(default_factory=dict[TaskId, int])

    def look(self) -> list[str]:
        """Everything that is wrong after a cycle, in sentences."""
        self._acknowledge()
        found = [
            *self._seen_wrongly(),
            *self._given_twice(),
            *self._lost(),
            *self._too_late(),
            *self._half_dead(),
            *self._asked_in_part(),
            *self._touched(),
        ]
        self._note_asked()
        return found

    def forget_since_when(self) -> None:
        """A successor that knows nothing else gives everybody the whole grace again."""
        self._broken.clear()

    # -- what really is

    @property
    def now(self) -> int:
        return self.simulation.cluster.now

    def _members(self) -> Iterator[Member]:
        yield from self.simulation.world.members.values()

    def _of(self, gang: GangId) -> list[Member]:
        return [each for each in self._members() if each.task.gang == gang]

    def _progress(self, member: Member) -> int:
        return member.saved_s + (0 if member.since is None else self.now - member.since)

    # -- laws

    def _seen_wrongly(self) -> Iterator[str]:
        """The scheduler takes every task for what it is."""
        cluster = self.simulation.cluster
        asked = {each.task for p in cluster.partings.now() for each in p.evictions}
        for member in self._members():
            task, state = cluster.tasks[member.task.id], TaskState.WAITING
            if member.terminates or task.id in asked:
                state = TaskState.RELEASING
            elif member.bind:
                state = TaskState.RUNNING if member.runs else TaskState.BOUND
            given = (member.bind.node, member.bind.devices) if member.bind else ("", ())
            if (task.state, (task.node, task.devices)) != (state, given):
                yield f"{task.id} is {state} at {given}, taken for {task.state} at {task.node}"
        there = [each for each in cluster.tasks.values() if each.state != TaskState.SUCCEEDED]
        if len(there) != len(self.simulation.world.members):
            yield "the scheduler knows tasks that do not exist"

    def _given_twice(self) -> Iterator[str]:
        """The device book: no device gives more than it has, to whoever is really there."""
        given = Counter[tuple[str, int]]()
        for member in self._members():
            for each in member.bind.devices if member.bind else ():
                given[member.bind.node, each.device] += each.milli  # type: ignore[union-attr]
        yield from (f"{at} gives {milli}" for at, milli in given.items() if milli > WHOLE)

    def _lost(self) -> Iterator[str]:
        """What was acknowledged is never worked again."""
        for member in self._members():
            is_service = member.crew.arrival.runs_s is None
            if not is_service and self._progress(member) < self._safe.get(member.first, 0):
                yield f"{member.first} is back at {self._progress(member)}, but more was safe"

    def _too_late(self) -> Iterator[str]:
        """Nobody who was asked stays beyond its deadline, and who answers in time has its time."""
        plan, cluster = self.simulation.plan, self.simulation.cluster
        evicted = {each.task for each in plan.evictions}
        for parting in cluster.partings.now():
            if parting.deadline <= self.now:
                yield f"{parting.gang} was to be gone by {parting.deadline}"
        for request in list(self._open.values()):
            parting, crew = request.parting, request.crew
            if not evicted & {each.task for each in parting.evictions}:
                continue
            grace = crew.arrival.terminates_s or 0
            self._gone_by |= {each.task: self.now + grace for each in parting.evictions}
            if self._had_to_wait(request):
                yield f"{parting.gang} was evicted at {self.now} before it could answer"
            del self._open[parting.id]
        for member in self._members():
            if self._gone_by.get(member.task.id, self.now) < self.now:
                yield f"{member.task.id} is there beyond its grace"

    def _had_to_wait(self, request: Request) -> bool:
        saving, parting = request.crew.arrival.saving_s, request.parting
        if saving is None or parting.asked_at + saving > parting.deadline:
            return False
        whole = request.crew.record.restarts == request.lost
        has_saved = (request.crew.asked_at or -1) >= parting.asked_at
        return whole and not has_saved and parting.id not in self.refused

    def _half_dead(self) -> Iterator[str]:
        """A gang below its minimum is repaired or given back."""
        crews = {each.task.gang: each.crew for each in self._members()}
        torn = {
            gang
            for gang, crew in crews.items()
            if not is_whole(crew)
            and any(each.bind and not each.terminates for each in crew.members.values())
        }
        self._broken = {gang: self._broken.get(gang, self.now) for gang in torn}
        longest = STALE_S + LONGEST_SAVE_S + LONGEST_GRACE_S
        for gang, since in self._broken.items():
            if self.now - since > longest:
                yield f"{gang} is half dead since {since}"

    def _asked_in_part(self) -> Iterator[str]:
        """Whoever is asked is asked whole, and gets no new members before it goes."""
        plan, cluster = self.simulation.plan, self.simulation.cluster
        for parting in plan.asks:
            asked = {each.task for each in parting.evictions}
            there = {
                each.task.id for each in self._of(parting.gang) if each.bind and not each.terminates
            }
            if asked != there:
                yield f"{parting.gang} has {sorted(there)}, asked were {sorted(asked)}"
        for bind in plan.binds:
            if cluster.tasks[bind.task].gang in cluster.partings.standing:
                yield f"{bind.task} joins a gang that is about to go"

    def _touched(self) -> Iterator[str]:
        """A request that is withdrawn leaves the work as it was."""
        members = self.simulation.world.members
        for each in self.simulation.plan.withdrawals:
            request = self._open.pop(each.id)
            for task, bind in request.binds.items():
                member = members.get(task)
                if member is None:
                    continue  # it was lost on its way, or has ended
                if member.terminates or member.bind != bind:
                    yield f"{task} was moved or stopped by a request that was withdrawn"
                is_alone = request.crew.record.restarts == request.lost
                if is_alone and member.since is None:
                    yield f"{task} works no longer"

    # -- the books

    def _acknowledge(self) -> None:
        """Who has saved since it was asked has safe what it had done until then."""
        for each in self._open.values():
            if each.crew.asked_at == each.parting.asked_at:
                for first, done in each.progress.items():
                    self._safe[first] = max(self._safe.get(first, 0), done)

    def _note_asked(self) -> None:
        for parting in self.simulation.plan.asks:
            self.asked.append(parting)
            there = {each.task.id: each for each in self._of(parting.gang)}
            mine = [there[each.task] for each in parting.evictions]
            crew = mine[0].crew
            progress = {each.first: self._progress(each) for each in mine}
            binds = {each.task.id: each.bind for each in mine}
            lost = crew.record.restarts
            self._open[parting.id] = Request(parting, crew, progress, binds, lost)
