"""The share of each queue: how the cluster is divided now over the tree of queues.

At every level of the tree and in every dimension:

    1. guarantees, as far as there is demand
    2. the idle guarantee that a queue does not lend is put aside
    3. the surplus goes to the highest tier first; inside a tier by weight, to each queue up to its
       demand and limit
    4. a queue's share is divided among its children in the same way

Usage bends the weights of step 3: a queue that used more than its part lately gets less of the
surplus now. All amounts are integers; the last units go by largest remainder, so nothing is lost or
invented.
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
"""A queue keeps at least one eighth of its weight, however much it used: it never starves."""


class Claimant(NamedTuple):
    """One queue at the division of one dimension among siblings."""

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
    """The shares and entitlements of all queues, per queue and dimension."""

    shares: Mapping[str, Mapping[str, int]]
    entitled: Mapping[str, Mapping[str, int]]
    """The larger of guarantee and share."""
    guarantees: Mapping[str, Mapping[str, int]]
    """The guarantee of a queue, or the sum of its children's guarantees if that is more."""


def compute_shares(cluster: Cluster, limits: Limits) -> QueueShares:
    """Return the shares of all queues, in GPUs and in every dimension that a queue names."""
    tree = _QueueTree(cluster, limits)
    divided: dict[str, dict[str, int]] = {name: {} for name in sorted(cluster.queues)}
    for dimension in tree.dimensions:
        _divide_below(tree, dimension, ROOT, tree.capacity.get(dimension, 0), divided)
    guarantees = {name: {d: tree.guarantee(name, d) for d in per} for name, per in divided.items()}
    entitled = {
        name: {d: max(guarantees[name][d], share) for d, share in per.items()}
        for name, per in divided.items()
    }
    return QueueShares(divided, entitled, guarantees)


def divide(amount: int, claimants: Sequence[Claimant], usage_effect: int = 0) -> dict[str, int]:
    """Divide an amount among siblings; return the part of each by name.

    `usage_effect`, in thousandths, is how strongly past usage bends the weights.
    """
    wants = [min(queue.demand, queue.limit) for queue in claimants]
    floors = [min(queue.guarantee, want) for queue, want in zip(claimants, wants, strict=True)]
    if sum(floors) > amount:  # nodes are missing: the guarantees themselves are cut in proportion
        parts = apportion(amount, floors, [queue.name for queue in claimants])
        return {queue.name: part for queue, part in zip(claimants, parts, strict=True)}
    kept_back = sum(
        max(0, queue.guarantee - floor - queue.lend)
        for queue, floor in zip(claimants, floors, strict=True)
    )
    surplus = max(0, amount - sum(floors) - kept_back)
    given = {queue.name: floor for queue, floor in zip(claimants, floors, strict=True)}
    for tier in sorted({queue.tier for queue in claimants}, reverse=True):
        wanting = [
            (queue, want - floor)
            for queue, want, floor in zip(claimants, wants, floors, strict=True)
            if queue.tier == tier and want > floor
        ]
        extra = _fill(surplus, wanting, usage_effect)
        for name, part in extra.items():
            given[name] += part
        surplus -= sum(extra.values())
    return given


def apportion(amount: int, weights: Sequence[int], names: Sequence[str]) -> list[int]:
    """Split an amount by weight into integers that add up to it, by largest remainder.

    Each part is rounded down; the units that are left over, fewer than there are parts, go one by
    one to the largest remainders `amount * weight % total`, equal ones by name.
    """
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
    """Raise the water level until the surplus is used up or all claimants are full.

    Each claimant is a vessel, `weight` wide, that holds its cap (what it still wants):

        level
          |            +-----+
          |   +---+    |     |        A vessel is full at level cap / weight. The vessels are
        --|---|---|----|-----|--      visited in that order. As long as the next one is full at
          |   |   |    |  b  |        the level that the rest of the surplus reaches over all
          |   | a |    |     |        vessels that are left, it gets its cap. From the first one
          +---+---+----+-----+        that is not, the rest is divided by weight.
    """
    weights = _bent_weights([queue for queue, _ in claimants], usage_effect)
    vessels = [
        (queue.name, cap, weights[queue.name]) for queue, cap in claimants if weights[queue.name]
    ]
    vessels.sort(key=lambda vessel: vessel[0])  # the second sort is stable: ties go by name
    vessels.sort(key=_full_at)
    given: dict[str, int] = {}
    left, weight_left = surplus, sum(weight for _, _, weight in vessels)
    for at, (name, cap, weight) in enumerate(vessels):
        # cap / weight > left / weight_left, without division
        if cap * weight_left > left * weight:
            rest = vessels[at:]
            names = [name for name, _, _ in rest]
            parts = apportion(left, [weight for _, _, weight in rest], names)
            return given | dict(zip(names, parts, strict=True))
        given[name] = cap
        left, weight_left = left - cap, weight_left - weight
    return given


def _bent_weights(claimants: Sequence[Claimant], usage_effect: int) -> dict[str, int]:
    """Return the weights, lowered for queues that used more than their part, raised for others.

    With w = weight / sum of weights and u = usage / sum of usages, the bent weight is proportional
    to w + effect * (w - u), and at least w / 8. To stay integer everything is multiplied by
    1000 * sum of weights * sum of usages; only the ratios of the results matter.
    """
    used = sum(queue.usage for queue in claimants)
    total = sum(queue.weight for queue in claimants)
    if not used or not usage_effect:
        return {queue.name: queue.weight for queue in claimants}
    return {
        queue.name: max(
            queue.weight * used * 1000 + usage_effect * (queue.weight * used - queue.usage * total),
            queue.weight * used * 1000 // _LEAST_WEIGHT,
        )
        for queue in claimants
    }


class _Ratio:
    """A fraction cap / weight that is compared exactly, without division."""

    __slots__ = ("cap", "weight")

    def __init__(self, cap: int, weight: int) -> None:
        self.cap, self.weight = cap, weight

    def __lt__(self, other: _Ratio) -> bool:
        return self.cap * other.weight < other.cap * self.weight


def _full_at(vessel: tuple[str, int, int]) -> _Ratio:
    return _Ratio(vessel[1], vessel[2])


class _ShareCache:
    """Results of earlier cycles: divisions with their inputs, and the shape of the queue tree."""

    def __init__(self, cluster: Cluster) -> None:
        self.divisions: dict[tuple[str, str], tuple[int, list[Claimant], dict[str, int]]] = {}
        """Per (parent, dimension): the amount and the claimants of the last division, and its
        result. Valid for equal inputs, also after the tree changed."""
        self.guarantees: dict[tuple[str, str], int] = {}
        """Per (queue, dimension). Rests on the tree; cleared when `tree_version` changes."""
        self.children: dict[str, list[Queue]] = _children(cluster.queues)
        self.dimensions: list[str] = _dimensions(cluster.queues.values())
        self._version = cluster.tree_version

    def refreshed(self, cluster: Cluster) -> _ShareCache:
        """Return this cache, without what rests on an earlier version of the queue tree."""
        if self._version != cluster.tree_version:
            self._version = cluster.tree_version
            self.guarantees.clear()
            self.children = _children(cluster.queues)
            self.dimensions = _dimensions(cluster.queues.values())
        return self


def _children(queues: Mapping[str, Queue]) -> dict[str, list[Queue]]:
    """Return the children of each queue, by name; a queue with an unknown parent is at the top."""
    children: dict[str, list[Queue]] = {}
    for name in sorted(queues):
        parent = queues[name].parent
        children.setdefault(parent if parent in queues else ROOT, []).append(queues[name])
    return children


def _dimensions(queues: Iterable[Queue]) -> list[str]:
    """Return GPUs and every dimension of a guarantee, a limit or a lend."""
    named = (
        dimension
        for queue in queues
        for amounts in (queue.guarantee, queue.limit, queue.lend)
        for dimension in amounts
    )
    return sorted({GPU, *named})


class _QueueTree:
    """The queues with what they hold, want and used, for one cycle."""

    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self.cluster = cluster
        self.capacity = cluster.columns.capacity()
        self._wanted = _wanted(cluster, limits)
        self._usage = _usage(cluster)
        cache = cluster.recall(_ShareCache).refreshed(cluster)
        self.children, self.dimensions = cache.children, cache.dimensions
        self._divisions, self._guarantees = cache.divisions, cache.guarantees
        self._demands: dict[tuple[str, str], int] = {}

    def claimant(self, queue: Queue, dimension: str) -> Claimant:
        """Return a queue as a claimant at the division of a dimension."""
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
        self, key: tuple[str, str], amount: int, claimants: list[Claimant]
    ) -> dict[str, int]:
        """Return the division among the children of a (parent, dimension), cached if unchanged."""
        cached = self._divisions.get(key)
        if cached is None or cached[:2] != (amount, claimants):
            effect = self.cluster.settings.usage_effect
            cached = self._divisions[key] = (amount, claimants, divide(amount, claimants, effect))
        return cached[2]

    def demand(self, queue: Queue, dimension: str) -> int:
        """Return what a queue holds and waits for; of its children no more than their limits."""
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
        """Return the guarantee of a queue, or the sum of its children's if that is more."""
        key = (name, dimension)
        if key not in self._guarantees:
            below = sum(
                self.guarantee(child.name, dimension) for child in self.children.get(name, ())
            )
            own = guaranteed(self.cluster.queues[name], dimension)
            self._guarantees[key] = max(own, below)
        return self._guarantees[key]


def _divide_below(
    tree: _QueueTree, dimension: str, parent: str, amount: int, divided: dict[str, dict[str, int]]
) -> None:
    """Divide an amount among the children of a queue, and so on down; write it to `divided`."""
    children = tree.children.get(parent)
    if not children:
        return
    claimants = [tree.claimant(queue, dimension) for queue in children]
    for name, share in tree.divided((parent, dimension), amount, claimants).items():
        divided[name][dimension] = share
        _divide_below(tree, dimension, name, share, divided)


def _wanted(cluster: Cluster, limits: Limits) -> dict[str, dict[str, int]]:
    """Return what waiting tasks would add to their queue, per queue and dimension."""
    wanted: dict[str, dict[str, int]] = {}
    for queue, shapes in cluster.wanted.items():
        total: dict[str, int] = {}
        for shape, count in shapes.items():
            for dimension, amount in limits.needs_of(shape).items():
                total[dimension] = total.get(dimension, 0) + count * amount
        wanted[queue] = total
    return wanted


def _usage(cluster: Cluster) -> dict[str, int]:
    """Return the decayed GPU time at the start of the epoch, in thousandth GPU-seconds.

    A queue includes the usage of all queues below it.
    """
    used: dict[str, int] = {}
    for usage in cluster.epoch_usage:
        for name in cluster.accounts.path(usage.queue):
            used[name] = used.get(name, 0) + usage.milli_seconds
    return used
