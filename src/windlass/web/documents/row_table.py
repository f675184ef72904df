"""Columns that are changed row by row, and stay where they are as far as possible."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Table(Generic[Key]):
    """Rows by key, without gaps: when one goes the last takes its place."""

    __slots__ = ("at", "columns", "keys")

    def __init__(self, width: int) -> None:
        self.at: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.columns: list[list[Any]] = [[] for _ in range(width)]

    def fill(self, keys: list[Key], *columns: list[Any]) -> None:
        """Write all rows at once, in place of those that are there."""
        self.at = {key: at for at, key in enumerate(keys)}
        self.keys, self.columns = keys, list(columns)

    def put(self, key: Key, *values: object) -> None:
        """Add a row, or write it anew."""
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
        """Take a row out."""
        at, last = self.at.pop(key), self.keys.pop()
        values = [column.pop() for column in self.columns]
        if last != key:
            self.keys[at], self.at[last] = last, at
            for column, value in zip(self.columns, values, strict=True):
                column[at] = value
