"""Preemption storms by chance: small full clusters in which everybody displaces, saves and fails.

Hypothesis draws a recipe, as in `strategies.py`; dice seeded by it fill in the rest. Work is asked
to save and answers in time, late, never or with a refusal; what is not asked is forged; nodes,
tasks and schedulers are lost on the way.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from tests.given import ask, job, node, queue
from tests.support.small_workloads import arrives
from tests.support.strategies import Recipe
from windlass.model.actions import PendingCheckpoint
from windlass.model.events import Answered, CheckpointRequestSeen
from windlass.model.jobs import TaskState
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.settings import Displacing, Settings
from windlass.sim.events import Deletes
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, NodeChange, Told, Workload
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot, from_json, to_json

FEATURES = (
    "crashes",
    "deletions",
    "elastic",
    "failures",
    "forgeries",
    "guarantees",
    "hurry",
    "losses",
    "modest",
    "refusals",
    "services",
)
LONGEST_SAVE_S = 60
LONGEST_GRACE_S = 30
STALE_S = 60
QUIET_S = 1500
"""From then on nothing comes from outside."""


@st.composite
def storms(draw: st.DrawFn) -> Recipe:
    """How large a storm is and what happens in it."""
    return Recipe(
        seed=draw(st.integers(0, 10**6)),
        nodes=draw(st.integers(1, 3)),
        gangs=draw(st.integers(6, 20)),
        wide=draw(st.booleans()),
        features=draw(st.frozensets(st.sampled_from(FEATURES))),
    )


def workload_of(storm: Recipe) -> Workload:
    """The cluster and everything that comes to it."""
    nodes = [node(f"n{i}", gpus=storm.dice("node", i).choice([2, 4])) for i in range(storm.nodes)]
    arrivals = [_arrival(storm, f"g{i}") for i in range(storm.gangs)]
    return Workload(
        nodes=tuple(nodes),
        queues=_queues(storm),
        arrivals=tuple(sorted(arrivals, key=lambda each: each.at)),
        node_changes=_losses(storm, nodes),
        settings=_settings(storm),
    )


def _queues(storm: Recipe) -> tuple[Queue, ...]:
    rolls, names = storm.dice("queues"), ("a", "b", "c") if storm.wide else ("a", "b")
    if "guarantees" not in storm.features:
        return tuple(queue(name) for name in names)
    return tuple(queue(name, gpus=rolls.choice([1, 2, 4])) for name in names)


def _settings(storm: Recipe) -> Settings:
    rolls = storm.dice("settings")
    few = tuple(rolls.sample(list(Displacing), rolls.choice([1, 2])))
    return Settings(
        usage_effect=0,  # shares do not sway
        displacing=few if "modest" in storm.features else tuple(Displacing),
        dwell_s=rolls.choice([0, 100]),
        patience_s=rolls.choice([0, 300]),
        stale_after_s=STALE_S,
        search_again_s=rolls.choice([0, 30]),
        reserve_after_s=rolls.choice([300, 10**6]),
    )


def _arrival(storm: Recipe, name: str) -> Arrival:
    rolls, features = storm.dice("gang", name), storm.features
    tasks, at = rolls.choice([1, 1, 2, 3]), rolls.randrange(600)
    made = job(
        name,
        tasks,
        ask(gpus=rolls.choice([1, 1, 2])),
        minimum=rolls.randint(1, tasks) if "elastic" in features else tasks,
        queue=rolls.choice([each.name for each in _queues(storm)]),
        priority=rolls.choice([0, 0, 1, 2, 5]),
        saves_within_s=rolls.choice([None, 20, LONGEST_SAVE_S, LONGEST_SAVE_S]),
        hurry_s=rolls.choice([None, 10]) if "hurry" in features else None,
    )
    is_service = "services" in features and rolls.random() < 0.3
    is_deleted = "deletions" in features and rolls.random() < 0.3
    return arrives(
        made,
        at=at,
        runs=None if is_service else rolls.choice([100, 300, 900]),
        fails_after_s=rolls.choice([None, 40]) if "failures" in features else None,
        deleted_at=at + rolls.randrange(10, 400) if is_deleted else None,
        saves_every_s=rolls.choice([None, 100]),
        saving_s=rolls.choice([None, 1, 15, LONGEST_SAVE_S, 90]),
        restart_s=rolls.choice([0, 20]),
        terminates_s=rolls.choice([0, 5, LONGEST_GRACE_S]),
    )


def _losses(storm: Recipe, nodes: list[Node]) -> tuple[NodeChange, ...]:
    rolls, changes = storm.dice("losses"), list[NodeChange]()
    for each in nodes if "losses" in storm.features else ():
        at = rolls.randrange(100, 1000)
        changes.append(NodeChange(at, each.name, None))
        changes.append(NodeChange(at + rolls.choice([1, 50, 300]), each.name, each))
    return tuple(sorted(changes, key=lambda each: each.at))


# --- what people and crashes do on the way --------------------------------------------------------


def trouble(storm: Recipe, rolls: Random, simulation: Simulation) -> set[str]:
    """Somebody deletes the gang for which others save, or refuses to: which requests, that is."""
    now, asked = simulation.cluster.now, simulation.cluster.partings.now()
    if not asked or now >= QUIET_S:
        return set()
    parting, refused = rolls.choice(asked), set[str]()
    if "refusals" in storm.features and rolls.random() < 0.2:
        task = rolls.choice(parting.evictions).task
        simulation.later(now, Told(now, Answered(task, parting.id, saved=False)))
        refused.add(parting.id)
    if "deletions" in storm.features and rolls.random() < 0.4:
        simulation.later(now, Deletes(rolls.choice(parting.evictions).gainer))
    return refused


def forgeries(rolls: Random, cluster: Cluster, asked: list[PendingCheckpoint]) -> list[Answered]:
    """Answers to requests that do not stand, or in the name of somebody else's."""
    if not cluster.tasks or not asked:
        return []
    standing = {each.id: each.gang for each in cluster.partings.now()}
    found = list[Answered]()
    for name in ("", "forged", rolls.choice(asked).id):
        task = cluster.tasks[rolls.choice(sorted(cluster.tasks))]
        if standing.get(name) != task.gang:
            found.append(Answered(task.id, name, saved=rolls.random() < 0.5))
    return found


def successor(rolls: Random, cluster: Cluster) -> Cluster:
    """What the next scheduler knows: all of it, or only what stands on the objects."""
    seen = from_json(to_json(cluster.snapshot()))
    return Cluster.of(seen) if rolls.random() < 0.5 else bereft(seen)


def bereft(seen: Snapshot) -> Cluster:
    """Tasks, places that are kept, and requests are read again; everything else is forgotten."""
    asked = {each.task for parting in seen.partings for each in parting.evictions}
    tasks = tuple(
        replace(each, state=TaskState.RUNNING, releasing_since=None) if each.id in asked else each
        for each in seen.tasks
    )
    new = Snapshot(now=seen.now)
    there = Cluster.of(
        replace(
            seen,
            tasks=tasks,
            partings=(),
            broken=(),
            searched=(),
            gained=(),
            arrived=new.arrived,
            arrived_since=new.arrived_since,
        )
    )
    for parting in seen.partings:
        there.apply(CheckpointRequestSeen(parting))
    return there
