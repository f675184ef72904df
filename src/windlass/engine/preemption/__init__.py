"""Pass two of a cycle: it evicts or moves running gangs, so that waiting gangs find room.

Belongs here: everything that decides about running work: reclaim between queues, preemption inside
a queue, consolidation, forced evictions, and how gangs are evicted. Does not belong here: placing
gangs on free room (`placement`), and attempts with their undo (`draft`). No I/O, no clock, no
randomness: the results are data, and the daemon or the simulator carries them out.

    make_room           make_room: the loop over waiting gangs, and PreemptionResult
    retry_schedule      RetrySchedule: the gangs for which to search now, and when to search again
    strategies          Preemptor: room for one gang, the gentlest way first
    search              Search: one attempt (clear, place, put back, move, validate); SearchResult
    clear_node          clear the cheapest node, or the cheapest domain, for a task
    victim_index        the units that could be displaced, by node, and the cost of room per node
    victim_costs        the cost of a victim as one packed integer
    victim_filter       which units may be evicted or moved for a gang, before and after a search
    reclaim_rules       the rules guarantee, share, priority and order as plain functions
    reclaim_memo        the same rules with caches, for the search
    yield_holds         holds of borrowers that give way to gangs within their guarantee
    forced_evictions    evictions without a preemptor: nodes in trouble, overrun and stale gangs
    graceful_eviction   checkpoint before evict; gangs of one owner stop together
    repeat_protection   protection of gangs that were stopped before

To follow one decision, read make_room, strategies, search, clear_node in this order.
"""

from windlass.engine.preemption.forced_evictions import (
    describe_node_trouble,
    node_changes_at,
    overrun_at,
    stale_at,
    troubled_nodes,
)
from windlass.engine.preemption.graceful_eviction import evict_gracefully, sibling_evictions
from windlass.engine.preemption.make_room import PreemptionResult, make_room
from windlass.engine.preemption.reclaim_memo import QueueClaim, ReclaimRules
from windlass.engine.preemption.reclaim_rules import Amounts, lacking
from windlass.engine.preemption.repeat_protection import DisplacedGangs, is_protection_outdated
from windlass.engine.preemption.search import NO_WAY, SearchOutcome, SearchResult
from windlass.engine.preemption.strategies import Preemptor
from windlass.engine.preemption.yield_holds import BorrowedHolds

__all__ = [
    "NO_WAY",
    "Amounts",
    "BorrowedHolds",
    "DisplacedGangs",
    "PreemptionResult",
    "Preemptor",
    "QueueClaim",
    "ReclaimRules",
    "SearchOutcome",
    "SearchResult",
    "describe_node_trouble",
    "evict_gracefully",
    "is_protection_outdated",
    "lacking",
    "make_room",
    "node_changes_at",
    "overrun_at",
    "sibling_evictions",
    "stale_at",
    "troubled_nodes",
]
