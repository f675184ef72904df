"""One search for victims: evict, place the gang, put back units that were not needed, validate.

    1   where the gang finds no room, evict units from the cheapest node, as far as they may be
        displaced (`clear_node.py`, `victim_filter.py`)
    2   put units that turn out not to be needed back on their own places, the dearest first
    3   place the other evicted units elsewhere if possible: they move. After that, more units may
        be able to return to their own places
    4   find the rule by which each remaining unit is lost (`validate_victims`); if one unit has
        no rule, the search fails

Only the outcome must obey the rules, not the steps before it. The caller keeps or undoes the draft.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass

from windlass.engine.draft import Draft, EvictionUnit
from windlass.engine.nodes import (
    Topologies,
    bounds,
    can_bind_in_any_order,
    count_violated_nominations,
)
from windlass.engine.placement import Placer
from windlass.engine.preemption.clear_node import NodeClearing
from windlass.engine.preemption.victim_filter import (
    MOST_MOVES,
    EvictionRules,
    VictimFate,
    VictimFilter,
    is_too_costly,
    validate_victims,
    waits_until,
)
from windlass.engine.preemption.victim_index import CycleVictims
from windlass.engine.queueing import Limits, Progress
from windlass.model.actions import EvictionRule, PlaceClaim
from windlass.model.jobs import GangId, Task
from windlass.model.queues import GPU


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The places that were found for a gang, and the victims that it takes."""

    progress: Progress
    claims: tuple[PlaceClaim, ...]
    lost: tuple[tuple[EvictionUnit, EvictionRule], ...] = ()
    """The units that are evicted and do not move, each with the rule that allows it."""
    moved: tuple[tuple[EvictionUnit, tuple[PlaceClaim, ...]], ...] = ()
    """The units that move, each with its new places."""
    gave_way: tuple[GangId, ...] = ()
    """The borrowers whose holds are given up for these places."""

    def harm(self) -> int:
        """Return the work that the victims lose or repeat, in thousandths of GPUs times seconds."""
        return sum(unit.harm for unit, _ in (*self.lost, *self.moved))

    def by_order(self) -> int:
        """Return the number of gangs that are evicted by the rule `order`."""
        return len({unit.gang.id for unit, rule in self.lost if rule is EvictionRule.ORDER})


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of one or several attempts: an outcome, or the reason why it was refused.

    Without an outcome and without such a reason, no way to make room was found.
    """

    outcome: SearchOutcome | None = None
    too_costly: bool = False
    """True if an outcome was refused because it costs the victims more than the gang's wait has
    cost so far."""
    wait_until: int | None = None
    """The instant until which the gang waits for a gentler way, because the victims would lose far
    more than the gang needs; None if no outcome was refused for that."""

    def then(self, later: SearchResult) -> SearchResult:
        """Return the outcome of the later result, with the reasons for refusal of both."""
        return SearchResult(
            later.outcome,
            self.too_costly or later.too_costly,
            self.wait_until or later.wait_until,
        )


NO_WAY = SearchResult()
"""The result of a search that found no way to make room."""


class Search:
    """One attempt for one gang, on a draft that shows the gang its own held places.

    `permits` is the filter that says which units the attempt may evict or move.
    """

    def __init__(
        self,
        draft: Draft,
        limits: Limits,
        victims: CycleVictims,
        progress: Progress,
        permits: VictimFilter,
    ) -> None:
        self._draft, self._limits = draft, limits
        self._progress, self._permits = progress, permits
        self._clearing = NodeClearing(draft, victims, permits)
        self._placer = Placer(draft, limits)
        self._topologies = draft.cluster.recall(Topologies)

    def attempt(self, seeking: Iterable[tuple[Task, str]]) -> SearchResult:
        """Make room with the units that the filter permits; without an outcome the caller undoes
        the draft.

        `seeking` are tasks with pod affinity or spread that were promised a node earlier in this
        cycle, each with its node.
        """
        draft, permits = self._draft, self._permits
        mark = len(draft.binds)
        draft.evicted.clear()
        # evictions must not raise the number of tasks whose pod affinity is violated
        violated = count_violated_nominations(draft.neighbours, draft.index)
        if not self._clearing.evict_below_limits(self._limits) or not self._clear_and_place():
            return NO_WAY
        if len(draft.evicted) > 1 and not self._return_unneeded(mark):
            return NO_WAY
        claims = draft.claims(mark)
        moved = dict(self._move_all())
        if 0 < len(moved) < len(draft.evicted) <= MOST_MOVES:
            claims = self._return_once_moved(mark, claims, moved)
        if not self._keeps_affinity(mark, seeking, violated):
            return NO_WAY
        lost = validate_victims(draft.cluster, permits, list(draft.evicted), moved.keys())
        if lost is None:
            return NO_WAY
        outcome = SearchOutcome(self._progress, claims, tuple(lost), tuple(moved.items()))
        return self._blocked(lost, moved.keys()) or SearchResult(outcome)

    def _clear_and_place(self) -> bool:
        """Place the gang, clearing nodes where it finds no room; return whether it was placed.

        False also if no unit had to be evicted for it.
        """
        if not self._draft.evicted and not self._clearing.could_touch():
            return False
        self._placer.room_maker = self._clearing
        try:
            return self._place() and bool(self._draft.evicted)
        finally:
            self._placer.room_maker = None

    def _place(self) -> bool:
        progress, need = self._progress, dict(self._permits.request.need)
        return self._placer.place(progress.gang, progress.parts, progress.nodes, need)

    def _blocked(self, lost: EvictionRules, moved: Set[EvictionUnit]) -> SearchResult | None:
        """Return why the outcome is refused, if it costs the victims too much; None if it is not
        refused."""
        cluster, request = self._draft.cluster, self._permits.request
        if lost:
            until = waits_until(cluster, request, lost)
            return None if until is None else SearchResult(wait_until=until)
        if len(moved) > MOST_MOVES:
            return NO_WAY
        return SearchResult(too_costly=True) if is_too_costly(cluster, request, moved) else None

    def _keeps_affinity(
        self, mark: int, seeking: Iterable[tuple[Task, str]], violated: int
    ) -> bool:
        """Return whether pod affinity holds without the victims, for placed and promised tasks.

        `violated` is the number of violations before the search.
        """
        draft = self._draft
        neighbours, tasks, gangs = draft.neighbours, draft.cluster.tasks, draft.cluster.gangs
        if not neighbours.tallies:
            return True
        if count_violated_nominations(neighbours, draft.index) > violated:
            return False
        placed = [(tasks[bind.task], bind.node) for bind in draft.binds[mark:]]
        arrivals = (
            (task, gangs[task.gang], draft.columns.slot[node]) for task, node in (*seeking, *placed)
        )
        return can_bind_in_any_order(neighbours, draft.index, arrivals)

    # -- units that return to their own places

    def _return_unneeded(self, mark: int) -> bool:
        """Put back evicted units beside which the gang still fits; return whether it is placed
        again."""
        draft = self._draft
        draft.unbind(mark)
        spare = draft.columns.free_gpu() - self._least_gpu()
        away = sorted(draft.evicted, key=self._dearest_first)
        # twice: a unit returns only after the later units of its gang, so it may need a second try
        for unit in (*away, *away):
            if not unit.gone or any(other.gone for other in unit.later):
                continue
            if unit.charges.get(GPU, 0) > spare:
                continue
            with draft.attempt() as keep:
                if draft.put_back(unit) and self._keeps_limits(unit) and self._fits():
                    keep()
                    spare -= unit.charges.get(GPU, 0)
        return self._place()

    def _return_once_moved(
        self,
        mark: int,
        claims: tuple[PlaceClaim, ...],
        moved: dict[EvictionUnit, tuple[PlaceClaim, ...]],
    ) -> tuple[PlaceClaim, ...]:
        """Put back units beside which the gang fits now that other units have moved.

        Units that are put back are removed from `moved`. Return the places of the gang.
        """
        draft = self._draft
        away = sorted(draft.evicted, key=self._dearest_first)
        for unit in (*away, *away):  # twice, as in `_return_unneeded`
            if not unit.gone or any(other.gone for other in unit.later):
                continue
            others = [entry for entry in moved.items() if entry[0] is not unit]
            with draft.attempt() as keep:
                # in this order: the others where they moved to, this unit at home, then the gang
                draft.unbind(mark)
                if not all(self._move_to(*entry) for entry in others):
                    continue
                middle = len(draft.binds)
                if draft.put_back(unit) and self._keeps_limits(unit) and self._place():
                    keep()
                    moved.pop(unit, None)
                    claims = draft.claims(middle)
        return claims

    def _move_to(self, unit: EvictionUnit, places: tuple[PlaceClaim, ...]) -> bool:
        """Bind a unit again at the places to which it had moved; return False if it does not
        fit."""
        tasks = {task.id: task for task in unit.tasks}
        with self._draft.holds.lifted(unit.gang):
            return all(self._draft.bind_at(tasks[at.task], unit.gang, at) for at in places)

    def _least_gpu(self) -> int:
        """Return the thousandths of GPUs that the gang takes at least.

        0 if that depends on the device, as for MIG instances and GPU memory.
        """
        gpus = (shape.request.gpu for shape in self._progress.counts)
        is_exact = not any(gpu and (gpu.profile or gpu.memory_mib) for gpu in gpus)
        return self._permits.request.need.get(GPU, 0) if is_exact else 0

    def _fits(self) -> bool:
        """Return whether the gang would fit now; the draft is left as it was."""
        if bounds.why_not_now(self._draft.index, self._topologies, self._progress) is not None:
            return False
        need = dict(self._permits.request.need)
        if self._limits.why_not_now(self._progress.gang, need) is not None:
            return False
        with self._draft.attempt():
            return self._place()

    def _keeps_limits(self, unit: EvictionUnit) -> bool:
        return self._limits.rules_hold(unit.gang, dict.fromkeys(unit.charges, 0))

    # -- units that move

    def _move_all(self) -> Iterator[tuple[EvictionUnit, tuple[PlaceClaim, ...]]]:
        """Place evicted units elsewhere, the dearest first; yield the units that fit, with their
        places."""
        if not self._permits.rules.consolidates:
            return
        free = self._draft.columns.free_gpu()
        small = [unit for unit in self._draft.evicted if unit.charges.get(GPU, 0) <= free]
        failed: set[Hashable] = set()
        for unit in sorted(small, key=self._dearest_first):
            size, shapes = unit.charges.get(GPU, 0), tuple(task.shape for task in unit.tasks)
            alike = (unit.gang.queue, unit.gang.domain, unit.nodes_of_rest(), shapes)
            if size > free or alike in failed:
                continue
            claims = self._move(unit)
            if claims is None:
                failed.add(alike)
            else:
                free -= size
                yield unit, claims

    def _move(self, unit: EvictionUnit) -> tuple[PlaceClaim, ...] | None:
        """Place an evicted unit elsewhere; return its new places, or None if it cannot move."""
        draft, need = self._draft, dict(unit.charges)
        if unit.is_torn or unit.gang.spared or any(other.gone for other in unit.later):
            return None  # a unit is not placed before the later units of its gang are
        if self._limits.why_not_now(unit.gang, need) is not None:
            return None
        mark = len(draft.binds)
        if not self._placer.place(unit.gang, unit.parts(), unit.nodes_of_rest(), need):
            return None
        return draft.claims(mark)

    def _dearest_first(self, unit: EvictionUnit) -> tuple[bool, int, str]:
        """Return a sort key: units that may only move come first, then the highest cost."""
        may_be_evicted = self._permits.fate_for_equals(unit) is VictimFate.EVICT
        return may_be_evicted, -self._clearing.cost(unit), unit.gang.id
