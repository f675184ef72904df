"""The key of a node for a task: how well the task would sit there, as one integer; lower is better.

A key packs three numbers, so that one comparison, or one `argmin` over all nodes, orders nodes by
preference points, then by cost, then by rank:

    bit   62   61   60 ........ 42   41 ......... 20   19 ......... 0
         +----+----+----------------+-----------------+--------------+
         |    |  N |  points        |  cost           |  rank        |
         +----+----+----------------+-----------------+--------------+
                     19 bits          COST_BITS = 22    RANK_BITS = 20

    N       set in INFEASIBLE, the key of a node that does not fit; two of them added, a key and an
            overlay, still fit a signed 64-bit integer
    points  points against the node: unmet preferences, soft taints; POINT is one of them
    cost    from 0 to _DEAREST
    rank    the node's position by name; it is unique, so a tie never depends on history

A key depends only on the request and on the node's own state, which is why it can be cached
(`node_index.py`). What depends on other tasks is added as an overlay (`pod_affinity.py`).
"""

from __future__ import annotations

import numpy as np

from windlass.model.settings import Packing
from windlass.state.node_columns import Ints, Mask

INFEASIBLE = 1 << 61
"""The key of a node that does not fit; a sum with an overlay is at least this as well."""
RANK_BITS = 20
COST_BITS = 22
POINT = 1 << (RANK_BITS + COST_BITS)
"""One point of preference, at its place in a key."""
_DEAREST = (1 << COST_BITS) - 1
GAIN = 1 << 18
"""The offset of costs by fragmentation, which may be negative: a task gains by going where the
capacity that it takes was of little use to others."""


def base(admitted: Mask, points: Ints, ranks: Ints) -> Ints:
    """Return the part of the keys that does not change: points and rank, or INFEASIBLE."""
    return np.where(admitted, points * POINT + ranks, INFEASIBLE)


def keys(fits: Mask, bases: Ints, costs: Ints) -> Ints:
    """Return the keys of nodes with these bases and costs."""
    return np.where(fits, bases + (costs << RANK_BITS), INFEASIBLE)


def costs(device_costs: Ints, cpu_left: Ints, memory_left: Ints, packing: Packing) -> Ints:
    """Return the costs of nodes: their devices' costs and what would be left of CPU and memory.

    128 thousandths of a CPU count as much as 1 GiB of memory. When spreading, the order is turned.
    """
    full = device_costs + (cpu_left >> 7) + (memory_left >> 10)
    # Negative only where the task does not fit.
    full = np.minimum(np.maximum(full, 0), _DEAREST)
    return full if packing == Packing.PACK else _DEAREST - full


def cost(device_cost: int, cpu_left: int, memory_left: int, packing: Packing) -> int:
    """Return the same as `costs`, for one node."""
    full = min(max(device_cost + (cpu_left >> 7) + (memory_left >> 10), 0), _DEAREST)
    return full if packing == Packing.PACK else _DEAREST - full


def bounded(losses: Ints) -> Ints:
    """Return the costs of nodes by what a task would spoil there for others (may be negative)."""
    return np.minimum(np.maximum(losses + GAIN, 0), _DEAREST)


def bounded_one(loss: int) -> int:
    """Return the same as `bounded`, for one node."""
    return min(max(loss + GAIN, 0), _DEAREST)
