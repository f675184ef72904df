"""Nodes, queues and gangs by chance; `strategies.py` makes clusters of them.

A feature that is switched off never occurs, one that is on occurs now and then. What is made is
mostly feasible: a gang that could never run tests little.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from tests.given import GIB, MEMORY_GIB, RACKS
from windlass.model import constraints as c
from windlass.model.gpu.resources import MEMORY as MEMORY_LABEL
from windlass.model.gpu.resources import PRODUCT
from windlass.model.gpus import WHOLE, Gpu, GpuRequest
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Shape, Task, TaskId
from windlass.model.nodes import Node, NodeStanding, NodeTrouble
from windlass.model.queues import CPU, GPU, MEMORY, Queue, of_model
from windlass.model.resources import Pairs, Port, Request

Features: TypeAlias = frozenset[str]

FEATURES = (
    "broken",
    "cordons",
    "domains",
    "elastic",
    "ends",
    "extras",
    "firm",
    "fractions",
    "guarantees",
    "labels",
    "limits",
    "mig",
    "mixed",
    "models",
    "neighbours",
    "parts",
    "ports",
    "spread",
    "taints",
    "tiers",
    "troubles",
    "usage",
)
TROUBLES = (
    NodeTrouble(NodeStanding.AVOIDED, "ill", 1),
    NodeTrouble(NodeStanding.LEAVES, "leaving", 1),
    NodeTrouble(NodeStanding.LOST, "silent", 1),
    NodeTrouble(NodeStanding.LOST, "off"),
)
MODELS = ("A100-80GB", "H100-80GB", "A30-24GB", "T4")
CUTTABLE = ("A100-80GB", "A100-80GB", "A30-24GB")
APPS = ("web", "db")
PORTS = (
    (Port(80),),
    (Port(80, "UDP"),),
    (Port(80, address="10.0.0.1"),),
    (Port(80, address="10.0.0.2"), Port(90)),
)
AMD_GPU, INSTANCE = "amd.com/gpu", "nvidia.com/mig-1g.10gb"
PARTS: tuple[tuple[dict[str, int], dict[str, str]], ...] = (
    ({}, {}),
    ({AMD_GPU: 3}, {}),
    ({INSTANCE: 7}, {PRODUCT: "NVIDIA-A100-SXM4-80GB", MEMORY_LABEL: "81920"}),
    ({INSTANCE: 4, AMD_GPU: 1}, {PRODUCT: "NVIDIA-A100-SXM4-40GB", MEMORY_LABEL: "40960"}),
)
"""GPUs under other names, and the labels that tell what they were cut from."""
PLACES = (
    {"zone": "east", "rack": "e1"},
    {"zone": "east", "rack": "e2"},
    {"zone": "west", "rack": "e1"},
    {"zone": "west"},
    {},
)


def make_node(rolls: Random, name: str, features: Features) -> Node:
    """One node."""
    effect = rolls.choice(list(c.Effect))
    taint = c.Taint("dedicated", rolls.choice(["ml", "web"]), effect)
    taints = (taint,) if "taints" in features and rolls.random() < 0.3 else ()
    cordoned = "cordons" in features and rolls.random() < 0.2
    if cordoned and rolls.random() < 0.5:
        taints = (*taints, c.CORDON)
    ill = "troubles" in features and rolls.random() < 0.2
    offered, cut_from = rolls.choice(PARTS) if "parts" in features else ({}, {})
    return Node(
        name,
        cpu_milli=rolls.choice([6000, 12_000, 24_000]),
        memory_mib=rolls.choice([24, 48]) * GIB,
        pods=rolls.choice([3, 110, 110]),
        gpus=make_gpus(rolls, features),
        extra=({"nic": 2} if "extras" in features and rolls.random() < 0.6 else {}) | offered,
        labels=rolls.choice(PLACES) | {c.HOSTNAME: name, "pool": rolls.choice("12")} | cut_from,
        taints=taints,
        cordoned=cordoned,
        trouble=rolls.choice(TROUBLES) if ill else None,
    )


def make_gpus(rolls: Random, features: Features) -> tuple[Gpu, ...]:
    """The devices of one node: mostly alike, at times mixed, cut by MIG or broken."""
    cut = "mig" in features and rolls.random() < 0.5
    model = rolls.choice(CUTTABLE if cut else MODELS)
    mixed = "mixed" in features and rolls.random() < 0.3
    models = [
        rolls.choice(MODELS) if mixed else model for _ in range(rolls.choice([0, 2, 4, 4, 6]))
    ]
    return tuple(
        Gpu(
            each,
            MEMORY_GIB[each] * GIB,
            mig=cut and each in CUTTABLE and rolls.random() < 0.8,
            healthy=not ("broken" in features and rolls.random() < 0.2),
            charged_milli=334 if "parts" in features and each == "T4" and not cut else WHOLE,
        )
        for each in models
    )


# --- queues ---------------------------------------------------------------------------------------

SIZES = {GPU: 1000, of_model("T4"): 500, CPU: 2000, MEMORY: 4 * GIB}


def make_queue(rolls: Random, name: str, parent: str, features: Features) -> Queue:
    """One queue; limits are the tighter the lower it stands."""
    limited = "limits" in features and rolls.random() < 0.4
    promised = "guarantees" in features and rolls.random() < 0.6
    return Queue(
        name,
        parent,
        guarantee=_amounts(rolls, 1, 5) if promised else {},
        limit=_amounts(rolls, 2, 9) if limited else {},
        lend=_amounts(rolls, 0, 2) if promised and rolls.random() < 0.3 else {},
        weight=rolls.choice([1, 1, 2, 3]),
        tier=int("tiers" in features and rolls.random() < 0.3),
    )


def _amounts(rolls: Random, least: int, most: int) -> dict[str, int]:
    named = rolls.sample(sorted(SIZES), rolls.choice([1, 1, 2]))
    return {each: SIZES[each] * rolls.randint(least, most) for each in named}


# --- gangs ----------------------------------------------------------------------------------------


def make_gang(
    rolls: Random, name: str, queues: Sequence[str], features: Features
) -> tuple[Gang, tuple[Task, ...]]:
    """One gang of one or two groups, with its tasks; at times one of them is missing."""
    groups, tasks = [], []
    for number in range(rolls.choice([1, 1, 2])):
        size = rolls.choice([1, 1, 2, 3])
        least = rolls.randint(0, size) if "elastic" in features else size
        groups.append(Group(f"g{number}", least, _domain(rolls, features)))
        shape = Shape(make_request(rolls, features), make_constraints(rolls, features))
        labels: Pairs = (("app", rolls.choice(APPS)),) if rolls.random() < 0.5 else ()
        for _ in range(size):
            one = TaskId(f"{name}-{len(tasks)}")
            tasks.append(Task(one, GangId(name), shape, f"g{number}", labels))
    gang = Gang(
        GangId(name),
        rolls.choice(queues),
        JobId(name),
        tuple(groups),
        rolls.randint(0, len(tasks)) if "elastic" in features and rolls.random() < 0.3 else 0,
        _domain(rolls, features),
        user=rolls.choice(["ann", "bob"]),
        namespace=rolls.choice(["default", "default", "other"]),
        priority=rolls.choice([0, 0, 5]),
        preemptible=not ("firm" in features and rolls.random() < 0.3),
        created_at=rolls.randrange(10_000),
        duration_s=rolls.choice([None, 60, 6000]),
    )
    missing = "ends" in features and rolls.random() < 0.1
    return gang, tuple(tasks[:-1] if missing else tasks)


def _domain(rolls: Random, features: Features) -> Domain | None:
    if "domains" not in features or rolls.random() < 0.6:
        return None
    return Domain(RACKS.name, rolls.choice(["zone", "rack"]), rolls.random() < 0.6)


def make_request(rolls: Random, features: Features) -> Request:
    """What one task asks for."""
    extra = (("nic", 1),) if "extras" in features and rolls.random() < 0.2 else ()
    if "parts" in features and rolls.random() < 0.4:
        extra = ((rolls.choice([AMD_GPU, INSTANCE]), rolls.choice([1, 1, 2])), *extra)
    return Request(
        cpu_milli=rolls.choice([0, 500, 1000, 3000]),
        memory_mib=rolls.choice([0, 1, 6]) * GIB,
        gpu=_gpu_request(rolls, features),
        extra=extra,
        ports=rolls.choice(PORTS) if "ports" in features and rolls.random() < 0.3 else (),
    )


def _gpu_request(rolls: Random, features: Features) -> GpuRequest | None:
    kinds = ["none", "whole"]
    kinds += ["fraction", "fraction", "memory"] if "fractions" in features else []
    kinds += ["instance", "instance"] if "mig" in features else []
    models = ()
    if "models" in features and rolls.random() < 0.3:
        models = tuple(sorted(rolls.sample(MODELS, rolls.choice([1, 2, 3]))))
    count = rolls.choice([1, 1, 2])
    match rolls.choice(kinds):
        case "none":
            return None
        case "whole":
            return GpuRequest(count, models=models)
        case "fraction":
            return GpuRequest(count, rolls.choice([200, 300, 500]), models=models)
        case "memory":
            return GpuRequest(count, memory_mib=rolls.choice([3, 10, 20]) * GIB, models=models)
        case _:
            return GpuRequest(count, profile=_profile(rolls))


def _profile(rolls: Random) -> str:
    return rolls.choice(["1g.10gb", "1g.10gb+me", "1g.20gb", "3g.40gb", "4g.40gb", "2g.12gb"])


# --- constraints ----------------------------------------------------------------------------------


def make_constraints(rolls: Random, features: Features) -> c.Constraints:
    """Where tasks may run and would rather; mostly anywhere."""
    labels, near, taints = (each in features for each in ("labels", "neighbours", "taints"))
    spread = "spread" in features

    def now_and_then(feature: bool, thing: object) -> tuple:
        return (thing,) if feature and rolls.random() < 0.2 else ()

    weight = rolls.choice([1, 50, 100])
    return c.Constraints(
        selector=now_and_then(labels, ("pool", rolls.choice("12"))),
        affinity=now_and_then(labels, _term(rolls)),
        preferences=now_and_then(labels, c.Preference(weight, _term(rolls))),
        tolerations=now_and_then(taints, _toleration(rolls)),
        near=(*now_and_then(near, _pod_term(rolls)), *now_and_then(near, _pod_term(rolls))),
        apart=now_and_then(near, _pod_term(rolls)),
        pod_preferences=now_and_then(
            near, c.PodPreference(rolls.choice([-weight, weight]), _pod_term(rolls))
        ),
        spread=(*now_and_then(spread, _spread(rolls)), *now_and_then(spread, _spread(rolls))),
    )


def _term(rolls: Random) -> c.Term:
    operator = rolls.choice(list(c.Operator))
    key, value = rolls.choice([("pool", "1"), ("zone", "east"), ("rack", "e1")])
    return (c.Expression(key, operator, (value,)),)


def _toleration(rolls: Random) -> c.Toleration:
    return rolls.choice([c.Toleration("dedicated", "ml"), c.Toleration(exists=True)])


def _app(rolls: Random) -> c.Term:
    return (c.Expression("app", c.Operator.IN, (rolls.choice(APPS),)),)


def _key(rolls: Random) -> str:
    return rolls.choice([c.HOSTNAME, "rack", "zone"])


def _pod_term(rolls: Random) -> c.PodTerm:
    return c.PodTerm(_app(rolls), _key(rolls), rolls.choice([(), (), ("*",), ("other",)]))


def _spread(rolls: Random) -> c.Spread:
    return c.Spread(
        _key(rolls),
        rolls.choice([1, 2]),
        _app(rolls),
        required=rolls.random() < 0.7,
        min_domains=rolls.choice([1, 1, 1, 2, 3]),
        heeds_affinity=rolls.random() < 0.7,
        heeds_taints=rolls.random() < 0.3,
    )
