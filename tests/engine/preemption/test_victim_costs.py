"""The packed cost of a victim: fields compare in their order, sums stay comparable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.given import cluster, node
from tests.support.preemption_given import LATER, runs
from windlass.engine.draft.eviction_units import RunningUnits
from windlass.engine.preemption.victim_costs import (
    IMPOSSIBLE,
    MOVE_SURCHARGE,
    VictimCosts,
    pack_cost,
)
from windlass.engine.preemption.victim_filter import VictimFate

fields = st.tuples(
    st.integers(0, 63),  # rank
    st.integers(0, (1 << 31) - 1),  # lost
    st.just(1),  # units
    st.integers(0, (1 << 12) - 1),  # tie break
)


@given(fields, fields)
def test_costs_of_single_units_compare_like_their_fields(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
):
    assert (pack_cost(*one) < pack_cost(*other)) == (one < other)


@given(fields)
def test_a_unit_that_may_only_move_costs_more_than_any_that_may_be_evicted(
    one: tuple[int, int, int, int],
):
    assert pack_cost(*one) < MOVE_SURCHARGE
    assert pack_cost(*one) + MOVE_SURCHARGE < IMPOSSIBLE


def test_values_beyond_a_field_do_not_reach_the_next_one():
    most = pack_cost(rank=63, lost=(1 << 31) - 1, tie_break=(1 << 12) - 1)
    assert pack_cost(rank=1 << 9, lost=1 << 40, tie_break=1 << 20) == most


def test_two_units_with_less_to_lose_are_cheaper_than_one_with_more():
    small, large = pack_cost(lost=10, units=1), pack_cost(lost=30, units=1)
    assert small + small < large
    assert pack_cost(lost=15, units=1) * 2 > large, "of equal losses, one unit rather than two"


def test_the_cost_of_a_core_includes_elastic_members_that_leave_before_it():
    elastic = runs("a", 0, 1, tasks=2, minimum=1)
    there = cluster(node("n1", gpus=2), elastic, now=LATER)
    tail, core = there.recall(RunningUnits).current()
    costs = VictimCosts(there, [tail, core], hurry_s=None)
    together = costs[tail] + costs[core]
    assert costs.with_earlier(core, VictimFate.EVICT) == together
    assert costs.with_earlier(core, VictimFate.MOVE) == together + MOVE_SURCHARGE
    tail.gone = True
    assert costs.with_earlier(core, VictimFate.EVICT) == costs[core]
