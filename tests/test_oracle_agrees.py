"""The engine computes fast what the oracle computes plainly."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests import oracle, oracle_order, oracle_shares
from tests.generated import CONSTRAINED, cards, recipes, requests, running, snapshot_of
from tests.given import job, node, outcome_of, queue, snapshot
from windlass.engine import devices as engine_devices
from windlass.engine import shares as engine_shares
from windlass.engine.index import Index
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Group, TaskState
from windlass.model.settings import Packing, Settings
from windlass.state.cluster import Cluster

# --- fit and score --------------------------------------------------------------------------------


@given(recipes())
def test_a_lone_task_goes_to_the_best_node_that_fits(recipe):
    seen = snapshot_of(recipe)
    task = replace(recipe.dice("task").choice(seen.tasks), state=TaskState.WAITING, node="")
    world = only(seen, replace(task, devices=()))
    outcome = outcome_of(Cluster.of(world))
    best = oracle.best(world, task, seen.settings)
    assert outcome.places == ({} if best is None else {str(task.id): best.name})


def only(seen, task):
    """The snapshot in which one task waits, alone in its gang, and nobody else."""
    gang = next(each for each in seen.gangs if each.id == task.gang)
    plain = replace(gang, groups=(Group(task.group),), minimum=0, domain=None, preemptible=True)
    others = [each for each in seen.tasks if each.state != TaskState.WAITING and each.id != task.id]
    unlimited = tuple(replace(each, limit={}) for each in seen.queues)
    gangs = tuple(plain if each.id == gang.id else each for each in seen.gangs)
    return replace(seen, tasks=(*others, task), queues=unlimited, gangs=gangs)


@given(recipes())
def test_the_index_sees_the_nodes_that_the_oracle_sees(recipe):
    seen = snapshot_of(recipe)
    there = Cluster.of(seen)
    index = there.recall(Index)
    for task in seen.tasks:
        room = index.of(task.shape).room()
        for slot, name in enumerate(there.columns.names):
            node_ = there.nodes[name]
            fits = (
                oracle.accepts(node_, task)
                and oracle.has_room(seen, node_, task.shape.request)
                and any(True for _ in oracle.choices(seen, node_, task.shape.request.gpu))
            )
            assert (room[slot] > 0) == fits


@given(cards(), requests())
def test_room_is_the_number_of_tasks_that_fit_at_best(gpus, request_):
    plenty = node("n1", cards=gpus, extra={"nic": 99})
    there = Cluster.of(snapshot(plenty, job("a", 1, replace(request_, cpu_milli=0, memory_mib=0))))
    shape = next(iter(there.tasks.values())).shape
    room = int(there.recall(Index).of(shape).room()[0])
    if request_.gpu is not None:
        assert room == most(plenty, request_.gpu)


def most(plenty, request):
    """How many tasks fit at best, a task's shares all on different devices."""
    if request.profile:
        return sum(_instances(gpu, request) for gpu in plenty.gpus) // request.count
    each = [
        1000 // oracle.milli_asked(gpu, request)
        for gpu in plenty.gpus
        if oracle.is_allowed(gpu, request) and not gpu.mig
    ]
    # k tasks need k * count slots, and no device can serve one task twice
    return max(k for k in range(sum(each) + 1) if sum(min(n, k) for n in each) >= k * request.count)


def _instances(gpu, request):
    count = 0
    world = snapshot(node("n1", cards=(gpu,)))
    one = replace(request, count=count + 1)
    while gpu.mig and any(True for _ in oracle.choices(world, world.nodes[0], one)):
        count += 1
        one = replace(request, count=count + 1)
    return count


@given(recipes(without=CONSTRAINED), st.sampled_from(Packing))
def test_device_choice_is_one_of_the_legal_choices(recipe, packing):
    seen = snapshot_of(recipe)
    there = Cluster.of(seen)
    for task in seen.tasks:
        request = task.shape.request.gpu
        for node_ in seen.nodes if request else ():
            given_ = chosen(there, node_.name, request, packing)
            legal = {tuple(sorted(each)) for each in oracle.choices(seen, node_, request)}
            assert tuple(sorted(given_)) in legal if legal else given_ == ()


def chosen(there, name, request: GpuRequest, packing):
    columns = there.columns
    slot = columns.slot[name]
    chooser = engine_devices.Chooser(request, columns.states, Settings(gpus=packing))
    number = int(columns.device_number[slot])
    return chooser.slices(number, columns.devices[slot])


# --- order ----------------------------------------------------------------------------------------


@given(recipes(without=("elastic", "ends")))
def test_the_line_is_the_one_walked_by_hand(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    assert [each.gang for each in outcome.plan.decisions] == list(walked(seen, outcome))


def walked(seen, outcome):
    """First those that started, then those that wait, each in the order in which they came up."""
    binds = {each.task: each for each in outcome.plan.actions}
    line = [g for g in seen.gangs if any(t.gang == g.id and not t.node for t in seen.tasks)]
    started, waiting = [], []
    while line:
        gang = oracle_order.next_gang(seen, line, outcome.plan.shares)
        line.remove(gang)
        own = [task for task in seen.tasks if task.gang == gang.id and task.id in binds]
        (started if own else waiting).append(gang.id)
        for task in own:
            seen = running(seen, task, binds[task.id].node, binds[task.id].devices)
    return [*started, *waiting]


# --- shares ---------------------------------------------------------------------------------------

CLAIMS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 20),
        st.one_of(st.none(), st.integers(0, 20)),
        st.one_of(st.none(), st.integers(0, 10)),
        st.integers(0, 5),
        st.integers(0, 1),
        st.one_of(st.just(0), st.integers(0, 10**6)),
    ),
    min_size=1,
    max_size=6,
)
FIELDS = ("demand", "guarantee", "limit", "lend", "weight", "tier", "usage")


@given(st.integers(0, 60), CLAIMS, st.sampled_from([0, 500, 1000, 2000]))
def test_a_division_is_the_one_poured_by_hand(amount, rows, effect):
    claims = [
        oracle_shares.Claim(f"q{i}", **dict(zip(FIELDS, row, strict=True)))
        for i, row in enumerate(rows)
    ]
    claimants = [
        engine_shares.Claimant(
            each.name,
            each.demand,
            each.guarantee,
            engine_shares.UNLIMITED if each.limit is None else each.limit,
            engine_shares.UNLIMITED if each.lend is None else each.lend,
            each.weight,
            each.tier,
            each.usage,
        )
        for each in claims
    ]
    assert engine_shares.divide(amount, claimants, effect) == oracle_shares.divide(
        amount, claims, effect
    )


@given(st.integers(0, 60), CLAIMS)
def test_a_division_gives_away_all_that_can_be_given(amount, rows):
    claims = [
        oracle_shares.Claim(f"q{i}", **dict(zip(FIELDS, row, strict=True)) | {"weight": 1})
        for i, row in enumerate(rows)
    ]
    given_ = oracle_shares.divide(amount, claims)
    wanted = sum(each.want() for each in claims)
    withheld = sum(each.withheld() for each in claims)
    floors = sum(each.floor() for each in claims)
    assert sum(given_.values()) == min(amount, max(floors, min(wanted, amount - withheld)))


@given(recipes(without=CONSTRAINED))
def test_shares_of_a_tree_are_divisions_at_every_level(recipe):
    seen = snapshot_of(recipe)
    shares = outcome_of(Cluster.of(seen)).plan.shares
    assert set(shares) == {each.name for each in seen.queues}
    for name, share in shares.items():
        assert all(isinstance(each, int) and each >= 0 for each in share.values()), name


def test_the_oracle_itself_knows_a_simple_division():
    claims = [oracle_shares.Claim("a", 10, guarantee=2), oracle_shares.Claim("b", 10, weight=2)]
    assert oracle_shares.divide(8, claims) == {"a": 4, "b": 4}


def test_the_oracle_itself_knows_who_fits():
    world = snapshot(node("n1", gpus=1), queue("team"), job("a", 1))
    assert oracle.fits(world, world.tasks[0], world.nodes[0])
