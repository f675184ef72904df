"""Moments as Kubernetes writes them: 2026-11-16T04:10:00Z; inside, seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def written(at: float) -> str:
    """A moment as it is written, to the second."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def written_exactly(at: float) -> str:
    """A moment as it is written in leases, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read(moment: str) -> int:
    """A moment in seconds since 1970; ValueError if it is none."""
    found = datetime.fromisoformat(moment)
    if found.tzinfo is None:
        raise ValueError(f"{moment} names no time zone; write it like 2026-11-16T04:10:00Z")
    return int(found.timestamp())


def read_if_any(moment: str | None) -> int | None:
    """The same; None for none, and for what cannot be read."""
    try:
        return max(0, read(moment)) if moment else None
    except (ValueError, OverflowError):
        return None
