"""Columns that are changed row by row, in which rows stay in place as far as possible."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class RowTable(Generic[Key]):
    """Rows by key, without gaps: when a row is dropped the last row takes its place.

    Invariant: `keys[at[key]] == key` for every key, and all columns are as long as `keys`.
    """

    __slots__ = ("at", "columns", "keys")

    def __init__(self, width: int) -> None:
        self.at: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.columns: list[list[Any]] = [[] for _ in range(width)]

    def fill(self, keys: list[Key], *columns: list[Any]) -> None:
        """Replace all rows at once; the lists are kept, not copied."""
        self.at = {key: at for at, key in enumerate(keys)}
        self.keys, self.columns = keys, list(columns)

    def put(self, key: Key, *values: object) -> None:
        """Add a row, or overwrite it."""
        at = self.at.get(key)
        if at is None:
            self.at[key] = len(self.keys)
            self.keys.append(key)
            for column, value in zip(self.columns, values, strict=True):
                column.append(value)
        else:
            for column, value in zip(self.columns, values, strict=True):
                column[at] = value

    def drop(self, key: Key) -> None:
        """Remove a row."""
        at, last = self.at.pop(key), self.keys.pop()
        values = [column.pop() for column in self.columns]
        if last != key:
            self.keys[at], self.at[last] = last, at
            for column, value in zip(self.columns, values, strict=True):
                column[at] = value
