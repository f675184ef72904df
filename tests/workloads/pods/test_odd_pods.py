"""Arbitrary pods that an API server accepts: no crash, a readable reason for each, flat memory."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.laws.invariants import broken_laws
from tests.support.kube_given import Stage, Step, decoded, job, namespace, node, queue
from tests.support.odd_pods import batches
from windlass.kube.writers.conditions import ConditionReason
from windlass.model.events import BindFailed
from windlass.model.jobs import TaskState
from windlass.state.snapshot import Snapshot
from windlass.workloads.objects import wire
from windlass.workloads.pods.task import task_id

Json = dict[str, Any]
SIZE = 10
"""The number of odd pods at the same time."""
ROUNDS = 1000 if os.environ.get("WINDLASS_PROOF") == "1" else 50
"""The number of odd pods in all: 10,000, or 500 in a short run."""


def stage() -> Stage:
    """Return a cluster with two nodes, queues for some namespaces, and a job."""
    return Stage(
        *(node("n1", 4, labels={"zone": "east"}), node("n2", 2, labels={"cores": "7"})),
        *(
            queue("top", guarantee={"gpu": 3}),
            queue("team", "ml", parent="top", guarantee={"gpu": 3}),
            queue("closed", "nobody", parent="top"),
        ),
        *(namespace("ml"), namespace("other"), namespace("nobody")),
        job("known", 3),
    )


@settings(max_examples=ROUNDS, phases=set(Phase) - {Phase.shrink})
@given(batches(SIZE), st.integers(0, 2**SIZE - 1))
def test_every_odd_pod_is_bound_or_gets_a_reason(written: list[tuple[Json, Json]], fails: int):
    there, pods = stage(), [decoded(first) for first, _ in written]
    there.see(*pods)
    there.brain.resume()
    said: dict[str, str] = {}
    for seconds in (0, 2):
        found = there.step(seconds)
        assert_lawful(there, found)
        said |= found.texts
    for each in pods:
        if waits(each) and not there.translator.assumed.node_of(task_id(each)):
            assert is_readable(said.get(each.metadata.name, "")), each
    fail_change_and_delete(there, pods, [decoded(later) for _, later in written], fails)


def fail_change_and_delete(
    there: Stage, pods: list[wire.Pod], later: list[wire.Pod], fails: int
) -> None:
    """Run a cluster in which binds fail, nodes flap, and pods change and are deleted one by one."""
    for at, each in enumerate(pods):
        if fails >> at & 1:
            there.see(BindFailed(task_id(each), "the server did not like it"))
    assert_lawful(there, there.step(1))
    there.lose(node("n1"))
    there.see(*later[::2])
    there.see(node("n1", 3))
    assert_lawful(there, there.step(70))
    there.see(*later)
    assert_lawful(there, there.step(1))
    for each in later:
        there.lose(each)
    there.step(1)
    assert list(left_over(there)) == []


def assert_lawful(there: Stage, found: Step) -> None:
    bound = {each.task for each in found.work.plan.binds}
    assert broken_laws(present(there.cluster.snapshot()), bound) == []


def present(world: Snapshot) -> Snapshot:
    """Return the cluster without devices that do not exist: others may force a pod on a node."""
    counts = {each.name: len(each.gpus) for each in world.nodes}
    tasks = [
        replace(task, devices=tuple(d for d in task.devices if d.device < counts[task.node]))
        for task in world.tasks
        if task.devices
    ]
    return replace(world, tasks=(*tasks, *(task for task in world.tasks if not task.devices)))


def waits(pod: wire.Pod) -> bool:
    """Return whether our scheduler has to place the pod."""
    stands = not pod.metadata.deletion_timestamp and not pod.spec.scheduling_gates
    ended = pod.status.phase in ("Succeeded", "Failed")
    ours = pod.spec.scheduler_name == "windlass"
    return ours and stands and not ended and not pod.spec.node_name


def is_readable(text: str) -> bool:
    """Return whether a message is a sentence that fits into a condition."""
    return 10 <= len(text) <= 1024 and text.isprintable() and text[0] == text[0].upper()


def left_over(there: Stage) -> Iterator[str]:
    """What is still remembered of pods, by the name of the place."""
    cluster, translator, pods = there.cluster, there.translator, there.translator._pods
    places: Json = {
        "scribe": there.brain._conditions._records,
        "promised": there.brain._nominations._written,
        "allotments": pods.devices._nodes,
        "binds": translator.assumed._binds,
        "leaving": translator.assumed._leaving,
        "troubles": translator.assumed._troubles,
        "crews": translator.gangs._crews,
        "asked": pods.owners._asked,
        "choosy": pods.shapes._choosy,
        "users": translator._storage._users,
        "used by": translator._storage._used_by,
        "ports": cluster._layout.ports._counts,
        "subjects": cluster._layout.subjects,
    }
    places |= {"records": pods._records, "on": pods._on}
    places |= {"orphans": translator.orphans._pods, "orphans.on": translator.orphans._on}
    for name in ("tasks", "gangs", "stamps", "holds", "broken", "active", "searched"):
        places[f"cluster.{name}"] = getattr(cluster, name)
    for name in ("members", "_working", "leaving"):
        places[f"index.{name}"] = getattr(cluster._index, name)
    for name in ("waiting", "wanted", "on_node"):
        places[f"index.{name}"] = {k: v for k, v in getattr(cluster._index, name).items() if v}
    yield from (f"{name}: {found}" for name, found in places.items() if found)


# --- flat memory


def test_memory_does_not_grow_with_the_number_of_past_pods():
    there = stage()
    sizes = [round_of(there, number) for number in range(18)]
    assert max(sizes[12:]) <= max(sizes[4:12]) * 1.02


def round_of(there: Stage, number: int) -> int:
    """Create and delete a hundred different pods; return the number of entries kept afterwards."""
    pods = [decoded(crowd_pod(number, at)) for at in range(100)]
    there.see(*pods)
    there.step(1)
    there.step(2)
    there.lose(*pods)
    there.step(1)
    return reachable(there.brain)


def crowd_pod(number: int, at: int) -> Json:
    name = f"r{number}-{at}"
    made = {"kind": "ReplicaSet", "name": name, "uid": f"made-{name}", "controller": True}
    meta = {"name": name, "namespace": "ml", "uid": name, "labels": {"own": name}}
    node_name = f"never-{name}" if at % 7 == 0 else ""
    apart = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"own": name}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    spec = {
        "schedulerName": "windlass",
        "nodeName": node_name,
        "priority": number * 100 + at,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{number * 100 + at}m"}}}],
        "affinity": {"podAntiAffinity": required} if at % 5 == 0 else None,
    }
    return {"metadata": meta | {"ownerReferences": [made]}, "spec": spec}


def reachable(root: object) -> int:
    """Return the number of entries of all containers that are reachable from an object."""
    seen: set[int] = set()
    todo: deque[object] = deque([root])
    count = 0
    while todo:
        found = todo.popleft()
        if id(found) in seen or isinstance(found, OUTSIDE):
            continue
        seen.add(id(found))
        inside = list(entries(found))
        count += len(inside)
        todo.extend(inside)
    return count


OUTSIDE = (type, ModuleType, FunctionType, MethodType, str, bytes, int, float)


def entries(found: object) -> Iterator[object]:
    if isinstance(found, dict):
        yield from found.keys()
        yield from found.values()
    elif isinstance(found, list | tuple | set | frozenset | deque):
        yield from found
    else:
        yield from getattr(found, "__dict__", {}).values()
        for kind in type(found).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                yield getattr(found, slot, None)


def test_every_condition_reason_is_valid_for_kubernetes():
    assert all(each.value.isalpha() and each.value[0].isupper() for each in ConditionReason)


def test_odd_pods_are_really_odd():
    """Check the strategy: it proves nothing if its pods are alike or never wait."""
    import random

    from tests.support.odd_pods import ODDITIES, odd_pod

    rolls = random.Random(1)
    names = sorted(ODDITIES)
    made = [odd_pod("p", i, rolls.sample(names, 4)) for i in range(200)]
    assert len({json.dumps(each["spec"], sort_keys=True) for each in made}) > 150
    assert sum(waits(decoded(each)) for each in made) > 40
    states = {each.state for each in _tasks(made)}
    assert {TaskState.WAITING, TaskState.RUNNING} <= states


def _tasks(made: list[Json]):
    there = stage()
    there.see(*(decoded(each) for each in made))
    return list(there.cluster.tasks.values())
