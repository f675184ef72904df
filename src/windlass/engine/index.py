"""The class index: for each shape, every node's key, kept up to date from the log of changes.

Tasks of equal shape form a class. A class scores all nodes once; afterwards it re-scores only
nodes that changed since it was last asked. That, not the language, makes decisions fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from windlass.engine import fit, score
from windlass.engine.devices import Chooser
from windlass.model.constraints import Constraints
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Shape
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.columns import Columns, Ints, Mask

K = TypeVar("K")
V = TypeVar("V")

MOST_CELLS = 16 << 20
"""How many (class, node) keys are kept; beyond that the class unused for longest is dropped."""


class Class:
    """All nodes as one shape sees them."""

    __slots__ = (
        "_admits",
        "_cursor",
        "_index",
        "_needs",
        "_penalty",
        "_room",
        "amounts",
        "chooser",
        "key",
        "shape",
    )

    def __init__(self, index: Index, shape: Shape) -> None:
        columns = index.columns
        self._index, self.shape = index, shape
        self.chooser = index.chooser(shape.request.gpu)
        self.amounts = columns.amounts(shape.request)
        self._needs = np.flatnonzero(self.amounts) if self.amounts is not None else None
        self._admits = index.admits(shape.constraints)
        self._penalty = index.penalty(shape.constraints)
        self._room: Ints | None = None
        self.key: Ints = np.empty(len(columns), np.int64)
        self._rescore(np.arange(len(columns)))
        self._cursor = index.end_of_log()

    def sync(self) -> None:
        """Catch up with what changed."""
        changed = self._index.changed_since(self._cursor)
        if changed is not None:
            self._rescore(changed)
            self._cursor = self._index.end_of_log()

    def room(self) -> Ints:
        """How many more tasks fit each node."""
        self.sync()
        if self._room is None:
            columns = self._index.columns
            self._room = self._index.room(self.shape, columns.free, columns.device_number)
        return self._room

    def _rescore(self, slots: Ints) -> None:
        columns, index = self._index.columns, self._index
        if self.amounts is None:
            self.key[slots] = score.NOWHERE
            return
        free, number = columns.free[:, slots], columns.device_number[slots]
        left = free - self.amounts[:, None]
        device_room, device_costs = self.chooser.look_up(number)
        fits = (left[self._needs] >= 0).all(axis=0)
        fits &= device_room > 0
        fits &= self._admits[slots]
        costs = score.costs(device_costs, left, index.settings.nodes)
        self.key[slots] = score.keys(fits, self._penalty[slots], costs, slots)
        if self._room is not None:
            self._room[slots] = index.room(self.shape, free, number, slots)


class Index:
    """All classes over one set of columns."""

    def __init__(self, cluster: Cluster) -> None:
        self.columns: Columns = cluster.columns
        self.settings: Settings = cluster.settings
        self._classes: dict[Shape, Class] = {}
        self._choosers: dict[GpuRequest | None, Chooser] = {}
        self._admits: dict[Constraints, Mask] = {}
        self._penalty: dict[Constraints, Ints] = {}
        self._empty: dict[Shape, Ints] = {}
        self._dropped = 0

    def of(self, shape: Shape) -> Class:
        """The class of a shape, up to date."""
        found = self._classes.pop(shape, None)
        if found is None:
            found = Class(self, shape)
            while len(self._classes) * len(self.columns) > MOST_CELLS:
                del self._classes[next(iter(self._classes))]
        self._classes[shape] = found
        found.sync()
        return found

    def chooser(self, request: GpuRequest | None) -> Chooser:
        """The device choice for a request."""
        if request not in self._choosers:
            self._choosers[request] = Chooser(request, self.columns.states, self.settings.gpus)
        return self._choosers[request]

    def admits(self, constraints: Constraints) -> Mask:
        """The nodes that let such tasks in."""
        return _remember(self._admits, constraints, lambda: fit.admits(self.columns, constraints))

    def penalty(self, constraints: Constraints) -> Ints:
        """The points against each node."""
        return _remember(self._penalty, constraints, lambda: fit.penalty(self.columns, constraints))

    def room(
        self, shape: Shape, free: Ints, number: Ints, slots: Ints | None = None
    ) -> Ints:
        """How many tasks of a shape fit nodes in this condition (all nodes, or those slots)."""
        amounts = self.columns.amounts(shape.request)
        if amounts is None:
            return np.zeros(free.shape[1], np.int64)
        room, _ = self.chooser(shape.request.gpu).look_up(number)
        for field in np.flatnonzero(amounts).tolist():
            room = np.minimum(room, free[field] // amounts[field])
        admitted = self.admits(shape.constraints)
        return np.where(admitted if slots is None else admitted[slots], np.maximum(room, 0), 0)

    def room_when_empty(self, shape: Shape) -> Ints:
        """How many tasks of a shape would fit each node if nothing ran."""
        columns = self.columns
        return _remember(
            self._empty, shape, lambda: self.room(shape, columns.empty, columns.empty_number)
        )

    # -- the log

    def end_of_log(self) -> int:
        """The position after the last change."""
        return self._dropped + len(self.columns.log)

    def changed_since(self, cursor: int) -> Ints | None:
        """The slots that changed since a position; None if there are none."""
        log = self.columns.log
        start = cursor - self._dropped
        if start == len(log):
            return None
        if start < 0:
            return np.arange(len(self.columns))
        if start == len(log) - 1:
            return np.array(log[-1:], np.int64)
        return np.fromiter(set(log[start:]), np.int64)

    def shorten_log(self) -> None:
        """Drop the log once reading it costs more than scoring afresh."""
        if len(self.columns.log) > 4 * len(self.columns) + 64:
            self._dropped += len(self.columns.log)
            self.columns.log.clear()


def _remember(memory: dict[K, V], key: K, make: Callable[[], V]) -> V:
    if key not in memory:
        memory[key] = make()
    return memory[key]
