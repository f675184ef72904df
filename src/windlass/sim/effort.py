"""The account of useful work: what members hold, and which part of it is useful.

From its bind on, the devices of a member count as allocated to its queue: as useful while it works,
as idle until then. When it stops before its end, only the saved part remains useful; the rest is
lost.
"""

from __future__ import annotations

from windlass.model.actions import Bind
from windlass.model.nodes import Node
from windlass.sim.gang_run import Member
from windlass.sim.metrics import Meter, worth


class Effort:
    """Counts the GPU time of members for their queues and their gangs."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def take(self, member: Member, bind: Bind, node: Node) -> None:
        """Allocate devices of a node to a member."""
        member.bind = bind
        member.asked = worth(member.task.shape.request.gpu, node, bind.devices)
        member.given = sum(each.milli for each in bind.devices)
        self._meter.take(bind.node, bind.devices)
        self._count(member, 1)

    def work(self, member: Member, since: int | None) -> None:
        """Set since when a member works; None if it does not work any more."""
        self._count(member, -1)
        member.since = since
        self._count(member, 1)

    def stop(self, member: Member, now: int, displaced: bool) -> None:
        """Stop the work of a member and keep only the saved part of this stretch."""
        crew = member.crew
        member.turn += 1
        if member.since is None:
            return
        saved_at = max(member.since, crew.saved_at(now))
        self.note(member, now if crew.arrival.runs_s is None else saved_at)
        if crew.arrival.runs_s is not None:
            member.saved_s += saved_at - member.since
            spent = (now - saved_at) * member.asked
            self._meter.lose(crew.record.gang.queue, spent, displaced)
        self.work(member, None)

    def note(self, member: Member, until: int) -> None:
        """Add the work of a member in this stretch to its gang."""
        if member.since is not None:
            since = max(member.since, member.crew.arrival.at)
            member.crew.record.worked += max(0, until - since) * member.asked

    def give_back(self, member: Member, now: int, to_node: bool) -> None:
        """Return the devices of a member that is over, if their node still exists."""
        self.note(member, now)
        self._count(member, -1)
        if member.bind and to_node:
            self._meter.take(member.bind.node, member.bind.devices, -1)

    def _count(self, member: Member, sign: int) -> None:
        """Add (sign 1) or remove (sign -1) the devices of a member in the tally of its queue."""
        tally = self._meter.of(member.crew.record.gang.queue)
        tally.allocated += sign * member.given
        if member.since is not None:
            tally.useful += sign * member.asked
        else:
            tally.idle += sign * member.given
