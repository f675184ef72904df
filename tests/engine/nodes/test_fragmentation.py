"""Where a task spoils least for what usually comes: the score, its prices, the mix it learns."""

from dataclasses import replace
from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from tests.given import cluster, job, node
from tests.support.strategies import CONSTRAINED, recipes, snapshot_of
from windlass.engine.cycle import plan
from windlass.engine.nodes import score
from windlass.engine.nodes.node_index import NodeIndex
from windlass.model.events import GangSeen, TaskSeen
from windlass.model.gpu.remainder_prices import values_of_rests
from windlass.model.gpu.request_mix import MOST_NODES, reckoned
from windlass.model.gpus import GpuRequest
from windlass.model.resources import Request
from windlass.model.settings import Packing
from windlass.state.cluster import Cluster
from windlass.state.request_mix import FEWEST, MOST, ONE, ArrivalCounts
from windlass.state.snapshot import RequestArrivals, from_json, to_json
from windlass_lab.oracle import score as oracle_score

HALF = Request(1000, 1024, GpuRequest(milli=500))
THIRD = Request(1000, 1024, GpuRequest(milli=330))
WHOLE = Request(1000, 1024, GpuRequest())
HEAVY = Request(8000, 1024, GpuRequest())

# --- the score ------------------------------------------------------------------------------------


@given(recipes(without=CONSTRAINED), st.sampled_from(Packing))
def test_every_node_costs_what_plain_arithmetic_says(recipe, gpus):
    seen = with_mix(snapshot_of(recipe), recipe.dice("mix"))
    seen = replace(seen, settings=replace(seen.settings, nodes=Packing.PACK, gpus=gpus))
    there = Cluster.of(seen)
    index = there.recall(NodeIndex)
    assert index.judge is not None
    for task in seen.tasks:
        for name, key in zip(there.columns.names, index.of(task.shape).key.tolist(), strict=True):
            if key < score.NOWHERE:
                cost = oracle_score.cost(seen, task, there.nodes[name], seen.settings)
                assert ((key % score.POINT) >> score.RANK_BITS) - score.GAIN == cost


@given(recipes())
def test_a_node_that_changed_is_scored_as_if_it_were_seen_for_the_first_time(recipe):
    seen = with_mix(snapshot_of(recipe), recipe.dice("mix"))
    there = Cluster.of(seen)
    index = there.recall(NodeIndex)
    before = [index.of(task.shape) for task in seen.tasks]
    plan(there)
    fresh = Cluster.of(seen).recall(NodeIndex)
    for kind in before:
        assert keys_of(index, kind.shape) == keys_of(fresh, kind.shape)


def keys_of(index, shape):
    """The keys of all nodes; one that does not fit is like another."""
    return [min(key, score.NOWHERE) for key in index.of(shape).key.tolist()]


def with_mix(seen, chance):
    """The snapshot with a known mix: what its tasks ask for, and halves of GPUs."""
    asked = {replace(each.shape.request, extra=(), ports=()) for each in seen.tasks} | {HALF}
    known = [RequestArrivals(each, 0, chance.randint(100, 999)) for each in sorted(asked, key=repr)]
    return replace(seen, arrived=tuple(known))


def test_a_share_goes_where_its_rest_is_of_use():
    # a third beside a half leaves 170 that nobody asks for; beside another third it leaves room
    # for one more
    there = mixed({HALF: 50, THIRD: 50}, node("a", 2), node("b", 2))
    assert placed(there, "one", HALF).device == 0
    assert placed(there, "two", THIRD).device == 1
    assert placed(there, "three", THIRD).device == 1
    assert placed(there, "four", HALF).device == 0


def test_a_task_without_gpus_leaves_the_cpu_to_devices_that_need_it():
    # on "a" all CPU is needed for its GPUs; "b" has more than its one GPU can use
    poor, rich = node("a", 4, cpu_milli=32_000), node("b", 1)
    there = mixed({HEAVY: 90, HALF: 10}, poor, rich)
    assert place_of(there, "cpu", Request(16_000, 1024)).node == "b"


def test_whole_gpus_alone_are_packed_as_ever():
    there = mixed({WHOLE: 100}, node("a", 4), node("b", 2))
    assert there.recall(NodeIndex).judge is None
    assert place_of(there, "one", WHOLE).node == "b"


def mixed(counts, *nodes):
    known = tuple(RequestArrivals(each, 0, count * ONE) for each, count in counts.items())
    return Cluster.of(replace(cluster(*nodes).snapshot(), arrived=known))


def place_of(there, name, request):
    """Where a task goes that arrives now."""
    made = job(name, 1, request)
    there.apply(GangSeen(made.gang))
    there.apply(TaskSeen(made.tasks[0]))
    found = plan(there)
    there.assume(found)
    (bind,) = found.binds
    return bind


def placed(there, name, request):
    (slice_,) = place_of(there, name, request).devices
    return slice_


# --- prices ---------------------------------------------------------------------------------------


def test_a_rest_is_worth_what_can_still_be_cut_from_it():
    values = values_of_rests({500: 10})
    assert (values[499], values[500], values[999], values[1000]) == (0, 500, 500, 1000)


def test_a_size_that_fills_what_others_leave_is_priced_by_what_it_saves():
    # 700 and 300 make a whole together: neither is worth more than the other leaves
    values = values_of_rests({700: 10, 300: 10})
    assert values[700] + values[300] == 1000


@given(st.dictionaries(st.integers(1, 99).map(lambda tenths: 10 * tenths), st.integers(1, 50)))
def test_no_set_of_shares_that_fits_a_gpu_is_worth_more_than_the_gpu(demand):
    values = values_of_rests(demand)
    assert list(values) == sorted(values)
    for many in (1, 2, 3):
        for shares in combinations_with_replacement(sorted(demand)[:8], many):
            if sum(shares) <= 1000:
                assert sum(values[share] for share in shares) <= 1000


# --- the mix --------------------------------------------------------------------------------------


def test_few_arrivals_say_nothing_about_the_mix():
    mix = ArrivalCounts()
    for _ in range(FEWEST - 1):
        mix.see(HALF)
    assert not mix.take_over()
    mix.see(HALF)
    assert mix.take_over()
    assert mix.known == ((HALF, FEWEST * ONE),)


def test_the_known_mix_changes_only_when_half_as_many_again_have_come():
    mix = ArrivalCounts([RequestArrivals(HALF, 100 * ONE, 100 * ONE)])
    for _ in range(49):
        mix.see(WHOLE)
    assert not mix.take_over()
    mix.see(WHOLE)
    assert mix.take_over()
    assert dict(mix.known) == {HALF: 100 * ONE, WHOLE: 50 * ONE}


def test_old_arrivals_are_forgotten():
    mix = ArrivalCounts([RequestArrivals(HALF, MOST)])
    for _ in range(MOST // ONE):
        mix.see(WHOLE)
    counts = {each.request: each.lately for each in mix.arrived()}
    assert counts[HALF] <= MOST // 2 < counts[WHOLE] + counts[HALF]


def test_extras_and_ports_make_no_class_of_their_own():
    mix = ArrivalCounts()
    mix.see(replace(HALF, extra=(("nic", 1),)))
    assert [each.request for each in mix.arrived()] == [HALF]


def test_rare_requests_are_not_reckoned_with():
    assert reckoned([(HALF, 97), (WHOLE, 3)], 10) == ((HALF, 97),)


def test_where_no_two_requests_are_alike_nothing_is_usual():
    different = [(replace(HALF, cpu_milli=at), 1) for at in range(1, 100)]
    assert reckoned(different, 10) == ()


def test_on_very_many_nodes_the_mix_does_not_count():
    assert reckoned([(HALF, 100)], MOST_NODES + 1) == ()


def test_the_mix_goes_through_a_file_with_the_snapshot():
    seen = mixed({HALF: 90, WHOLE: 10}, node("a", 4)).snapshot()
    assert Cluster.of(from_json(to_json(seen))).mix.known == Cluster.of(seen).mix.known != ()


def test_tasks_of_a_snapshot_without_a_mix_count_as_its_arrivals():
    there = cluster(node("a", 8), job("j", 40, HALF))
    assert there.mix.known == ((HALF, 40 * ONE),)


def test_a_mix_is_taken_over_with_a_plan_and_not_while_it_is_made():
    there = cluster(node("a", 1))
    for number in range(FEWEST):
        made = job(f"j{number}", 1, HALF)
        there.apply(GangSeen(made.gang))
        there.apply(TaskSeen(made.tasks[0]))
    found = plan(there)
    assert there.mix.known == ()
    there.assume(found)
    assert there.mix.known == ((HALF, FEWEST * ONE),)
