"""Nominated places: the places that are firmly held for a gang while their victims terminate.

A new search might end elsewhere, or nowhere, because other gangs were placed meanwhile. So the gang
is bound at exactly the places that are held for it, as soon as they are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from windlass.engine.draft import Draft
from windlass.engine.nodes import (
    INFEASIBLE,
    ShapeIndex,
    Topologies,
    one_by_one,
    overlay,
    placement_traits,
)
from windlass.engine.queueing import Limits, Progress
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

    def must_wait(self, progress: Progress) -> bool:
        """Return whether the gang's places are still occupied and no other node has room.

        A cheap test that comes first: many gangs may wait like that while pods take their time to
        terminate.
        """
        gang, holds = progress.gang, self._draft.holds
        if not holds.is_firm(gang.id):
            return False
        for shape in progress.counts:
            index = self._draft.index.of(shape)
            if index.key.min(initial=INFEASIBLE) >= INFEASIBLE:
                return not any(_fits(index, *at) for at in holds.free_beneath_claims(gang))
        return False

    def bind(self, progress: Progress, need: dict[str, int]) -> bool:
        """Bind the gang at the places held for it, if all are free; return whether it was bound.

        Lending is not checked: what the gang borrows was lent to it when the places were promised.
        """
        gang, draft = progress.gang, self._draft
        hold = draft.holds.standing.get(gang.id)
        if hold is None or not hold.firm or self._limits.exceeded_rule(gang, need) is not None:
            return False
        claims: dict[Request, list[PlaceClaim]] = {}
        for claim in hold.claims:
            claims.setdefault(claim.request, []).append(claim)
        # Bind in placement order, so that self-affinity sees the first member of its group first.
        order = {request: at for at, request in enumerate(claims)}
        tasks = [task for part in progress.parts for task in part.tasks]
        tasks.sort(key=lambda task: order.get(task.shape.request, len(order)))
        mark = len(draft.binds)
        with draft.attempt() as keep:
            place = partial(self._bind_task, gang, claims)
            bound = one_by_one(
                tasks, place, lambda _: bool(draft.neighbours.tallies), placement_traits
            )
            if bound and self._are_together(progress, mark) and self._limits.rules_hold(gang, need):
                keep()
                return True
        return False

    def are_required(self, progress: Progress) -> bool:
        """Return whether the gang may start nowhere but at the places held for it.

        So it is if other gangs with held places have pod affinity to it.
        """
        gang, draft = progress.gang, self._draft
        if not draft.neighbours.tallies or not draft.holds.is_firm(gang.id):
            return False
        tasks = (task for part in progress.parts for task in part.tasks)
        labels = {TaskLabels(task.labels, gang.namespace) for task in tasks}
        tallies = (tally for who in labels for tally in draft.neighbours.matching(who))
        return any(tally.awaited is not None and tally.awaited.seekers.any() for tally in tallies)

    def _bind_task(self, gang: Gang, claims: dict[Request, list[PlaceClaim]], task: Task) -> bool:
        """Bind a task at the first held place for its request that admits it.

        The place is removed from `claims`.
        """
        draft, places = self._draft, claims.get(task.shape.request, [])
        key = draft.index.of(task.shape).key
        over = overlay(draft.neighbours, draft.index, task, gang)
        open_now = key if over is None else key + over
        # Only pod affinity makes a difference between the places of equal requests: without it,
        # one place that is not free yet settles the question.
        for at, claim in enumerate(places if draft.neighbours.tallies else places[:1]):
            slot = draft.columns.slot.get(claim.node)
            if (
                slot is not None
                and open_now[slot] < INFEASIBLE
                and draft.bind_at(task, gang, claim)
            ):
                del places[at]
                return True
        return False

    def _are_together(self, progress: Progress, mark: int) -> bool:
        """Return whether the binds since `mark` are in the domains that the gang requires.

        A held place may have been meant for another member, whose group has another domain.
        """
        at = {bind.task: bind.node for bind in self._draft.binds[mark:]}
        return self._in_one_domain(progress.gang.domain, (*progress.nodes, *at.values())) and all(
            self._in_one_domain(
                part.group.domain, (*part.nodes, *(at[task.id] for task in part.tasks))
            )
            for part in progress.parts
        )

    def _in_one_domain(self, wish: Domain | None, nodes: Sequence[str]) -> bool:
        if wish is None or not wish.required:
            return True
        slots = self._draft.columns.slots_of(nodes)
        domains = [level.domain_of[slots] for level in self._topologies.levels(wish)]
        return bool(domains) and all((at == at[0]).all() and at[0] >= 0 for at in domains)


def _fits(index: ShapeIndex, free: Ints, number: int) -> bool:
    """Return whether a task fits a node with these free amounts and this device state.

    Taints, labels and affinity are not checked.
    """
    if index.amounts is None or index.chooser.look_up_one(number)[0] <= 0:
        return False
    return bool((free >= index.amounts).all())
