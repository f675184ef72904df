"""The distribution of durations, from finished and unfinished ones.

The product-limit estimate of Kaplan and Meier: an unfinished run counts as "at least this long", so
that long runs are not ignored because they have not ended yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Survival:
    """A distribution of durations."""

    __slots__ = ("_ends", "_left")

    def __init__(self, ended: Iterable[float], going: Iterable[float] = ()) -> None:
        marks = sorted([(length, False) for length in ended] + [(length, True) for length in going])
        self._ends: list[float] = []
        """The finished durations, sorted."""
        self._left: list[float] = []
        """For each of `_ends`, the part (0 to 1) of all runs that last longer. Falling."""
        left, at_risk = 1.0, len(marks)
        for length, is_unfinished in marks:
            if not is_unfinished:
                left *= (at_risk - 1) / at_risk
                self._ends.append(length)
                self._left.append(left)
            at_risk -= 1

    @property
    def longest(self) -> float:
        """The longest finished duration; 0 if there is none."""
        return self._ends[-1] if self._ends else 0.0

    def draw(self, so_far: float, chance: float) -> float | None:
        """Return a duration of something that has lasted `so_far`, for a chance between 0 and 1.

        A smaller chance gives a longer duration. None: longer than any finished one. Between two
        finished durations the distribution is uniform.
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
