"""Jobs alone, in the format of scenario files: jobs that could be submitted to a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field, ValidationError

from windlass.model.errors import InputError
from windlass.sim.scenario.build_jobs import build_jobs
from windlass.sim.scenario.schema import JobWords, ScenarioModel, ScenarioWords, TopologyWords
from windlass.sim.scenario.validation_errors import complaint
from windlass.sim.scenario.yaml_lines import Spot
from windlass.sim.workload import Arrival

MOST_TASKS = 10_000


class _JobsWords(ScenarioModel):
    """The top level of such a file."""

    jobs: list[JobWords] = Field(min_length=1)


def read_jobs(spot: Spot, file: str, topologies: Iterable[str]) -> list[Arrival]:
    """Return the jobs of a file: one, or several under `jobs`; raise InputError if they are
    invalid."""
    value, below = spot.value, ("jobs", 0)
    if isinstance(value, dict) and "jobs" in value:
        below = ()
    else:
        value = {"jobs": [value]}
    try:
        words = _JobsWords.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        lines = ((spot.line_of(each["loc"][len(below) :]), each) for each in found)
        line, first = min(lines, key=lambda placed: placed[0])
        raise InputError(file, line, complaint(first, spot), len(found) - 1) from None
    known = [TopologyWords.model_construct(name=name) for name in topologies]
    bare = ScenarioWords.model_construct(name="jobs", nodes=[], jobs=words.jobs, topologies=known)
    jobs = build_jobs(bare)
    for problem in jobs.problems:
        line = spot.line_of(problem.path[len(below) :])
        raise InputError(file, line, str(problem), len(jobs.problems) - 1)
    if sum(len(each.tasks) for each in jobs.arrivals) > MOST_TASKS:
        raise InputError(file, spot.line, f"more than {MOST_TASKS:,} tasks; ask for fewer at once")
    return jobs.arrivals
