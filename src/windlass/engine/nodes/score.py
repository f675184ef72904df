"""How well a task would sit on a node, as one integer: lower is better.

A key orders nodes: points of preference first, then cost, then the node's rank. The rank is
unique and follows names, so a tie never depends on history. A key depends on the request and the
node's own state only, which is what makes it cacheable; everything else is an overlay.
"""

from __future__ import annotations

import numpy as np

from windlass.model.settings import Packing
from windlass.state.node_columns import Ints, Mask

NOWHERE = 1 << 61
"""The key of a node that does not fit; twice it still fits an integer."""
RANK_BITS = 20
COST_BITS = 22
POINT = 1 << (RANK_BITS + COST_BITS)
"""One point of preference, as it stands in a key."""
_DEAREST = (1 << COST_BITS) - 1
GAIN = 1 << 18
"""What a task may gain by going where what it takes was of little use to others."""


def base(admitted: Mask, points: Ints, ranks: Ints) -> Ints:
    """The part of the keys that depends on nodes alone."""
    return np.where(admitted, points * POINT + ranks, NOWHERE)


def keys(fits: Mask, bases: Ints, costs: Ints) -> Ints:
    """The keys of nodes with these bases and costs."""
    return np.where(fits, bases + (costs << RANK_BITS), NOWHERE)


def costs(device_costs: Ints, cpu_left: Ints, memory_left: Ints, packing: Packing) -> Ints:
    """What nodes cost, given what would be left on them."""
    full = device_costs + (cpu_left >> 7) + (memory_left >> 10)
    # negative only where nothing fits anyway
    full = np.minimum(np.maximum(full, 0), _DEAREST)
    return full if packing == Packing.PACK else _DEAREST - full


def cost(device_cost: int, cpu_left: int, memory_left: int, packing: Packing) -> int:
    """As `costs`, for one node."""
    full = min(max(device_cost + (cpu_left >> 7) + (memory_left >> 10), 0), _DEAREST)
    return full if packing == Packing.PACK else _DEAREST - full


def bounded(spoilt: Ints) -> Ints:
    """The costs of nodes by what a task would spoil there, which may be less than nothing."""
    return np.minimum(np.maximum(spoilt + GAIN, 0), _DEAREST)


def bounded_one(spoilt: int) -> int:
    """As `bounded`, for one node."""
    return min(max(spoilt + GAIN, 0), _DEAREST)
