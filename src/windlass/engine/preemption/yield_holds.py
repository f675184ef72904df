"""Holds that give way: a gang within its guarantee does not wait for places held for a borrower.

A firm hold keeps places for a gang that is not there yet, while their last users leave. It counts
as had by the gang's queue. Where that puts the queue above its guarantee, the hold may be given up
for a gang within its own guarantee, by the same rule as running work. The tasks that leave the
places go on leaving; the borrower waits in line again.

A hold is *easily* given up, before any gang is displaced, if no work is being moved to the places,
if it is not far more than is needed, and if the places come free as soon as can be expected. A task
that outstays its grace is perhaps kept by a disruption budget, which is not visible here: other
borrowed places come free sooner. All other holds are given up only where nothing else helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.engine.draft import Draft
from windlass.engine.preemption.reclaim_memo import QueueClaim
from windlass.engine.preemption.victim_filter import FAR_MORE
from windlass.model.actions import EvictionRule, Hold
from windlass.model.jobs import ACTIVE, Gang, GangId, TaskState
from windlass.model.queues import GPU
from windlass.state.queue_accounts import charges_of


@dataclass(frozen=True, slots=True)
class BorrowedHold:
    """A firm hold that may be given up."""

    gang: Gang
    charges: dict[str, int]
    """The amounts that its queue is charged for it, per dimension."""
    moves: bool
    """True if work is being moved to these places; it would be lost."""
    is_late: bool
    """True if a task should have left these places by now and has not."""

    @property
    def gpu(self) -> int:
        """The thousandths of GPUs that are held."""
        return self.charges.get(GPU, 0)

    def is_easy(self, need: int) -> bool:
        """Return whether it is given up before any gang is displaced.

        `need` is the need of the preemptor in thousandths of GPUs.
        """
        return not self.moves and not self.is_late and self.gpu < FAR_MORE * need

    def cheapest(self) -> tuple[bool, bool, int, int, str]:
        """Return a sort key, the hold to give up first: lower priority, then the younger gang."""
        gang = self.gang
        return self.moves, self.is_late, gang.priority, -gang.created_at, gang.id


class BorrowedHolds:
    """The firm holds of a cycle, as candidates for gangs within their guarantees."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._holds: dict[str, list[Hold]] | None = None
        """By the queue of their gang; None until they are first needed."""
        self._examined: dict[GangId, BorrowedHold] = {}

    def candidates(self, claim: QueueClaim) -> list[BorrowedHold]:
        """Return the holds that may be given up for a claim, the cheapest first."""
        candidates = [
            self._examine(hold)
            for queue, holds in self._by_queue().items()
            if claim.widest_rule(queue) is EvictionRule.GUARANTEE
            for hold in holds
            if not self._draft.holds.is_given_up(hold.gang)
        ]
        return sorted(candidates, key=BorrowedHold.cheapest)

    def give_up(self, holds: Iterable[BorrowedHold], claim: QueueClaim) -> tuple[GangId, ...]:
        """Give up holds on the draft, each if its queue is then still above its guarantee.

        Returns the gangs that lose theirs. An attempt of the draft undoes it.
        """
        gave_way: list[GangId] = []
        for hold in holds:
            if claim.rule_now(hold.gang.queue, hold.charges) is EvictionRule.GUARANTEE:
                self._draft.holds.give_up(hold.gang.id)
                gave_way.append(hold.gang.id)
        return tuple(gave_way)

    def _by_queue(self) -> dict[str, list[Hold]]:
        if self._holds is None:
            self._holds = {}
            for name, hold in sorted(self._draft.holds.standing.items()):
                gang = self._draft.cluster.gangs.get(name)
                if gang is not None and hold.firm and self._may_give_up(gang):
                    self._holds.setdefault(gang.queue, []).append(hold)
        return self._holds

    def _may_give_up(self, gang: Gang) -> bool:
        """Return whether the gang loses nothing that could not be taken from it if it ran.

        A gang that cannot be preempted is within its guarantee. One that runs in part needs the
        rest.
        """
        cluster = self._draft.cluster
        runs = any(task.state in ACTIVE for task in cluster.members(gang.id))
        return not gang.is_firm and (not runs or cluster.has_minimum(gang.id))

    def _examine(self, hold: Hold) -> BorrowedHold:
        """Return the facts about a hold; they do not change in a cycle."""
        borrowed = self._examined.get(hold.gang)
        if borrowed is None:
            cluster = self._draft.cluster
            charges: dict[str, int] = {}
            for claim in hold.claims:
                node = cluster.nodes.get(claim.node)
                for dimension, amount in charges_of(claim.request, claim.devices, node):
                    charges[dimension] = charges.get(dimension, 0) + amount
            members = cluster.members(hold.gang)
            moves = any(task.state == TaskState.RELEASING for task in members)
            gang = cluster.gangs[hold.gang]
            borrowed = BorrowedHold(gang, charges, moves, self._is_late(hold))
            self._examined[hold.gang] = borrowed
        return borrowed

    def _is_late(self, hold: Hold) -> bool:
        """Return whether a task has outstayed its termination grace on the held places."""
        cluster = self._draft.cluster
        return any(
            cluster.now - task.releasing_since > cluster.gangs[task.gang].terminates_s
            for task in cluster.leaving()
            if task.releasing_since is not None
            and any(claim.meets(task.node, task.devices) for claim in hold.claims)
        )
