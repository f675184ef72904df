"""The value of a partly used GPU, given the shares that tasks ask for.

Cutting shares from GPUs is the cutting-stock problem: cover the demand with as few patterns as
possible, each a set of shares of at most one GPU. The dual prices of its linear relaxation are the
least cost of a share of each size, in GPUs. The value of a remainder is the most expensive set of
shares that fits into it. A placement that lowers the value of a device by more than the price of
its share wastes the difference: that is its fragmentation cost.

All numbers are fractions, not floats: the same demand gives the same prices on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from windlass.model.gpus import WHOLE

UNIT = 10
"""The step in thousandths of a GPU: sizes are rounded up to it, remainders down."""
MOST_SIZES = 32
"""The most sizes that get a price: those with the largest demand in GPUs."""
_UNITS = WHOLE // UNIT
"""The width of a whole GPU in steps."""
_MOST_STEPS = 1000


def remainder_values(demand: Mapping[int, int]) -> tuple[int, ...]:
    """Return the value of every remainder from 0 to 1000 thousandths, in thousandths of a GPU.

    `demand` is the number of requests for a share, by its thousandths.
    """
    asked: dict[int, int] = {}
    for size, count in demand.items():
        if 0 < size < WHOLE and count > 0:
            width = -(-size // UNIT)
            asked[width] = asked.get(width, 0) + count
    most = sorted(asked, key=lambda width: (-width * asked[width], width))[:MOST_SIZES]
    widths = sorted(most)
    values, scale = _solve(widths, [asked[width] for width in widths])
    rests = [values[rest // UNIT] * WHOLE // scale for rest in range(WHOLE)]
    return (*rests, WHOLE)


def _solve(widths: Sequence[int], counts: Sequence[int]) -> tuple[list[int], int]:
    """Return the values of remainders by steps, and the value of a whole GPU on the same scale.

    Column generation with an explicit inverse of the basis: start with one pattern per size; as
    long as some pattern is worth more than the one GPU it uses, it enters the basis.
    """
    size = range(len(widths))
    # row i: pattern i of the basis; `uses[i]` is how many GPUs are cut by it
    inverse = [[Fraction(i == j, _UNITS // widths[i]) for j in size] for i in size]
    uses = [inverse[i][i] * counts[i] for i in size]
    for _ in range(_MOST_STEPS):
        prices = [sum((row[j] for row in inverse), Fraction()) for j in size]
        scale = lcm(*(price.denominator for price in prices))
        values, pattern = _dearest(widths, [int(price * scale) for price in prices])
        if values[-1] <= scale:
            return values, scale
        _replace(inverse, uses, pattern)
    raise AssertionError("each step uses fewer GPUs, so the steps come to an end")


def _dearest(widths: Sequence[int], prices: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the largest value of shares that fit each remainder, and that pattern of a whole GPU.

    An unbounded knapsack by dynamic programming; `last` holds the share that was added at each
    step, -1 for none.
    """
    values, last = [0], [-1]
    for rest in range(1, _UNITS + 1):
        best, cut = values[-1], -1
        for i, width in enumerate(widths):
            if width <= rest and values[rest - width] + prices[i] > best:
                best, cut = values[rest - width] + prices[i], i
        values.append(best)
        last.append(cut)
    pattern, rest = [0] * len(widths), _UNITS
    while rest:
        cut = last[rest]
        if cut >= 0:
            pattern[cut] += 1
        rest -= widths[cut] if cut >= 0 else 1
    return values, pattern


def _replace(inverse: list[list[Fraction]], uses: list[Fraction], pattern: Sequence[int]) -> None:
    """Let a pattern enter the basis, in place of the one whose use falls to zero first."""
    change = [
        sum((part * a for part, a in zip(row, pattern, strict=True) if a), Fraction())
        for row in inverse
    ]
    out = min((i for i, by in enumerate(change) if by > 0), key=lambda i: (uses[i] / change[i], i))
    inverse[out] = [part / change[out] for part in inverse[out]]
    uses[out] /= change[out]
    for i, by in enumerate(change):
        if i != out and by:
            inverse[i] = [old - by * new for old, new in zip(inverse[i], inverse[out], strict=True)]
            uses[i] -= by * uses[out]
