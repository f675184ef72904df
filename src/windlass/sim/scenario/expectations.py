"""Expectations of a scenario: the meaning of each word, and the comparison with a simulation.

Each word has one function, in one table per kind of subject. It reads the view and returns whether
the word is met, and the actual result. `differences` stops the simulation at each time that an
expectation names. Tasks start at their bind here, so that the numbers of a scenario can be checked
in the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.jobs import OCCUPYING
from windlass.model.queues import GPU, of_model
from windlass.model.units import format_duration
from windlass.model.validation import amount_in_words
from windlass.sim.run import Simulation
from windlass.sim.scenario.read import Expectation, Scenario
from windlass.sim.scenario.schema import JobExpectation, NodeExpectation, QueueExpectation
from windlass.sim.scenario.view import ScenarioView
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The comparison of one word of an expectation with the actual result."""

    is_met: bool
    found: str


JobWord: TypeAlias = Callable[[ScenarioView, JobExpectation], ExpectationResult]
QueueWord: TypeAlias = Callable[[ScenarioView, QueueExpectation], ExpectationResult]
NodeWord: TypeAlias = Callable[[ScenarioView, NodeExpectation], ExpectationResult]


def _state(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    found = view.state(wanted.job)
    decision = view.decision(wanted.job)
    waits = found in ("waiting", "never") and decision is not None and decision.reasons
    told = f"{found} ({'; '.join(map(str, decision.reasons))})" if decision and waits else found
    return ExpectationResult(found == wanted.state, told)


def _reason(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    decision = view.decision(wanted.job)
    found = [reason.why.value for reason in decision.reasons] if decision else []
    return ExpectationResult(wanted.reason in found, ", ".join(found) or "no reason")


def _started_at(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    return _time(record.started if record else None, wanted.started_at, "not started")


def _finished_at(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    is_finished = record is not None and view.state(wanted.job) == "finished"
    return _time(record.ended if record and is_finished else None, wanted.finished_at, "unfinished")


def _started_before(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    own = record.started if record else None
    others = [view.record(copy) for copy in view.copies(wanted.started_before or "")]
    starts = [each.started for each in others if each is not None and each.started is not None]
    is_met = own is not None and all(own < start for start in starts)
    told = "not started" if own is None else f"its start at {format_duration(own)}"
    return ExpectationResult(
        is_met, f"{told}, the other's at {format_duration(min(starts))}" if starts else told
    )


def _waited_at_most(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    waited = view.waited(wanted.job)
    bound = wanted.waited_at_most or 0
    is_met = waited is not None and waited <= bound
    return ExpectationResult(is_met, "not submitted" if waited is None else format_duration(waited))


def _waited_at_least(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    waited = view.waited(wanted.job)
    bound = wanted.waited_at_least or 0
    is_met = waited is not None and waited >= bound
    return ExpectationResult(is_met, "not submitted" if waited is None else format_duration(waited))


def _restarts(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    return _number(record.restarts if record else 0, wanted.restarts)


def _evicted(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    return _number(record.evictions if record else 0, wanted.evicted)


def _moved(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    return _number(record.moves if record else 0, wanted.moved)


def _displaced_by(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    record = view.record(wanted.job)
    gainers = record.gainers if record else []
    is_met = any(copy in gainers for copy in view.copies(wanted.displaced_by or ""))
    return ExpectationResult(is_met, ", ".join(gainers) or "nobody")


def _tasks(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    return _number(len(view.active(view.copies(wanted.job))), wanted.tasks)


def _node(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    nodes = sorted({task.node for task in view.active(view.copies(wanted.job))})
    return ExpectationResult(nodes == [wanted.node], ", ".join(nodes) or "no task on any node")


def _nodes(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    return _number(len({task.node for task in view.active(view.copies(wanted.job))}), wanted.nodes)


def _devices(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    tasks = view.active(view.copies(wanted.job))
    devices = {(task.node, part.device) for task in tasks for part in task.devices}
    return _number(len(devices), wanted.devices)


def _model(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    models = view.models(view.active(view.copies(wanted.job)))
    return ExpectationResult(models == [wanted.model], ", ".join(models) or "no GPU")


def _within(view: ScenarioView, wanted: JobExpectation) -> ExpectationResult:
    domains = view.domains(view.active(view.copies(wanted.job)), wanted.within or "")
    return ExpectationResult(len(domains) == 1, ", ".join(domains) or "no task on any node")


def _gpus(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    found = _allocated(view, wanted)
    return ExpectationResult(found == wanted.gpus, amount_in_words(GPU, found))


def _gpus_at_most(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    found = _allocated(view, wanted)
    return ExpectationResult(found <= (wanted.gpus_at_most or 0), amount_in_words(GPU, found))


def _gpus_at_least(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    found = _allocated(view, wanted)
    return ExpectationResult(found >= (wanted.gpus_at_least or 0), amount_in_words(GPU, found))


def _share(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    shares = view.plan.shares.get(wanted.queue, {})
    found = shares.get(of_model(wanted.model) if wanted.model else GPU, 0)
    return ExpectationResult(found == wanted.share, amount_in_words(GPU, found))


def _running(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    return _number(_count(view, wanted.queue, ("running",)), wanted.running)


def _waiting(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    return _number(_count(view, wanted.queue, ("waiting", "never")), wanted.waiting)


def _gpus_of_node(view: ScenarioView, wanted: NodeExpectation) -> ExpectationResult:
    tasks = (task for task in view.cluster.tasks.values() if task.node == wanted.node)
    found = sum(p.milli for task in tasks if task.state in OCCUPYING for p in task.devices)
    return ExpectationResult(found == wanted.gpus, amount_in_words(GPU, found))


def _tasks_of_node(view: ScenarioView, wanted: NodeExpectation) -> ExpectationResult:
    tasks = (task for task in view.cluster.tasks.values() if task.node == wanted.node)
    return _number(sum(task.state in OCCUPYING for task in tasks), wanted.tasks)


def _allocated(view: ScenarioView, wanted: QueueExpectation) -> int:
    dimension = of_model(wanted.model) if wanted.model else GPU
    return view.cluster.allocated(wanted.queue, dimension)


def _count(view: ScenarioView, queue: str, states: tuple[str, ...]) -> int:
    path = view.cluster.accounts.path
    records = view.simulation.records.values()
    below = (each.gang.id for each in records if queue in path(each.gang.queue))
    return sum(view.state(gang) in states for gang in below)


def _number(found: int, wanted: int | None) -> ExpectationResult:
    return ExpectationResult(found == wanted, str(found))


def _time(found: int | None, wanted: int | None, otherwise: str) -> ExpectationResult:
    return ExpectationResult(
        found == wanted, otherwise if found is None else format_duration(found)
    )


PER_COPY: dict[str, JobWord] = {
    "state": _state,
    "reason": _reason,
    "started_at": _started_at,
    "started_before": _started_before,
    "finished_at": _finished_at,
    "waited_at_most": _waited_at_most,
    "waited_at_least": _waited_at_least,
    "restarts": _restarts,
    "evicted": _evicted,
    "moved": _moved,
    "displaced_by": _displaced_by,
}
ALL_COPIES: dict[str, JobWord] = {
    "tasks": _tasks,
    "node": _node,
    "nodes": _nodes,
    "devices": _devices,
    "model": _model,
    "within": _within,
}
OF_QUEUE: dict[str, QueueWord] = {
    "gpus": _gpus,
    "gpus_at_most": _gpus_at_most,
    "gpus_at_least": _gpus_at_least,
    "share": _share,
    "running": _running,
    "waiting": _waiting,
}
OF_NODE: dict[str, NodeWord] = {"gpus": _gpus_of_node, "tasks": _tasks_of_node}


Wanted = TypeVar("Wanted", JobExpectation, QueueExpectation, NodeExpectation)

_TIMES = {"started_at", "finished_at", "waited_at_most", "waited_at_least"}
_GPUS = {"gpus", "gpus_at_most", "gpus_at_least", "share"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One result that differs from its expectation."""

    line: int
    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"


def simulate(scenario: Scenario) -> Simulation:
    """Return the simulation of a scenario, before anything has happened."""
    return Simulation(scenario.workload, start_s=0)


def differences(scenario: Scenario) -> list[Difference]:
    """Play the scenario to rest and return all differences, in the order of the file."""
    simulation = simulate(scenario)
    numbered = list(zip(scenario.lines, scenario.expectations, strict=True))
    times = {each.at for each in scenario.expectations if each.at is not None}
    found: list[Difference] = []
    for at in [*sorted(times), None]:
        simulation.run(until=at)
        view = ScenarioView(simulation, scenario)
        for line, wanted in numbered:
            if wanted.at == at:
                found += (Difference(line, *each) for each in _unmet(view, wanted))
    return sorted(found, key=lambda each: each.line)


def snapshot_at(scenario: Scenario, at: int) -> Snapshot:
    """Return the cluster as the engine saw it at a time, before it decided anything then."""
    seen: list[Snapshot] = []

    def watched(cluster: Cluster) -> Plan:
        if cluster.now == at and not seen:
            seen.append(cluster.snapshot())
        return plan(cluster)

    simulation = Simulation(scenario.workload, watched, start_s=0)
    simulation.run(until=at)
    return seen[0] if seen else simulation.cluster.snapshot()


def _unmet(view: ScenarioView, wanted: Expectation) -> Iterator[tuple[str, str, str]]:
    """Yield the subject, the expectation and the result of everything that differs."""
    match wanted:
        case JobExpectation():
            yield from _unmet_by_copies(view, wanted)
            yield from _compared(view, wanted, f"job {wanted.job}", ALL_COPIES)
        case QueueExpectation():
            yield from _compared(view, wanted, f"queue {wanted.queue}", OF_QUEUE)
        case NodeExpectation():
            yield from _compared(view, wanted, f"node {wanted.node}", OF_NODE)


def _unmet_by_copies(view: ScenarioView, wanted: JobExpectation) -> Iterator[tuple[str, str, str]]:
    unlike = 0
    for copy in view.copies(wanted.job):
        of_copy = wanted.model_copy(update={"job": copy})
        found = list(_compared(view, of_copy, f"job {copy}", PER_COPY))
        unlike += bool(found)
        if wanted.copies is None:
            yield from found
    alike = len(view.copies(wanted.job)) - unlike
    if wanted.copies is not None and alike != wanted.copies:
        given = [_told(wanted, word) for word in PER_COPY if getattr(wanted, word) is not None]
        expected = f"{wanted.copies} copies with {' and '.join(given) or 'anything'}"
        yield _subject(f"job {wanted.job}", wanted), expected, str(alike)


def _compared(
    view: ScenarioView,
    wanted: Wanted,
    subject: str,
    words: Mapping[str, Callable[[ScenarioView, Wanted], ExpectationResult]],
) -> Iterator[tuple[str, str, str]]:
    for word, find in words.items():
        if getattr(wanted, word) is not None:
            finding = find(view, wanted)
            if not finding.is_met:
                yield _subject(subject, wanted), _told(wanted, word), finding.found


def _subject(subject: str, wanted: Expectation) -> str:
    return f"{subject} at {'rest' if wanted.at is None else format_duration(wanted.at)}"


def _told(wanted: Expectation, word: str) -> str:
    value = getattr(wanted, word)
    if word in _TIMES:
        value = format_duration(value)
    elif word in _GPUS:
        value = amount_in_words(GPU, value)
    return f"{word.replace('_', ' ')} {value}"
