"""Pass two of a cycle: who is evicted or moved so that waiting gangs find room.

Here belongs everything that decides about running work: reclaim between queues, preemption inside
a queue, consolidation, forced evictions, and how gangs are evicted. Placing gangs on free room does
not (`placement`), nor do the columns and the undoing of attempts (`draft`). All of it is pure: no
I/O, no clock, no randomness; the results are values, and the edges carry them out.

    make_room           make_room: the loop over waiting gangs, and PreemptionResult
    retry_schedule      which gangs are searched for now, and when the others are
    strategies          Preemptor: for one gang the gentlest way, from moves to evictions
    search              one attempt: clear, place, put back, move, validate; SearchResult
    clear_node          clear the cheapest node, or the cheapest domain, for a task
    victim_index        the units that could be displaced, by node, and the cost of each node
    victim_costs        the cost of a victim as one packed integer
    victim_filter       which units may be evicted or moved for a gang, before and after a search
    reclaim_rules       the rules guarantee, share, priority and order as plain functions
    reclaim_memo        the same rules with caches, for the search
    yield_holds         holds of borrowers that give way to gangs within their guarantee
    forced_evictions    evictions without a preemptor: nodes in trouble, overrun and stale gangs
    graceful_eviction   checkpoint before evict; gangs of one owner stop together
    repeat_protection   gangs that were stopped before are spared

To follow one decision, read make_room, strategies, search, clear_node in this order.
"""
