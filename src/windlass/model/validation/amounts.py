"""What every amount that a person writes must pass, and the sentence for one that does not."""

from __future__ import annotations

from decimal import Decimal

from windlass.model.validation.problems import MOST


def bounded(number: Decimal, value: object, expected: str) -> int:
    """The number, if it is a whole one in its unit and a cluster can have it."""
    if number < 0 or number != number.to_integral_value():
        fault = "below zero" if number < 0 else "too fine"
        raise ValueError(f"{shown(value)} is {fault}; write {expected}")
    if number > MOST:
        raise ValueError(f"{shown(value)} is more than any cluster has; write {expected}")
    return int(number)


def refused(value: object, expected: str) -> ValueError:
    """What is said of a value that cannot be read at all."""
    return ValueError(f"{shown(value)} is not understood; write {expected}")


def shown(value: object) -> str:
    """A value as it stood in the file, cut off where it is long."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
