"""Scenario files: read, validated, and ready to be played.

    bytes --yaml_lines--> values --schema--> models --build--> workload --validation--> scenario

A problem at any step becomes one InputError with the file and the line of the first problem; a file
is never read in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from windlass.model.errors import InputError
from windlass.model.units import format_duration
from windlass.model.validation import InputProblem, Path, check, check_complete
from windlass.sim.scenario.build import Built, build, described, origin
from windlass.sim.scenario.schema import (
    JobExpectation,
    NodeExpectation,
    QueueExpectation,
    ScenarioWords,
    names_of,
)
from windlass.sim.scenario.validation_errors import complaint
from windlass.sim.scenario.yaml_lines import Spot, read_yaml
from windlass.sim.workload import Workload

Expectation = JobExpectation | QueueExpectation | NodeExpectation


@dataclass(frozen=True, slots=True)
class Scenario:
    """A valid scenario."""

    file: str
    name: str
    about: str
    workload: Workload
    expectations: tuple[Expectation, ...]
    lines: tuple[int, ...]
    """The line of each expectation."""
    copies: dict[str, tuple[str, ...]]
    """The names of the copies of each job, or its own name."""


def read_scenario(data: bytes, file: str) -> Scenario:
    """Return the scenario in the bytes of a file; raise InputError if it is invalid."""
    spot = read_yaml(data, file)
    words = _words(spot, file)
    built = build(words)
    problems = [*built.problems, *_impossible(words)]
    if built.workload is not None:
        problems += _senseless(built, built.workload)
    if problems:
        raise _first(problems, spot, file)
    return _scenario(words, built, spot, file)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON schema of scenario files."""
    made = ScenarioWords.model_json_schema()
    about = "A scenario for windlass: a cluster, what happens to it, and what should come of it."
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Scenario"}
    return head | made | {"title": "Scenario", "description": about}


def _words(spot: Spot, file: str) -> ScenarioWords:
    if not isinstance(spot.value, dict):
        raise InputError(
            file, spot.line, "it holds no mapping; begin with name, nodes, queues and jobs"
        )
    try:
        return ScenarioWords.model_validate(spot.value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        line, first = min(((spot.line_of(each["loc"]), each) for each in found), key=_line)
        raise InputError(file, line, complaint(first, spot), len(found) - 1) from None


def _senseless(built: Built, workload: Workload) -> Iterable[InputProblem]:
    """Return the problems that `model/validation/cluster.py` finds, each once even if many copies
    share it."""
    cluster = described(workload)
    found = [*check(cluster), *check_complete(cluster.gangs, cluster.tasks)]
    told: dict[Path, InputProblem] = {}
    for problem in found:
        path = origin(built, problem.path)
        told.setdefault(path, replace(problem, path=path))
    return told.values()


def _impossible(words: ScenarioWords) -> Iterable[InputProblem]:
    """Yield problems of expectations about objects that the file does not have, or about times
    after its end."""
    jobs = {job.name for job in words.jobs}
    jobs.update(name for job in words.jobs for name in names_of(job))
    nodes = {name for node in words.nodes for name in names_of(node)}
    queues = {queue.name for queue in words.queues}
    others = {"started_before": jobs, "displaced_by": jobs}
    known = {"job": jobs, "node": nodes, "queue": queues} | others
    for index, expectation in enumerate(words.expect):
        for word, names in known.items():
            name = getattr(expectation, word, None)
            if name is not None and name not in names:
                kind = "job" if word in others else word
                sentence = f'an expectation is about {kind} "{name}", which does not exist'
                sentence, path = f"{sentence}; correct the name", ("expect", index, word)
                yield InputProblem(path, sentence, wrong=name, known=names)
        if expectation.at is not None and words.until is not None and expectation.at > words.until:
            at, end = format_duration(expectation.at), format_duration(words.until)
            sentence = f"an expectation is about {at}, but the scenario ends at {end}"
            path = ("expect", index, "at")
            yield InputProblem(path, f"{sentence}; correct one of them")


def _first(problems: Sequence[InputProblem], spot: Spot, file: str) -> InputError:
    """Return the error for the problem with the lowest line number."""
    line, first = min(((spot.line_of(each.path), each) for each in problems), key=_line)
    return InputError(file, line, str(first), more=len(problems) - 1)


def _line(placed: tuple[int, object]) -> int:
    return placed[0]


def _scenario(words: ScenarioWords, built: Built, spot: Spot, file: str) -> Scenario:
    assert built.workload is not None
    return Scenario(
        file=file,
        name=words.name,
        about=words.about,
        workload=built.workload,
        expectations=tuple(words.expect),
        lines=tuple(spot.line_of(("expect", index)) for index in range(len(words.expect))),
        copies={job.name: tuple(names_of(job)) for job in words.jobs},
    )
