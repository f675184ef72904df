"""Plays a scenario and compares what it expects with what is found.

The simulation is stopped at each time that an expectation names. Tasks start the moment they are
bound here, so that the numbers of a scenario can be checked in the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.queues import GPU
from windlass.model.units import format_duration
from windlass.model.validation.problems import amount
from windlass.sim.run import Simulation
from windlass.sim.scenario.expectations import (
    ALL_COPIES,
    OF_NODE,
    OF_QUEUE,
    PER_COPY,
    ExpectationResult,
)
from windlass.sim.scenario.read import Expectation, Scenario
from windlass.sim.scenario.scenario_schema import JobExpectation, NodeExpectation, QueueExpectation
from windlass.sim.scenario.view import ScenarioView
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

Wanted = TypeVar("Wanted", JobExpectation, QueueExpectation, NodeExpectation)

_TIMES = {"started_at", "finished_at", "waited_at_most", "waited_at_least"}
_GPUS = {"gpus", "gpus_at_most", "gpus_at_least", "share"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that did not come as expected."""

    line: int
    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"


def simulate(scenario: Scenario) -> Simulation:
    """The simulation of a scenario, before anything has happened."""
    return Simulation(scenario.workload, start_s=0)


def differences(scenario: Scenario) -> list[Difference]:
    """Play to rest; all that differs, in the order of the file."""
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
    """The cluster as the engine saw it at a time, before it decided anything then."""
    seen: list[Snapshot] = []

    def watched(cluster: Cluster) -> Plan:
        if cluster.now == at and not seen:
            seen.append(cluster.snapshot())
        return plan(cluster)

    simulation = Simulation(scenario.workload, watched, start_s=0)
    simulation.run(until=at)
    return seen[0] if seen else simulation.cluster.snapshot()


def _unmet(view: ScenarioView, wanted: Expectation) -> Iterator[tuple[str, str, str]]:
    """Subject, what was expected and what was found, of everything that differs."""
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
        value = amount(GPU, value)
    return f"{word.replace('_', ' ')} {value}"
