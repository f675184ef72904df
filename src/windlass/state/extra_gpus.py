"""The GPUs among the extra resources of nodes, in the measure in which queues are charged.

A node offers them as plain counts (`model/gpu_resources.py` says what a unit is). Clusters without
such resources keep nothing here, and pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.model.gpu_resources import GpuUnit, is_gpu, unit_on
from windlass.model.nodes import Node
from windlass.model.resources import Request


class ExtraGpus:
    """What one unit of each GPU resource is, node by node."""

    __slots__ = ("_fields", "_milli", "_names", "_units")

    def __init__(self, nodes: Sequence[Node], fields: Mapping[str, int]) -> None:
        self._names = [name for name in fields if is_gpu(name)]
        self._fields = [fields[name] for name in self._names]
        """The rows of these resources in the columns."""
        self._units = {
            name: sorted({unit_on(node, name) for node in nodes if node.extra.get(name, 0)})
            for name in self._names
        }
        units = [[unit_on(node, name).milli for node in nodes] for name in self._names]
        self._milli: NDArray[np.int64] = np.array(units, np.int64)
        """Thousandths of one unit, per resource and node."""

    def milli_in(self, columns: NDArray[np.int64]) -> int:
        """The thousandths of GPU in these columns of amounts, on all nodes together."""
        if not self._names:
            return 0
        return int((np.maximum(columns[self._fields], 0) * self._milli).sum())

    def offered_per_model(self, nodes: Iterable[Node]) -> dict[str, int]:
        """The thousandths of GPU that nodes which take tasks offer, per model."""
        sums: dict[str, int] = {}
        for node in nodes if self._names else ():
            for name in self._names if node.is_open else ():
                unit = unit_on(node, name)
                if amount := node.extra.get(name, 0):
                    sums[unit.model] = sums.get(unit.model, 0) + amount * unit.milli
        return sums

    def units(self, resource: str) -> Sequence[GpuUnit]:
        """The different units of a GPU resource on the nodes that offer it, the least first.

        Where no node offers it, the one that follows from its name.
        """
        return self._units.get(resource) or (unit_on(None, resource),)

    def least(self, request: Request) -> int:
        """The least thousandths of GPU that the extra resources of a request can be."""
        gpus = [each for each in request.extra if is_gpu(each[0])]
        return sum(amount * self.units(name)[0].milli for name, amount in gpus)
