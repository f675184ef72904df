"""The engine computes fast what the oracle computes plainly."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.given import job, node, outcome_of, queue, snapshot
from tests.support import oracle_order, oracle_shares
from tests.support.strategies import CONSTRAINED, cards, recipes, requests, running, snapshot_of
from windlass.engine.nodes import devices as engine_devices
from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.queueing import shares as engine_shares
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import gang_progress
from windlass.model.jobs import Group, TaskState
from windlass.model.resources import Request
from windlass.model.settings import Packing, Settings
from windlass.state.cluster import Cluster
from windlass.state.snapshot import RequestArrivals
from windlass_lab.oracle import fit, score
from windlass_lab.oracle.fragmentation import most_instances

# --- fit and score --------------------------------------------------------------------------------


@given(recipes())
def test_a_lone_task_goes_to_the_best_node_that_fits(recipe):
    seen = snapshot_of(recipe)
    task = replace(recipe.dice("task").choice(seen.tasks), state=TaskState.WAITING, node="")
    world = with_mix(only(seen, replace(task, devices=())), recipe.dice("mix"))
    outcome = outcome_of(Cluster.of(world))
    best = score.best(world, task, seen.settings)
    assert outcome.places == ({} if best is None else {str(task.id): best.name})


def with_mix(seen, chance):
    """The snapshot with a known mix, at times: that of its tasks, each counted by chance."""
    if chance.random() < 0.3:
        return replace(seen, arrived=(RequestArrivals(Request(), 1),))
    counts = {plain(each.shape.request): chance.randint(100, 999) for each in seen.tasks}
    return replace(seen, arrived=tuple(RequestArrivals(each, 0, n) for each, n in counts.items()))


def plain(request):
    return replace(request, extra=(), ports=())


def only(seen, task):
    """The snapshot in which one task waits, alone in its gang, and nobody else."""
    gang = next(each for each in seen.gangs if each.id == task.gang)
    plain = replace(gang, groups=(Group(task.group),), minimum=0, domain=None, preemptible=True)
    others = [each for each in seen.tasks if each.state != TaskState.WAITING and each.id != task.id]
    unlimited = tuple(replace(each, limit={}, lend={}) for each in seen.queues)
    gangs = tuple(plain if each.id == gang.id else each for each in seen.gangs)
    return replace(seen, tasks=(*others, task), queues=unlimited, gangs=gangs)


@given(recipes())
def test_the_index_counts_how_many_tasks_fit_every_node_at_best(recipe):
    seen = snapshot_of(recipe)
    there = Cluster.of(seen)
    index = there.recall(NodeIndex)
    for task in seen.tasks:
        room = index.of(task.shape).room().tolist()
        assert room == [most(seen, there.nodes[name], task) for name in there.columns.names]


def most(seen, node_, task):
    """How many tasks like this one would fit a node side by side."""
    if not fit.accepts(node_, task):
        return 0
    request, tenants = task.shape.request, fit.tenants(seen, node_)
    used = [fit.amounts(each.shape.request) for each in tenants]
    offered = fit.allocatable(node_)
    counts = [
        (offered.get(name, 0) - sum(each.get(name, 0) for each in used)) // amount
        for name, amount in fit.amounts(request).items()
        if amount
    ]
    if is_sought(seen, request):
        counts.append(not any(fit.clash(request, each.shape.request) for each in tenants))
    taken = [given_ for each in tenants for given_ in each.devices]
    devices = [most_on_devices(node_, taken, request.gpu)] if request.gpu else []
    return max(0, min(counts + devices))


def is_sought(seen, request):
    """Does any other task ask for one of these ports? If none does, they are not counted."""
    asked = [(p.protocol, p.number) for task in seen.tasks for p in task.shape.request.ports]
    return any(asked.count((p.protocol, p.number)) > 1 for p in request.ports)


def most_on_devices(node_, taken, request):
    usable = [i for i, gpu in enumerate(node_.gpus) if fit.is_allowed(gpu, request)]
    if request.profile:
        cut = [(node_.gpus[i].model, fit.instances(taken, i)) for i in usable if node_.gpus[i].mig]
        return sum(most_instances(*each, request.profile) for each in cut) // request.count
    each = [
        fit.free_milli(taken, i) // fit.milli_asked(node_.gpus[i], request)
        for i in usable
        if not node_.gpus[i].mig
    ]
    # k tasks need k * count shares, and no device can serve one task twice
    return max(k for k in range(sum(each) + 1) if sum(min(n, k) for n in each) >= k * request.count)


@given(cards(), requests())
def test_an_empty_node_holds_as_many_tasks_as_fit_at_best(gpus, request_):
    world = snapshot(node("n1", cards=gpus, extra={"nic": 99}), job("a", 1, request_))
    room = Cluster.of(world).recall(NodeIndex).room_when_empty(world.tasks[0].shape)
    assert room.tolist() == [most(world, world.nodes[0], world.tasks[0])]


@given(recipes(without=CONSTRAINED), st.sampled_from(Packing))
def test_device_choice_is_one_of_the_legal_choices(recipe, packing):
    seen = snapshot_of(recipe)
    there = Cluster.of(seen)
    for task in seen.tasks:
        request = task.shape.request.gpu
        for node_ in seen.nodes if request else ():
            given_ = chosen(there, node_.name, request, packing)
            legal = {tuple(sorted(each)) for each in fit.choices(seen, node_, request)}
            assert tuple(sorted(given_)) in legal if legal else given_ == ()


def chosen(there, name, request, packing):
    columns = there.columns
    slot = columns.slot[name]
    chooser = engine_devices.Chooser(request, columns.states, Settings(gpus=packing))
    number = int(columns.device_number[slot])
    return chooser.give(number, columns.devices[slot]).slices


# --- order ----------------------------------------------------------------------------------------


@given(recipes(without=("elastic", "ends")))
def test_the_line_is_the_one_walked_by_hand(recipe):
    # whoever is displaced, or waits for what is being freed, is not told in the order of the line
    still = replace(snapshot_of(recipe).settings, displacing=(), stuck_after_s=-1)
    seen = replace(snapshot_of(recipe), settings=still)
    outcome = outcome_of(Cluster.of(seen))
    assert [each.gang for each in outcome.plan.decisions] == list(walked(seen, outcome))


def needs_of(cluster):
    """What each waiting gang would add to its queue."""
    limits = Limits(cluster)
    return {
        str(gang): limits.need(gang_progress(cluster, gang).counts)
        for line in cluster.waiting.values()
        for gang in line
    }


def walked(seen, outcome):
    """First those that started, then those that wait, each in the order in which they came up."""
    binds = {each.task: each for each in outcome.plan.binds}
    needs = needs_of(Cluster.of(seen))
    line = [g for g in seen.gangs if any(t.gang == g.id and not t.node for t in seen.tasks)]
    started, waiting = [], []
    while line:
        gang = oracle_order.next_gang(seen, line, outcome.plan.shares, needs)
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


@given(recipes(without=("broken",)))
def test_the_shares_of_a_tree_are_those_divided_by_hand(recipe):
    seen = snapshot_of(recipe)
    for dimension in ("gpu", "gpu/T4", "cpu", "memory"):
        found = outcome_of(Cluster.of(seen)).plan.shares
        by_hand = oracle_shares.shares(seen, dimension)
        for name, share in found.items():
            assert share.get(dimension, by_hand[name]) == by_hand[name]


def test_the_oracle_itself_knows_a_simple_division():
    claims = [oracle_shares.Claim("a", 10, guarantee=2), oracle_shares.Claim("b", 10, weight=2)]
    assert oracle_shares.divide(8, claims) == {"a": 4, "b": 4}


def test_the_oracle_itself_knows_who_fits():
    world = snapshot(node("n1", gpus=1), queue("team"), job("a", 1))
    assert fit.fits(world, world.tasks[0], world.nodes[0])
