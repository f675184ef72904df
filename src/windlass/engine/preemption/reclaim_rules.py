"""The rules by which one gang may take from another, as plain functions without any cache.

Two queues are compared just below their lowest common ancestor: the chain of queues from there
down to the claimant's queue is the claimant's *side*, the chain down to the victim's queue is the
victim's side. In the code, `gains` is the claimant's side, whose queues would gain capacity, and
`loses` is the victim's side, whose queues would lose it; the top queue comes first in both. The
*lines* of a queue are its guarantee, share and entitlement. A gang may be evicted

    by guarantee   if the top queue of the claimant's side stays within its guarantee and the
                   queues below it within their entitlement, and every queue of the victim's side
                   is above its own guarantee
    by share       if every queue of the claimant's side stays within its share, rounded up to a
                   whole GPU, every queue of the victim's side is above its entitlement, and the
                   claimant's side will have less of its entitlement than the victim's side had
    by priority    if both are in the same queue, and the claimant's priority is higher, as long as
                   no queue gets more than its entitlement by it
    by order       the same with equal priorities, if the claimant's level is better
                   (`queueing/ordering_policies.py`)

Only useful evictions are allowed: a victim goes for a dimension that it holds itself and of which
its side has too much. Nothing is evicted that is guaranteed in any dimension, with one exception:
if all nodes together lack a dimension for GPU work within a guarantee, what is borrowed of just
that dimension may be taken, even from a gang whose other dimensions are guaranteed. Otherwise GPUs
of one queue would stay idle because another queue borrows the memory beside them.

The victim's queues are judged by their amounts *before* the victim leaves: a gang that is partly
above a line counts as wholly above it. The victim cannot take the capacity straight back: its
return would lift its queue above the line again, and the claimant stays below its own line. By
share, the fuller of the two sides always ends less full, so exchanges come to an end. Ratios are
compared as products of integers.

The engine calls the conditions below through `reclaim_memo.py`. `QueueClaim` there repeats the
order of the rules of `reclaim_rule` and `widest_rule`, around remembered conditions: to change a
condition, change it here; to add or reorder a rule, change both modules.
`tests/laws/test_reclaim_rules_memo.py` checks that both give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.queueing import OrderLevels, QueueShares
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX
from windlass.state.cluster import Cluster
from windlass.state.node_columns import NodeTable

HYSTERESIS = (5, 4)
"""Usage-weighted shares fluctuate, so while they apply reclaim by share needs a 5:4 difference."""

QueueNames: TypeAlias = tuple[str, ...]
"""The names of some queues. As a side: from just below the lowest common ancestor down."""
Dimensions: TypeAlias = tuple[str, ...]
"""The names of dimensions, see `model/queues.py`."""
Amounts: TypeAlias = Callable[[str, str], int]
"""A function from a queue and a dimension to the amount that the queue has, or would have."""


@dataclass(frozen=True, slots=True)
class ClaimTerms:
    """The facts about a claimant that the rules need; nothing in it depends on the victim."""

    standing: QueueShares
    """The shares, entitlements and guarantees of all queues: the lines to compare amounts with."""
    dimensions: Dimensions
    """The dimensions that the claimant needs and in which queues are measured."""
    after: Amounts
    """The amounts of the claimant's queues with the claimant placed."""
    lacking: Collection[str]
    """The dimensions of which all nodes together have less free than is needed (`lacking`)."""
    margin: tuple[int, int]
    """The ratio by which the victim's side must be fuller: `HYSTERESIS` or 1:1."""


def sides(claimant_path: QueueNames, victim_path: QueueNames) -> tuple[QueueNames, QueueNames]:
    """Return the claimant's side (gains) and the victim's side (loses), each with its top queue
    first.

    Paths run from a queue up to the root. The claimant's side is empty if it can claim nothing:
    both queues are the same, or one is above the other.
    """
    gains, loses = claimant_path[::-1], victim_path[::-1]
    depth = 0
    while depth < min(len(gains), len(loses)) and gains[depth] == loses[depth]:
        depth += 1
    return (gains[depth:] if loses[depth:] else ()), loses[depth:]


def reclaim_rule(
    terms: ClaimTerms,
    gains: QueueNames,
    loses: QueueNames,
    charges: Collection[str],
    before: Amounts,
) -> EvictionRule | None:
    """Return the rule by which a victim with charges in these dimensions may be evicted, or None.

    `before` are the amounts of the victim's queues before it leaves.
    """
    if not gains:
        return None
    if stays_within_guarantee(terms, gains) and loses_by_guarantee(terms, loses, charges, before):
        return EvictionRule.GUARANTEE
    if stays_within_share(terms, gains) and loses_by_share(terms, gains, loses, charges, before):
        return EvictionRule.SHARE
    return None


def widest_rule(
    terms: ClaimTerms, gains: QueueNames, loses: QueueNames, has: Amounts
) -> EvictionRule | None:
    """Return the rule by which some victim of a queue might be evicted; None: no victim can be.

    This is an upper bound that needs no victim: where it is None, `reclaim_rule` is None as well.
    """
    if not gains:
        return None
    lines, dimensions = terms.standing, terms.dimensions
    if stays_within_guarantee(terms, gains) and above(lines.guarantees, loses, has, dimensions):
        return EvictionRule.GUARANTEE
    if stays_within_share(terms, gains):
        over_share = above(lines.entitled, loses, has, dimensions)
        if over_share and is_fuller(terms, gains[0], loses[0], over_share, has):
            return EvictionRule.SHARE
    return None


def preemption_rule(
    claimant: Gang, victim: Gang, levels: OrderLevels, reach: Callable[[Gang], int]
) -> EvictionRule | None:
    """Return the rule by which a gang may evict another of its own queue, or None.

    `reach` returns the first level that the claimant may stop; see
    `OrderLevels.best_preemptible_level`.
    """
    if claimant.queue != victim.queue:
        return None
    if claimant.priority != victim.priority:
        return EvictionRule.PRIORITY if claimant.priority > victim.priority else None
    if levels.preempts_by_order and reach(claimant) <= levels.of(victim):
        return EvictionRule.ORDER
    return None


def stays_within_guarantee(terms: ClaimTerms, gains: QueueNames) -> bool:
    """Return whether the claimant's side, with the claimant placed, may reclaim by guarantee.

    Its top queue must be within its guarantee, and each queue below within its entitlement, rounded
    up to whole GPUs.
    """
    lines, after = terms.standing, terms.after
    for dimension in terms.dimensions:
        if after(gains[0], dimension) > lines.guarantees[gains[0]][dimension]:
            return False
        for queue in gains[1:]:
            if after(queue, dimension) > _rounded(lines.entitled[queue][dimension], dimension):
                return False
    return True


def stays_within_share(terms: ClaimTerms, gains: QueueNames) -> bool:
    """Return whether every queue of the claimant's side, with the claimant placed, is within its
    share.

    Shares are rounded up to whole GPUs.
    """
    shares, after = terms.standing.shares, terms.after
    return all(
        after(queue, dimension) <= _rounded(shares[queue][dimension], dimension)
        for queue in gains
        for dimension in terms.dimensions
    )


def loses_by_guarantee(
    terms: ClaimTerms, loses: QueueNames, charges: Collection[str], before: Amounts
) -> bool:
    """Return whether a victim may be evicted by guarantee, as far as its own side decides.

    It must hold a dimension that the claimant needs and of which every queue of its side has more
    than its guarantee. Either this is so in all dimensions that the victim holds, or all nodes
    together lack that dimension.
    """
    guarantees = terms.standing.guarantees
    borrowed = above(guarantees, loses, before, _needed(terms, charges))
    if not borrowed:
        return False
    if is_all_borrowed(guarantees, loses, charges, before):
        return True
    return any(dimension in terms.lacking for dimension in borrowed)


def loses_by_share(
    terms: ClaimTerms,
    gains: QueueNames,
    loses: QueueNames,
    charges: Collection[str],
    before: Amounts,
) -> bool:
    """Return whether a victim may be evicted by share, as far as the two sides are compared.

    The victim's side must be above its guarantee in all dimensions of the victim, above its
    entitlement in one that the claimant needs, and fuller there than the claimant's side will be.
    """
    lines = terms.standing
    if not is_all_borrowed(lines.guarantees, loses, charges, before):
        return False
    over_share = above(lines.entitled, loses, before, _needed(terms, charges))
    return bool(over_share) and is_fuller(terms, gains[0], loses[0], over_share, before)


def is_all_borrowed(
    guarantees: Mapping[str, Mapping[str, int]],
    loses: QueueNames,
    charges: Collection[str],
    before: Amounts,
) -> bool:
    """Return whether every queue of a side is above its guarantee in all dimensions of the
    victim."""
    for queue in loses:
        lines = guarantees[queue]
        for dimension in charges:
            if dimension in lines and before(queue, dimension) <= lines[dimension]:
                return False
    return True


def above(
    lines: Mapping[str, Mapping[str, int]],
    loses: QueueNames,
    before: Amounts,
    dimensions: Iterable[str],
) -> list[str]:
    """Return those of the dimensions in which every queue of a side is above its line."""
    over: list[str] = []
    for dimension in dimensions:
        for queue in loses:  # plain loops: a search calls this many times
            if before(queue, dimension) <= lines[queue][dimension]:
                break
        else:
            over.append(dimension)
    return over


def is_fuller(
    terms: ClaimTerms, gains: str, loses: str, dimensions: Iterable[str], before: Amounts
) -> bool:
    """Return whether queue `loses` had more of its entitlement than queue `gains` will have.

    The claimant is judged by the dimension in which it will be fullest. Otherwise two queues could
    take from each other by turns, one for its CPUs and one for its GPUs.
    """
    own_lines, other_lines = terms.standing.entitled[gains], terms.standing.entitled[loses]
    more, less = terms.margin
    will_have = [(terms.after(gains, name) * more, own_lines[name]) for name in terms.dimensions]
    # after / own < before / other, with the margin, as products of integers
    return any(
        all(
            after * other_lines[dimension] < before(loses, dimension) * less * own
            for after, own in will_have
        )
        for dimension in dimensions
    )


def keeps_entitlements(
    cluster: Cluster, standing: QueueShares, claimant: str, need: Mapping[str, int], lost: Amounts
) -> bool:
    """Return whether a preemption inside a queue lets no queue borrow more than before.

    `lost` returns the amounts that the victims free in a queue. Each queue on the claimant's path
    must either not grow, because its victims free as much as is needed, or stay within its
    entitlement. No gang is preempted so that a queue may borrow, not even part of a GPU: others
    would take it back at once.
    """
    allocated, entitled = cluster.allocated, standing.entitled
    return all(
        need[dimension] <= lost(queue, dimension)
        or allocated(queue, dimension) <= entitled[queue][dimension]
        for queue in cluster.accounts.path(claimant)
        for dimension in need
        if dimension in entitled[queue]
    )


def min_run_s(cluster: Cluster, queue: str) -> int:
    """Return how long gangs of a queue run before they may be displaced, in seconds.

    The nearest queue on the path to the root that sets it decides, else the setting.
    """
    for name in cluster.accounts.path(queue):
        least = cluster.queues[name].min_run_s
        if least is not None:
            return least
    return cluster.settings.min_run_s


def lacking(columns: NodeTable, need: Mapping[str, int]) -> frozenset[str]:
    """Return the dimensions of which all nodes together have less free than is needed.

    Empty if no GPU is needed.
    """
    if not need.get(GPU):
        return frozenset()
    left = {GPU: columns.free_gpu(), CPU: columns.free_cpu(), MEMORY: columns.free_memory()}
    return frozenset(name for name, amount in need.items() if amount > left.get(name, amount))


def _needed(terms: ClaimTerms, charges: Collection[str]) -> list[str]:
    """Return the dimensions that the claimant needs and the victim holds."""
    return [dimension for dimension in terms.dimensions if dimension in charges]


def _rounded(share: int, dimension: str) -> int:
    """Return a share in whole GPUs, rounded up; part of one is of no use to most gangs."""
    if dimension != GPU and not dimension.startswith(MODEL_PREFIX):
        return share
    return -(-share // WHOLE) * WHOLE
