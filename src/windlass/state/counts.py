"""Counting what comes and goes: what is not there any more leaves nothing behind."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")


def count(counts: dict[Key, int], key: Key, by: int) -> None:
    """So many more of a key, or fewer."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]
