"""What a platform team may turn: the numbers behind sharing, packing and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Packing(StrEnum):
    """How tasks are laid out."""

    PACK = "pack"
    """Fill what is in use first, so that large gangs still find whole nodes."""
    SPREAD = "spread"
    """Use the emptiest first, so that tasks disturb each other least."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's settings; part of a snapshot, so that a plan can be repeated."""

    nodes: Packing = Packing.PACK
    gpus: Packing = Packing.PACK
    half_life_s: int = 7 * 24 * 3600
    """After this time, past usage counts half."""
    usage_effect: int = 1000
    """How strongly usage bends the surplus weights, in thousandths; 0 turns it off."""
    epoch_s: int = 60
    """Usage changes shares only this often, so that order does not flicker."""
    reserve_after_s: int = 1800
    """The head of the line gets a reservation after waiting this long."""
