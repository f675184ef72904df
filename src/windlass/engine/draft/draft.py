"""The draft: changes that a cycle tries on the cluster's own columns, then keeps or undoes.

    with draft.attempt() as keep:
        ...                     # bind, release, evict
        if good:
            keep()              # otherwise everything since `with` is undone

Inside an attempt every change adds its undo function to the journal. Two kinds of changes are
undone as a whole instead, from saved copies: those of pass two (`provisional`), and at the end
those of the whole cycle (`close`). A cycle leaves nothing on the columns; its result is the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from windlass.engine.draft.eviction_units import EvictionUnit
from windlass.engine.draft.holds import Holds
from windlass.engine.nodes import NodeIndex, ShapeIndex
from windlass.model.actions import Bind, PlaceClaim
from windlass.model.jobs import Gang, Task
from windlass.state.cluster import Cluster
from windlass.state.device_states import can_take
from windlass.state.pod_affinity import labels_of
from windlass.state.queue_accounts import Due, charges_of, charges_per_model, with_extra_gpus


class Draft:
    """The working state of one cycle: changes to a cluster's columns, accounts and affinity
    counts."""

    __slots__ = (
        "_depth",
        "_journal",
        "_provisional",
        "_put_back",
        "binds",
        "cluster",
        "columns",
        "evicted",
        "holds",
        "index",
        "neighbours",
        "steps",
    )

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.columns = cluster.columns
        self.neighbours = cluster.pod_affinity
        self.index = cluster.recall(NodeIndex)
        self.binds: list[Bind] = []
        """The binds that were made and not undone, in order. A *mark* is a length of this list that
        a caller remembers, to find the binds made since then."""
        self.evicted: dict[EvictionUnit, None] = {}
        """The units that the current search has evicted, as an ordered set."""
        self.steps = 0
        """The number of tasks bound or released so far, also in attempts that were undone. Searches
        for victims are bounded by it."""
        self._journal: list[Callable[[], object]] = []
        """The undo of each change, to be called in reverse; shared with `holds`. It is emptied when
        the outermost attempt is kept: nothing can be undone any more."""
        self._depth = 0
        """The number of attempts that are open, one inside the other."""
        self._provisional: list[Callable[[], None]] | None = None
        """None outside `provisional`. Inside: empty until `begin` is called, then the functions
        that restore the saved state."""
        self._put_back = [
            part.saver() for part in (self.columns, cluster.accounts, self.neighbours)
        ]
        self.holds = Holds(cluster.holds.values(), cluster, self._journal)

    @contextmanager
    def provisional(self) -> Generator[None]:
        """Undo all changes of the `with` block at its end, also those of kept attempts.

        It must not be used inside an attempt. Call `begin` inside, before anything changes.
        """
        binds, self._provisional = len(self.binds), []
        try:
            yield
        finally:
            for put_back in self._provisional:
                put_back()
            self._provisional = None
            del self.binds[binds:]
            self._journal.clear()

    def begin(self) -> None:
        """Save the state before the first change inside `provisional`; later calls do nothing.

        `provisional` does not save by itself: saving takes time, and often nothing changes.
        """
        if self._provisional is not None and not self._provisional:
            assert not self._depth, "an attempt could not undo what was done before"
            parts = (self.columns, self.cluster.accounts, self.neighbours, self.holds)
            self._provisional += [part.saver() for part in parts]

    def attempt(self) -> Attempt:
        """Return an attempt for a `with` statement; its changes are undone unless the caller keeps
        them."""
        return Attempt(self)

    def enter(self) -> tuple[int, int]:
        """Begin an attempt; return the lengths of the journal and of the binds for `leave`."""
        assert self._provisional is None or self._provisional, "begin first"
        self._depth += 1
        return len(self._journal), len(self.binds)

    def leave(self, mark: int, binds: int, kept: bool) -> None:
        """End an attempt that began at these lengths, and undo it unless it was kept."""
        self._depth -= 1
        if not kept:
            while len(self._journal) > mark:
                self._journal.pop()()
            del self.binds[binds:]
        elif not self._depth:
            self._journal.clear()

    def bind(self, task: Task, gang: Gang, slot: int, kind: ShapeIndex) -> None:
        """Place a task on a node, on devices that the shape's chooser selects."""
        self.steps += 1
        columns = self.columns
        number, devices = int(columns.device_number[slot]), columns.devices[slot]
        given = kind.chooser.give(number, devices)
        assert kind.amounts is not None, "a class that fits somewhere has amounts"
        if slot in self.holds:
            self.holds.take(slot, kind.amounts, given.slices)
        else:
            self._save(slot)
            columns.put(slot, kind.amounts, given.devices, given.number)
        self._count(task, gang, slot, 1)
        request, models = task.shape.request, given.models
        if request.extra:
            models = with_extra_gpus(models, request, columns.nodes[slot])
        self._charge([(gang, charges_per_model(request, models))], 1)
        self.binds.append(Bind(task.id, columns.names[slot], given.slices))

    def bind_at(self, task: Task, gang: Gang, claim: PlaceClaim) -> bool:
        """Place a task exactly where a place is held for it; return False if that place is not
        free."""
        if not self._return(replace(task, node=claim.node, devices=claim.devices), gang):
            return False
        self.binds.append(Bind(task.id, claim.node, claim.devices))
        return True

    def claims(self, mark: int) -> tuple[PlaceClaim, ...]:
        """Return the binds since a mark as claims, from which a hold is made."""
        tasks = self.cluster.tasks
        return tuple(
            PlaceClaim(bind.task, bind.node, bind.devices, tasks[bind.task].shape.request)
            for bind in self.binds[mark:]
        )

    def release(self, task: Task) -> None:
        """Remove a running task from its node, to see what would fit without it."""
        self.release_all((task,))

    def release_all(self, tasks: Iterable[Task]) -> None:
        """Remove running tasks from their nodes, node by node; skip tasks on unknown nodes."""
        by_slot: dict[int, list[Task]] = {}
        self.holds.loosened += 1
        for task in tasks:
            self.steps += 1
            slot = self.columns.slot.get(task.node)
            if slot is not None:
                by_slot.setdefault(slot, []).append(task)
        dues = [due for slot, tasks_ in by_slot.items() for due in self._release_from(slot, tasks_)]
        self._charge(dues, -1)

    def _release_from(self, slot: int, tasks: list[Task]) -> Iterator[Due]:
        """Remove some tasks from one node; yield the charges to subtract from their queues."""
        columns, gangs = self.columns, self.cluster.gangs
        amounts, slices = columns.occupied_amounts(tasks[0].shape.request), tasks[0].devices
        for task in tasks[1:]:
            amounts = amounts + columns.occupied_amounts(task.shape.request)
            slices += task.devices
        slices = columns.existing_slices(slot, slices)
        if slot in self.holds:
            self.holds.give(slot, amounts, slices)
        else:
            self._save(slot)
            columns.give(slot, amounts, slices)
        for task in tasks:
            gang = gangs[task.gang]
            self._count(task, gang, slot, -1)
            yield gang, charges_of(task.shape.request, task.devices, columns.nodes[slot])

    def unbind(self, mark: int) -> None:
        """Take back all binds since a mark; if the attempt is undone, they are made again."""
        taken = self.binds[mark:]
        del self.binds[mark:]
        # the undo puts the removed binds back, in place of any that were made after this
        self._journal.append(partial(self.binds.__setitem__, slice(mark, None), taken))
        tasks = self.cluster.tasks
        self.release_all(
            replace(tasks[bind.task], node=bind.node, devices=bind.devices) for bind in taken
        )

    def evict(self, unit: EvictionUnit) -> None:
        """Remove the tasks of a unit from their nodes, for a preemptor, and mark the unit as
        gone."""
        self.release_all(unit.tasks)
        unit.gone = True
        self.evicted[unit] = None
        self._journal.append(partial(self._unevict, unit))

    def put_back(self, unit: EvictionUnit) -> bool:
        """Put an evicted unit back on its own nodes and devices; return False if they are not
        free."""
        with self.attempt() as keep:
            if not all(self._return(task, unit.gang) for task in unit.tasks):
                return False
            del self.evicted[unit]
            unit.gone = False
            self._journal.append(partial(self._reevict, unit))
            keep()
        return True

    def close(self) -> None:
        """Restore the columns, the accounts and the affinity counts as the cycle found them."""
        for put_back in self._put_back:
            put_back()
        self.index.shorten_log()

    def _unevict(self, unit: EvictionUnit) -> None:
        unit.gone = False
        self.evicted.pop(unit, None)

    def _reevict(self, unit: EvictionUnit) -> None:
        unit.gone = True
        self.evicted[unit] = None

    def _return(self, task: Task, gang: Gang) -> bool:
        """Place a task on the node and devices that it names; return False if they are not free."""
        self.steps += 1
        columns, slot = self.columns, self.columns.slot[task.node]
        amounts, slices = (
            columns.occupied_amounts(task.shape.request),
            columns.existing_slices(slot, task.devices),
        )
        free, devices = columns.free[:, slot], columns.devices[slot]
        if (free < amounts).any() or not can_take(devices, slices, columns.states.kinds):
            return False
        if slot in self.holds:
            self.holds.take(slot, amounts, slices)
        else:
            self._save(slot)
            columns.take(slot, amounts, slices)
        self._count(task, gang, slot, 1)
        charges = charges_of(task.shape.request, task.devices, columns.nodes[slot])
        self._charge([(gang, charges)], 1)
        return True

    def _charge(self, dues: list[Due], sign: int) -> None:
        self.cluster.accounts.charge_all(dues, sign)
        self._journal.append(partial(self.cluster.accounts.charge_all, dues, -sign))

    def _count(self, task: Task, gang: Gang, slot: int, sign: int) -> None:
        """Count a task for pod affinity and spread, if any task of the cluster has such rules."""
        neighbours = self.neighbours
        if neighbours.tallies:
            who, constraints = labels_of(task, gang.namespace), task.shape.constraints
            neighbours.count(who, constraints, slot, sign)
            self._journal.append(partial(neighbours.count, who, constraints, slot, -sign))

    def _save(self, slot: int) -> None:
        """Save a node without claims in the journal, before it changes; `Holds` does so for claimed
        nodes."""
        columns = self.columns
        number, devices = int(columns.device_number[slot]), columns.devices[slot]
        free = columns.free[:, slot].copy()
        self._journal.append(partial(columns.restore, slot, free, number, devices))


class Attempt:
    """The context manager of one attempt; a class, because a search makes very many attempts."""

    __slots__ = ("_began", "_draft", "_kept")

    def __init__(self, draft: Draft) -> None:
        self._draft, self._kept = draft, False

    def __enter__(self) -> Callable[[], None]:
        self._began = self._draft.enter()
        return self._keep

    def __exit__(self, *_: object) -> None:
        self._draft.leave(*self._began, self._kept)

    def _keep(self) -> None:
        self._kept = True
