"""Other placement policies, to compare with: each is a scorer in place of the engine's own.

BestFit and GpuPacking are those of the FGD paper, as it describes them. All use the engine's own
path: only the cost of a node is different.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from windlass.engine.nodes import Condition, Conditions, DeviceChange, PlacementScorer
from windlass.model.gpus import WHOLE
from windlass.sim.traces import TracePod
from windlass.state.device_states import Device, DeviceKind, DeviceStates
from windlass.state.node_columns import Ints, NodeTable
from windlass_lab.trials.fgd import Fgd, typical
from windlass_lab.trials.placement import Policy

OWN = "windlass"


class SimplePacker(ABC):
    """The common part of the simple scorers: the fullest device, and nodes one by one as
    in arrays."""

    def __init__(self, states: DeviceStates) -> None:
        self._states = states

    def loss(self, before: Device, after: Device) -> int:
        """Return the cost of a device: the fullest one that fits is cheapest."""
        return after.milli

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Return 0: only nodes are scored."""
        return 0

    @abstractmethod
    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return the cost of each node; subclasses implement it."""

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """Return `costs` for one node."""
        one = [Conditions(*(np.array([each]) for each in node)) for node in (before, after)]
        return int(self.costs(one[0], one[1], np.array([taken]))[0])

    def free(self, numbers: Ints) -> Ints:
        """Return the free milli-GPU of device states."""
        listed: list[int] = numbers.tolist()
        return np.array([self._states.free_milli[number] for number in listed], np.int64)


class BestFit(SimplePacker):
    """A scorer for the least CPU and GPU left, each as a part of the largest node, in a hundred
    steps."""

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return the amounts left on each node."""
        left = after.cpu_milli / 128_000 + self.free(after.numbers) / 8_000
        return -np.floor(100 * (1 - left / 2)).astype(np.int64)


class GpuPacking(SimplePacker):
    """A scorer for used devices before whole ones, used nodes before others, then the
    fullest node."""

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Return the number of whole devices that would be started."""
        return 10_000 * sum(step.before.milli == WHOLE for step in steps)

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return the cost of each node: unused nodes last, then by fullness."""
        numbers: list[int] = before.numbers.tolist()
        sizes = [len(self._states.states[number]) * WHOLE for number in numbers]
        untouched = self.free(before.numbers) == sizes
        return np.where(untouched, 5_000, 0) + self.free(after.numbers) // 100


class AtRandom(SimplePacker):
    """A scorer that draws a node at random."""

    def __init__(self, states: DeviceStates, seed: int) -> None:
        super().__init__(states)
        self._random = np.random.default_rng(seed)

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return random costs."""
        return self._random.integers(0, 1 << 20, len(taken))


def _at_random(columns: NodeTable, _: Sequence[TracePod], seed: int) -> PlacementScorer:
    return AtRandom(columns.states, seed)


def _best_fit(columns: NodeTable, _: Sequence[TracePod], __: int) -> PlacementScorer:
    return BestFit(columns.states)


def _gpu_packing(columns: NodeTable, _: Sequence[TracePod], __: int) -> PlacementScorer:
    return GpuPacking(columns.states)


def _fgd(columns: NodeTable, pods: Sequence[TracePod], _: int) -> PlacementScorer:
    return Fgd(typical(pods), columns)


POLICIES: dict[str, Policy | None] = {
    "random": _at_random,
    "best-fit": _best_fit,
    "gpu-packing": _gpu_packing,
    "fgd": _fgd,
    OWN: None,
}
"""The policies that can be compared; None is the engine's own."""
REDRAWN = frozenset({"random"})
"""The policies that score every node again for every pod."""
