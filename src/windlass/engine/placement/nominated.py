"""Places that are held for a gang: may it come there now, and must it?

Seeking anew might end elsewhere, or nowhere: others were placed since. So the gang is bound just
where places were kept for it, as soon as they are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from windlass.engine.draft.draft import Draft
from windlass.engine.nodes.node_index import ShapeIndex
from windlass.engine.nodes.pod_affinity import overlay
from windlass.engine.nodes.score import NOWHERE
from windlass.engine.nodes.topology import Topologies
from windlass.engine.placement.turns import look_of, one_by_one
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress
from windlass.model.actions import PlaceClaim
from windlass.model.jobs import Domain, Gang, Task
from windlass.model.resources import Request
from windlass.state.node_columns import Ints
from windlass.state.pod_affinity import TaskLabels


class NominatedPlaces:
    """The firmly held places of gangs, on a draft."""

    __slots__ = ("_draft", "_limits", "_topologies")

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft, self._limits = draft, limits
        self._topologies = draft.cluster.recall(Topologies)

    def is_awaited(self, progress: Progress) -> bool:
        """Are its places kept, but still occupied, and is there no room elsewhere either?

        Many gangs may wait like that while pods take their time to stop: this is asked first.
        """
        gang, holds = progress.gang, self._draft.holds
        if not holds.is_firm(gang.id):
            return False
        for shape in progress.counts:
            kind = self._draft.index.of(shape)
            if kind.key.min(initial=NOWHERE) >= NOWHERE:
                return not any(_fits(kind, *at) for at in holds.beneath(gang))
        return False

    def take(self, progress: Progress, need: dict[str, int]) -> bool:
        """Bind the gang where places were kept for it, if they are free by now.

        What it borrows was lent to it when it was promised, whatever has become scarce meanwhile.
        """
        gang, draft = progress.gang, self._draft
        hold = draft.holds.standing.get(gang.id)
        if hold is None or not hold.firm or self._limits.beyond(gang, need) is not None:
            return False
        kept: dict[Request, list[PlaceClaim]] = {}
        for claim in hold.claims:
            kept.setdefault(claim.request, []).append(claim)
        # in the order in which they were placed: who seeks its like anywhere is the first of it
        order = {request: at for at, request in enumerate(kept)}
        tasks = [task for part in progress.parts for task in part.tasks]
        tasks.sort(key=lambda task: order.get(task.shape.request, len(order)))
        mark = len(draft.binds)
        with draft.attempt() as keep:
            take = partial(self._take_place, gang, kept)
            there = one_by_one(tasks, take, lambda _: bool(draft.neighbours.tallies), look_of)
            if there and self._are_together(progress, mark) and self._limits.kept(gang, need):
                keep()
                return True
        return False

    def are_sought(self, progress: Progress) -> bool:
        """Is it to come where places are held for it, because others are promised to be near it?"""
        gang, draft = progress.gang, self._draft
        if not draft.neighbours.tallies or not draft.holds.is_firm(gang.id):
            return False
        tasks = (task for part in progress.parts for task in part.tasks)
        whos = {TaskLabels(task.labels, gang.namespace) for task in tasks}
        tallies = (tally for who in whos for tally in draft.neighbours.matching(who))
        return any(tally.awaited is not None and tally.awaited.seekers.any() for tally in tallies)

    def _take_place(self, gang: Gang, kept: dict[Request, list[PlaceClaim]], task: Task) -> bool:
        """Bind a task in the first of the places kept for its like that lets it in."""
        draft, claims = self._draft, kept.get(task.shape.request, [])
        key = draft.index.of(task.shape).key
        over = overlay(draft.neighbours, draft.index, task, gang)
        open_now = key if over is None else key + over
        # only neighbours make a difference between them: else one that is not free settles it
        for at, claim in enumerate(claims if draft.neighbours.tallies else claims[:1]):
            slot = draft.columns.slot.get(claim.node)
            if slot is not None and open_now[slot] < NOWHERE and draft.bind_at(task, gang, claim):
                del claims[at]
                return True
        return False

    def _are_together(self, progress: Progress, mark: int) -> bool:
        """Are the binds since a mark in the domains that the gang and its groups require?

        A kept place may have been another member's, whose group had another domain.
        """
        at = {bind.task: bind.node for bind in self._draft.binds[mark:]}
        return self._is_one(progress.gang.domain, (*progress.nodes, *at.values())) and all(
            self._is_one(part.group.domain, (*part.nodes, *(at[task.id] for task in part.tasks)))
            for part in progress.parts
        )

    def _is_one(self, wish: Domain | None, nodes: Sequence[str]) -> bool:
        if wish is None or not wish.required:
            return True
        slots = self._draft.columns.slots_of(nodes)
        domains = [level.domain_of[slots] for level in self._topologies.levels(wish)]
        return bool(domains) and all((each == each[0]).all() and each[0] >= 0 for each in domains)


def _fits(kind: ShapeIndex, free: Ints, number: int) -> bool:
    """Would a task fit a node in this condition, if the node lets it in?"""
    if kind.amounts is None or kind.chooser.look_up_one(number)[0] <= 0:
        return False
    return bool((free >= kind.amounts).all())
