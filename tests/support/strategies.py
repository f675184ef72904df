"""Clusters that nobody thought of: hypothesis strategies for everything a snapshot can hold.

Small on purpose: with a handful of nodes and amounts of few sizes, capacity is nearly always short
and requests nearly always collide. Hypothesis draws a recipe: how many things there are and which
features of the model occur, and so can shrink both. Dice seeded by it fill in the rest, each thing
from dice of its own, so that leaving one out does not change the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from tests.given import RACKS
from tests.laws.invariants import broken_domains, torn
from tests.support import random_parts as dice
from windlass.model.gpus import Gpu, GpuRequest, Slice
from windlass.model.jobs import Gang, Task, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.model.settings import Displacing, Packing, Settings
from windlass.sim.workload import Arrival, NodeChange, Workload
from windlass.state.snapshot import Snapshot, UserUsage
from windlass_lab.oracle import fit

NOW = 10_000


@dataclass(frozen=True)
class Recipe:
    """How much of everything, and what may occur: all that a failing example needs to show."""

    seed: int
    nodes: int
    gangs: int
    wide: bool
    """Two of every kind of queue instead of one."""
    features: frozenset[str]

    def dice(self, *name: object) -> Random:
        """The dice for one thing."""
        return Random(f"{self.seed} {name}")


@st.composite
def recipes(draw: st.DrawFn, most_gangs: int = 14, without: Sequence[str] = ()) -> Recipe:
    """How large and how colourful a cluster is."""
    possible = [each for each in dice.FEATURES if each not in without]
    return Recipe(
        seed=draw(st.integers(0, 10**6)),
        nodes=draw(st.integers(2, 6)),
        gangs=draw(st.integers(2, most_gangs)),
        wide=draw(st.booleans()),
        features=frozenset(each for each in possible if draw(st.booleans())),
    )


CONSTRAINED = ("labels", "neighbours", "spread")
"""Features that make what fits depend on more than amounts."""


def snapshot_of(recipe: Recipe) -> Snapshot:
    """A whole cluster, with some gangs running where the oracle lets them."""
    made = make_gangs(recipe)
    snapshot = Snapshot(
        now=NOW,
        nodes=make_nodes(recipe),
        topologies=(RACKS,),
        queues=make_queues(recipe),
        gangs=tuple(gang for gang, _ in made),
        tasks=tuple(task for _, tasks in made for task in tasks),
        settings=make_settings(recipe),
    )
    usage = tuple(make_usage(recipe, snapshot))
    return with_some_running(replace(snapshot, usage=usage, epoch_usage=usage), recipe)


@st.composite
def cards(draw: st.DrawFn) -> tuple[Gpu, ...]:
    """The devices of one node."""
    return dice.make_gpus(Random(draw(st.integers(0, 10**6))), frozenset(dice.FEATURES))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """What one task asks for."""
    return dice.make_request(Random(draw(st.integers(0, 10**6))), frozenset(dice.FEATURES))


def make_nodes(recipe: Recipe) -> tuple[Node, ...]:
    """All nodes."""
    return tuple(
        dice.make_node(recipe.dice("node", i), f"n{i}", recipe.features)
        for i in range(recipe.nodes)
    )


def make_queues(recipe: Recipe) -> tuple[Queue, ...]:
    """A tree of three levels: companies, departments, teams."""
    numbers = (0, 1) if recipe.wide else (0,)
    tree: list[Queue] = []
    for company in [f"c{i}" for i in numbers]:
        tree.append(dice.make_queue(recipe.dice(company), company, "", recipe.features))
        for department in [f"{company}d{i}" for i in numbers]:
            found = dice.make_queue(recipe.dice(department), department, company, recipe.features)
            tree.append(found)
            for team in [f"{department}t{i}" for i in numbers]:
                tree.append(dice.make_queue(recipe.dice(team), team, department, recipe.features))
    return tuple(tree)


def make_gangs(recipe: Recipe, tree: Sequence[Queue] = ()) -> list[tuple[Gang, tuple[Task, ...]]]:
    """All gangs with their tasks, each in some team's queue."""
    tree = tree or make_queues(recipe)
    parents = {each.parent for each in tree}
    teams = [each.name for each in tree if each.name not in parents]
    made = [
        dice.make_gang(recipe.dice("gang", i), f"j{i}", teams, recipe.features)
        for i in range(recipe.gangs)
    ]
    return [(_once_stopped(recipe, gang), tasks) for gang, tasks in made]


def _once_stopped(recipe: Recipe, gang: Gang) -> Gang:
    """Some of them lost a place before."""
    return replace(gang, stops=int(recipe.dice("stopped", gang.id).random() < 0.2))


def make_settings(recipe: Recipe) -> Settings:
    """Packing or spreading, impatient or not."""
    rolls = recipe.dice("settings")
    return Settings(
        nodes=rolls.choice(list(Packing)),
        gpus=rolls.choice(list(Packing)),
        reserve_after_s=rolls.choice([1800, 10**6]),
    )


def make_usage(recipe: Recipe, snapshot: Snapshot) -> list[UserUsage]:
    """What some queues had lately."""
    if "usage" not in recipe.features:
        return []
    rolls = recipe.dice("usage")
    names = sorted({gang.queue for gang in snapshot.gangs})
    return [UserUsage(name, "ann", "T4", rolls.randint(1, 10**9)) for name in names]


# --- running tasks --------------------------------------------------------------------------------


def with_some_running(snapshot: Snapshot, recipe: Recipe) -> Snapshot:
    """The snapshot with some gangs started one task at a time, each where the oracle allows it."""
    for gang in snapshot.gangs:
        rolls = recipe.dice("running", gang.id)
        if rolls.random() < 0.5:
            snapshot = _started(snapshot, gang, rolls)
            if "ends" in recipe.features and rolls.random() < 0.5:
                snapshot = _ended(snapshot, gang, rolls)
    return snapshot


def _started(snapshot: Snapshot, gang: Gang, rolls: Random) -> Snapshot:
    for task in [each for each in snapshot.tasks if each.gang == gang.id]:
        places = [
            (node.name, given)
            for node in snapshot.nodes
            if fit.fits(snapshot, task, node)
            for given in fit.choices(snapshot, node, task.shape.request.gpu)
            if not list(broken_domains(running(snapshot, task, node.name, given), gang))
        ]
        if places:
            snapshot = running(snapshot, task, *rolls.choice(places))
    return snapshot


def running(snapshot: Snapshot, task: Task, node: str, given: tuple[Slice, ...]) -> Snapshot:
    """The snapshot with one task running there."""
    now = replace(task, state=TaskState.RUNNING, node=node, devices=given, started_at=NOW - 60)
    return replace(snapshot, tasks=tuple(now if t.id == task.id else t for t in snapshot.tasks))


def _ended(snapshot: Snapshot, gang: Gang, rolls: Random) -> Snapshot:
    state = rolls.choice([TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RELEASING])
    there = [t for t in snapshot.tasks if t.gang == gang.id and t.state == TaskState.RUNNING]
    ended = {t.id: replace(t, state=state) for t in there[-1:]}
    return replace(snapshot, tasks=tuple(ended.get(t.id, t) for t in snapshot.tasks))


# --- crowds: more work than room, and rights to it ------------------------------------------------

PRESSING = ("hasty", "modest", "patient", "saved", "slow", "torn", "young")
"""What occurs in crowds besides: few steps, few ways to displace, gangs that wait before they
displace, work that is saved, protection, gangs that lost members, gangs that have just begun."""


@st.composite
def crowds(draw: st.DrawFn, most_gangs: int = 20, without: Sequence[str] = ()) -> Recipe:
    """How large a crowd is and how much of everything it knows."""
    possible = [each for each in (*dice.FEATURES, *PRESSING) if each not in without]
    promised = frozenset({"guarantees"} if draw(st.booleans()) else ())
    return Recipe(
        seed=draw(st.integers(0, 10**6)),
        nodes=draw(st.integers(1, 4)),
        gangs=draw(st.integers(4, most_gangs)),
        wide=draw(st.booleans()),
        features=promised | draw(st.frozensets(st.sampled_from(possible), max_size=7)),
    )


def crowd_of(recipe: Recipe) -> Snapshot:
    """A cluster that is nearly full, with gangs waiting that may have rights to some of it."""
    tree = make_forest(recipe)
    made = [_pressing(recipe, *each) for each in make_gangs(recipe, tree)]
    well = replace(recipe, features=recipe.features - {"troubles"})
    snapshot = Snapshot(
        now=NOW,
        nodes=make_nodes(well),
        topologies=(RACKS,),
        queues=tree,
        gangs=tuple(gang for gang, _ in made),
        tasks=tuple(task for _, tasks in made for task in tasks),
        settings=_displacing(recipe),
    )
    usage = tuple(make_usage(recipe, snapshot))
    snapshot = replace(snapshot, usage=usage, epoch_usage=usage)
    for gang in snapshot.gangs:
        rolls = recipe.dice("crowd", gang.id)
        if rolls.random() < 0.7:
            snapshot = _began(snapshot, gang, rolls, recipe.features)
    return _fallen_ill(snapshot, recipe) if "troubles" in recipe.features else snapshot


def _fallen_ill(snapshot: Snapshot, recipe: Recipe) -> Snapshot:
    """Some nodes are in trouble since: what runs there may have to go."""
    rolls = recipe.dice("troubles")
    nodes = (replace(node, trouble=rolls.choice((None, *dice.TROUBLES))) for node in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def make_forest(recipe: Recipe) -> tuple[Queue, ...]:
    """Two or three trees of at most two levels, mostly with more than one team."""
    tree: list[Queue] = []
    for company in ("a", "b", "c") if recipe.wide else ("a", "b"):
        rolls = recipe.dice("tree", company)
        tree.append(dice.make_queue(rolls, company, "", recipe.features))
        for team in (f"{company}{i}" for i in range(rolls.choice([0, 1, 2, 2]))):
            tree.append(dice.make_queue(recipe.dice(team), team, company, recipe.features))
    if "slow" not in recipe.features:
        return tuple(tree)
    rolls = recipe.dice("slow")
    return tuple(replace(each, min_run_s=rolls.choice([None, 0, 300])) for each in tree)


def _pressing(recipe: Recipe, gang: Gang, tasks: tuple[Task, ...]) -> tuple[Gang, tuple[Task, ...]]:
    """The gang with a mind of its own, and mostly with a wish for GPUs: of those there are few."""
    rolls, features = recipe.dice("pressing", gang.id), recipe.features
    gang = replace(
        gang,
        priority=rolls.choice([0, 0, 1, 5]),
        saved_at=NOW - rolls.choice([5, 500]) if "saved" in features else None,
        displaces_after_s=rolls.choice([0, 0, 5000, None]) if "patient" in features else 0,
        stale_after_s=rolls.choice([None, 0, -1]) if "torn" in features else None,
    )
    wish = GpuRequest(rolls.choice([1, 1, 2])) if rolls.random() < 0.8 else None

    def wanting(task: Task) -> Task:
        asked = task.shape.request
        return replace(
            task, shape=replace(task.shape, request=replace(asked, gpu=asked.gpu or wish))
        )

    return gang, tuple(wanting(task) for task in tasks)


def _displacing(recipe: Recipe) -> Settings:
    rolls, features = recipe.dice("displacing"), recipe.features
    few = tuple(rolls.sample(list(Displacing), rolls.choice([1, 2])))
    return replace(
        make_settings(recipe),
        displacing=few if "modest" in features else tuple(Displacing),
        min_run_s=rolls.choice([0, 100]) if "slow" in features else 0,
        dwell_s=rolls.choice([0, 600]) if "slow" in features else 0,
        search_again_s=rolls.choice([0, 30]) if "slow" in features else 0,
        search_steps=rolls.choice([1, 30]) if "hasty" in features else 20_000,
    )


def _began(snapshot: Snapshot, gang: Gang, rolls: Random, features: dice.Features) -> Snapshot:
    """The gang runs, for a while already: whole, or as far as it got if gangs may be torn."""
    since = NOW - rolls.choice([10, 200, 1000, 9000] if "young" in features else [1000, 9000])
    began = _started(snapshot, gang, rolls)
    if "torn" not in features and list(torn(began, gang)):
        return snapshot
    if "ends" in features and rolls.random() < 0.2:
        began = _ended(began, gang, rolls)
    mine = {each.id for each in began.tasks if each.gang == gang.id and each.node}
    tasks = tuple(_since(each, since) if each.id in mine else each for each in began.tasks)
    return replace(began, tasks=tasks)


def _since(task: Task, at: int) -> Task:
    leaving = task.state == TaskState.RELEASING
    return replace(task, started_at=at, releasing_since=NOW - 5 if leaving else None)


# --- over time ------------------------------------------------------------------------------------


def workload_of(recipe: Recipe) -> Workload:
    """Some gangs that come, run, fail or are deleted, while nodes go and come back."""
    there, made = make_nodes(recipe), make_gangs(recipe)
    arrivals = [_arrival(recipe.dice("arrival", gang.id), gang, tasks) for gang, tasks in made]
    settings = replace(make_settings(recipe), reserve_after_s=100, half_life_s=300)
    return Workload(
        nodes=there,
        queues=make_queues(recipe),
        arrivals=tuple(sorted(arrivals, key=lambda each: (each.at, each.gang.id))),
        topologies=(RACKS,),
        node_changes=_losses(recipe, there),
        settings=settings,
        until=1200,
    )


def _arrival(rolls: Random, gang: Gang, tasks: tuple[Task, ...]) -> Arrival:
    at = rolls.randrange(600)
    return Arrival(
        at,
        replace(gang, created_at=at),
        tasks,
        runs_s=rolls.choice([50, 120, 300, None]),
        fails_after_s=rolls.choice([None, None, 40]),
        deleted_at=rolls.choice([None, None, at + 200]),
    )


def _losses(recipe: Recipe, there: Sequence[Node]) -> tuple[NodeChange, ...]:
    rolls, changes = recipe.dice("losses"), []
    for node in rolls.sample(there, rolls.choice([0, 1, 2])):
        at, changed = rolls.randrange(1, 400), replace(node, cordoned=rolls.random() < 0.3)
        back = at + rolls.randrange(1, 200)
        changes += [NodeChange(at, node.name, None), NodeChange(back, node.name, changed)]
    return tuple(sorted(changes, key=lambda each: each.at))
