"""What each word of an expectation means: one function per word, in one table per kind.

A function looks at the view and says whether the word is met and what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.jobs import OCCUPYING
from windlass.model.queues import GPU, of_model
from windlass.model.units import format_duration
from windlass.model.validation.problems import amount
from windlass.sim.scenario.scenario_schema import JobExpectation, NodeExpectation, QueueExpectation
from windlass.sim.scenario.view import ScenarioView


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """What was found where a word expected something."""

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
    return ExpectationResult(found == wanted.gpus, amount(GPU, found))


def _gpus_at_most(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    found = _allocated(view, wanted)
    return ExpectationResult(found <= (wanted.gpus_at_most or 0), amount(GPU, found))


def _gpus_at_least(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    found = _allocated(view, wanted)
    return ExpectationResult(found >= (wanted.gpus_at_least or 0), amount(GPU, found))


def _share(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    shares = view.plan.shares.get(wanted.queue, {})
    found = shares.get(of_model(wanted.model) if wanted.model else GPU, 0)
    return ExpectationResult(found == wanted.share, amount(GPU, found))


def _running(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    return _number(_count(view, wanted.queue, ("running",)), wanted.running)


def _waiting(view: ScenarioView, wanted: QueueExpectation) -> ExpectationResult:
    return _number(_count(view, wanted.queue, ("waiting", "never")), wanted.waiting)


def _gpus_of_node(view: ScenarioView, wanted: NodeExpectation) -> ExpectationResult:
    tasks = (task for task in view.cluster.tasks.values() if task.node == wanted.node)
    found = sum(p.milli for task in tasks if task.state in OCCUPYING for p in task.devices)
    return ExpectationResult(found == wanted.gpus, amount(GPU, found))


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
