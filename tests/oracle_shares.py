"""The obvious version of shares: exact fractions, poured and poured again until nothing is left.

Like `oracle.py` it knows nothing but the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Claim:
    """One of several queues among which an amount is divided."""

    name: str
    demand: int
    guarantee: int = 0
    limit: int | None = None
    lend: int | None = None
    weight: int = 1
    tier: int = 0
    usage: int = 0

    def want(self) -> int:
        """What it could use."""
        return self.demand if self.limit is None else min(self.demand, self.limit)

    def floor(self) -> int:
        """What it gets before anybody else gets more."""
        return min(self.guarantee, self.want())

    def withheld(self) -> int:
        """The idle guarantee that it does not lend."""
        idle = self.guarantee - self.floor()
        return 0 if self.lend is None else max(0, idle - self.lend)


def divide(amount: int, claims: Sequence[Claim], usage_effect: int = 0) -> dict[str, int]:
    """Floors first, all in proportion if there is too little; then the surplus, tier by tier."""
    floors = {each.name: Fraction(each.floor()) for each in claims}
    if sum(floors.values()) > amount:
        scale = Fraction(amount) / sum(floors.values())
        return _rounded({name: floor * scale for name, floor in floors.items()})
    surplus = amount - sum(floors.values()) - sum(each.withheld() for each in claims)
    given = {name: int(floor) for name, floor in floors.items()}
    for tier in sorted({each.tier for each in claims}, reverse=True):
        room = {c.name: c.want() - c.floor() for c in claims if c.tier == tier}
        weights = _bent([c for c in claims if room.get(c.name, 0) > 0], usage_effect)
        extra = _rounded(_poured(max(Fraction(0), surplus), room, weights))
        surplus -= sum(extra.values())
        given |= {name: given[name] + part for name, part in extra.items()}
    return given


def _poured(
    amount: Fraction, room: Mapping[str, int], weights: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Pour by weight; whoever is full drops out and the rest is poured again."""
    open_ = {name for name, weight in weights.items() if weight > 0}
    full: dict[str, Fraction] = {}
    while open_:
        left, heavy = amount - sum(full.values()), sum(weights[name] for name in open_)
        level = {name: left * weights[name] / heavy for name in open_}
        over = {name for name in open_ if level[name] >= room[name]}
        if not over:
            return full | level
        full |= {name: Fraction(room[name]) for name in over}
        open_ -= over
    return full


def _bent(claims: Sequence[Claim], usage_effect: int) -> dict[str, Fraction]:
    """Weights, less for who had more than its due part lately, never below an eighth."""
    used, heavy = sum(each.usage for each in claims), sum(each.weight for each in claims)
    if not used:
        return {each.name: Fraction(each.weight) for each in claims}
    bent: dict[str, Fraction] = {}
    for each in claims:
        had = Fraction(each.usage, used) / Fraction(each.weight, heavy) if each.weight else 0
        factor = 1 + Fraction(usage_effect, 1000) * (1 - had)
        bent[each.name] = each.weight * max(Fraction(1, 8), factor)
    return bent


def _rounded(parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Integers with the same sum, as far as it is whole; the largest remainders round up."""
    down = {name: int(part) for name, part in parts.items()}
    missing = int(sum(parts.values(), Fraction(0))) - sum(down.values())
    order = sorted(parts, key=lambda name: (down[name] - parts[name], name))
    return down | {name: down[name] + 1 for name in order[:missing]}
