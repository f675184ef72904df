"""Holds and reservations: places others must leave alone.

A claim keeps its amounts and devices from everyone but its gang. A reservation's claims bind only
work that might still run when it starts; what ends in time may use the places (backfill). What is
guaranteed need not wait for what is borrowed, nor a higher priority for a lower one of its queue,
nor who displaces others by right for what is only promised. Columns show a claimed node without its
claims; `lifted` shows it to those who may look, and `give_up` to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from windlass.engine.queueing.runtime_estimate import Estimates
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import Gang, GangId, Task, TaskState
from windlass.model.mig import with_kept
from windlass.model.queues import GPU, guaranteed
from windlass.state.cluster import Cluster
from windlass.state.device_states import Device, Devices, DeviceStates, with_back, without
from windlass.state.node_columns import Ints
from windlass.state.pod_affinity import TaskLabels
from windlass.state.queue_accounts import Due, charges_of

Free = tuple[Ints, Devices, int]
"""What is free on a node, and the number of its devices' state."""

_AS_IT_IS = nullcontext()


class Holds:
    """The claims of all holds, and what claimed nodes are like without them."""

    __slots__ = (
        "_base",
        "_claims",
        "_cluster",
        "_columns",
        "_estimates",
        "_given_up",
        "_journal",
        "_lifted",
        "_owner",
        "_slots",
        "_soft",
        "eased",
        "standing",
    )

    def __init__(
        self, holds: Iterable[Hold], cluster: Cluster, journal: list[Callable[[], object]]
    ) -> None:
        self.standing: dict[GangId, Hold] = {}
        self._cluster, self._columns, self._journal = cluster, cluster.columns, journal
        self._estimates = Estimates(cluster)
        self._claims: dict[int, list[tuple[GangId, Ints, tuple[Slice, ...]]]] = {}
        self._lifted: frozenset[GangId] = frozenset()
        self._owner: GangId | None = None
        self._soft: dict[GangId, Hold] = {}
        """Reservations: under conditions others may use their places."""
        self._given_up: frozenset[GangId] = frozenset()
        """The gangs whose claims were given up in this draft."""
        self._slots: dict[GangId, set[int]] = {}
        self._base: dict[int, Free] = {}
        self.eased = 0
        """Moves whenever something may fit that did not: a hold has ended, a task was released."""
        self.add_all(sorted(holds, key=lambda hold: hold.gang))

    def add(self, hold: Hold) -> None:
        """From now on these places are kept. Not to be undone."""
        self.add_all([hold])

    def add_all(self, holds: Iterable[Hold]) -> None:
        """From now on all these places are kept. Not to be undone."""
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
        """Are places firmly held for the gang?"""
        hold = self.standing.get(gang)
        return hold is not None and hold.firm

    def saver(self) -> Callable[[], None]:
        """Remember what claimed nodes are like; the answer puts it back."""
        base, given_up = self._base.copy(), self._given_up

        def put_back() -> None:
            self._base, self._given_up = base, given_up

        return put_back

    def __contains__(self, slot: int) -> bool:
        """Does any claim lie on this node?"""
        return slot in self._base

    def take(self, slot: int, amounts: Ints, slices: Sequence[Slice]) -> None:
        """Occupy part of a claimed node."""
        free, devices, _ = self._base[slot]
        self._set_base(slot, free - amounts, without(devices, slices))

    def give(self, slot: int, amounts: Ints, slices: Sequence[Slice]) -> None:
        """Return part of a claimed node."""
        free, devices, _ = self._base[slot]
        self._set_base(slot, free + amounts, with_back(devices, slices))

    def lifted(self, gang: Gang, displaces: bool = False) -> AbstractContextManager[None]:
        """Show the claimed nodes as this gang may see them, and its queue without its claims.

        Who `displaces` others by right looks past all reservations.
        """
        if self._owner == gang.id or not self.concern(gang):
            return _AS_IT_IS
        return self._lift(gang, displaces)

    @contextmanager
    def _lift(self, gang: Gang, displaces: bool) -> Generator[None]:
        own = self.standing.get(gang.id)
        if own is not None:
            self._charge(own, -1)
            self._expect(own, -1)
        # who is moved looks while another does, whose own places are about to be given up
        outer, looking = self._lifted, self._owner
        lifted = {*self._lifted_for(gang), *(self._soft if displaces else ())}
        if looking is not None and looking in self.standing:
            lifted.add(looking)
        slots = sorted({slot for owner in lifted | outer for slot in self._slots[owner]})
        self._lifted, self._owner = frozenset(lifted), gang.id
        for slot in slots:
            self._show(slot)
        yield
        self._lifted, self._owner = outer, looking
        for slot in slots:
            self._show(slot)
        if own is not None:
            self._charge(own, 1)
            self._expect(own, 1)

    def beneath(self, gang: Gang) -> Iterator[tuple[Ints, int]]:
        """What is free, and of which devices, on the nodes that only claims keep from the gang.

        All claims set aside: the gang itself may see less there, never more.
        """
        for owner in self._lifted_for(gang):
            for slot in self._slots[owner]:
                free, _, number = self._base[slot]
                yield free, number

    def concern(self, gang: Gang) -> bool:
        """Does the gang see claimed nodes otherwise than everybody else?"""
        return bool(self._soft) or gang.id in self.standing

    def view(self, gang: Gang) -> Hashable:
        """Gangs with equal views see claimed nodes alike; None: nobody else sees them like that."""
        if gang.id in self.standing:
            return None
        return (self.eased, *sorted(self._lifted_for(gang))) if self._soft else ()

    def in_the_way(self, gang: Gang) -> list[Hold]:
        """The reservations whose places this gang may not use, in order of their gangs."""
        lifted = set(self._lifted_for(gang))
        return [self._soft[each] for each in sorted(self._soft) if each not in lifted]

    def drop(self, gang: GangId) -> None:
        """The gang is placed or has given up: its claims end. Not to be undone."""
        hold = self.standing.pop(gang, None)
        if hold is None:
            return
        self.eased += 1
        self._charge(hold, -1)
        self._expect(hold, -1)
        self._soft.pop(gang, None)
        for slot in sorted(self._slots.pop(gang)):
            claims = self._claims[slot]
            claims[:] = [claim for claim in claims if claim[0] != gang]
            self._show(slot)

    def give_up(self, gang: GangId) -> None:
        """Leave the places of a firm hold to others, and its queue without them.

        An undo takes it back; to end the hold for good, it is dropped.
        """
        hold = self.standing[gang]
        self.eased += 1
        self._journal.append(partial(setattr, self, "_given_up", self._given_up))
        self._given_up |= {gang}
        for change in (self._charge, self._expect):
            change(hold, -1)
            self._journal.append(partial(change, hold, 1))
        for slot in sorted(self._slots[gang]):
            self._show(slot)

    def is_given_up(self, gang: GangId) -> bool:
        """Are the places that were held for the gang left to others?"""
        return gang in self._given_up

    def give_way(self, taken: Iterable[PlaceClaim]) -> None:
        """Drop the reservations that lie where others are now to come. Not to be undone."""
        places = list(taken)
        for gang, hold in sorted(self._soft.items()):
            if any(own.meets(at.node, at.devices) for own in hold.claims for at in places):
                self.drop(gang)

    def _lifted_for(self, gang: Gang) -> Iterator[GangId]:
        own = self.standing.get(gang.id)
        if own is not None:
            yield gang.id
        if not self._soft or (own is not None and own.firm):
            # what was paid for does not wait for what is only promised
            yield from (each for each in self._soft if each != gang.id)
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
        """What is firmly held counts as had: others of the queue may not use up its allowance."""
        gang, nodes = self._cluster.gangs.get(hold.gang), self._cluster.nodes
        if gang is not None and hold.firm:
            for claim in hold.claims:
                yield gang, charges_of(claim.request, claim.devices, nodes.get(claim.node))

    def _expect(self, hold: Hold, sign: int) -> None:
        """Those for whom places are firmly held are neighbours already, in what they forbid."""
        cluster = self._cluster
        gang = cluster.gangs.get(hold.gang)
        if gang is None or not hold.firm or not cluster.neighbours.tallies:
            return
        for claim in hold.claims:
            slot, task = self._columns.slot.get(claim.node), _whose(claim, hold, cluster)
            if slot is not None and task is not None:
                who = TaskLabels(task.labels, gang.namespace)
                cluster.neighbours.expect(who, task.shape.constraints, slot, sign)

    def _outranks(self, gang: Gang, owner: GangId) -> bool:
        other = self._cluster.gangs.get(owner)
        return other is None or (other.queue == gang.queue and other.priority < gang.priority)

    def _is_borrower(self, owner: GangId) -> bool:
        gang = self._cluster.gangs.get(owner)
        return gang is None or not self._is_guaranteed(gang)

    def _is_guaranteed(self, gang: Gang) -> bool:
        """Does the gang stay within its queue's guarantee, with all that it waits for?"""
        queue = self._cluster.queues.get(gang.queue)
        waiting = (
            task.shape.request
            for task in self._cluster.members(gang.id)
            if task.state == TaskState.WAITING
        )
        least = self._columns.extra_gpus.least
        wanted = sum(
            (each.gpu.count * each.gpu.milli if each.gpu is not None else 0)
            + (least(each) if each.extra else 0)
            for each in waiting
        )
        held = self._cluster.allocated(gang.queue, GPU)
        return queue is not None and held + wanted <= guaranteed(queue, GPU)

    def _claim(self, hold: Hold) -> set[int]:
        """Take note of the claims of a hold; answers the nodes on which they lie."""
        columns, slots = self._columns, set[int]()
        for claim in hold.claims:
            slot, amounts = columns.slot.get(claim.node), columns.amounts(claim.request)
            if slot is not None and amounts is not None:
                slices = columns.present(slot, claim.devices)
                self._claims.setdefault(slot, []).append((hold.gang, amounts, slices))
                slots.add(slot)
        return slots

    def _set_base(self, slot: int, free: Ints, devices: Devices) -> None:
        self._journal.append(partial(self._base.__setitem__, slot, self._base[slot]))
        self._base[slot] = free, devices, self._columns.states.number(devices)
        self._show(slot)

    def _show(self, slot: int) -> None:
        columns = self._columns
        free, devices, number = self._shown(slot)
        self._journal.append(partial(columns.restore, slot, free, number, devices))
        free, devices, number = self._base[slot]
        kept: list[Slice] = []
        hidden = self._lifted | self._given_up if self._given_up else self._lifted
        for owner, amounts, slices in self._claims[slot]:
            if owner not in hidden:
                free = free - amounts
                kept += slices
        if kept:
            devices = _without_clipped(devices, kept, columns.states)
            number = columns.states.number(devices)
        columns.restore(slot, free, number, devices)

    def _shown(self, slot: int) -> Free:
        columns = self._columns
        number = int(columns.device_number[slot])
        return columns.free[:, slot].copy(), columns.devices[slot], number


def _whose(claim: PlaceClaim, hold: Hold, cluster: Cluster) -> Task | None:
    """The task that will take a place: the one it was kept for, or one that succeeds it."""
    task = cluster.tasks.get(claim.task)
    if task is not None:
        return task
    some = (each for each in cluster.members(hold.gang) if each.state == TaskState.WAITING)
    return next((each for each in some if each.shape.request == claim.request), None)


def _without_clipped(devices: Devices, slices: Iterable[Slice], states: DeviceStates) -> Devices:
    """As `without`, but a claim on what is still occupied takes only what is there."""
    left = list(devices)
    for each in slices:
        device = left[each.device]
        if not each.profile:
            milli = max(0, device.milli - each.milli)
            left[each.device] = Device(device.kind, milli, device.instances)
        else:
            grown = with_kept(states.kinds[device.kind].model, device.instances, each)
            left[each.device] = Device(device.kind, device.milli, grown)
    return tuple(left)
