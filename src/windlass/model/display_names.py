"""The names of gangs in output for people."""

from __future__ import annotations


def display_name(gang: str) -> str:
    """Return the name of a gang without the suffix that tells it from an earlier namesake."""
    return gang.partition("~")[0]
