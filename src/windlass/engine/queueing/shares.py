"""What each queue should have now: the division of the cluster over the tree of queues.

At every level and in every dimension: guarantees first, as far as there is demand; then the idle
guarantee that may not be lent is put aside; then the surplus goes to the highest tier, inside a
tier by weight, each queue up to its demand and limit. Usage bends the weights: who had more than
its part lately gets less of the surplus now. A queue's share is then divided among its children.
Integers throughout; the last units go by largest remainder, so nothing is lost or invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass.engine.queueing.limits import Limits
from windlass.model.queues import GPU, ROOT, Queue, guaranteed
from windlass.state.cluster import Cluster

UNLIMITED = 1 << 60
_LEAST_WEIGHT = 8
"""However much it used, a queue keeps an eighth of its weight: nobody starves."""


class Claimant(NamedTuple):
    """One queue at a division, in one dimension."""

    name: str
    demand: int
    guarantee: int = 0
    limit: int = UNLIMITED
    lend: int = UNLIMITED
    weight: int = 1
    tier: int = 0
    usage: int = 0


@dataclass(frozen=True, slots=True)
class QueueShares:
    """How the queues stand: their shares, and what they are entitled to."""

    shares: Mapping[str, Mapping[str, int]]
    entitled: Mapping[str, Mapping[str, int]]
    """The larger of guarantee and share, per queue and dimension."""
    guarantees: Mapping[str, Mapping[str, int]]
    """What a queue can always have, with what it promised to the queues below it."""


def shares(cluster: Cluster, limits: Limits) -> QueueShares:
    """The shares of all queues in all dimensions that matter."""
    tree = _Tree(cluster, limits)
    found: dict[str, dict[str, int]] = {name: {} for name in sorted(cluster.queues)}
    for dimension in tree.dimensions:
        _descend(tree, dimension, ROOT, tree.capacity.get(dimension, 0), found)
    guarantees = {name: {d: tree.guarantee(name, d) for d in per} for name, per in found.items()}
    entitled = {
        name: {d: max(guarantees[name][d], share) for d, share in per.items()}
        for name, per in found.items()
    }
    return QueueShares(found, entitled, guarantees)


def divide(amount: int, claimants: Sequence[Claimant], usage_effect: int = 0) -> dict[str, int]:
    """Divide an amount among siblings."""
    wants = [min(each.demand, each.limit) for each in claimants]
    floors = [min(each.guarantee, want) for each, want in zip(claimants, wants, strict=True)]
    if sum(floors) > amount:
        parts = apportion(amount, floors, [each.name for each in claimants])
        return {each.name: part for each, part in zip(claimants, parts, strict=True)}
    kept_back = sum(
        max(0, each.guarantee - floor - each.lend)
        for each, floor in zip(claimants, floors, strict=True)
    )
    surplus = max(0, amount - sum(floors) - kept_back)
    given = {each.name: floor for each, floor in zip(claimants, floors, strict=True)}
    for tier in sorted({each.tier for each in claimants}, reverse=True):
        some = [
            (each, want - floor)
            for each, want, floor in zip(claimants, wants, floors, strict=True)
            if each.tier == tier and want > floor
        ]
        extra = _fill(surplus, some, usage_effect)
        for name, part in extra.items():
            given[name] += part
        surplus -= sum(extra.values())
    return given


def apportion(amount: int, weights: Sequence[int], names: Sequence[str]) -> list[int]:
    """Split an amount by weight into integers that add up to it, by largest remainder."""
    total = sum(weights)
    if total == 0:
        return [0] * len(weights)
    parts = [amount * weight // total for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(amount * weights[i] % total), names[i]))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts


def _fill(
    surplus: int, claimants: Sequence[tuple[Claimant, int]], usage_effect: int
) -> dict[str, int]:
    """Raise the water level by weight until the surplus is gone or all are full."""
    weights = _bent_weights([each for each, _ in claimants], usage_effect)
    some = [(each.name, cap, weights[each.name]) for each, cap in claimants if weights[each.name]]
    some.sort(key=lambda each: each[0])
    # fullest first: cap/weight ascending, compared without division
    some.sort(key=_ratio)
    given: dict[str, int] = {}
    left, weight_left = surplus, sum(weight for _, _, weight in some)
    for at, (name, cap, weight) in enumerate(some):
        if cap * weight_left > left * weight:
            rest = some[at:]
            names = [name for name, _, _ in rest]
            parts = apportion(left, [weight for _, _, weight in rest], names)
            return given | dict(zip(names, parts, strict=True))
        given[name] = cap
        left, weight_left = left - cap, weight_left - weight
    return given


def _bent_weights(claimants: Sequence[Claimant], usage_effect: int) -> dict[str, int]:
    """Weights, lowered for those who used more than their part and raised for the others."""
    used = sum(each.usage for each in claimants)
    total = sum(each.weight for each in claimants)
    if not used or not usage_effect:
        return {each.name: each.weight for each in claimants}
    return {
        each.name: max(
            each.weight * used * 1000 + usage_effect * (each.weight * used - each.usage * total),
            each.weight * used * 1000 // _LEAST_WEIGHT,
        )
        for each in claimants
    }


class _Ratio:
    """Compares cap/weight exactly."""

    __slots__ = ("cap", "weight")

    def __init__(self, cap: int, weight: int) -> None:
        self.cap, self.weight = cap, weight

    def __lt__(self, other: _Ratio) -> bool:
        return self.cap * other.weight < other.cap * self.weight


def _ratio(each: tuple[str, int, int]) -> _Ratio:
    return _Ratio(each[1], each[2])


class _Remembered:
    """What earlier cycles worked out: divisions with what they rest on, and one tree's shape."""

    def __init__(self, cluster: Cluster) -> None:
        self.divisions: dict[tuple[str, str], tuple[int, list[Claimant], dict[str, int]]] = {}
        self.guarantees: dict[tuple[str, str], int] = {}
        self.children: dict[str, list[Queue]] = _children(cluster.queues)
        self.dimensions: list[str] = _dimensions(cluster.queues.values())
        self._version = cluster.tree_version

    def of(self, cluster: Cluster) -> _Remembered:
        """The memory, without what another tree has left."""
        if self._version != cluster.tree_version:
            self._version = cluster.tree_version
            self.guarantees.clear()
            self.children = _children(cluster.queues)
            self.dimensions = _dimensions(cluster.queues.values())
        return self


def _children(queues: Mapping[str, Queue]) -> dict[str, list[Queue]]:
    found: dict[str, list[Queue]] = {}
    for name in sorted(queues):
        parent = queues[name].parent
        found.setdefault(parent if parent in queues else ROOT, []).append(queues[name])
    return found


def _dimensions(queues: Iterable[Queue]) -> list[str]:
    """GPUs, and whatever else a queue is promised or denied."""
    named = (
        dimension
        for queue in queues
        for amounts in (queue.guarantee, queue.limit, queue.lend)
        for dimension in amounts
    )
    return sorted({GPU, *named})


class _Tree:
    """The queues with what they have, want and used."""

    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self.cluster = cluster
        self.capacity = cluster.columns.capacity()
        self._wanted = _wanted(cluster, limits)
        self._usage = _usage(cluster)
        remembered = cluster.recall(_Remembered).of(cluster)
        self.children, self.dimensions = remembered.children, remembered.dimensions
        self._divisions, self._guarantees = remembered.divisions, remembered.guarantees
        self._demands: dict[tuple[str, str], int] = {}

    def claimant(self, queue: Queue, dimension: str) -> Claimant:
        """A queue at the division of a dimension."""
        return Claimant(
            name=queue.name,
            demand=self.demand(queue, dimension),
            guarantee=self.guarantee(queue.name, dimension),
            limit=queue.limit.get(dimension, UNLIMITED),
            lend=queue.lend.get(dimension, UNLIMITED),
            weight=queue.weight,
            tier=queue.tier,
            usage=self._usage.get(queue.name, 0),
        )

    def divided(
        self, at: tuple[str, str], amount: int, claimants: list[Claimant]
    ) -> dict[str, int]:
        """The division at one place; where nothing has changed, as it was."""
        known = self._divisions.get(at)
        if known is None or known[:2] != (amount, claimants):
            effect = self.cluster.settings.usage_effect
            known = self._divisions[at] = (amount, claimants, divide(amount, claimants, effect))
        return known[2]

    def demand(self, queue: Queue, dimension: str) -> int:
        """What it has and waits for; of the queues below it no more than they may have."""
        key = (queue.name, dimension)
        if key not in self._demands:
            below = self.children.get(queue.name)
            if below:
                parts = [
                    min(self.demand(child, dimension), child.limit.get(dimension, UNLIMITED))
                    for child in below
                ]
                self._demands[key] = sum(parts)
            else:
                held = self.cluster.allocated(queue.name, dimension)
                self._demands[key] = held + self._wanted.get(queue.name, {}).get(dimension, 0)
        return self._demands[key]

    def guarantee(self, name: str, dimension: str) -> int:
        """Its own guarantee, or what it has promised to the queues below it."""
        key = (name, dimension)
        if key not in self._guarantees:
            below = sum(
                self.guarantee(child.name, dimension) for child in self.children.get(name, ())
            )
            own = guaranteed(self.cluster.queues[name], dimension)
            self._guarantees[key] = max(own, below)
        return self._guarantees[key]


def _descend(
    tree: _Tree, dimension: str, parent: str, amount: int, found: dict[str, dict[str, int]]
) -> None:
    children = tree.children.get(parent)
    if not children:
        return
    claimants = [tree.claimant(queue, dimension) for queue in children]
    for name, share in tree.divided((parent, dimension), amount, claimants).items():
        found[name][dimension] = share
        _descend(tree, dimension, name, share, found)


def _wanted(cluster: Cluster, limits: Limits) -> dict[str, dict[str, int]]:
    """What waiting tasks would add, per queue in which they stand."""
    wanted: dict[str, dict[str, int]] = {}
    for queue, shapes in cluster.wanted.items():
        total: dict[str, int] = {}
        for shape, count in shapes.items():
            for dimension, amount in limits.needs_of(shape).items():
                total[dimension] = total.get(dimension, 0) + count * amount
        wanted[queue] = total
    return wanted


def _usage(cluster: Cluster) -> dict[str, int]:
    """Decayed GPU time at the start of the epoch, per queue and all queues above it."""
    used: dict[str, int] = {}
    for each in cluster.epoch_usage:
        for name in cluster.accounts.path(each.queue):
            used[name] = used.get(name, 0) + each.milli_seconds
    return used
