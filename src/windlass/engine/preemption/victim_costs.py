"""The cost of a victim: one number that compares units by everything that counts.

Victims are compared by priority, then by the GPU time that is lost with them, by their number, and
by age, the youngest first (for a preemptor in a hurry by the time until their places are free).
Units that may only be moved come after all units that may be evicted. Where the ordering policy
decides which gang is stopped first (`OrderingPolicy.worst_first`), the turn of a unit (its position
in that order) times its GPUs takes the place of the lost GPU time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NewType

from windlass.engine.draft import EvictionUnit, frees_in, harm
from windlass.engine.preemption.victim_filter import VictimFate
from windlass.engine.queueing import OrderLevels
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

VictimCost = NewType("VictimCost", int)
"""The cost of one unit, or the sum of the costs of several; see `pack_cost` for its layout."""

_EVICT = VictimFate.EVICT
_MOST_RANK = (1 << 6) - 1
_MOST_LOST = (1 << 31) - 1
_MOST_TIE_BREAK = (1 << 12) - 1


def pack_cost(
    rank: int = 0, lost: int = 0, units: int = 0, tie_break: int = 0, moves: int = 0
) -> VictimCost:
    """Pack the fields of a cost into one integer, so that numbers compare like the fields.

        bit 62       61..56    55..48      47..16          15..12   11..0
        +------------+---------+-----------+---------------+--------+-----------+
        | IMPOSSIBLE |  moves  |   rank    |     lost      | units  | tie break |
        +------------+---------+-----------+---------------+--------+-----------+
                      units     priority,   GPU seconds,            age, or seconds
                      that may  the lowest  or turn x               until the places
                      only move is 0        thousandth GPUs         are free

    A unit fills less than its fields: rank has 6 bits, lost 31, units is 1, the tie break 12. The
    rest is room for sums: costs of several units are added as plain integers. A sum of very many
    units carries into the next field; it then compares as dearer, which is what it is. It is also
    why a sum is capped at `IMPOSSIBLE`, and why sums over many nodes need Python integers.
    """
    return VictimCost(
        (moves << 56)
        + (min(rank, _MOST_RANK) << 48)
        + (min(lost, _MOST_LOST) << 16)
        + (units << 12)
        + min(tie_break, _MOST_TIE_BREAK)
    )


IMPOSSIBLE = VictimCost(1 << 62)
"""The cost of a node on which evicting everything that may go would not make enough room."""
MOVE_SURCHARGE = pack_cost(moves=1)
"""The amount that is added to the cost of a unit that may be moved, but not evicted."""


class VictimCosts(dict[EvictionUnit, VictimCost]):
    """The cost of each unit alone, without the units evicted before it; computed on first
    access."""

    def __init__(self, cluster: Cluster, units: list[EvictionUnit], hurry_s: int | None) -> None:
        super().__init__()
        self._now, self._hurry_s = cluster.now, hurry_s
        self._turns = _eviction_turns(cluster, units)
        self._by_harm = cluster.settings.victims is Victims.LEAST_HARM
        priorities = sorted({unit.gang.priority for unit in units})
        self._ranks = {priority: rank for rank, priority in enumerate(priorities)}
        self._ages = {unit: age for age, unit in enumerate(units)}

    def __missing__(self, unit: EvictionUnit) -> VictimCost:
        gang, tie_break = unit.gang, self._ages[unit]
        if self._hurry_s is not None:
            tie_break = frees_in(gang, self._hurry_s) if unit.is_core else gang.terminates_s
        cost = pack_cost(
            rank=self._ranks[gang.priority], lost=self._lost(unit), units=1, tie_break=tie_break
        )
        self[unit] = cost
        return cost

    def with_earlier(self, unit: EvictionUnit, fate: VictimFate) -> VictimCost:
        """Return the cost of a unit and of all units of its gang that must be evicted before it."""
        total: int = self[unit]
        for earlier in unit.earlier:
            if not earlier.gone:
                total += self[earlier]
        return VictimCost(total if fate is _EVICT else total + MOVE_SURCHARGE)

    def order(self, unit: EvictionUnit) -> tuple[int, int, int, bool, str, int]:
        """Return a sort key, the cheapest unit of a node first; where units have turns, by turn."""
        turn = self._turns.get(unit, 0)
        priority = unit.gang.priority if self._turns else 0
        return priority, turn, self[unit], unit.is_core, unit.gang.id, len(unit.earlier)

    def _lost(self, unit: EvictionUnit) -> int:
        """Return the GPU seconds that a unit loses; where units have turns, turn times thousandths
        of GPUs."""
        if self._turns:
            return (1 + self._turns[unit]) * unit.charges.get(GPU, 0)
        if not self._by_harm:
            return 0
        if self._hurry_s is None:
            return unit.harm // WHOLE
        return harm(unit.gang, unit.tasks, self._now, unit.is_core, self._hurry_s) // WHOLE


def _eviction_turns(cluster: Cluster, units: list[EvictionUnit]) -> Mapping[EvictionUnit, int]:
    """Return the turn of each unit, from 0; empty if the ordering policy sets no eviction order."""
    levels = cluster.recall(OrderLevels)
    if not levels.policy.worst_first:
        return {}
    places = [levels.eviction_rank(unit.gang) for unit in units]
    turns = {place: turn for turn, place in enumerate(sorted(set(places)))}
    return {unit: turns[place] for unit, place in zip(units, places, strict=True)}
