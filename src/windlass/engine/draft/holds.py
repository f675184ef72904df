"""Holds and reservations: places that other gangs must leave free.

A hold is a list of claims: amounts and devices on nodes that are kept for one gang.

A *firm* hold begins at once. Its places are free, come free, or are freed by displacing others; no
other gang may use them, and the queue of the gang is charged for them. A *reservation* is a hold
that is not firm: it begins in the future. Another gang may use reserved places if

    it ends before the reservation starts (backfill),
    it is within its queue's guarantee and the owner of the reservation borrows,
    it has a higher priority than the owner, in the same queue,
    it has a firm hold itself, or it displaces others by a rule

In the columns, claimed places look occupied. `lifted` shows those places as free, for a while, that
one gang may use; `give_up` shows the places of one hold as free to every gang.
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
    """All holds of a draft: their claims, and the claimed nodes as they are without any claim."""

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
        """All firm holds and reservations, at most one per gang. A hold that is given up stays in
        here until `drop` ends it."""
        self._cluster, self._columns, self._journal = cluster, cluster.columns, journal
        self._estimates = Estimates(cluster)
        self._claims: dict[int, list[tuple[GangId, Ints, tuple[Slice, ...]]]] = {}
        """The claims on each node, by slot: their gang, amounts and devices."""
        self._lifted: frozenset[GangId] = frozenset()
        """The gangs whose claims are not subtracted now, because the gang `_viewer` may use their
        places."""
        self._viewer: GangId | None = None
        """The gang for which claims are lifted now; None: the columns show all claims."""
        self._soft: dict[GangId, Hold] = {}
        """The reservations (holds that are not firm) among `standing`."""
        self._given_up: frozenset[GangId] = frozenset()
        """The gangs whose claims were given up in this draft; replaced, never modified."""
        self._slots: dict[GangId, set[int]] = {}
        """The nodes on which the claims of each gang lie; the same keys as `standing`."""
        self._base: dict[int, Free] = {}
        """By slot: each claimed node with no claim subtracted. `_show` derives the columns of these
        nodes from it, so change them only through `take` and `give`."""
        self.loosened = 0
        """A counter that rises when a gang may fit that did not fit before: a hold ended or was
        given up, or a task was released."""
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
        """Return whether the gang has a firm hold."""
        hold = self.standing.get(gang)
        return hold is not None and hold.firm

    def saver(self) -> Callable[[], None]:
        """Save the claimed nodes as they are; return a function that restores them."""
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
        """Show the claimed places that this gang may use as free, inside a `with` block.

        Meanwhile the gang's queue is not charged for the gang's own hold. With `displaces`, the
        gang evicts others by a rule and may use the places of all reservations.
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
        """Yield free amounts and device number of each node on which the gang may use claimed
        places.

        No claim is subtracted, so this is an upper bound: the gang may see less there, never more.
        """
        for owner in self._lifted_for(gang):
            for slot in self._slots[owner]:
                free, _, number = self._base[slot]
                yield free, number

    def _sees_differently(self, gang: Gang) -> bool:
        """Return whether there may be claimed places that the gang may use."""
        return bool(self._soft) or gang.id in self.standing

    def view(self, gang: Gang) -> Hashable:
        """Return a key that is equal for gangs that may use the same claimed places.

        None if the gang has a hold of its own: then no other gang sees the nodes as this gang does.
        """
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
        """Show the places of a firm hold as free to every gang, and stop charging its queue for
        them.

        Undoing the attempt restores the hold; `drop` ends it for good.
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
        """Drop the reservations that overlap places `taken` by other gangs. Cannot be undone."""
        places = list(taken)
        for gang, hold in sorted(self._soft.items()):
            if any(own.meets(at.node, at.devices) for own in hold.claims for at in places):
                self.drop(gang)

    def _lifted_for(self, gang: Gang) -> Iterator[GangId]:
        """Yield the gangs whose claimed places this gang may use: itself, and owners of
        reservations."""
        own = self.standing.get(gang.id)
        if own is not None:
            yield gang.id
        if not self._soft or (own is not None and own.firm):
            # a gang with a firm hold goes before all reservations
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
        """Yield the charges of a firm hold, so that other gangs cannot use up the limits of its
        queue.

        A reservation is not charged.
        """
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
        """Return whether the owner of a hold is gone, or is in the gang's queue with a lower
        priority."""
        other = self._cluster.gangs.get(owner)
        return other is None or (other.queue == gang.queue and other.priority < gang.priority)

    def _is_borrower(self, owner: GangId) -> bool:
        gang = self._cluster.gangs.get(owner)
        return gang is None or not self._is_guaranteed(gang)

    def _is_guaranteed(self, gang: Gang) -> bool:
        """Return whether the gang's queue, with all waiting tasks of the gang placed, is within its
        GPU guarantee."""
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
        """Write a claimed node to the columns: its base, less the claims that are not lifted or
        given up."""
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
    """Return the task that will take a claimed place; None if there is none yet.

    It is the task that the claim names or, if that is gone, a waiting member with the same request.
    """
    task = cluster.tasks.get(claim.task)
    if task is not None:
        return task
    for member in cluster.members(hold.gang):
        if member.state == TaskState.WAITING and member.shape.request == claim.request:
            return member
    return None


def _without_clipped(devices: Devices, slices: Iterable[Slice], states: DeviceStates) -> Devices:
    """Return the devices less the claimed slices; a claim that is partly occupied takes only the
    rest."""
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
