"""Fragmentation: the scores of nodes, the values of rests, and the mix of requests."""

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
from windlass.model.gpu.remainder_prices import remainder_values
from windlass.model.gpu.request_mix import MOST_NODES, expected_requests
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
def test_the_cost_of_every_node_equals_the_oracle(recipe, gpus):
    seen = with_mix(snapshot_of(recipe), recipe.dice("mix"))
    seen = replace(seen, settings=replace(seen.settings, nodes=Packing.PACK, gpus=gpus))
    state = Cluster.of(seen)
    index = state.recall(NodeIndex)
    assert index.scorer is not None
    for task in seen.tasks:
        for name, key in zip(state.columns.names, index.of(task.shape).key.tolist(), strict=True):
            if key < score.INFEASIBLE:
                cost = oracle_score.cost(seen, task, state.nodes[name], seen.settings)
                assert ((key % score.POINT) >> score.RANK_BITS) - score.GAIN == cost


@given(recipes())
def test_a_changed_node_is_scored_as_in_a_new_index(recipe):
    seen = with_mix(snapshot_of(recipe), recipe.dice("mix"))
    state = Cluster.of(seen)
    index = state.recall(NodeIndex)
    before = [index.of(task.shape) for task in seen.tasks]
    plan(state)
    fresh = Cluster.of(seen).recall(NodeIndex)
    for kind in before:
        assert keys_of(index, kind.shape) == keys_of(fresh, kind.shape)


def keys_of(index, shape):
    """Return the keys of all nodes; all keys of nodes that do not fit are equal."""
    return [min(key, score.INFEASIBLE) for key in index.of(shape).key.tolist()]


def with_mix(seen, chance):
    """Return the snapshot with a mix: the requests of its tasks, and halves of GPUs."""
    requests = {replace(each.shape.request, extra=(), ports=()) for each in seen.tasks} | {HALF}
    known = [
        RequestArrivals(each, 0, chance.randint(100, 999)) for each in sorted(requests, key=repr)
    ]
    return replace(seen, arrived=tuple(known))


def test_a_share_goes_where_the_rest_of_the_device_is_usable():
    # a third beside a half leaves 170 that no request uses; beside another third it leaves room
    # for one more
    state = mixed({HALF: 50, THIRD: 50}, node("a", 2), node("b", 2))
    assert placed(state, "one", HALF).device == 0
    assert placed(state, "two", THIRD).device == 1
    assert placed(state, "three", THIRD).device == 1
    assert placed(state, "four", HALF).device == 0


def test_a_task_without_gpus_leaves_cpu_for_free_gpus():
    # on "a" all CPU is needed for its GPUs; "b" has more than its one GPU can use
    poor, rich = node("a", 4, cpu_milli=32_000), node("b", 1)
    state = mixed({HEAVY: 90, HALF: 10}, poor, rich)
    assert place_of(state, "cpu", Request(16_000, 1024)).node == "b"


def test_a_mix_of_whole_gpus_only_is_packed_without_a_scorer():
    state = mixed({WHOLE: 100}, node("a", 4), node("b", 2))
    assert state.recall(NodeIndex).scorer is None
    assert place_of(state, "one", WHOLE).node == "b"


def mixed(counts, *nodes):
    known = tuple(RequestArrivals(each, 0, count * ONE) for each, count in counts.items())
    return Cluster.of(replace(cluster(*nodes).snapshot(), arrived=known))


def place_of(state, name, request):
    """Return the bind of a task that arrives now."""
    made = job(name, 1, request)
    state.apply(GangSeen(made.gang))
    state.apply(TaskSeen(made.tasks[0]))
    found = plan(state)
    state.assume(found)
    (bind,) = found.binds
    return bind


def placed(state, name, request):
    (slice_,) = place_of(state, name, request).devices
    return slice_


# --- prices ---------------------------------------------------------------------------------------


def test_the_value_of_a_rest_is_the_best_set_of_shares_that_fits():
    values = remainder_values({500: 10})
    assert (values[499], values[500], values[999], values[1000]) == (0, 500, 500, 1000)


def test_complementary_shares_add_up_to_the_value_of_a_whole_gpu():
    # 700 and 300 make a whole together: neither is worth more than the other leaves
    values = remainder_values({700: 10, 300: 10})
    assert values[700] + values[300] == 1000


@given(st.dictionaries(st.integers(1, 99).map(lambda tenths: 10 * tenths), st.integers(1, 50)))
def test_no_set_of_shares_that_fits_a_gpu_is_worth_more_than_the_gpu(demand):
    values = remainder_values(demand)
    assert list(values) == sorted(values)
    for many in (1, 2, 3):
        for shares in combinations_with_replacement(sorted(demand)[:8], many):
            if sum(shares) <= 1000:
                assert sum(values[share] for share in shares) <= 1000


# --- the mix --------------------------------------------------------------------------------------


def test_few_arrivals_make_no_mix():
    mix = ArrivalCounts()
    for _ in range(FEWEST - 1):
        mix.see(HALF)
    assert not mix.take_over()
    mix.see(HALF)
    assert mix.take_over()
    assert mix.known == ((HALF, FEWEST * ONE),)


def test_the_mix_changes_only_after_half_as_many_new_arrivals():
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


def test_extra_resources_and_ports_are_ignored_in_the_mix():
    mix = ArrivalCounts()
    mix.see(replace(HALF, extra=(("nic", 1),)))
    assert [each.request for each in mix.arrived()] == [HALF]


def test_rare_requests_are_left_out_of_the_mix():
    assert expected_requests([(HALF, 97), (WHOLE, 3)], 10) == ((HALF, 97),)


def test_all_different_requests_make_no_mix():
    different = [(replace(HALF, cpu_milli=at), 1) for at in range(1, 100)]
    assert expected_requests(different, 10) == ()


def test_the_mix_is_ignored_on_very_many_nodes():
    assert expected_requests([(HALF, 100)], MOST_NODES + 1) == ()


def test_the_mix_survives_a_snapshot_file():
    seen = mixed({HALF: 90, WHOLE: 10}, node("a", 4)).snapshot()
    assert Cluster.of(from_json(to_json(seen))).mix.known == Cluster.of(seen).mix.known != ()


def test_tasks_of_a_snapshot_without_a_mix_count_as_its_arrivals():
    state = cluster(node("a", 8), job("j", 40, HALF))
    assert state.mix.known == ((HALF, 40 * ONE),)


def test_a_new_mix_takes_effect_when_a_plan_is_assumed():
    state = cluster(node("a", 1))
    for number in range(FEWEST):
        made = job(f"j{number}", 1, HALF)
        state.apply(GangSeen(made.gang))
        state.apply(TaskSeen(made.tasks[0]))
    found = plan(state)
    assert state.mix.known == ()
    state.assume(found)
    assert state.mix.known == ((HALF, FEWEST * ONE),)
