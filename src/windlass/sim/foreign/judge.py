"""Compare what came of a scenario with what its authors expect, in three grades.

states       every task is where it should be in its life: the grade that counts
nodes        and on the node, with the free GPUs and within the numbers of binds expected
invariants   what must hold whatever is expected: gangs whole, nothing given twice, no limit
             passed, nobody evicted for nothing, no more evictions than its authors allow
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.sim.foreign import words
from windlass.sim.foreign.cards import Untranslatable
from windlass.sim.foreign.play import Moment, Played, Seen, play
from windlass.sim.foreign.words import Mode, Status

_PLACED = (Status.BINDING, Status.RUNNING, Status.RELEASING, Status.STUCK, Status.PIPELINED)
_RESTING = {
    Status.BINDING: Status.RUNNING,
    Status.PIPELINED: Status.PENDING,
    Status.RELEASING: Status.PENDING,
}
"""What a state has become when a round is over."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case: how far we agree, and all that differs, in sentences."""

    id: str
    agree: bool
    agree_with_nodes: bool
    invariants_hold: bool
    differences: tuple[str, ...]


def judge(scenario: words.Scenario) -> Verdict:
    """Play a scenario and compare."""
    try:
        played = play(scenario)
    except Untranslatable as error:
        return Verdict(scenario.id, False, False, True, (f"it cannot be played: {error}",))
    return compare(scenario, played)


def compare(scenario: words.Scenario, played: Played) -> Verdict:
    """How what came of a scenario differs from what is expected of it."""
    expected = _expected(scenario)
    states = _first(_states(expected, moment) for moment in played.moments)
    nodes = _first(_nodes(scenario, expected, moment) for moment in played.moments)
    counts = _counts(scenario.expect, played)
    broken = [*_evictions(scenario.expect, played), *dict.fromkeys(played.broken)]
    return Verdict(
        scenario.id,
        agree=not states,
        agree_with_nodes=not (states or nodes or counts),
        invariants_hold=not broken,
        differences=(*states, *nodes, *counts, *broken),
    )


def _expected(scenario: words.Scenario) -> dict[str, list[words.Expected]]:
    """What is expected of each task, by itself and as one of its job."""
    found: dict[str, list[words.Expected]] = {}
    for job in scenario.jobs:
        for task in job.tasks:
            told = (scenario.expect.jobs.get(job.name), scenario.expect.tasks.get(task.name))
            some = [each for each in told if each is not None]
            if scenario.mode is Mode.FULL_CYCLE:
                some = [_rested(each, job.stays_releasing) for each in some]
            found[task.name] = some
    return found


def _rested(expected: words.Expected, stays: bool) -> words.Expected:
    if stays and expected.status is Status.RELEASING:
        return expected
    return words.Expected(_RESTING.get(expected.status, expected.status), expected.node)


def _first(found: Iterator[list[str]]) -> list[str]:
    """The differences at the first moment that has any."""
    for rounds, sentences in enumerate(found):
        if sentences:
            when = f" ({rounds} rounds after it should have come to rest)" if rounds else ""
            return [sentence + when for sentence in sentences]
    return []


def _states(expected: dict[str, list[words.Expected]], moment: Moment) -> list[str]:
    return [
        f"{task} should be {_told(each)} and is {_in_words(moment.tasks[task])}"
        for task, some in expected.items()
        for each in some
        if moment.tasks[task].status is not each.status
    ]


def _nodes(
    scenario: words.Scenario, expected: dict[str, list[words.Expected]], moment: Moment
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


def _counts(expect: words.Expectations, played: Played) -> list[str]:
    """Bounds on what harms nobody."""
    return [
        *_above("binds", played.binds, expect.max_binds),
        *_above("places held", played.pipelines, expect.max_pipelines),
    ]


def _evictions(expect: words.Expectations, played: Played) -> list[str]:
    return _above("evictions", played.evictions, expect.max_evictions)


def _above(word: str, count: int, most: int | None) -> list[str]:
    if most is None or count <= most:
        return []
    return [f"there should be at most {most} {word} in a round and there are {count}"]


def _told(expected: words.Expected) -> str:
    return _in_words(Seen(expected.status, expected.node or ""))


def _in_words(seen: Seen) -> str:
    is_there = seen.node and seen.status in _PLACED
    return f"{seen.status.value} on {seen.node}" if is_there else seen.status.value
