"""Same snapshot, same plan: whatever the process, the order of things, or what went before."""

import os
import subprocess
import sys
from dataclasses import replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.given import GIB, ask, cluster, job, node, queue
from tests.laws.invariants import holdings
from tests.support.strategies import NOW, recipes, snapshot_of
from windlass.engine.cycle import plan
from windlass.model.events import (
    GangGone,
    GangSeen,
    NodeGone,
    NodeSeen,
    QueueSeen,
    TaskSeen,
    TopologySeen,
)
from windlass.model.gpus import Gpu
from windlass.model.jobs import GangId, TaskState
from windlass.state.cluster import Cluster
from windlass.state.snapshot import from_json, to_json

A_PROCESS = """
import sys, msgspec
from windlass.engine.cycle import plan
from windlass.state.cluster import Cluster
from windlass.state.snapshot import from_json
for part in sys.stdin.buffer.read().split(b"\\0"):
    sys.stdout.buffer.write(msgspec.json.encode(plan(Cluster.of(from_json(part)))) + b"\\n")
"""


@given(recipes())
def test_asking_twice_gives_the_same_plan(recipe):
    seen = snapshot_of(recipe)
    there = Cluster.of(seen)
    assert plan(there) == plan(there) == plan(Cluster.of(seen))


@given(recipes())
def test_the_order_in_which_things_are_listed_does_not_matter(recipe):
    seen, chance = snapshot_of(recipe), recipe.dice("history")
    shuffled = {
        name: tuple(chance.sample(getattr(seen, name), len(getattr(seen, name))))
        for name in ("nodes", "queues", "gangs", "tasks", "usage", "epoch_usage")
    }
    assert plan(Cluster.of(replace(seen, **shuffled))) == plan(Cluster.of(seen))


@given(st.lists(recipes(), min_size=20, max_size=20))
@settings(max_examples=max(1, settings().max_examples // 50))
def test_another_process_with_other_hashes_gives_the_same_plan(recipes_):
    many = [snapshot_of(each) for each in recipes_]
    text = b"\0".join(to_json(each) for each in many)
    here = b"".join(msgspec.json.encode(plan(Cluster.of(each))) + b"\n" for each in many)
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", A_PROCESS],
            input=text,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.stdout == here


# --- history --------------------------------------------------------------------------------------


@given(recipes())
def test_what_went_before_does_not_show(recipe):
    seen, chance = snapshot_of(recipe), recipe.dice("history")
    lived = lived_through(seen, chance)
    now = lived.snapshot()
    assert without_usage(now) == without_usage(Cluster.of(seen).snapshot())
    assert plan(lived) == plan(Cluster.of(now))


@given(recipes())
def test_after_any_history_every_queue_is_charged_what_its_tasks_hold(recipe):
    seen, chance = snapshot_of(recipe), recipe.dice("history")
    lived = lived_through(seen, chance)
    held = holdings(lived.snapshot())
    for name in [each.name for each in seen.queues]:
        for dimension in ("gpu", "gpu/T4", "gpu/A100-80GB", "gpu/A30-24GB", "cpu", "memory"):
            assert lived.allocated(name, dimension) == held.get((name, dimension), 0)


def lived_through(seen, chance):
    """A cluster that comes to be like the snapshot event by event, with detours, planned often."""
    lived = Cluster(seen.settings, NOW)
    lived.apply(NodeSeen(node("gone", 2, "H100-80GB", cards=(Gpu("T4", 16 * GIB),))))
    for queue_ in chance.sample(seen.queues, len(seen.queues)):
        lived.apply(QueueSeen(queue_))
    for topology in seen.topologies:
        lived.apply(TopologySeen(topology))
    tasks = [(TaskSeen, each) for each in seen.tasks]
    steps = tasks + [(NodeSeen, each) for each in seen.nodes]
    for gang in seen.gangs:
        lived.apply(GangSeen(replace(gang, priority=9, queue=seen.queues[-1].name)))
    for kind, thing in chance.sample(steps, len(steps)):
        for event in detour(kind, thing, chance):
            lived.apply(event)
        if chance.random() < 0.2:
            plan(lived)
    for gang in seen.gangs:
        lived.apply(GangSeen(gang))
    lived.apply(NodeGone("gone"))
    lived.apply(GangGone(GangId("never seen")))
    return lived


def detour(kind, thing, chance):
    """The event, at times after others that it makes undone."""
    if kind is NodeSeen and chance.random() < 0.5:
        return [NodeSeen(replace(thing, cordoned=True, pods=1)), NodeSeen(thing)]
    if kind is TaskSeen and chance.random() < 0.5:
        waiting = replace(thing, state=TaskState.WAITING, node="", devices=(), started_at=None)
        return [TaskSeen(waiting), TaskSeen(thing)]
    return [kind(thing)]


def without_usage(seen):
    """The snapshot without what comes of history by intent: usage, and the mix of arrivals."""
    return replace(seen, usage=(), epoch_usage=(), arrived=(), arrived_since=0)


def test_a_model_seen_earlier_is_not_preferred_for_it():
    pair = (Gpu("A100-80GB", 80 * GIB), Gpu("H100-80GB", 80 * GIB))
    lived = cluster(node("b", 1, "H100-80GB", cordoned=True))
    plan(lived)
    lived.apply(NodeSeen(node("a", cards=pair)))
    late = job("j", 1, ask(gpus=1))
    lived.apply(GangSeen(late.gang))
    lived.apply(TaskSeen(late.tasks[0]))
    assert plan(lived).actions == plan(Cluster.of(lived.snapshot())).actions


def test_a_model_that_left_does_not_change_what_a_task_is_thought_to_need():
    limited = queue("team", limit={"gpu/A100-80GB": 1000})
    lived = cluster(node("a", 4), node("b", 4, "T4"), limited, job("j", 2, ask(gpus=1)))
    plan(lived)
    lived.apply(NodeGone("b"))
    assert plan(lived) == plan(Cluster.of(lived.snapshot()))


def test_a_snapshot_that_went_through_a_file_gives_the_same_plan_to_the_letter():
    seen = cluster(node("a", 4), job("j", 2, ask(gpus=1)), job("k", 3, ask(gpus=1))).snapshot()
    again = from_json(to_json(seen))
    assert msgspec.json.encode(plan(Cluster.of(again))) == msgspec.json.encode(
        plan(Cluster.of(seen))
    )


def test_gangs_that_may_not_stand_in_line_are_not_listed_by_arrival():
    strays = job("a", queue="nowhere", created_at=1), job("b", queue="nowhere", created_at=2)
    assert plan(cluster(*strays)) == plan(cluster(*reversed(strays)))
