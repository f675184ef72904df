"""Other ways to choose a place, to compare with: each a judge in the place of the engine's own.

BestFit and GpuPacking are those of the FGD paper, as it describes them. All go through the engine's
own path: only what a node costs is different.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from windlass.engine.nodes.devices import Condition, Conditions, DeviceChange, PlacementScorer
from windlass.model.gpus import WHOLE
from windlass.sim.traces.openb import TracePod
from windlass.state.device_states import Device, DeviceKind, DeviceStates
from windlass.state.node_columns import Ints, NodeTable
from windlass_lab.trials.fgd import Fgd, typical
from windlass_lab.trials.placement import Policy

OWN = "windlass"


class SimplePacker(ABC):
    """What the simple judges share: the fullest device, and nodes one by one as in arrays."""

    def __init__(self, states: DeviceStates) -> None:
        self._states = states

    def loss(self, before: Device, after: Device) -> int:
        """The fullest device that fits."""
        return after.milli

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Nothing: nodes are all that is scored."""
        return 0

    @abstractmethod
    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """To be said by each."""

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """As `costs`, for one node."""
        one = [Conditions(*(np.array([each]) for each in node)) for node in (before, after)]
        return int(self.costs(one[0], one[1], np.array([taken]))[0])

    def free(self, numbers: Ints) -> Ints:
        """The GPU thousandths that are free in states."""
        listed: list[int] = numbers.tolist()
        return np.array([self._states.free_milli[number] for number in listed], np.int64)


class BestFit(SimplePacker):
    """Where least CPU and GPU is left, each as a part of the largest node, in a hundred steps."""

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """What is left."""
        left = after.cpu_milli / 128_000 + self.free(after.numbers) / 8_000
        return -np.floor(100 * (1 - left / 2)).astype(np.int64)


class GpuPacking(SimplePacker):
    """Begun devices before whole ones, begun nodes before others, then the fullest node."""

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Whole devices that are begun."""
        return 10_000 * sum(step.before.milli == WHOLE for step in steps)

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Is the node begun, and how full?"""
        numbers: list[int] = before.numbers.tolist()
        sizes = [len(self._states.states[number]) * WHOLE for number in numbers]
        untouched = self.free(before.numbers) == sizes
        return np.where(untouched, 5_000, 0) + self.free(after.numbers) // 100


class AtRandom(SimplePacker):
    """Any node, with equal chances."""

    def __init__(self, states: DeviceStates, seed: int) -> None:
        super().__init__(states)
        self._random = np.random.default_rng(seed)

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """A throw of dice."""
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
"""The ways that can be compared; None is the engine's own."""
REDRAWN = frozenset({"random"})
"""Those that judge every node anew for every pod."""
