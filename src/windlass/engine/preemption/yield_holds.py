"""Holds that give way: a gang within its guarantee takes places that are held for a borrower.

A firm hold keeps places for a gang while the tasks on them terminate. It counts as used by the
gang's queue. If the queue is then above its guarantee, the hold may be given up for a gang within
its own guarantee, by the same rule as running work. The tasks on the places go on terminating; the
borrower waits in its queue again.

A hold is *easily* given up, before any gang is displaced, if no work is being moved to its places,
if it holds less than `FAR_MORE` times what is needed, and if no task on its places is late. A task
is late if it terminates for longer than its grace period: perhaps a disruption budget keeps it,
which the engine does not see. All other holds are given up only where nothing else helps.
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
    """A firm hold of a borrower, which may be given up."""

    gang: Gang
    charges: dict[str, int]
    """The amounts that the queue of the gang is charged for the hold, per dimension."""
    moves: bool
    """True if the gang is being moved to these places: its work would be lost without them."""
    is_late: bool
    """True if a task on these places terminates for longer than its grace period."""

    @property
    def gpu(self) -> int:
        """The thousandths of GPUs that are held."""
        return self.charges.get(GPU, 0)

    def is_easy(self, need: int) -> bool:
        """Return whether the hold is given up before any gang is displaced.

        `need` is the need of the preemptor in thousandths of GPUs.
        """
        return not self.moves and not self.is_late and self.gpu < FAR_MORE * need

    def cheapest(self) -> tuple[bool, bool, int, int, str]:
        """Return a sort key, the hold to give up first: no move, not late, low priority, young
        gang."""
        gang = self.gang
        return self.moves, self.is_late, gang.priority, -gang.created_at, gang.id


class BorrowedHolds:
    """The firm holds of a cycle that may be given up for gangs within their guarantees."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._holds: dict[str, list[Hold]] | None = None
        """The holds by the queue of their gang; None until they are first needed."""
        self._examined: dict[GangId, BorrowedHold] = {}

    def candidates(self, claim: QueueClaim) -> list[BorrowedHold]:
        """Return the holds that may be given up for the claim of a queue, the cheapest first."""
        candidates = [
            self._examine(hold)
            for queue, holds in self._by_queue().items()
            if claim.widest_rule(queue) is EvictionRule.GUARANTEE
            for hold in holds
            if not self._draft.holds.is_given_up(hold.gang)
        ]
        return sorted(candidates, key=BorrowedHold.cheapest)

    def give_up(self, holds: Iterable[BorrowedHold], claim: QueueClaim) -> tuple[GangId, ...]:
        """Give up holds on the draft, one by one, as long as their queue is above its guarantee.

        Return the gangs that lose their holds. Undoing the attempt restores the holds.
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
        """Return whether the hold of a gang may be given up.

        Not if the gang is firm: such a gang is within its guarantee. Not if the gang runs below its
        minimum: it needs the rest.
        """
        cluster = self._draft.cluster
        runs = any(task.state in ACTIVE for task in cluster.members(gang.id))
        return not gang.is_firm and (not runs or cluster.has_minimum(gang.id))

    def _examine(self, hold: Hold) -> BorrowedHold:
        """Return the facts about a hold; they do not change during a cycle."""
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
        """Return whether a task on the held places terminates for longer than its grace period."""
        cluster = self._draft.cluster
        return any(
            cluster.now - task.releasing_since > cluster.gangs[task.gang].terminates_s
            for task in cluster.leaving()
            if task.releasing_since is not None
            and any(claim.meets(task.node, task.devices) for claim in hold.claims)
        )
