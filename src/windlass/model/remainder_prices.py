"""What the rest of a GPU is worth, given the shares that tasks ask for.

Cutting shares from GPUs is the cutting-stock problem: patterns of shares, each at most one GPU,
are to cover the demand with as few GPUs as can be. Its dual prices say what a share of each size
costs in GPUs at best; the value of a rest is the dearest set of shares that fits into it. A share
that takes more value from a device than its own price spoils it.

All of it in fractions, never floats: the same demand gives the same prices on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from windlass.model.gpus import WHOLE

UNIT = 10
"""Sizes are rounded up to so many thousandths of a GPU, rests down."""
MOST_SIZES = 32
"""Beyond so many sizes only those are priced of which most is asked."""
_UNITS = WHOLE // UNIT
_MOST_STEPS = 1000


def values_of_rests(demand: Mapping[int, int]) -> tuple[int, ...]:
    """The value of every rest from 0 to 1000 thousandths, in thousandths of a whole GPU.

    `demand` is how often a share of so many thousandths is asked for.
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
    """The values of rests by units, and the value of a whole GPU on the same scale.

    Column generation: start with patterns of one size each; as long as a pattern is worth more
    than the GPU it takes, it replaces one of those in use.
    """
    size = range(len(widths))
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
    """The most that fits each rest is worth, and what to cut from a whole GPU for it."""
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
    """Bring a pattern into use, in the place of the one that runs out first."""
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
