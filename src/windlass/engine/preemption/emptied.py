"""What every node would be without anything that can be displaced: a bound for searches."""

from __future__ import annotations

from windlass.engine.preemption.victim_index import VictimIndex
from windlass.model.jobs import Shape
from windlass.state.device_states import Devices, with_back
from windlass.state.node_columns import Ints


class Emptied:
    """The nodes without anything that can be displaced."""

    def __init__(self, pool: VictimIndex) -> None:
        columns = pool.columns
        self._pool, self._free = pool, columns.free.copy()
        self._numbers: Ints = columns.device_number.copy()
        self._rooms: dict[Shape, Ints] = {}
        devices: dict[int, Devices] = {}
        for unit in pool.units:
            if not unit.gone:
                for slot, (_, amounts) in unit.frees.items():
                    self._free[:, slot] += amounts
                for task in unit.tasks:
                    slot = columns.slot[task.node]
                    there = devices.get(slot, columns.devices[slot])
                    devices[slot] = with_back(there, columns.present(slot, task.devices))
        for slot, there in devices.items():
            self._numbers[slot] = columns.states.number(there)

    def room(self, shape: Shape) -> Ints:
        """How many tasks of a shape would fit each node."""
        if shape not in self._rooms:
            self._rooms[shape] = self._pool.index.room(shape, self._free, self._numbers)
        return self._rooms[shape]
