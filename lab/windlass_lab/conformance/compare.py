"""Comparison of the outcome of a scenario with its expectations, in three grades.

states       every task is in the expected state: the grade that counts
nodes        and on the node, with the free GPUs and within the numbers of binds expected
invariants   always: gangs whole, nothing allocated twice, no limit exceeded,
             no eviction without a reason, no more evictions than allowed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass_lab.conformance import schema
from windlass_lab.conformance.devices import Untranslatable
from windlass_lab.conformance.play import ForeignMoment, ForeignOutcome, ObservedTask, play
from windlass_lab.conformance.schema import PlayMode, TaskStatus

_PLACED = (
    TaskStatus.BINDING,
    TaskStatus.RUNNING,
    TaskStatus.RELEASING,
    TaskStatus.STUCK,
    TaskStatus.PIPELINED,
)
_RESTING = {
    TaskStatus.BINDING: TaskStatus.RUNNING,
    TaskStatus.PIPELINED: TaskStatus.PENDING,
    TaskStatus.RELEASING: TaskStatus.PENDING,
}
"""The state that each state has become when a round is over."""


@dataclass(frozen=True, slots=True)
class ConformanceVerdict:
    """One case: the grades, and all differences in sentences."""

    id: str
    agree: bool
    agree_with_nodes: bool
    invariants_hold: bool
    differences: tuple[str, ...]


def judge(scenario: schema.ForeignScenario) -> ConformanceVerdict:
    """Play a scenario and compare."""
    try:
        played = play(scenario)
    except Untranslatable as error:
        return ConformanceVerdict(
            scenario.id, False, False, True, (f"it cannot be played: {error}",)
        )
    return compare(scenario, played)


def compare(scenario: schema.ForeignScenario, played: ForeignOutcome) -> ConformanceVerdict:
    """Return the differences between the outcome of a scenario and its expectations."""
    expected = _expected(scenario)
    states = _first(_states(expected, moment) for moment in played.moments)
    nodes = _first(_nodes(scenario, expected, moment) for moment in played.moments)
    counts = _counts(scenario.expect, played)
    broken = [*_evictions(scenario.expect, played), *dict.fromkeys(played.broken)]
    return ConformanceVerdict(
        scenario.id,
        agree=not states,
        agree_with_nodes=not (states or nodes or counts),
        invariants_hold=not broken,
        differences=(*states, *nodes, *counts, *broken),
    )


def _expected(scenario: schema.ForeignScenario) -> dict[str, list[schema.ExpectedState]]:
    """Return the expectations of each task, by itself and as one of its job."""
    found: dict[str, list[schema.ExpectedState]] = {}
    for job in scenario.jobs:
        for task in job.tasks:
            told = (scenario.expect.jobs.get(job.name), scenario.expect.tasks.get(task.name))
            some = [each for each in told if each is not None]
            if scenario.mode is PlayMode.FULL_CYCLE:
                some = [_rested(each, job.stays_releasing) for each in some]
            found[task.name] = some
    return found


def _rested(expected: schema.ExpectedState, stays: bool) -> schema.ExpectedState:
    if stays and expected.status is TaskStatus.RELEASING:
        return expected
    return schema.ExpectedState(_RESTING.get(expected.status, expected.status), expected.node)


def _first(found: Iterator[list[str]]) -> list[str]:
    """Return the differences at the first moment that has any."""
    for rounds, sentences in enumerate(found):
        if sentences:
            when = f" ({rounds} rounds after it should have come to rest)" if rounds else ""
            return [sentence + when for sentence in sentences]
    return []


def _states(expected: dict[str, list[schema.ExpectedState]], moment: ForeignMoment) -> list[str]:
    return [
        f"{task} should be {_told(each)} and is {_in_words(moment.tasks[task])}"
        for task, some in expected.items()
        for each in some
        if moment.tasks[task].status is not each.status
    ]


def _nodes(
    scenario: schema.ForeignScenario,
    expected: dict[str, list[schema.ExpectedState]],
    moment: ForeignMoment,
) -> list[str]:
    found = [
        f"{task} should be on {each.node} and is on {moment.tasks[task].node}"
        for task, some in expected.items()
        for each in some
        if each.node
        and each.status in _PLACED
        and moment.tasks[task].status is each.status
        and moment.tasks[task].node != each.node
    ]
    for name, gpus in scenario.expect.nodes.items():
        seen = moment.nodes.get(name)
        if seen is None:
            continue
        for word, wanted, is_ in (
            ("idle", gpus.idle_gpus, seen.idle),
            ("releasing", gpus.releasing_gpus, seen.releasing),
        ):
            if wanted is not None and wanted != is_:
                found.append(f"{name} should have {wanted} {word} GPUs and has {is_}")
    return found


def _counts(expect: schema.Expectations, played: ForeignOutcome) -> list[str]:
    """Return the differences in the number of harmless actions."""
    return [
        *_above("binds", played.binds, expect.max_binds),
        *_above("places held", played.pipelines, expect.max_pipelines),
    ]


def _evictions(expect: schema.Expectations, played: ForeignOutcome) -> list[str]:
    return _above("evictions", played.evictions, expect.max_evictions)


def _above(word: str, count: int, most: int | None) -> list[str]:
    if most is None or count <= most:
        return []
    return [f"there should be at most {most} {word} in a round and there are {count}"]


def _told(expected: schema.ExpectedState) -> str:
    return _in_words(ObservedTask(expected.status, expected.node or ""))


def _in_words(seen: ObservedTask) -> str:
    is_there = seen.node and seen.status in _PLACED
    return f"{seen.status.value} on {seen.node}" if is_there else seen.status.value
