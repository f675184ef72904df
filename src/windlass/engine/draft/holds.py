"""Holds and reservations: places that other gangs must leave free.

A hold is a list of claims: amounts and devices on nodes that are kept for one gang. A *firm* hold
was paid for, mostly by evictions, and nobody else may use it. A *reservation* (a hold that is not
firm) is only promised. A gang may use its places if

    it ends before the reservation starts (backfill),
    it is within its guarantee and the owner of the reservation borrows,
    it has a higher priority than the owner, in the same queue,
    it has a firm hold itself, or displaces others by a rule

The columns show a claimed node without what is claimed on it. `lifted` shows it for a while as one
gang may see it, `give_up` shows it to every gang.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from windlass.engine.queueing import Estimates
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpu.mig import with_kept
from windlass.model.gpus import Slice
from windlass.model.jobs import Gang, GangId, Task, TaskState
from windlass.model.queues import GPU, guaranteed
from windlass.state.cluster import Cluster
from windlass.state.device_states import (
    Device,
    Devices,
    DeviceStates,
    after_releasing,
    after_taking,
)
from windlass.state.node_columns import Ints
from windlass.state.pod_affinity import TaskLabels
from windlass.state.queue_accounts import Due, charges_of

Free = tuple[Ints, Devices, int]
"""The free amounts of a node, its devices, and the number of the devices' state."""

_AS_IT_IS = nullcontext()


class Holds:
    """The claims of all holds, and the claimed nodes as they are without them."""

    __slots__ = (
        "_base",
        "_claims",
        "_cluster",
        "_columns",
        "_estimates",
        "_given_up",
        "_journal",
        "_lifted",
        "_slots",
        "_soft",
        "_viewer",
        "loosened",
        "standing",
    )

    def __init__(
        self, holds: Iterable[Hold], cluster: Cluster, journal: list[Callable[[], object]]
    ) -> None:
        self.standing: dict[GangId, Hold] = {}
        """All holds and reservations, one at most for each gang; also those that are given up."""
        self._cluster, self._columns, self._journal = cluster, cluster.columns, journal
        self._estimates = Estimates(cluster)
        self._claims: dict[int, list[tuple[GangId, Ints, tuple[Slice, ...]]]] = {}
        """The claims on each node, by slot: their gang, amounts and devices."""
        self._lifted: frozenset[GangId] = frozenset()
        """The gangs whose claims are not subtracted now, because `_viewer` may see past them."""
        self._viewer: GangId | None = None
        """The gang for which claims are lifted now; None: the columns show all claims."""
        self._soft: dict[GangId, Hold] = {}
        """The reservations among `standing`."""
        self._given_up: frozenset[GangId] = frozenset()
        """The gangs whose claims were given up in this draft; replaced, never modified."""
        self._slots: dict[GangId, set[int]] = {}
        """The nodes on which the claims of each gang lie; the same keys as `standing`."""
        self._base: dict[int, Free] = {}
        """The claimed nodes without any claim subtracted. For these nodes the columns are derived
        from it (`_show`): change them through `take` and `give` only."""
        self.loosened = 0
        """A counter that moves whenever something may fit that did not: a hold has ended, a task
        was released."""
        self.add_all(sorted(holds, key=lambda hold: hold.gang))

    def add(self, hold: Hold) -> None:
        """Hold these places from now on. Cannot be undone."""
        self.add_all([hold])

    def add_all(self, holds: Iterable[Hold]) -> None:
        """Hold all these places from now on. Cannot be undone."""
        slots: dict[int, None] = {}
        dues: list[Due] = []
        for hold in holds:
            self.standing[hold.gang] = hold
            if not hold.firm:
                self._soft[hold.gang] = hold
            dues += self._dues(hold)
            self._expect(hold, 1)
            self._slots[hold.gang] = self._claim(hold)
            slots.update(dict.fromkeys(self._slots[hold.gang]))
        self._cluster.accounts.charge_all(dues, 1)
        for slot in slots:
            if slot not in self._base:
                self._base[slot] = self._shown(slot)
            self._show(slot)

    def is_firm(self, gang: GangId) -> bool:
        """Return whether places are firmly held for the gang."""
        hold = self.standing.get(gang)
        return hold is not None and hold.firm

    def saver(self) -> Callable[[], None]:
        """Remember the claimed nodes as they are; the returned function puts them back."""
        base, given_up = self._base.copy(), self._given_up

        def put_back() -> None:
            self._base, self._given_up = base, given_up

        return put_back

    def __contains__(self, slot: int) -> bool:
        """Return whether any claim lies on this node."""
        return slot in self._base

    def take(self, slot: int, amounts: Ints, slices: Sequence[Slice]) -> None:
        """Occupy part of a claimed node; an undo returns it."""
        free, devices, _ = self._base[slot]
        self._set_base(slot, free - amounts, after_taking(devices, slices))

    def give(self, slot: int, amounts: Ints, slices: Sequence[Slice]) -> None:
        """Free part of a claimed node; an undo occupies it again."""
        free, devices, _ = self._base[slot]
        self._set_base(slot, free + amounts, after_releasing(devices, slices))

    def lifted(self, gang: Gang, displaces: bool = False) -> AbstractContextManager[None]:
        """Show the claimed nodes as this gang may see them, and its queue without its claims.

        A gang that `displaces` others by a rule looks past all reservations.
        """
        if self._viewer == gang.id or not self._sees_differently(gang):
            return _AS_IT_IS
        return self._lift(gang, displaces)

    @contextmanager
    def _lift(self, gang: Gang, displaces: bool) -> Generator[None]:
        own = self.standing.get(gang.id)
        if own is not None:
            self._charge(own, -1)
            self._expect(own, -1)
        # nested: a victim that is being moved may also use the present hold of the preemptor, which
        # the preemptor is about to give up
        outer, outer_viewer = self._lifted, self._viewer
        lifted = {*self._lifted_for(gang), *(self._soft if displaces else ())}
        if outer_viewer is not None and outer_viewer in self.standing:
            lifted.add(outer_viewer)
        slots = sorted({slot for owner in lifted | outer for slot in self._slots[owner]})
        self._lifted, self._viewer = frozenset(lifted), gang.id
        for slot in slots:
            self._show(slot)
        yield
        self._lifted, self._viewer = outer, outer_viewer
        for slot in slots:
            self._show(slot)
        if own is not None:
            self._charge(own, 1)
            self._expect(own, 1)

    def free_beneath_claims(self, gang: Gang) -> Iterator[tuple[Ints, int]]:
        """Yield the free amounts and device numbers of nodes whose claims are lifted for the gang.

        All claims are left out: the gang itself may see less there, never more.
        """
        for owner in self._lifted_for(gang):
            for slot in self._slots[owner]:
                free, _, number = self._base[slot]
                yield free, number

    def _sees_differently(self, gang: Gang) -> bool:
        """Return whether the gang may see claimed nodes in another way than most gangs do."""
        return bool(self._soft) or gang.id in self.standing

    def view(self, gang: Gang) -> Hashable:
        """Return a key: gangs with equal keys see claimed nodes alike; None: no other gang does."""
        if gang.id in self.standing:
            return None
        return (self.loosened, *sorted(self._lifted_for(gang))) if self._soft else ()

    def reservations_against(self, gang: Gang) -> list[Hold]:
        """Return the reservations whose places this gang may not use, in order of their gangs."""
        lifted = set(self._lifted_for(gang))
        return [self._soft[owner] for owner in sorted(self._soft) if owner not in lifted]

    def drop(self, gang: GangId) -> None:
        """End the hold of a gang that is placed or no longer needs it. Cannot be undone."""
        hold = self.standing.pop(gang, None)
        if hold is None:
            return
        self.loosened += 1
        self._charge(hold, -1)
        self._expect(hold, -1)
        self._soft.pop(gang, None)
        for slot in sorted(self._slots.pop(gang)):
            claims = self._claims[slot]
            claims[:] = [claim for claim in claims if claim[0] != gang]
            self._show(slot)

    def give_up(self, gang: GangId) -> None:
        """Show the places of a firm hold to every gang, and its queue without them.

        An undo takes it back; `drop` ends the hold for good.
        """
        hold = self.standing[gang]
        self.loosened += 1
        self._journal.append(partial(setattr, self, "_given_up", self._given_up))
        self._given_up |= {gang}
        for change in (self._charge, self._expect):
            change(hold, -1)
            self._journal.append(partial(change, hold, 1))
        for slot in sorted(self._slots[gang]):
            self._show(slot)

    def is_given_up(self, gang: GangId) -> bool:
        """Return whether the hold of the gang is given up in this draft."""
        return gang in self._given_up

    def drop_reservations_at(self, taken: Iterable[PlaceClaim]) -> None:
        """Drop the reservations whose places are taken by other gangs. Cannot be undone."""
        places = list(taken)
        for gang, hold in sorted(self._soft.items()):
            if any(own.meets(at.node, at.devices) for own in hold.claims for at in places):
                self.drop(gang)

    def _lifted_for(self, gang: Gang) -> Iterator[GangId]:
        """Yield the owners of the claims that a gang may see past: itself, and of reservations."""
        own = self.standing.get(gang.id)
        if own is not None:
            yield gang.id
        if not self._soft or (own is not None and own.firm):
            # a firm hold was paid for: it does not wait for what is only promised
            yield from (owner for owner in self._soft if owner != gang.id)
            return
        duration = self._estimates.of(gang)
        is_guaranteed = self._is_guaranteed(gang)
        for owner, hold in self._soft.items():
            in_time = duration is not None and self._cluster.now + duration <= hold.starts_at
            goes_before = is_guaranteed and self._is_borrower(owner)
            if owner != gang.id and (in_time or goes_before or self._outranks(gang, owner)):
                yield owner

    def _charge(self, hold: Hold, sign: int) -> None:
        self._cluster.accounts.charge_all(list(self._dues(hold)), sign)

    def _dues(self, hold: Hold) -> Iterator[Due]:
        """Yield the charges of a firm hold: other gangs of the queue cannot use up its limits."""
        gang, nodes = self._cluster.gangs.get(hold.gang), self._cluster.nodes
        if gang is not None and hold.firm:
            for claim in hold.claims:
                yield gang, charges_of(claim.request, claim.devices, nodes.get(claim.node))

    def _expect(self, hold: Hold, sign: int) -> None:
        """Count the future tasks of a firm hold for pod anti-affinity, as if they ran already."""
        cluster = self._cluster
        gang = cluster.gangs.get(hold.gang)
        if gang is None or not hold.firm or not cluster.pod_affinity.tallies:
            return
        for claim in hold.claims:
            slot, task = self._columns.slot.get(claim.node), _task_for(claim, hold, cluster)
            if slot is not None and task is not None:
                who = TaskLabels(task.labels, gang.namespace)
                cluster.pod_affinity.expect(who, task.shape.constraints, slot, sign)

    def _outranks(self, gang: Gang, owner: GangId) -> bool:
        """Return whether the owner is gone, or of the same queue with a lower priority."""
        other = self._cluster.gangs.get(owner)
        return other is None or (other.queue == gang.queue and other.priority < gang.priority)

    def _is_borrower(self, owner: GangId) -> bool:
        gang = self._cluster.gangs.get(owner)
        return gang is None or not self._is_guaranteed(gang)

    def _is_guaranteed(self, gang: Gang) -> bool:
        """Return whether its queue stays within its guarantee with its waiting tasks placed."""
        queue = self._cluster.queues.get(gang.queue)
        waiting = (
            task.shape.request
            for task in self._cluster.members(gang.id)
            if task.state == TaskState.WAITING
        )
        least = self._columns.extra_gpus.least
        wanted = sum(
            (request.gpu.count * request.gpu.milli if request.gpu is not None else 0)
            + (least(request) if request.extra else 0)
            for request in waiting
        )
        held = self._cluster.allocated(gang.queue, GPU)
        return queue is not None and held + wanted <= guaranteed(queue, GPU)

    def _claim(self, hold: Hold) -> set[int]:
        """Note the claims of a hold; return the slots of the nodes on which they lie."""
        columns, slots = self._columns, set[int]()
        for claim in hold.claims:
            slot, amounts = columns.slot.get(claim.node), columns.amounts(claim.request)
            if slot is not None and amounts is not None:
                slices = columns.existing_slices(slot, claim.devices)
                self._claims.setdefault(slot, []).append((hold.gang, amounts, slices))
                slots.add(slot)
        return slots

    def _set_base(self, slot: int, free: Ints, devices: Devices) -> None:
        self._journal.append(partial(self._base.__setitem__, slot, self._base[slot]))
        self._base[slot] = free, devices, self._columns.states.number(devices)
        self._show(slot)

    def _show(self, slot: int) -> None:
        """Write a claimed node to the columns: its base less all claims that are not hidden."""
        columns = self._columns
        free, devices, number = self._shown(slot)
        self._journal.append(partial(columns.restore, slot, free, number, devices))
        free, devices, number = self._base[slot]
        claimed: list[Slice] = []
        hidden = self._lifted | self._given_up if self._given_up else self._lifted
        for owner, amounts, slices in self._claims[slot]:
            if owner not in hidden:
                free = free - amounts
                claimed += slices
        if claimed:
            devices = _without_clipped(devices, claimed, columns.states)
            number = columns.states.number(devices)
        columns.restore(slot, free, number, devices)

    def _shown(self, slot: int) -> Free:
        """Return a node as the columns show it now."""
        columns = self._columns
        number = int(columns.device_number[slot])
        return columns.free[:, slot].copy(), columns.devices[slot], number


def _task_for(claim: PlaceClaim, hold: Hold, cluster: Cluster) -> Task | None:
    """Return the task that will take a place: the named one, or a successor with its request."""
    task = cluster.tasks.get(claim.task)
    if task is not None:
        return task
    for member in cluster.members(hold.gang):
        if member.state == TaskState.WAITING and member.shape.request == claim.request:
            return member
    return None


def _without_clipped(devices: Devices, slices: Iterable[Slice], states: DeviceStates) -> Devices:
    """Return devices as `without` does, but clip claims to what is not occupied yet."""
    left = list(devices)
    for claimed in slices:
        device = left[claimed.device]
        if not claimed.profile:
            milli = max(0, device.milli - claimed.milli)
            left[claimed.device] = Device(device.kind, milli, device.instances)
        else:
            grown = with_kept(states.kinds[device.kind].model, device.instances, claimed)
            left[claimed.device] = Device(device.kind, device.milli, grown)
    return tuple(left)
