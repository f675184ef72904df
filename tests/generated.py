"""Clusters that nobody thought of: hypothesis strategies for everything a snapshot can hold.

Small on purpose. With a handful of nodes, three models and amounts of few sizes, capacity is nearly
always short, requests nearly always collide, and a failing example can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tests import oracle
from tests.given import RACKS
from tests.monitor import broken_domains
from windlass.model import constraints as c
from windlass.model.gpus import Gpu, GpuRequest, Slice
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import CPU, GPU, MEMORY, Queue, of_model
from windlass.model.resources import Request
from windlass.model.settings import Packing, Settings
from windlass.sim.workload import Arrival, NodeChange, Workload
from windlass.state.snapshot import Snapshot, Usage

GIB = 1024
MODELS = {"A100-80GB": 80, "A30-24GB": 24, "T4": 16}
PROFILES = ("1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "7g.80gb", "1g.6gb", "2g.12gb")
NOW = 10_000
APPS = ("web", "db")


def rarely(values: st.SearchStrategy, otherwise: object) -> st.SearchStrategy:
    """One of the values in about one case of four, else the usual."""
    usual = st.just(otherwise)
    return st.integers(0, 3).flatmap(lambda number: values if number == 3 else usual)


# --- nodes ----------------------------------------------------------------------------------------


@st.composite
def gpus(draw: st.DrawFn) -> tuple[Gpu, ...]:
    """The devices of one node: mostly alike, at times mixed, cut by MIG or broken."""
    model, cut = draw(MODEL), draw(st.booleans())
    models = [draw(rarely(MODEL, model)) for _ in range(draw(UP_TO_THREE))]
    return tuple(
        Gpu(each, MODELS[each] * GIB, mig=cut and each != "T4", healthy=draw(HEALTH))
        for each in models
    )


MODEL = st.sampled_from(sorted(MODELS))
UP_TO_THREE = st.integers(0, 3)
HEALTH = rarely(st.booleans(), True)

TAINTS = st.builds(
    c.Taint, st.just("dedicated"), st.sampled_from(["ml", "web"]), st.sampled_from(c.Effect)
)

PLACES = st.sampled_from(
    [
        {"zone": "east", "rack": "e1"},
        {"zone": "east", "rack": "e2"},
        {"zone": "west", "rack": "w1"},
        {"zone": "west"},
        {},
    ]
)


NODES = st.builds(
    Node,
    st.just(""),
    cpu_milli=st.sampled_from([2000, 4000, 8000]),
    memory_mib=st.sampled_from([8 * GIB, 16 * GIB]),
    pods=st.sampled_from([2, 4, 110]),
    gpus=gpus(),
    extra=rarely(st.just({"nic": 2}), {}),
    labels=PLACES,
    taints=rarely(st.tuples(TAINTS), ()),
    cordoned=rarely(st.booleans(), False),
)


def named(node: Node, number: int) -> Node:
    """The node under a name of its own, every other in the same pool."""
    name = f"n{number}"
    labels = {**node.labels, c.HOSTNAME: name, "pool": str(number % 2 + 1)}
    return replace(node, name=name, labels=labels)


# --- queues ---------------------------------------------------------------------------------------

DIMENSIONS = (GPU, of_model("T4"), CPU, MEMORY)
SIZES = {GPU: 1000, of_model("T4"): 500, CPU: 1000, MEMORY: 2 * GIB}


AMOUNTS = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 6), max_size=2).map(
    lambda named: {each: SIZES[each] * count for each, count in sorted(named.items())}
)
QUEUES = st.builds(
    Queue,
    st.just(""),
    guarantee=st.one_of(st.just({}), AMOUNTS),
    limit=rarely(AMOUNTS, {}),
    lend=rarely(AMOUNTS, {}),
    weight=st.integers(1, 3),
    tier=rarely(st.just(1), 0),
)
ONE_OR_TWO = st.integers(1, 2)


@st.composite
def queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    """A tree of three levels: companies, departments, teams."""
    tree: list[Queue] = []
    for company in [f"c{i}" for i in range(draw(ONE_OR_TWO))]:
        tree.append(replace(draw(QUEUES), name=company))
        for department in [f"{company}d{i}" for i in range(draw(ONE_OR_TWO))]:
            tree.append(replace(draw(QUEUES), name=department, parent=company))
            for team in [f"{department}t{i}" for i in range(draw(ONE_OR_TWO))]:
                tree.append(replace(draw(QUEUES), name=team, parent=department))
    return tuple(tree)


def leaves(tree: Sequence[Queue]) -> list[str]:
    """The queues that jobs may name."""
    parents = {each.parent for each in tree}
    return [each.name for each in tree if each.name not in parents]


# --- jobs -----------------------------------------------------------------------------------------

ALLOWED = rarely(st.sampled_from([("T4",), ("A100-80GB",), ("A100-80GB", "T4")]), ())
WHOLES = st.builds(GpuRequest, st.integers(1, 2), models=ALLOWED)
FRACTIONS = st.builds(
    GpuRequest, rarely(st.just(2), 1), st.sampled_from([200, 300, 500]), models=ALLOWED
)
BY_MEMORY = st.builds(
    GpuRequest, rarely(st.just(2), 1), memory_mib=st.sampled_from([3 * GIB, 10 * GIB, 20 * GIB])
)
INSTANCES = st.builds(
    GpuRequest, st.integers(1, 2), profile=st.sampled_from(PROFILES), models=ALLOWED
)

REQUESTS = st.builds(
    Request,
    cpu_milli=st.sampled_from([0, 500, 1000, 3000]),
    memory_mib=st.sampled_from([0, GIB, 6 * GIB]),
    gpu=st.one_of(st.none(), WHOLES, FRACTIONS, BY_MEMORY, INSTANCES),
    extra=rarely(st.just((("nic", 1),)), ()),
)

TERMS = st.one_of(
    st.builds(c.Expression, st.just("pool"), st.sampled_from(c.Operator), st.just(("1",))),
    st.builds(
        c.Expression,
        st.just("zone"),
        st.sampled_from([c.Operator.IN, c.Operator.NOT_IN, c.Operator.EXISTS]),
        st.just(("east",)),
    ),
).map(lambda expression: (expression,))

KEYS = st.sampled_from([c.HOSTNAME, "rack", "zone"])
POD_TERMS = st.builds(
    c.PodTerm,
    st.sampled_from(APPS).map(lambda app: (c.Expression("app", c.Operator.IN, (app,)),)),
    KEYS,
    st.sampled_from([(), (), ("*",), ("other",)]),
)
SPREADS = st.builds(
    c.Spread,
    KEYS,
    st.integers(1, 2),
    st.sampled_from(APPS).map(lambda app: (c.Expression("app", c.Operator.IN, (app,)),)),
    st.booleans(),
)


def rarely_one(values: st.SearchStrategy) -> st.SearchStrategy:
    """A tuple that is mostly empty."""
    return rarely(st.tuples(values), ())


CONSTRAINTS = st.builds(
    c.Constraints,
    selector=rarely_one(st.just(("pool", "1"))),
    affinity=rarely_one(TERMS),
    preferences=rarely_one(st.builds(c.Preference, st.sampled_from([1, 50]), TERMS)),
    tolerations=rarely_one(
        st.sampled_from([c.Toleration("dedicated", "ml"), c.Toleration(exists=True)])
    ),
    near=rarely_one(POD_TERMS),
    apart=rarely_one(POD_TERMS),
    pod_preferences=rarely_one(st.builds(c.PodPreference, st.sampled_from([-50, 50]), POD_TERMS)),
    spread=rarely_one(SPREADS),
)
NO_CONSTRAINTS = st.just(c.Constraints())
DOMAINS = st.builds(Domain, st.just(RACKS.name), st.sampled_from(["zone", "rack"]), st.booleans())


GROUPS = st.tuples(st.integers(1, 3), st.integers(0, 3), rarely(DOMAINS, None))
GANGS = st.builds(
    Gang,
    st.just(GangId("")),
    st.just(""),
    st.just(JobId("")),
    minimum=rarely(st.integers(0, 6), 0),
    domain=rarely(DOMAINS, None),
    user=st.sampled_from(["ann", "bob"]),
    namespace=rarely(st.just("other"), "default"),
    priority=rarely(st.just(5), 0),
    preemptible=rarely(st.booleans(), True),
    created_at=st.integers(0, NOW),
    duration_s=rarely(st.sampled_from([60, 6000]), None),
)
LABELS = rarely(st.sampled_from(APPS).map(lambda app: (("app", app),)), ())
SHAPES = st.tuples(REQUESTS, rarely(CONSTRAINTS, c.Constraints()), LABELS)
PLAIN_SHAPES = st.tuples(REQUESTS, NO_CONSTRAINTS, st.just(()))


@st.composite
def gangs(
    draw: st.DrawFn, name: str, queue_names: Sequence[str], shapes: st.SearchStrategy
) -> tuple[Gang, tuple[Task, ...]]:
    """One gang of one or two groups, with its tasks."""
    parts = [draw(GROUPS) for _ in range(draw(ONE_OR_TWO))]
    total = sum(size for size, _, _ in parts)
    gang = draw(GANGS)
    gang = replace(
        gang,
        id=GangId(name),
        job=JobId(name),
        queue=draw(st.sampled_from(list(queue_names))),
        groups=tuple(
            Group(f"g{i}", min(least, size), domain)
            for i, (size, least, domain) in enumerate(parts)
        ),
        minimum=min(gang.minimum, total),
    )
    tasks: list[Task] = []
    for group, (size, _, _) in zip(gang.groups, parts, strict=True):
        request, constraints, labels = draw(shapes)
        for _ in range(size):
            one = TaskId(f"{name}-{len(tasks)}")
            tasks.append(Task(one, gang.id, Shape(request, constraints), group.name, labels))
    return gang, tuple(tasks)


# --- all together ---------------------------------------------------------------------------------


@st.composite
def snapshots(draw: st.DrawFn, constrained: bool = True, most_gangs: int = 5) -> Snapshot:
    """A whole cluster, with some gangs running where the oracle lets them."""
    tree = draw(queues())
    shapes, names = SHAPES if constrained else PLAIN_SHAPES, leaves(tree)
    made = [draw(gangs(f"j{i}", names, shapes)) for i in range(draw(st.integers(1, most_gangs)))]
    snapshot = Snapshot(
        now=NOW,
        nodes=tuple(named(draw(NODES), i) for i in range(draw(st.integers(1, 4)))),
        topologies=(RACKS,),
        queues=tree,
        gangs=tuple(gang for gang, _ in made),
        tasks=tuple(task for _, tasks in made for task in tasks),
        settings=draw(SETTINGS),
    )
    used = draw(st.lists(st.sampled_from(leaves(tree)), max_size=2, unique=True))
    usage = tuple(Usage(name, "ann", "T4", draw(st.integers(1, 10**9))) for name in sorted(used))
    return draw(with_some_running(replace(snapshot, usage=usage, epoch_usage=usage)))


SETTINGS = st.builds(
    Settings,
    nodes=st.sampled_from(Packing),
    gpus=st.sampled_from(Packing),
    reserve_after_s=st.sampled_from([1800, 10**6]),
)


ENDS = rarely(st.sampled_from([TaskState.SUCCEEDED, TaskState.FAILED]), None)


@st.composite
def with_some_running(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The snapshot with some gangs started one task at a time, each where the oracle allows it."""
    for gang in snapshot.gangs:
        ends = draw(ENDS)
        if draw(st.booleans()):
            started = _start(snapshot, gang, lambda most: draw(st.integers(0, most)))
            snapshot = _ended(started, gang, ends) if ends else started
    return snapshot


def _start(snapshot: Snapshot, gang: Gang, choose: Callable[[int], int]) -> Snapshot:
    for task in [each for each in snapshot.tasks if each.gang == gang.id]:
        places = [
            (node.name, given)
            for node in _domain(snapshot, gang, task)
            if oracle.fits(snapshot, task, node)
            for given in oracle.choices(snapshot, node, task.shape.request.gpu)
        ]
        if places:
            snapshot = running(snapshot, task, *places[choose(len(places) - 1)])
    return snapshot


def _domain(snapshot: Snapshot, gang: Gang, task: Task) -> list[Node]:
    return [
        node
        for node in snapshot.nodes
        if not list(broken_domains(running(snapshot, task, node.name, ()), gang))
    ]


def running(snapshot: Snapshot, task: Task, node: str, given: tuple[Slice, ...]) -> Snapshot:
    """The snapshot with one task running there."""
    now = replace(task, state=TaskState.RUNNING, node=node, devices=given, started_at=NOW - 60)
    return replace(snapshot, tasks=tuple(now if t.id == task.id else t for t in snapshot.tasks))


def _ended(snapshot: Snapshot, gang: Gang, state: TaskState) -> Snapshot:
    last = [t.id for t in snapshot.tasks if t.gang == gang.id and t.state == TaskState.RUNNING][-1:]
    tasks = tuple(
        replace(t, state=state, node="", devices=()) if t.id in last else t for t in snapshot.tasks
    )
    return replace(snapshot, tasks=tasks)


# --- over time ------------------------------------------------------------------------------------

TIMES = st.tuples(
    st.integers(0, 600),
    rarely(st.just(None), 120),
    rarely(st.integers(1, 200), None),
    rarely(st.integers(300, 900), None),
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 500), st.integers(1, 300)), max_size=3
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Some gangs that come, run, fail or are deleted, while nodes go, come back, or change."""
    tree, many = draw(queues()), range(draw(st.integers(1, 6)))
    made = [draw(gangs(f"j{i}", leaves(tree), SHAPES)) for i in many]
    there = tuple(named(draw(NODES), i) for i in range(draw(st.integers(1, 4))))
    arrivals = []
    for gang, tasks in made:
        at, runs_s, fails_after_s, deleted_at = draw(TIMES)
        new = replace(gang, created_at=at)
        arrivals.append(Arrival(at, new, tasks, runs_s, fails_after_s, deleted_at))
    changes = []
    for number, at, away in draw(CHANGES):
        node = there[number % len(there)]
        changes += [NodeChange(at, node.name, None), NodeChange(at + away, node.name, node)]
    return Workload(
        nodes=there,
        queues=tree,
        arrivals=tuple(sorted(arrivals, key=lambda each: (each.at, each.gang.id))),
        topologies=(RACKS,),
        node_changes=tuple(sorted(changes, key=lambda each: each.at)),
        settings=replace(draw(SETTINGS), reserve_after_s=100, half_life_s=300),
        until=1200,
    )
