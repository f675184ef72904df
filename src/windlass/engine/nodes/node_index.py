"""The node index: for each shape of task, every node's key, kept up to date from a change log.

All nodes are scored once per shape; afterwards only nodes that changed since the last question are
scored again. That makes decisions fast.

Cursors into the change log. Each change of a node appends its slot to `columns.log`. A position
counts all changes since the columns were made, also those that were dropped from the log:

    position   0 ............ _dropped ................ end_of_log()
               [  forgotten  ][ log[0]  ...  log[-1] ]
                                   ^ cursor of one ShapeIndex: log[cursor - _dropped:] is new to it

A cursor before `_dropped` has missed changes: then all nodes count as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import numpy as np

from windlass.engine.nodes import filter, score
from windlass.engine.nodes.devices import Chooser, Conditions, PlacementScorer
from windlass.engine.nodes.fragmentation import fragmentation_scorer
from windlass.engine.nodes.score import INFEASIBLE
from windlass.model.constraints import Constraints, Spread
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Shape
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.node_columns import CPU, MEMORY, Ints, Mask, NodeTable

K = TypeVar("K")
V = TypeVar("V")

FEW = 6
"""The most changed nodes that are scored one by one; arrays cost more than they save there."""
MOST_CELLS = 16 << 20
"""The most (shape, node) keys that are kept; beyond it the least recently used are dropped."""


class ShapeIndex:
    """The keys and the room of all nodes for one shape.

    Valid up to the position `_cursor` of the change log; `sync` catches up.
    """

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
        """The requested amounts per field of `columns.free`; None if no node has some resource."""
        self._needs = _needs(self.amounts)
        self._base = index.base(shape.constraints)
        """The constant part of each key: points and rank, or INFEASIBLE (see `score.py`)."""
        self._room: Ints | None = None
        """None until the first question for room; then kept up to date together with the keys."""
        self.key: Ints = np.empty(len(columns), np.int64)
        """The key of each node, by slot. Call `sync` before reading it."""
        self._rescore(slice(None))
        self._cursor = index.end_of_log()

    def sync(self) -> None:
        """Score again the nodes that changed since the last call."""
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
        """Return the number of further tasks that fit each node, up to date."""
        self.sync()
        if self._room is None:
            columns = self._index.columns
            self._room = self._index.room(self.shape, columns.free, columns.device_number)
        return self._room

    def _rescore(self, slots: Ints | slice) -> None:
        """Write the keys, and the room if it is kept, of some nodes."""
        columns, index = self._index.columns, self._index
        if self.amounts is None:
            self.key[slots] = INFEASIBLE
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
            self._room[slots] = np.where(fits & (base < INFEASIBLE), room, 0)
        left = free[CPU] - self.amounts[CPU], free[MEMORY] - self.amounts[MEMORY]
        if index.scorer is None:
            costs = score.costs(device_costs, *left, index.settings.nodes)
        else:
            costs = score.bounded(
                device_costs + self._fragmentation_costs(index.scorer, slots, fits)
            )
        self.key[slots] = score.keys(fits, base, costs)

    def _fragmentation_costs(
        self, scorer: PlacementScorer, slots: Ints | slice, fits: Mask
    ) -> Ints:
        """Return the scorer's costs of the nodes on which a task fits; 0 for the others."""
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
            costs[fits] = scorer.costs(before, after, taken)
        return costs

    def _rescore_one(self, slot: int) -> None:
        """Do the same as `_rescore`, for one node and without arrays."""
        columns, base = self._index.columns, int(self._base[slot])
        free, at = columns.free[:, slot].tolist(), int(columns.device_number[slot])
        room, device_cost = self.chooser.look_up_one(at)
        for field, amount in self._needs:
            room = min(room, free[field] // amount)
        if room <= 0 or base >= INFEASIBLE:
            self.key[slot], room = INFEASIBLE, 0
        else:
            request, packing = self.shape.request, self._index.settings.nodes
            cpu, memory = free[CPU] - request.cpu_milli, free[MEMORY] - request.memory_mib
            scorer = self._index.scorer
            if scorer is None:
                cost = score.cost(device_cost, cpu, memory, packing)
            else:
                number, taken = self.chooser.left_one(at)
                before, after = (at, free[CPU], free[MEMORY]), (number, cpu, memory)
                cost = score.bounded_one(device_cost + scorer.cost(before, after, taken))
            self.key[slot] = base + (cost << score.RANK_BITS)
        if self._room is not None:
            self._room[slot] = room


class NodeIndex:
    """The indexes of all shapes over one set of columns.

    Node labels, taints and settings are constant for one set of columns, so everything but free
    capacity is worked out once per set of constraints.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.columns: NodeTable = cluster.columns
        self.settings: Settings = cluster.settings
        self.scorer: PlacementScorer | None = fragmentation_scorer(
            cluster.mix.known, self.columns, self.settings
        )
        """Scores nodes by the fragmentation that a task causes there; None: by leftovers."""
        self._shapes: dict[Shape, ShapeIndex] = {}
        """In the order of use: the least recently used shape is the first."""
        self._choosers: dict[GpuRequest | None, Chooser] = {}
        self._admits: dict[Constraints, Mask] = {}
        self._counted: dict[tuple[Constraints, Spread], Mask] = {}
        self._base: dict[Constraints, Ints] = {}
        self._empty: dict[Shape, Ints] = {}
        self._dropped = 0
        """The number of changes that were removed from the log."""

    def of(self, shape: Shape) -> ShapeIndex:
        """Return the index of a shape, up to date."""
        index = self._shapes.pop(shape, None)
        if index is None:
            index = ShapeIndex(self, shape)
            while len(self._shapes) * len(self.columns) > MOST_CELLS:
                del self._shapes[next(iter(self._shapes))]
        self._shapes[shape] = index
        index.sync()
        return index

    def chooser(self, request: GpuRequest | None) -> Chooser:
        """Return the device choice for a GPU request."""
        return self._cached(
            self._choosers,
            request,
            lambda: Chooser(request, self.columns.states, self.settings, self.scorer),
        )

    def admits(self, constraints: Constraints) -> Mask:
        """Return the nodes that admit tasks with these constraints."""
        return self._cached(
            self._admits, constraints, lambda: filter.admits(self.columns, constraints)
        )

    def counted(self, constraints: Constraints, spread: Spread) -> Mask:
        """Return the nodes that count for a topology spread of such tasks."""
        return self._cached(
            self._counted,
            (constraints, spread),
            lambda: filter.counted(self.columns, constraints, spread),
        )

    def base(self, constraints: Constraints) -> Ints:
        """Return the constant part of each node's key: admission, points and rank."""
        return self._cached(self._base, constraints, lambda: self._base_of(constraints))

    def room(self, shape: Shape, free: Ints, number: Ints) -> Ints:
        """Return the number of tasks of a shape that fit nodes with this free capacity.

        `free` is per field and node; `number` is the device state of each node.
        """
        amounts = self.columns.amounts(shape.request)
        if amounts is None:
            return np.zeros_like(number)
        room, _ = self.chooser(shape.request.gpu).look_up(number)
        for field, amount in _needs(amounts):
            room = np.minimum(room, free[field] // amount)
        admitted = self.admits(shape.constraints)
        return np.where(admitted, np.maximum(room, 0), 0)

    def room_when_empty(self, shape: Shape) -> Ints:
        """Return the number of tasks of a shape that would fit each node if nothing ran."""
        columns = self.columns
        return self._cached(
            self._empty, shape, lambda: self.room(shape, columns.empty, columns.empty_number)
        )

    def _base_of(self, constraints: Constraints) -> Ints:
        points = filter.penalty(self.columns, constraints)
        return score.base(self.admits(constraints), points, np.arange(len(self.columns)))

    def _cached(self, cache: dict[K, V], key: K, make: Callable[[], V]) -> V:
        """Return a cached value, made if it is missing; beyond the bound the oldest is dropped."""
        if key not in cache:
            if len(cache) * len(self.columns) > MOST_CELLS:
                del cache[next(iter(cache))]
            cache[key] = make()
        return cache[key]

    # -- the change log: positions are drawn at the top of this file

    def end_of_log(self) -> int:
        """Return the position after the last change."""
        return self._dropped + len(self.columns.log)

    def changed_since(self, cursor: int) -> Collection[int]:
        """Return the slots that changed since a position, each once."""
        log, start = self.columns.log, cursor - self._dropped
        if start < 0:
            return range(len(self.columns))
        return log[-1:] if start == len(log) - 1 else set(log[start:])

    def shorten_log(self) -> None:
        """Clear the log once reading it costs more than scoring all nodes again."""
        if len(self.columns.log) > 4 * len(self.columns) + 64:
            self._dropped += len(self.columns.log)
            self.columns.log.clear()


def _needs(amounts: Ints | None) -> list[tuple[int, int]]:
    """Return the fields of which a request needs something, with the amounts."""
    if amounts is None:
        return []
    return [(field, amount) for field, amount in enumerate(amounts.tolist()) if amount]
