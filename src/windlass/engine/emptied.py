"""What every node would be without anything that can be displaced: a bound for searches."""

from __future__ import annotations

from windlass.engine.pool import Pool
from windlass.model.jobs import Shape
from windlass.state.columns import Ints
from windlass.state.devices import with_back


class Emptied:
    """The nodes without anything that can be displaced."""

    def __init__(self, pool: Pool) -> None:
        columns = pool.columns
        self._pool, self._free = pool, columns.free.copy()
        self._numbers: Ints = columns.device_number.copy()
        self._rooms: dict[Shape, Ints] = {}
        for slot, there in pool.at.items():
            devices = columns.devices[slot]
            for unit, (_, amounts) in there:
                if not unit.gone:
                    self._free[:, slot] += amounts
                    for task in unit.tasks:
                        if task.node == columns.names[slot]:
                            slices = columns.present(slot, task.devices)
                            devices = with_back(devices, slices)
            self._numbers[slot] = columns.states.number(devices)

    def room(self, shape: Shape) -> Ints:
        """How many tasks of a shape would fit each node."""
        if shape not in self._rooms:
            self._rooms[shape] = self._pool.index.room(shape, self._free, self._numbers)
        return self._rooms[shape]
