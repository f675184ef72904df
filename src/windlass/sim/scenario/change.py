"""A change to the queues and settings of a cluster, in the words of scenario files.

Queues in the file replace those of the cluster or are added; of the settings only the named ones
change. A problem becomes one InputError, as for scenarios.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from pydantic import Field, ValidationError

from windlass.model.errors import InputError
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.model.validation import InputProblem, Path, check
from windlass.sim.scenario.build import Built, build, origin
from windlass.sim.scenario.schema import QueueWords, ScenarioModel, ScenarioWords, SettingsWords
from windlass.sim.scenario.validation_errors import complaint
from windlass.sim.scenario.yaml_lines import Spot, read_yaml
from windlass.state.snapshot import Snapshot


class ChangeWords(ScenarioModel):
    """The words of a change."""

    settings: SettingsWords = SettingsWords()
    queues: list[QueueWords] = Field(default_factory=list[QueueWords])


def read_change(data: bytes, file: str, snapshot: Snapshot) -> Snapshot:
    """Return the cluster with the change in the bytes of a file; raise InputError if it is
    invalid."""
    spot = read_yaml(data, file)
    words = _words(spot, file)
    queues, settings = _built(words)
    given = words.settings.model_fields_set
    changed = replace(
        snapshot,
        queues=_joined(snapshot.queues, queues),
        settings=replace(
            snapshot.settings,
            **{
                each.name: getattr(settings, each.name)
                for each in fields(Settings)
                if each.name.removesuffix("_s") in given
            },
        ),
    )
    problems = list(_problems(snapshot, changed, len(queues)))
    if problems:
        line, first = min(((_line(spot, path), each) for path, each in problems), key=_by_line)
        raise InputError(file, line, str(first), more=len(problems) - 1)
    return changed


def _words(spot: Spot, file: str) -> ChangeWords:
    if not isinstance(spot.value, dict) or not spot.value:
        raise InputError(file, spot.line, "it changes nothing; give queues, settings or both")
    for word in spot.value:
        if word not in ChangeWords.model_fields:
            line = spot.keys.get(word, spot.line)
            sentence = f'"{word}" cannot be changed; give queues, settings or both'
            raise InputError(file, line, sentence)
    try:
        return ChangeWords.model_validate(spot.value)
    except ValidationError as error:
        found = [(spot.line_of(each["loc"]), each) for each in error.errors(include_url=False)]
        line, first = min(found, key=_by_line)
        raise InputError(file, line, complaint(first, spot), len(found) - 1) from None


def _built(words: ChangeWords) -> tuple[tuple[Queue, ...], Settings]:
    """Return the queues and settings, built like a scenario without other parts."""
    bare = ScenarioWords.model_construct(
        name="change", nodes=[], queues=words.queues, settings=words.settings
    )
    workload = build(bare).workload
    assert workload is not None, "queues and settings alone build without problems"
    return workload.queues, workload.settings


def _joined(known: Iterable[Queue], named: Iterable[Queue]) -> tuple[Queue, ...]:
    """Return the queues of the file first, in its order, so that problems of names are reported
    there."""
    named = tuple(named)
    names = {queue.name for queue in named}
    return (*named, *(queue for queue in known if queue.name not in names))


def _problems(
    before: Snapshot, after: Snapshot, named: int
) -> Iterable[tuple[Path | None, InputProblem]]:
    """Yield the problems that the change causes, with their place in the file if they have one;
    queues that the file names come first.

    A job that the change leaves without a queue is not a problem of the file: the plan reports it.
    """
    known = {problem.sentence for problem in check(before)}
    for problem in check(after):
        part = problem.path[0]
        if problem.sentence in known or (problem.passing and part not in ChangeWords.model_fields):
            continue
        index = problem.path[1] if part == "queues" else 0
        is_here = part == "settings" or (part == "queues" and index in range(named))
        yield (origin(Built(), problem.path) if is_here else None), problem


def _line(spot: Spot, path: Path | None) -> int:
    return spot.line if path is None else spot.line_of(path)


def _by_line(placed: tuple[int, object]) -> int:
    return placed[0]
