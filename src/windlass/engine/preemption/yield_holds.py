"""Holds that give way: what is guaranteed does not wait for places that are held for a borrower.

A firm hold keeps places for a gang that is not there yet, while their last users leave. It counts
as had by the gang's queue. Where that puts the queue above its guarantee, the hold may be taken for
a gang within its own, by the same rule as running work. Whoever leaves the places goes on leaving;
the borrower waits in line again.

A hold is *easily* given up, before anybody is displaced, if nobody is on its way to the places, if
it is not far more than is needed, and if the places come free as soon as can be expected. Whoever
outstays its grace is perhaps kept by a disruption budget, of which nothing is known here: other
borrowed places come free sooner. All other holds are given up where nothing else helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.engine.draft.draft import Draft
from windlass.engine.preemption.reclaim_rules import QueueClaim
from windlass.engine.preemption.validate import FAR_MORE
from windlass.model.actions import EvictionRule, Hold
from windlass.model.jobs import ACTIVE, Gang, GangId, TaskState
from windlass.model.queues import GPU
from windlass.state.queue_accounts import charges_of


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A firm hold that may be given up."""

    gang: Gang
    charges: dict[str, int]
    """What its queue is charged for it, per dimension."""
    moves: bool
    """Is work on its way to these places? It would be lost."""
    is_late: bool
    """Should somebody have left these places by now who has not?"""

    @property
    def gpu(self) -> int:
        """GPU thousandths that are held."""
        return self.charges.get(GPU, 0)

    def is_easy(self, need: int) -> bool:
        """Is it given up, for a need of so many GPU thousandths, before anybody is displaced?"""
        return not self.moves and not self.is_late and self.gpu < FAR_MORE * need

    def cheapest(self) -> tuple[bool, bool, int, int, str]:
        """Sorts what is to be given up first: lower priorities, then the younger gang."""
        gang = self.gang
        return self.moves, self.is_late, gang.priority, -gang.created_at, gang.id


class Borrowers:
    """The firm holds of a cycle, as candidates for those within their guarantees."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._holds: dict[str, list[Hold]] | None = None
        """By the queue of their gang; None until somebody asks."""
        self._known: dict[GangId, Borrowed] = {}

    def before(self, case: QueueClaim) -> list[Borrowed]:
        """The holds that may be given up for a claim, the cheapest first."""
        found = [
            self._look(hold)
            for queue, holds in self._by_queue().items()
            if case.against_now(queue) is EvictionRule.GUARANTEE
            for hold in holds
            if not self._draft.holds.is_given_up(hold.gang)
        ]
        return sorted(found, key=Borrowed.cheapest)

    def give_up(self, some: Iterable[Borrowed], case: QueueClaim) -> tuple[GangId, ...]:
        """Give up holds on the draft, each if its queue is then still above its guarantee."""
        found: list[GangId] = []
        for each in some:
            if case.takes(each.gang.queue, each.charges) is EvictionRule.GUARANTEE:
                self._draft.holds.give_up(each.gang.id)
                found.append(each.gang.id)
        return tuple(found)

    def _by_queue(self) -> dict[str, list[Hold]]:
        if self._holds is None:
            self._holds = {}
            for name, hold in sorted(self._draft.holds.standing.items()):
                gang = self._draft.cluster.gangs.get(name)
                if gang is not None and hold.firm and self._may_give_up(gang):
                    self._holds.setdefault(gang.queue, []).append(hold)
        return self._holds

    def _may_give_up(self, gang: Gang) -> bool:
        """Is nothing lost by it that could not be taken from the gang if it ran?

        What cannot be preempted is within its guarantee. Who runs in part needs the rest.
        """
        cluster = self._draft.cluster
        runs = any(task.state in ACTIVE for task in cluster.members(gang.id))
        return not gang.is_firm and (not runs or cluster.has_minimum(gang.id))

    def _look(self, hold: Hold) -> Borrowed:
        found = self._known.get(hold.gang)
        if found is None:
            found = self._known[hold.gang] = self._looked_at(hold)
        return found

    def _looked_at(self, hold: Hold) -> Borrowed:
        cluster = self._draft.cluster
        charges: dict[str, int] = {}
        for claim in hold.claims:
            node = cluster.nodes.get(claim.node)
            for dimension, amount in charges_of(claim.request, claim.devices, node):
                charges[dimension] = charges.get(dimension, 0) + amount
        members = cluster.members(hold.gang)
        moves = any(task.state == TaskState.RELEASING for task in members)
        return Borrowed(cluster.gangs[hold.gang], charges, moves, self._is_late(hold))

    def _is_late(self, hold: Hold) -> bool:
        cluster = self._draft.cluster
        return any(
            cluster.now - task.releasing_since > cluster.gangs[task.gang].terminates_s
            for task in cluster.leaving()
            if task.releasing_since is not None
            and any(claim.meets(task.node, task.devices) for claim in hold.claims)
        )
