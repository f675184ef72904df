"""How well a task would sit on a node, as one integer: lower is better.

A key orders nodes: points of preference first, then cost, then the node's rank. The rank is
unique and follows names, so a tie never depends on history. A key depends on the request and the
node's own state only, which is what makes it cacheable; everything else is an overlay.
"""

from __future__ import annotations

import numpy as np

from windlass.model.settings import Packing
from windlass.state.columns import CPU, MEMORY, Ints, Mask

NOWHERE = np.int64(1) << 61
"""The key of a node that does not fit; twice it still fits an integer."""
RANK_BITS = 20
COST_BITS = 22
POINT = 1 << (RANK_BITS + COST_BITS)
"""One point of preference, as it stands in a key."""
_DEAREST = (1 << COST_BITS) - 1


def keys(fits: Mask, points: Ints, costs: Ints, ranks: Ints) -> Ints:
    """The keys of nodes with these points, costs and ranks."""
    return np.where(fits, ((points << COST_BITS) + costs << RANK_BITS) | ranks, NOWHERE)


def costs(device_costs: Ints, left: Ints, packing: Packing) -> Ints:
    """What a node costs, given what would be left on it (fields by nodes)."""
    full = device_costs + (left[CPU] >> 7) + (left[MEMORY] >> 10)
    np.clip(full, 0, _DEAREST, out=full)
    return full if packing == Packing.PACK else _DEAREST - full
