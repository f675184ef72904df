"""The check of a whole described cluster: snapshot or scenario.

Readers call `check` and turn each path into a line of their file. The engine relies on it and
repeats no check. Queues, jobs and shapes are checked by the modules named after them; this one has
the order of checks, and those of nodes, topologies, settings and holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpu.mig import GEOMETRIES, offered_by
from windlass.model.gpus import WHOLE, Gpu
from windlass.model.jobs import Gang, Shape, Task
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.model.units import LARGEST_AMOUNT
from windlass.model.validation.jobs import check_gangs, check_slices, check_tasks
from windlass.model.validation.problems import (
    InputProblem,
    Path,
    check_name,
    check_range,
    check_unique,
    join_names,
)
from windlass.model.validation.queues import check_queues
from windlass.model.validation.shapes import check_shape

MOST_GPUS = 64
"""The most GPUs of one node; more is a typing error, and slows down every node."""
MOST_GPU_MEMORY_MIB = 2**24

_LEAST = {
    "half_life_s": 1,
    "usage_effect": 0,
    "epoch_s": 1,
    "reserve_after_s": 0,
    "min_run_s": 0,
    "dwell_s": 0,
    "patience_s": 0,
    "stale_after_s": -1,
    "stuck_after_s": 0,
    "longest_grace_s": 1,
    "lost_after_s": -1,
    "quarantine_after": 0,
    "quarantine_s": 1,
    "give_up_after": 0,
    "failure_window_s": 1,
    "search_again_s": 0,
    "search_steps": 1,
}
"""The smallest value of each number among the settings; -1 means never."""


class UsageToCheck(Protocol):
    """A recorded usage."""

    @property
    def milli_seconds(self) -> int:
        """The decayed GPU time, in thousandth GPU-seconds."""
        ...


class Since(Protocol):
    """A recorded condition with a start."""

    @property
    def since(self) -> int:
        """The time at which it began."""
        ...


class Described(Protocol):
    """A cluster as a value; a snapshot is one."""

    @property
    def now(self) -> int: ...
    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def topologies(self) -> Sequence[Topology]: ...
    @property
    def queues(self) -> Sequence[Queue]: ...
    @property
    def gangs(self) -> Sequence[Gang]: ...
    @property
    def tasks(self) -> Sequence[Task]: ...
    @property
    def holds(self) -> Sequence[Hold]: ...
    @property
    def usage(self) -> Sequence[UsageToCheck]: ...
    @property
    def epoch_usage(self) -> Sequence[UsageToCheck]: ...
    @property
    def broken(self) -> Sequence[Since]: ...
    @property
    def settings(self) -> Settings: ...


def check(cluster: Described) -> list[InputProblem]:
    """Return all problems of a description, in a fixed order of its parts."""
    return [
        *check_range(("now",), "the time", cluster.now, 0),
        *_check_settings(cluster.settings),
        *_check_topologies(cluster.topologies),
        *_check_nodes(cluster.nodes),
        *check_queues(cluster.queues),
        *check_gangs(cluster.gangs, cluster.queues, cluster.topologies),
        *check_tasks(cluster.tasks, cluster.gangs, cluster.nodes),
        *_check_holds(cluster),
        *_check_usage("usage", cluster.usage),
        *_check_usage("epoch_usage", cluster.epoch_usage),
        *_check_broken(cluster.broken),
    ]


def _check_settings(settings: Settings) -> Iterator[InputProblem]:
    for field, bound in _LEAST.items():
        value: int = getattr(settings, field)
        yield from check_range(("settings", field), f"the setting {field}", value, bound)
    if len(set(settings.displacing)) < len(settings.displacing):
        sentence = "the setting displacing names one way twice; name each once, or none"
        yield InputProblem(("settings", "displacing"), sentence)


def _check_topologies(topologies: Sequence[Topology]) -> Iterator[InputProblem]:
    yield from check_unique(
        "topologies", "name", "topology", (topology.name for topology in topologies)
    )
    for index, topology in enumerate(topologies):
        path = ("topologies", index)
        yield from check_name((*path, "name"), "topology", topology.name)
        levels = topology.levels
        if not levels or "" in levels or len(set(levels)) < len(levels):
            yield InputProblem(
                (*path, "levels"),
                f'topology "{topology.name}": its levels are [{", ".join(levels)}]; '
                "name at least one label, each once, the widest first",
            )


def _check_nodes(nodes: Sequence[Node]) -> Iterator[InputProblem]:
    yield from check_unique("nodes", "name", "node", (node.name for node in nodes))
    for index, node in enumerate(nodes):
        path = ("nodes", index)
        yield from check_name((*path, "name"), "node", node.name)
        yield from _amounts(path, node)
        yield from _gpus(path, node)
        for at, taint in enumerate(node.taints):
            yield from check_name((*path, "taints", at, "key"), "taint", taint.key)


def _amounts(path: Path, node: Node) -> Iterator[InputProblem]:
    amounts = {"cpu_milli": node.cpu_milli, "memory_mib": node.memory_mib, "pods": node.pods}
    for field, value in amounts.items():
        yield from check_range((*path, field), f'node "{node.name}": {field}', value, 0)
    for name, value in node.extra.items():
        yield from check_range((*path, "extra", name), f'node "{node.name}": {name}', value, 0)


def _gpus(path: Path, node: Node) -> Iterator[InputProblem]:
    if len(node.gpus) > MOST_GPUS:
        yield InputProblem(
            (*path, "gpus"),
            f'node "{node.name}": it has {len(node.gpus)} GPUs; a node has at most {MOST_GPUS}, '
            "so describe several nodes instead",
        )
        return
    for index, gpu in enumerate(node.gpus):
        yield from _gpu((*path, "gpus", index), f'node "{node.name}": GPU {index}', gpu)


def _gpu(path: Path, name: str, gpu: Gpu) -> Iterator[InputProblem]:
    yield from check_name((*path, "model"), "GPU model", gpu.model)
    memory = (*path, "memory_mib")
    yield from check_range(memory, f"{name}: memory in MiB", gpu.memory_mib, 1, MOST_GPU_MEMORY_MIB)
    part = (*path, "charged_milli")
    yield from check_range(part, f"{name}: thousandths charged", gpu.charged_milli, 1, WHOLE)
    if gpu.mig and not offered_by(gpu.model):
        yield InputProblem(
            (*path, "mig"),
            f"{name} is cut by MIG, which {gpu.model} does not offer; "
            f"turn mig off or take one of {join_names(GEOMETRIES, most=20)}",
        )


def _check_holds(cluster: Described) -> Iterator[InputProblem]:
    gangs = {gang.id for gang in cluster.gangs}
    tasks = {task.id for task in cluster.tasks}
    nodes = {node.name: node for node in cluster.nodes}
    yield from check_unique(
        "holds", "gang", "a hold for gang", (hold.gang for hold in cluster.holds)
    )
    for index, hold in enumerate(cluster.holds):
        path = ("holds", index)
        yield from check_range((*path, "starts_at"), "the start of the hold", hold.starts_at, 0)
        if hold.gang not in gangs:
            yield _stray((*path, "gang"), "gang", hold.gang)
        for at, claim in enumerate(hold.claims):
            # A firm hold may outlive the task that moves: its successor takes the place.
            if claim.task not in tasks and not hold.firm:
                yield _stray((*path, "claims", at, "task"), "task", claim.task)
            yield from _claimed((*path, "claims", at), claim, nodes)


def _claimed(path: Path, claim: PlaceClaim, nodes: Mapping[str, Node]) -> Iterator[InputProblem]:
    for problem in check_shape(Shape(claim.request)):
        yield InputProblem(
            (*path, *problem.path), f"the hold asks for too much: {problem.sentence}"
        )
    if claim.node not in nodes:
        yield _stray((*path, "node"), "node", claim.node)
    else:
        node = nodes[claim.node]
        yield from check_slices((*path, "devices"), "the hold", claim.devices, node)


def _stray(path: Path, kind: str, name: str) -> InputProblem:
    return InputProblem(
        path, f'a hold is for {kind} "{name}", which does not exist; remove it or add the {kind}'
    )


def _check_usage(field: str, usage: Sequence[UsageToCheck]) -> Iterator[InputProblem]:
    for index, used in enumerate(usage):
        path = (field, index, "milli_seconds")
        yield from check_range(
            path, "usage in thousandth GPU-seconds", used.milli_seconds, 0, LARGEST_AMOUNT**2
        )


def _check_broken(broken: Sequence[Since]) -> Iterator[InputProblem]:
    for index, gang in enumerate(broken):
        path = ("broken", index, "since")
        yield from check_range(path, "the time since which a gang is incomplete", gang.since, 0)
