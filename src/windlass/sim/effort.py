"""What members hold, and how much of it is work that counts.

From its bind on a member's devices count for its queue as allocated: as useful while it works, as
idle until then. When it stops before its end, only what was saved remains; the rest was in vain.
"""

from __future__ import annotations

from windlass.model.actions import Bind
from windlass.model.nodes import Node
from windlass.sim.gang_run import Member
from windlass.sim.metrics import Meter, worth


class Effort:
    """Counts for queues what their members do, and for gangs what they have done."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def take(self, member: Member, bind: Bind, node: Node) -> None:
        """A member is given devices of a node."""
        member.bind = bind
        member.asked = worth(member.task.shape.request.gpu, node, bind.devices)
        member.given = sum(each.milli for each in bind.devices)
        self._meter.take(bind.node, bind.devices)
        self._count(member, 1)

    def work(self, member: Member, since: int | None) -> None:
        """It works from then on, or does not any more."""
        self._count(member, -1)
        member.since = since
        self._count(member, 1)

    def stop(self, member: Member, now: int, displaced: bool) -> None:
        """It works no longer; of what it did in this stretch, only what was saved remains."""
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
        """What it did here in this stretch counts for its gang."""
        if member.since is not None:
            since = max(member.since, member.crew.arrival.at)
            member.crew.record.worked += max(0, until - since) * member.asked

    def give_back(self, member: Member, now: int, to_node: bool) -> None:
        """It is over; its devices come back, if their node is still there."""
        self.note(member, now)
        self._count(member, -1)
        if member.bind and to_node:
            self._meter.take(member.bind.node, member.bind.devices, -1)

    def _count(self, member: Member, sign: int) -> None:
        """Count what a member holds among its queue's present tally, or no longer."""
        tally = self._meter.of(member.crew.record.gang.queue)
        tally.allocated += sign * member.given
        if member.since is not None:
            tally.useful += sign * member.asked
        else:
            tally.idle += sign * member.given
