"""How long things last, given how long some lasted and how long others have lasted so far.

The product-limit estimate of Kaplan and Meier: what still goes on counts as "at least so long", so
that long runs are not forgotten because they have not ended yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Survival:
    """A distribution learned from ends and from what goes on."""

    __slots__ = ("_ends", "_left")

    def __init__(self, ended: Iterable[float], going: Iterable[float] = ()) -> None:
        marks = sorted([(each, False) for each in ended] + [(each, True) for each in going])
        self._ends: list[float] = []
        self._left: list[float] = []
        """The part that lasts beyond each end."""
        left, still = 1.0, len(marks)
        for at, goes_on in marks:
            if not goes_on:
                left *= (still - 1) / still
                self._ends.append(at)
                self._left.append(left)
            still -= 1

    @property
    def longest(self) -> float:
        """The longest that has ended; 0 if nothing has."""
        return self._ends[-1] if self._ends else 0.0

    def draw(self, so_far: float, chance: float) -> float | None:
        """How long something lasts that has lasted so far, for a chance between 0 and 1.

        None: longer than anything known. Between two known ends every length is as likely.
        """
        first = bisect_right(self._ends, so_far)
        above = self._left[first - 1] if first else 1.0
        aim = above * chance
        lower = so_far
        for index in range(first, len(self._ends)):
            end, left = self._ends[index], self._left[index]
            if left <= aim:
                part = (above - aim) / (above - left) if above > left else 1.0
                return lower + (end - lower) * part
            lower, above = end, left
        return None
