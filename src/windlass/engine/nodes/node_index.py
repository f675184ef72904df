"""The class index: for each shape, every node's key, kept up to date from the log of changes.

Tasks of equal shape form a class. A class scores all nodes once; afterwards it re-scores only
nodes that changed since it was last asked. That, not the language, makes decisions fast.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import numpy as np

from windlass.engine.nodes import filter, score
from windlass.engine.nodes.devices import Chooser, Conditions, PlacementScorer
from windlass.engine.nodes.fragmentation import fragments
from windlass.engine.nodes.score import NOWHERE
from windlass.model.constraints import Constraints, Spread
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Shape
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.node_columns import CPU, MEMORY, Ints, Mask, NodeTable

K = TypeVar("K")
V = TypeVar("V")

FEW = 6
"""Up to so many changed nodes are scored one by one."""
MOST_CELLS = 16 << 20
"""How many (class, node) keys are kept; beyond that the class unused for longest is dropped."""


class ShapeIndex:
    """All nodes as one shape sees them."""

    __slots__ = (
        "_base",
        "_cursor",
        "_index",
        "_needs",
        "_room",
        "amounts",
        "chooser",
        "key",
        "shape",
    )

    def __init__(self, index: NodeIndex, shape: Shape) -> None:
        columns = index.columns
        self._index, self.shape = index, shape
        self.chooser = index.chooser(shape.request.gpu)
        self.amounts = columns.amounts(shape.request)
        self._needs = _needs(self.amounts)
        self._base = index.base(shape.constraints)
        self._room: Ints | None = None
        self.key: Ints = np.empty(len(columns), np.int64)
        self._rescore(slice(None))
        self._cursor = index.end_of_log()

    def sync(self) -> None:
        """Catch up with what changed."""
        end = self._index.end_of_log()
        if end == self._cursor:
            return
        changed = self._index.changed_since(self._cursor)
        self._cursor = end
        if self.amounts is None:
            return
        if len(changed) == len(self.key):
            self._rescore(slice(None))
        elif len(changed) <= FEW:
            for slot in changed:
                self._rescore_one(slot)
        else:
            self._rescore(np.fromiter(changed, np.int64, len(changed)))

    def room(self) -> Ints:
        """How many more tasks fit each node."""
        self.sync()
        if self._room is None:
            columns = self._index.columns
            self._room = self._index.room(self.shape, columns.free, columns.device_number)
        return self._room

    def _rescore(self, slots: Ints | slice) -> None:
        columns, index = self._index.columns, self._index
        if self.amounts is None:
            self.key[slots] = NOWHERE
            return
        free, base = columns.free[:, slots], self._base[slots]
        device_room, device_costs = self.chooser.look_up(columns.device_number[slots])
        if self._room is None:
            fits = device_room > 0
            for field, amount in self._needs:
                fits &= free[field] >= amount
        else:
            room = device_room
            for field, amount in self._needs:
                room = np.minimum(room, free[field] // amount)
            fits = room > 0
            self._room[slots] = np.where(fits & (base < NOWHERE), room, 0)
        left = free[CPU] - self.amounts[CPU], free[MEMORY] - self.amounts[MEMORY]
        if index.judge is None:
            costs = score.costs(device_costs, *left, index.settings.nodes)
        else:
            costs = score.bounded(device_costs + self._judged(index.judge, slots, fits))
        self.key[slots] = score.keys(fits, base, costs)

    def _judged(self, judge: PlacementScorer, slots: Ints | slice, fits: Mask) -> Ints:
        """What the judge says of the nodes on which a task fits."""
        costs: Ints = np.zeros(len(fits), np.int64)
        columns, request = self._index.columns, self.shape.request
        before = Conditions(
            columns.device_number[slots][fits],
            columns.free[CPU, slots][fits],
            columns.free[MEMORY, slots][fits],
        )
        if len(before.numbers):
            numbers, taken = self.chooser.left(before.numbers)
            cpu, memory = before.cpu_milli, before.memory_mib
            after = Conditions(numbers, cpu - request.cpu_milli, memory - request.memory_mib)
            costs[fits] = judge.costs(before, after, taken)
        return costs

    def _rescore_one(self, slot: int) -> None:
        """As `_rescore`, for a single node, where arrays cost more than they save."""
        columns, base = self._index.columns, int(self._base[slot])
        free, at = columns.free[:, slot].tolist(), int(columns.device_number[slot])
        room, device_cost = self.chooser.look_up_one(at)
        for field, amount in self._needs:
            room = min(room, free[field] // amount)
        if room <= 0 or base >= NOWHERE:
            self.key[slot], room = NOWHERE, 0
        else:
            request, packing = self.shape.request, self._index.settings.nodes
            cpu, memory = free[CPU] - request.cpu_milli, free[MEMORY] - request.memory_mib
            judge = self._index.judge
            if judge is None:
                cost = score.cost(device_cost, cpu, memory, packing)
            else:
                number, taken = self.chooser.left_one(at)
                before, after = (at, free[CPU], free[MEMORY]), (number, cpu, memory)
                cost = score.bounded_one(device_cost + judge.cost(before, after, taken))
            self.key[slot] = base + (cost << score.RANK_BITS)
        if self._room is not None:
            self._room[slot] = room


class NodeIndex:
    """All classes over one set of columns."""

    def __init__(self, cluster: Cluster) -> None:
        self.columns: NodeTable = cluster.columns
        self.settings: Settings = cluster.settings
        self.judge: PlacementScorer | None = fragments(
            cluster.mix.known, self.columns, self.settings
        )
        """Scores places by what they spoil for others; None: by what they leave over."""
        self._classes: dict[Shape, ShapeIndex] = {}
        self._choosers: dict[GpuRequest | None, Chooser] = {}
        self._admits: dict[Constraints, Mask] = {}
        self._counted: dict[tuple[Constraints, Spread], Mask] = {}
        self._base: dict[Constraints, Ints] = {}
        self._empty: dict[Shape, Ints] = {}
        self._dropped = 0

    def of(self, shape: Shape) -> ShapeIndex:
        """The class of a shape, up to date."""
        found = self._classes.pop(shape, None)
        if found is None:
            found = ShapeIndex(self, shape)
            while len(self._classes) * len(self.columns) > MOST_CELLS:
                del self._classes[next(iter(self._classes))]
        self._classes[shape] = found
        found.sync()
        return found

    def chooser(self, request: GpuRequest | None) -> Chooser:
        """The device choice for a request."""
        return self._remember(
            self._choosers,
            request,
            lambda: Chooser(request, self.columns.states, self.settings, self.judge),
        )

    def admits(self, constraints: Constraints) -> Mask:
        """The nodes that let such tasks in."""
        return self._remember(
            self._admits, constraints, lambda: filter.admits(self.columns, constraints)
        )

    def counted(self, constraints: Constraints, spread: Spread) -> Mask:
        """The nodes over which such tasks spread."""
        return self._remember(
            self._counted,
            (constraints, spread),
            lambda: filter.counted(self.columns, constraints, spread),
        )

    def base(self, constraints: Constraints) -> Ints:
        """The part of each node's key that does not change: admission, points and rank."""
        return self._remember(self._base, constraints, lambda: self._base_of(constraints))

    def room(self, shape: Shape, free: Ints, number: Ints) -> Ints:
        """How many tasks of a shape fit each node in this condition."""
        amounts = self.columns.amounts(shape.request)
        if amounts is None:
            return np.zeros_like(number)
        room, _ = self.chooser(shape.request.gpu).look_up(number)
        for field, amount in _needs(amounts):
            room = np.minimum(room, free[field] // amount)
        admitted = self.admits(shape.constraints)
        return np.where(admitted, np.maximum(room, 0), 0)

    def room_when_empty(self, shape: Shape) -> Ints:
        """How many tasks of a shape would fit each node if nothing ran."""
        columns = self.columns
        return self._remember(
            self._empty, shape, lambda: self.room(shape, columns.empty, columns.empty_number)
        )

    def _base_of(self, constraints: Constraints) -> Ints:
        points = filter.penalty(self.columns, constraints)
        return score.base(self.admits(constraints), points, np.arange(len(self.columns)))

    def _remember(self, memory: dict[K, V], key: K, make: Callable[[], V]) -> V:
        """Work out once, keep for later; beyond the bound the oldest makes way."""
        if key not in memory:
            if len(memory) * len(self.columns) > MOST_CELLS:
                del memory[next(iter(memory))]
            memory[key] = make()
        return memory[key]

    # -- the log

    def end_of_log(self) -> int:
        """The position after the last change."""
        return self._dropped + len(self.columns.log)

    def changed_since(self, cursor: int) -> Collection[int]:
        """The slots that changed since a position, each once."""
        log, start = self.columns.log, cursor - self._dropped
        if start < 0:
            return range(len(self.columns))
        return log[-1:] if start == len(log) - 1 else set(log[start:])

    def shorten_log(self) -> None:
        """Drop the log once reading it costs more than scoring afresh."""
        if len(self.columns.log) > 4 * len(self.columns) + 64:
            self._dropped += len(self.columns.log)
            self.columns.log.clear()


def _needs(amounts: Ints | None) -> list[tuple[int, int]]:
    """The fields that a request asks something of, and how much."""
    if amounts is None:
        return []
    return [(field, amount) for field, amount in enumerate(amounts.tolist()) if amount]
