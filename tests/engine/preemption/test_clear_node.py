"""The order in which domains are cleared for a gang that has to run inside one of them."""

from __future__ import annotations

from tests.given import RACKS, TEAM, cluster, job, queue, rack, within
from tests.support.preemption_given import LATER, ONE, runs
from windlass.engine.draft.draft import Draft
from windlass.engine.nodes.topology import Topologies
from windlass.engine.preemption.clear_node import NodeClearing
from windlass.engine.preemption.reclaim_memo import ReclaimRules
from windlass.engine.preemption.victim_filter import RoomRequest, SearchScope, VictimFilter
from windlass.engine.preemption.victim_index import CycleVictims
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import gang_progress
from windlass.engine.queueing.shares import compute_shares
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster

MANY = 513
"""Nodes of a rack; the impossible costs of 512 nodes do not fit into 64 bits."""


def racks_of_protected_and_preemptible_work() -> Cluster:
    """Two full racks: in rack a nothing may be evicted, in rack b everything may."""
    nodes = [
        each
        for name in ("a", "b")
        for each in rack(name, *(f"{name}{i:03}" for i in range(MANY)), gpus=1)
    ]
    protected = [runs(f"pa{i:03}", 0, on=f"a{i:03}", priority=9) for i in range(MANY)]
    lower = [runs(f"pb{i:03}", 0, on=f"b{i:03}", priority=-9) for i in range(MANY)]
    large = job("large", MANY, ONE, domain=within("rack"))
    return cluster(queue(TEAM), RACKS, *nodes, *protected, *lower, large, now=LATER)


def test_a_domain_of_over_512_impossible_nodes_is_cleared_last():
    there = racks_of_protected_and_preemptible_work()
    limits, large = Limits(there), gang_progress(there, GangId("large"))
    draft = Draft(there)
    rules = ReclaimRules(there, compute_shares(there, limits))
    need = limits.need(large.counts)
    claim = rules.claim_of(large.gang.queue, need, there.allocated, ())
    request = RoomRequest(large.gang, need, set(), grows=False, claim=claim)
    permits = VictimFilter(rules, set(), request, there.now, SearchScope.TAKE)
    clearing = NodeClearing(draft, CycleVictims(draft, rules, set()), permits)
    level = there.recall(Topologies).level(RACKS.name, "rack")
    assert level is not None
    assert clearing.cheapest([0, 1], level, large.parts) == [1, 0]
