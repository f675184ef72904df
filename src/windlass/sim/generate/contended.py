"""Contended clusters, for benchmarks: an arriving gang finds room only if others are displaced.

Eight departments of five teams each on nodes of eight GPUs. Each case is a running cluster and the
gangs that arrive there. The running work is old enough to be displaced and of many different ages,
so that the choice among it is not arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.model.gpus import WHOLE, Gpu, Slice
from windlass.model.jobs import Gang, Task, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import GPU, Queue
from windlass.sim.generate.backlog import GPUS_PER_NODE, single, whole_nodes
from windlass.state.snapshot import Snapshot

DEPARTMENTS = 8
TEAMS_EACH = 5
GANG = 10
"""The number of nodes of the gangs that want whole nodes."""
NOW = 86_400
WAITED_S = 600
"""The wait of the arriving gangs in seconds: longer than the cost of moving others, too short for a
reservation."""
SAVED_S = 300
"""The age in seconds of the last checkpoint of running work."""

Arrival: TypeAlias = tuple[Gang, list[Task]]


@dataclass(frozen=True, slots=True)
class ContendedCluster:
    """A running cluster and the gangs that arrive."""

    running: Snapshot
    arriving: tuple[Arrival, ...]


def reclaimed(nodes: int) -> ContendedCluster:
    """Return a cluster where half of the teams have borrowed all GPUs, and the others, to whom they
    are guaranteed, want them back."""
    all_gpus = nodes * GPUS_PER_NODE
    borrowers, owners = _halves()
    guarantee = dict.fromkeys(owners, all_gpus * WHOLE // len(owners))
    jobs = [_waiting(single(f"back-{at:05}", team)) for at, team in _deal(owners, all_gpus)]
    return ContendedCluster(_cluster(nodes, guarantee, _full(nodes, borrowers)), tuple(jobs))


def reclaimed_by_one(nodes: int) -> ContendedCluster:
    """Return the same, but half of the GPUs are guaranteed to one team, for one gang on half of the
    nodes."""
    borrowers, (owner, *_) = _halves()
    size = nodes // 2
    guarantee = {owner: size * GPUS_PER_NODE * WHOLE}
    gang = _waiting(whole_nodes("large", owner, size))
    return ContendedCluster(_cluster(nodes, guarantee, _full(nodes, borrowers)), (gang,))


def scattered(nodes: int) -> ContendedCluster:
    """Return a cluster with a one-GPU job on every node, and gangs that want most of the nodes
    whole."""
    some, others = _halves()
    jobs = [_running(f"small-{at:05}", team, (at, 0)) for at, team in _deal(some, nodes)]
    gangs = nodes * 41 // 500
    large = [_waiting(whole_nodes(f"large-{at}", team, GANG)) for at, team in _deal(others, gangs)]
    return ContendedCluster(_cluster(nodes, {}, jobs), tuple(large))


def taken(nodes: int, important: int) -> ContendedCluster:
    """Return a full cluster in which each team has its share, and more urgent gangs that want whole
    nodes.

    They may preempt the work of their own team, which never fills a node, and of which the given
    percentage is as urgent as they are.
    """
    teams = _teams()
    jobs = [
        (_urgent(gang) if at // len(teams) % 100 < important else gang, tasks)
        for at, (gang, tasks) in enumerate(_full(nodes, teams))
    ]
    arriving = [_waiting(whole_nodes(f"large-{team}", team, GANG)) for team in teams]
    urgent = tuple((_urgent(gang), tasks) for gang, tasks in arriving)
    return ContendedCluster(_cluster(nodes, {}, jobs), urgent)


def passer() -> Arrival:
    """Return a pod with one GPU that arrives while room is searched for others."""
    return _waiting(single("passer", _teams()[0]))


def _teams() -> list[str]:
    return [f"d{d}/t{t}" for d in range(DEPARTMENTS) for t in range(TEAMS_EACH)]


def _halves() -> tuple[list[str], list[str]]:
    teams = _teams()
    return teams[: len(teams) // 2], teams[len(teams) // 2 :]


def _deal(teams: Sequence[str], count: int) -> Iterable[tuple[int, str]]:
    """Yield this many numbers, each with a team, in turn."""
    return ((at, teams[at % len(teams)]) for at in range(count))


def _full(nodes: int, teams: Sequence[str]) -> list[Arrival]:
    """Return one-GPU jobs on all GPUs."""
    return [
        _running(f"run-{at:05}", team, divmod(at, GPUS_PER_NODE))
        for at, team in _deal(teams, nodes * GPUS_PER_NODE)
    ]


def _running(name: str, team: str, place: tuple[int, int]) -> Arrival:
    node, device = place
    gang, (task,) = single(name, team)
    since = NOW - 3_600 - (node * GPUS_PER_NODE + device) * 7_919 % 36_000
    runs = replace(
        task,
        state=TaskState.RUNNING,
        node=_name(node),
        devices=(Slice(device, WHOLE),),
        started_at=since,
    )
    return replace(gang, created_at=since, saved_at=NOW - SAVED_S), [runs]


def _waiting(arrival: Arrival) -> Arrival:
    gang, tasks = arrival
    return replace(gang, created_at=NOW - WAITED_S), tasks


def _urgent(gang: Gang) -> Gang:
    return replace(gang, priority=1)


def _cluster(nodes: int, guarantee: Mapping[str, int], running: Iterable[Arrival]) -> Snapshot:
    jobs = list(running)
    return Snapshot(
        now=NOW,
        nodes=tuple(_node(at) for at in range(nodes)),
        queues=_queues(guarantee),
        gangs=tuple(gang for gang, _ in jobs),
        tasks=tuple(task for _, tasks in jobs for task in tasks),
    )


def _queues(guarantee: Mapping[str, int]) -> tuple[Queue, ...]:
    """Return the queues; a department is guaranteed what its teams are."""
    sums: dict[str, int] = {}
    teams: list[Queue] = []
    for team in _teams():
        department, amount = team.split("/")[0], guarantee.get(team, 0)
        sums[department] = sums.get(department, 0) + amount
        teams.append(Queue(team, department, guarantee={GPU: amount}))
    return (*(Queue(name, guarantee={GPU: amount}) for name, amount in sums.items()), *teams)


def _node(at: int) -> Node:
    gpus = (Gpu("H100-80GB", 81_920),) * GPUS_PER_NODE
    return Node(_name(at), cpu_milli=128_000, memory_mib=1 << 20, gpus=gpus)


def _name(at: int) -> str:
    return f"node-{at:05}"
