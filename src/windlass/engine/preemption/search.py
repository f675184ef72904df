"""One search: take away, place, put back what was not needed, judge.

    1   where the gang finds no room, the cheapest node is cleared of what may go, whole gangs
        (`clear.py`, `permits.py`)
    2   what turns out not to be needed returns to its own place, the dearest first
    3   what is still away is placed elsewhere if possible: it moves; where others lie by then may
        let somebody return who could not before
    4   what is then lost must be lost by right (`judge.py`), or nothing happens at all

Judged is the outcome, not the way to it. Whoever asks keeps it or undoes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit
from windlass.engine.nodes import bounds
from windlass.engine.nodes.pod_affinity import can_all_come, forsaken
from windlass.engine.nodes.topology import Topologies
from windlass.engine.placement.place import Placer
from windlass.engine.preemption.clear_node import NodeClearing
from windlass.engine.preemption.displaceable import Displaceable
from windlass.engine.preemption.validate import MOST_MOVES, is_too_dear, judge, patient_until
from windlass.engine.preemption.victim_filter import VictimFilter
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress
from windlass.model.actions import EvictionRule, PlaceClaim
from windlass.model.jobs import GangId, Task
from windlass.model.queues import GPU


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """A gang has its places, and this is what it took."""

    progress: Progress
    claims: tuple[PlaceClaim, ...]
    lost: tuple[tuple[EvictionUnit, EvictionRule], ...] = ()
    moved: tuple[tuple[EvictionUnit, tuple[PlaceClaim, ...]], ...] = ()
    gave_way: tuple[GangId, ...] = ()
    """The borrowers for which these places, or some of them, had been held."""

    def harm(self) -> int:
        """What others lose by it, or have to do again, in GPU thousandths times seconds."""
        return sum(unit.harm for unit, _ in (*self.lost, *self.moved))

    def by_order(self) -> int:
        """How many gangs are stopped because of the order of their queue alone."""
        return len({unit.gang.id for unit, rule in self.lost if rule is EvictionRule.ORDER})


class Search:
    """Attempts for one gang, on a draft that shows it its own places."""

    def __init__(
        self,
        draft: Draft,
        limits: Limits,
        displaceable: Displaceable,
        progress: Progress,
        permits: VictimFilter,
    ) -> None:
        self._draft, self._limits = draft, limits
        self._progress, self._permits = progress, permits
        self._clearing = NodeClearing(draft, displaceable, permits)
        self._placer = Placer(draft, limits)
        self._topologies = draft.cluster.recall(Topologies)
        self._forsaken = forsaken(draft.neighbours, draft.index)
        self.too_dear = False
        """Do moves cost more than the wait has so far?"""
        self.patient_until: int | None = None
        """Until when it waits, because others would lose far more than it needs."""

    def attempt(self, seeking: Iterable[tuple[Task, str]]) -> SearchOutcome | None:
        """Make room as the permits allow; `seeking` are tasks that were promised to be near others.

        Without an outcome the draft is to be undone.
        """
        draft, permits = self._draft, self._permits
        mark = len(draft.binds)
        draft.evicted.clear()
        if not self._clearing.goes_below(self._limits) or not self._make_room():
            return None
        if len(draft.evicted) > 1 and not self._spare(mark):
            return None
        claims = draft.claims(mark)
        moved = dict(self._move_all())
        if 0 < len(moved) < len(draft.evicted) <= MOST_MOVES:
            claims = self._spare_once_moved(mark, claims, moved)
        if not self._suits_still(mark, seeking):
            return None
        rights = judge(draft.cluster, permits, list(draft.evicted), moved.keys())
        if rights is None or not self._is_worth_it(rights, moved.keys()):
            return None
        return SearchOutcome(self._progress, claims, tuple(rights), tuple(moved.items()))

    def _make_room(self) -> bool:
        """Place the gang, and take away what may go where it finds no room."""
        if not self._draft.evicted and not self._clearing.may_take():
            return False
        self._placer.maker = self._clearing
        try:
            return self._place() and bool(self._draft.evicted)
        finally:
            self._placer.maker = None

    def _place(self) -> bool:
        progress, need = self._progress, dict(self._permits.need)
        return self._placer.place(progress.gang, progress.parts, progress.nodes, need)

    def _is_worth_it(
        self, rights: list[tuple[EvictionUnit, EvictionRule]], moved: Set[EvictionUnit]
    ) -> bool:
        """Is what others lose, or only have to do again, in proportion to what is gained?"""
        cluster, permits = self._draft.cluster, self._permits
        if rights:
            self.patient_until = patient_until(cluster, permits, rights)
            return self.patient_until is None
        if len(moved) > MOST_MOVES:
            return False
        self.too_dear = is_too_dear(cluster, permits, moved)
        return not self.too_dear

    def _suits_still(self, mark: int, seeking: Iterable[tuple[Task, str]]) -> bool:
        """Is everybody who was promised a place near what they seek, with the others gone?"""
        draft = self._draft
        neighbours, tasks, gangs = draft.neighbours, draft.cluster.tasks, draft.cluster.gangs
        if not neighbours.tallies:
            return True
        if forsaken(neighbours, draft.index) > self._forsaken:
            return False
        placed = [(tasks[bind.task], bind.node) for bind in draft.binds[mark:]]
        there = (
            (task, gangs[task.gang], draft.columns.slot[node]) for task, node in (*seeking, *placed)
        )
        return can_all_come(neighbours, draft.index, there)

    # -- putting back

    def _spare(self, mark: int) -> bool:
        """Return what the gang fits beside; then place it again."""
        draft = self._draft
        draft.unbind(mark)
        spare = draft.columns.free_gpu() - self._least()
        away = sorted(draft.evicted, key=self._dearest)
        # twice: who may not return before others of its gang gets another chance after them
        for unit in (*away, *away):
            if not unit.gone or any(each.gone for each in unit.after):
                continue
            if unit.charges.get(GPU, 0) > spare:
                continue
            with draft.attempt() as keep:
                if draft.put_back(unit) and self._keeps_limits(unit) and self._fits():
                    keep()
                    spare -= unit.charges.get(GPU, 0)
        return self._place()

    def _spare_once_moved(
        self,
        mark: int,
        claims: tuple[PlaceClaim, ...],
        moved: dict[EvictionUnit, tuple[PlaceClaim, ...]],
    ) -> tuple[PlaceClaim, ...]:
        """Return what the gang fits beside now that others have moved; answers its places then."""
        draft = self._draft
        away = sorted(draft.evicted, key=self._dearest)
        for unit in (*away, *away):
            if not unit.gone or any(each.gone for each in unit.after):
                continue
            others = {each: places for each, places in moved.items() if each is not unit}
            with draft.attempt() as keep:
                draft.unbind(mark)
                there = all(self._move_to(*each) for each in others.items())
                middle = len(draft.binds)
                if there and draft.put_back(unit) and self._keeps_limits(unit) and self._place():
                    keep()
                    moved.pop(unit, None)
                    claims = draft.claims(middle)
        return claims

    def _move_to(self, unit: EvictionUnit, places: tuple[PlaceClaim, ...]) -> bool:
        """To where it had moved before."""
        tasks = {task.id: task for task in unit.tasks}
        with self._draft.holds.lifted(unit.gang):
            return all(self._draft.bind_at(tasks[at.task], unit.gang, at) for at in places)

    def _least(self) -> int:
        """GPU that it surely takes; how much a MIG instance or memory is depends on the device."""
        asked = (shape.request.gpu for shape in self._progress.counts)
        is_exact = not any(gpu and (gpu.profile or gpu.memory_mib) for gpu in asked)
        return self._permits.need.get(GPU, 0) if is_exact else 0

    def _fits(self) -> bool:
        """Would the gang fit as things stand? Nothing is kept."""
        if bounds.not_now(self._draft.index, self._topologies, self._progress) is not None:
            return False
        if self._limits.now(self._progress.gang, dict(self._permits.need)) is not None:
            return False
        with self._draft.attempt():
            return self._place()

    def _keeps_limits(self, unit: EvictionUnit) -> bool:
        return self._limits.kept(unit.gang, dict.fromkeys(unit.charges, 0))

    # -- moving

    def _move_all(self) -> Iterator[tuple[EvictionUnit, tuple[PlaceClaim, ...]]]:
        """Another place for each evicted unit that finds one, for the dearest first."""
        if not self._permits.rights.consolidates:
            return
        free = self._draft.columns.free_gpu()
        small = [unit for unit in self._draft.evicted if unit.charges.get(GPU, 0) <= free]
        failed: set[Hashable] = set()
        for unit in sorted(small, key=self._dearest):
            size, shapes = unit.charges.get(GPU, 0), tuple(task.shape for task in unit.tasks)
            alike = (unit.gang.queue, unit.gang.domain, unit.beside(), shapes)
            if size > free or alike in failed:
                continue
            claims = self._move(unit)
            if claims is None:
                failed.add(alike)
            else:
                free -= size
                yield unit, claims

    def _move(self, unit: EvictionUnit) -> tuple[PlaceClaim, ...] | None:
        draft, need = self._draft, dict(unit.charges)
        if unit.is_torn or unit.gang.spared or any(each.gone for each in unit.after):
            return None  # an elastic member does not return before those that joined earlier
        if self._limits.now(unit.gang, need) is not None:
            return None
        mark = len(draft.binds)
        if not self._placer.place(unit.gang, unit.parts(), unit.beside(), need):
            return None
        return draft.claims(mark)

    def _dearest(self, unit: EvictionUnit) -> tuple[bool, int, str]:
        """The dearest first; what may only move before what may be lost."""
        return bool(self._permits.may(unit)), -self._clearing.cost(unit), unit.gang.id
