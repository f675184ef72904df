"""Gangs by the names that people know them by."""

from __future__ import annotations


def known_as(gang: str) -> str:
    """A gang without the digits that tell it from a namesake of another time."""
    return gang.partition("~")[0]
