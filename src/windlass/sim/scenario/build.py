"""The construction of a workload from the models of a scenario, and the way back to the place in
the file.

Building continues after a problem, so that one reading finds them all. `origin` translates a path
of the built cluster into a path of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from windlass.model.constraints import HOSTNAME, Effect, Taint
from windlass.model.gpu.mig import GEOMETRIES
from windlass.model.gpus import Gpu
from windlass.model.nodes import Node, NodeStanding, NodeTrouble, Topology
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Displacing, Ordering, Packing, Settings, Victims
from windlass.model.validation import InputProblem, Path
from windlass.sim.scenario.build_jobs import Jobs, build_jobs
from windlass.sim.scenario.schema import (
    EventWords,
    GpusWords,
    NodeWords,
    QueueWords,
    ScenarioWords,
    SettingsWords,
    names_of,
)
from windlass.sim.workload import NodeChange, Workload
from windlass.state.snapshot import Snapshot

MOST_NODES = 20_000
MOST_TASKS = 200_000
MOST_CHANGES = 100_000

KNOWN_MODELS = (*GEOMETRIES, "T4-16GB", "V100-32GB", "A10-24GB", "L4-24GB", "L40S-48GB")
"""Models whose memory is part of their names."""

OF_NODES = (
    "node_gone",
    "node_back",
    "node_silent",
    "node_leaves",
    "node_breaks",
    "node_mended",
    "cordon",
    "uncordon",
)
"""The events of nodes."""
_RENAMED = {
    "id": "name",
    "cpu_milli": "cpu",
    "memory_mib": "memory",
    "half_life_s": "half_life",
    "epoch_s": "epoch",
    "reserve_after_s": "reserve_after",
    "min_run_s": "min_run",
    "dwell_s": "dwell",
    "patience_s": "patience",
    "stale_after_s": "stale_after",
    "stuck_after_s": "stuck_after",
    "longest_grace_s": "longest_grace",
    "lost_after_s": "lost_after",
    "quarantine_s": "quarantine",
    "failure_window_s": "failure_window",
    "search_again_s": "search_again",
    "displaces_after_s": "displaces_after",
    "duration_s": "expected",
    "profile": "mig",
    "milli": "gpus",
    "topology_key": "over",
}


@dataclass(slots=True)
class Built:
    """The workload of a scenario, as far as it could be built."""

    nodes: list[Node] = field(default_factory=list[Node])
    node_origins: list[int] = field(default_factory=list[int])
    """The entry of the file that each node comes from."""
    jobs: Jobs = field(default_factory=Jobs)
    changes: list[NodeChange] = field(default_factory=list[NodeChange])
    problems: list[InputProblem] = field(default_factory=list[InputProblem])
    """The problems, each with its position in the scenario file."""
    workload: Workload | None = None


def build(words: ScenarioWords) -> Built:
    """Build the workload; it is None if there was a problem."""
    built = Built()
    built.problems += _too_much(words)
    if built.problems:
        return built
    counters: dict[str, int] = {}
    for index, entry in enumerate(words.nodes):
        nodes, problems = _nodes(index, entry, counters)
        built.nodes += nodes
        built.node_origins += [index] * len(nodes)
        built.problems += problems
    built.jobs = build_jobs(words)
    built.problems += built.jobs.problems
    changes, problems = _changes(words, built.nodes)
    built.changes += changes
    built.problems += problems
    if not built.problems:
        built.workload = _workload(words, built)
    return built


def described(workload: Workload) -> Snapshot:
    """Return everything that a workload ever shows as one snapshot, for validation."""
    return Snapshot(
        nodes=workload.nodes,
        topologies=workload.topologies,
        queues=workload.queues,
        gangs=tuple(arrival.gang for arrival in workload.arrivals),
        tasks=tuple(task for arrival in workload.arrivals for task in arrival.tasks),
        settings=workload.settings,
    )


def origin(built: Built, path: Path) -> Path:
    """Return the path in the file of an object of the built cluster."""
    collection, *rest = path
    if not rest or not isinstance(rest[0], int):
        return tuple(_renamed(step) for step in path)
    tail = tuple(_renamed(step) for step in rest[1:])
    match collection:
        case "nodes":
            return ("nodes", built.node_origins[rest[0]], *tail)
        case "gangs":
            return (*built.jobs.gang_origins[rest[0]], *tail)
        case "tasks":
            return (*built.jobs.task_origins[rest[0]], *tail)
        case _:
            return (collection, rest[0], *tail)


def _renamed(step: str | int) -> str | int:
    return _RENAMED.get(step, step) if isinstance(step, str) else step


def _too_much(words: ScenarioWords) -> Iterator[InputProblem]:
    """Yield problems of counts that multiply to too much; checked before anything is built."""
    counts = {entry.name: entry.count or 1 for entry in words.nodes}
    changes = [
        counts.get(next((name for kind in OF_NODES if (name := getattr(each, kind))), ""), 1)
        for each in words.events
    ]
    tasks = [
        (sum(group.tasks for group in job.groups) if job.groups else job.tasks or 1)
        * (job.count or 1)
        for job in words.jobs
    ]
    yield from _above("nodes", "nodes", list(counts.values()), MOST_NODES)
    yield from _above("jobs", "tasks", tasks, MOST_TASKS)
    yield from _above("events", "changes of nodes", changes, MOST_CHANGES)


def _above(field: str, what: str, counts: Sequence[int], most: int) -> Iterator[InputProblem]:
    """Yield the problem of the entry with which a total passes its bound."""
    for index, total in enumerate(accumulate(counts)):
        if total > most:
            found = f"up to here these are {total:,} {what}; a scenario has at most {most:,}"
            yield InputProblem((field, index), f"{found}, so lower counts")
            return


def _workload(words: ScenarioWords, built: Built) -> Workload:
    return Workload(
        nodes=tuple(built.nodes),
        queues=tuple(_queue(each) for each in words.queues),
        arrivals=tuple(built.jobs.arrivals),
        topologies=tuple(Topology(each.name, tuple(each.levels)) for each in words.topologies),
        node_changes=tuple(built.changes),
        settings=_settings(words.settings),
        until=words.until,
    )


def _settings(words: SettingsWords) -> Settings:
    return Settings(
        nodes=Packing(words.nodes),
        gpus=Packing(words.gpus),
        half_life_s=words.half_life,
        usage_effect=round(words.usage_effect * 1000),
        epoch_s=words.epoch,
        reserve_after_s=words.reserve_after,
        order=Ordering(words.order),
        age_s=words.age,
        displacing=tuple(Displacing(way) for way in words.displacing),
        min_run_s=words.min_run,
        dwell_s=words.dwell,
        patience_s=words.patience,
        stale_after_s=words.stale_after,
        victims=Victims(words.victims),
        stuck_after_s=words.stuck_after,
        longest_grace_s=words.longest_grace,
        lost_after_s=words.lost_after,
        delete_from_lost=words.delete_from_lost,
        heed_notices=words.heed_notices,
        quarantine_after=words.quarantine_after,
        quarantine_s=words.quarantine,
        give_up_after=words.give_up_after,
        failure_window_s=words.failure_window,
        search_again_s=words.search_again,
        search_steps=words.search_steps,
    )


def _queue(words: QueueWords) -> Queue:
    return Queue(
        words.name,
        words.parent or ROOT,
        words.guarantee,
        words.limit,
        words.lend,
        words.weight,
        words.tier,
        words.min_run,
    )


def _nodes(
    index: int, words: NodeWords, counters: dict[str, int]
) -> tuple[list[Node], list[InputProblem]]:
    gpus, problems = _gpus(("nodes", index, "gpus"), words.gpus)
    plain = Node(
        words.name,
        words.cpu,
        words.memory,
        words.pods,
        gpus,
        words.extra,
        taints=tuple(Taint(each.key, each.value, Effect(each.effect)) for each in words.taints),
        cordoned=words.cordoned,
    )
    names = names_of(words)
    nodes = [
        replace(plain, name=name, labels={HOSTNAME: name} | _labels(words, at, counters))
        for at, name in enumerate(names)
    ]
    for key, each in words.every.items():
        counters[key] = counters.get(key, 0) + -(-len(names) // each)
    return nodes, problems


def _labels(words: NodeWords, at: int, counters: dict[str, int]) -> dict[str, str]:
    numbered = {
        key: f"{key.rpartition('/')[2]}-{counters.get(key, 0) + at // each}"
        for key, each in words.every.items()
    }
    return words.labels | numbered


def _gpus(path: Path, words: GpusWords | None) -> tuple[tuple[Gpu, ...], list[InputProblem]]:
    if words is None:
        return (), []
    memory = words.memory
    if memory is None and words.model in KNOWN_MODELS:
        memory = int(words.model.rpartition("-")[2].removesuffix("GB")) * 1024
    if memory is None:
        sentence = (
            f'the memory of GPU model "{words.model}" is not known; give it, like memory: 80Gi'
        )
        wrong = InputProblem((*path, "model"), sentence, wrong=words.model, known=KNOWN_MODELS)
        return (), [wrong]
    broken = set(words.unhealthy)
    if any(at >= words.count for at in broken):
        found = f"unhealthy names GPU {max(broken)} of {words.count}, counted from 0"
        return (), [InputProblem((*path, "unhealthy"), f"{found}; correct it")]
    gpus = (Gpu(words.model, memory, words.mig, at not in broken) for at in range(words.count))
    return tuple(gpus), []


def _changes(
    words: ScenarioWords, nodes: Sequence[Node]
) -> tuple[list[NodeChange], list[InputProblem]]:
    """Return the changes of nodes in the order of time, and the problems."""
    entries = {entry.name: names_of(entry) for entry in words.nodes}
    named = {node.name: node for node in nodes}
    known_names = {*entries, *named}
    now = dict[str, Node | None](named)
    changes: list[NodeChange] = []
    problems: list[InputProblem] = []
    for index, event in sorted(enumerate(words.events), key=lambda each: each[1].at):
        path = ("events", index)
        kind = _kind_of(event)
        if kind is None:
            sentence = f"an event needs exactly one of {', '.join((*OF_NODES, 'delete'))}"
            problems.append(InputProblem(path, f"{sentence}; correct it"))
        elif kind != "delete":
            name = str(getattr(event, kind))
            known = entries.get(name) or ([name] if name in named else [])
            if not known:
                sentence = f'node "{name}" does not exist; name a node of this file'
                at = (*path, kind)
                problems.append(InputProblem(at, sentence, wrong=name, known=known_names))
            for each in known:
                problems += _impossible((*path, kind), kind, each, now[each])
                now[each] = _changed(kind, named[each], event.at)
                breaks = kind == "node_breaks"
                changes.append(NodeChange(event.at, each, now[each], breaks))
    return changes, problems


def _kind_of(event: EventWords) -> str | None:
    given = [kind for kind in (*OF_NODES, "delete") if getattr(event, kind) is not None]
    return given[0] if len(given) == 1 else None


def _impossible(path: Path, kind: str, name: str, node: Node | None) -> Iterator[InputProblem]:
    is_there, is_well = node is not None, node is not None and node.trouble is None
    if is_well if kind == "node_back" else not is_there:
        found = f'node "{name}" is {"still there" if is_there else "gone"} at that time'
        yield InputProblem(path, f"{found}, so {kind} cannot happen; correct the times or the name")


def _changed(kind: str, node: Node, at: int) -> Node | None:
    match kind:
        case "node_gone":
            return None
        case "cordon":
            return replace(node, cordoned=True)
        case "uncordon":
            return replace(node, cordoned=False)
        case "node_silent":
            return replace(node, trouble=NodeTrouble(NodeStanding.LOST, "unreachable", max(1, at)))
        case "node_leaves":
            return replace(
                node, trouble=NodeTrouble(NodeStanding.LEAVES, "about to go", max(1, at))
            )
        case _:
            return node
