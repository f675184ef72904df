"""The construction of gangs, tasks and their behaviour from the jobs of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.model.constraints import (
    Constraints,
    Effect,
    Expression,
    Operator,
    PodPreference,
    PodTerm,
    Preference,
    Spread,
    Term,
    Toleration,
)
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Overrun, Shape, Task, TaskId
from windlass.model.resources import Pairs, Request, pairs
from windlass.model.validation import InputProblem, Path
from windlass.sim.scenario.amounts import NEVER
from windlass.sim.scenario.schema import (
    AskWords,
    ConditionWords,
    DomainWords,
    GroupWords,
    JobWords,
    NeighbourWords,
    ScenarioWords,
    SpreadWords,
    TolerationWords,
    names_of,
)
from windlass.sim.workload import Arrival

JOB_LABEL = "job"
"""The label of every task that contains the name of its job."""

_GPU_WORDS = ("gpus", "gpu_memory", "mig", "devices")


USUAL_GRACE_S = 30
"""The termination time, in seconds, that the scheduler assumes for tasks that never terminate."""


@dataclass(slots=True)
class Jobs:
    """All arrivals, and the place of each gang and task in the file."""

    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    gang_origins: list[Path] = field(default_factory=list[Path])
    task_origins: list[Path] = field(default_factory=list[Path])
    problems: list[InputProblem] = field(default_factory=list[InputProblem])


@dataclass(frozen=True, slots=True)
class _Part:
    """Equal tasks of a job: one group."""

    group: Group
    tasks: int
    shape: Shape
    labels: Pairs
    path: Path


def build_jobs(words: ScenarioWords) -> Jobs:
    """Return the arrivals of all jobs, copies included, in the order of the file."""
    jobs = Jobs()
    deleted, problems = _deletions(words)
    jobs.problems += problems
    topologies = [each.name for each in words.topologies]
    for index, job in enumerate(words.jobs):
        path: Path = ("jobs", index)
        jobs.problems += _contradictions(path, job, deleted.get(job.name))
        parts = list(_parts(path, job, topologies, jobs.problems))
        domain = _domain((*path, "domain"), job.domain, topologies, jobs.problems)
        for name in names_of(job):
            arrival = _arrival(name, job, parts, domain, deleted.get(name, deleted.get(job.name)))
            jobs.arrivals.append(arrival)
            jobs.gang_origins.append(path)
            jobs.task_origins += [part.path for part in parts for _ in range(part.tasks)]
    return jobs


def _arrival(
    name: str, job: JobWords, parts: Sequence[_Part], domain: Domain | None, deleted: int | None
) -> Arrival:
    gang = Gang(
        GangId(name),
        job.queue,
        JobId(name),
        tuple(part.group for part in parts),
        (job.minimum or 0) if job.groups else 0,
        domain,
        job.user,
        job.namespace,
        job.priority,
        job.preemptible,
        job.at,
        job.expected,
        _or_none(job.displaces_after),
        job.stale_after,
        saves_within_s=job.saves_within,
        max_run_s=job.max_run,
        overrun=job.overrun or Overrun.END,
        hurry_s=job.hurry,
        terminates_s=USUAL_GRACE_S if job.terminates == NEVER else job.terminates,
    )
    members = [part for part in parts for _ in range(part.tasks)]
    tasks = (
        Task(TaskId(f"{name}-{at}"), gang.id, part.shape, part.group.name, part.labels)
        for at, part in enumerate(members)
    )
    ends = job.deleted_at if job.deleted_at is not None else deleted
    return Arrival(
        at=job.at,
        gang=gang,
        tasks=tuple(tasks),
        runs_s=job.runs,
        fails_after_s=job.fails_after,
        deleted_at=ends,
        saves_every_s=job.saves_every,
        saving_s=job.saves_within if job.saving is None else _or_none(job.saving),
        terminates_s=_or_none(job.terminates),
    )


def _or_none(seconds: int) -> int | None:
    return None if seconds == NEVER else seconds


def _contradictions(path: Path, job: JobWords, deleted: int | None) -> Iterator[InputProblem]:
    name = f'job "{job.name}"'
    if job.groups and job.tasks is not None:
        found = f"{name}: it has both tasks and groups"
        yield InputProblem((*path, "tasks"), f"{found}; say in each group how many tasks it has")
    if job.saving is not None and job.saves_within is None:
        found = f"{name}: it says how long saving takes, but cannot be asked to"
        yield InputProblem((*path, "saving"), f"{found}; say saves_within as well")
    if job.overrun is not None and job.max_run is None:
        found = f"{name}: it says what becomes of it when it has run for too long, but not how long"
        yield InputProblem((*path, "overrun"), f"{found} that is; say max_run as well")
    if job.deleted_at is not None and deleted is not None:
        found = f"{name}: an event deletes it and so does deleted_at"
        yield InputProblem((*path, "deleted_at"), f"{found}; keep one of them")
    ends = job.deleted_at if job.deleted_at is not None else deleted
    if ends is not None and ends < job.at:
        found = f"{name}: it is deleted before it is submitted"
        yield InputProblem((*path, "deleted_at"), f"{found}; correct the times")


def _deletions(words: ScenarioWords) -> tuple[dict[str, int], list[InputProblem]]:
    known = {job.name for job in words.jobs}
    known.update(name for job in words.jobs for name in names_of(job))
    deleted: dict[str, int] = {}
    problems: list[InputProblem] = []
    for index, event in enumerate(words.events):
        if event.delete is None:
            continue
        if event.delete not in known:
            sentence = f'job "{event.delete}" does not exist; name a job of this file'
            path = ("events", index, "delete")
            problems.append(InputProblem(path, sentence, wrong=event.delete, known=known))
        deleted.setdefault(event.delete, event.at)
    return deleted, problems


def _parts(
    path: Path, job: JobWords, topologies: Sequence[str], problems: list[InputProblem]
) -> Iterator[_Part]:
    if not job.groups:
        tasks = job.tasks or 1
        group = Group("", tasks if job.minimum is None else job.minimum)
        yield _Part(group, tasks, _shape(path, job, job, problems), _task_labels(job, job), path)
    for at, words in enumerate(job.groups):
        here = (*path, "groups", at)
        domain = _domain((*here, "domain"), words.domain, topologies, problems)
        least = words.tasks if words.minimum is None else words.minimum
        ask = _merged(job, words)
        shape = _shape(here, job, ask, problems)
        group = Group(words.name, least, domain)
        yield _Part(group, words.tasks, shape, _task_labels(job, ask), here)


def _merged(job: JobWords, group: GroupWords) -> AskWords:
    """Return the request of a group: its own words, else the job's; GPU words are taken over
    together."""
    said = group.model_fields_set
    fields: dict[str, Any] = {
        name: getattr(group if name in said else job, name) for name in AskWords.model_fields
    }
    if said.intersection(_GPU_WORDS):
        fields |= {name: getattr(group, name) for name in _GPU_WORDS}
    fields["labels"] = job.labels | group.labels
    return AskWords.model_construct(**fields)


def _task_labels(job: JobWords, ask: AskWords) -> Pairs:
    return pairs({JOB_LABEL: job.name} | ask.labels)


def _domain(
    path: Path, words: DomainWords | None, topologies: Sequence[str], problems: list[InputProblem]
) -> Domain | None:
    if words is None:
        return None
    if words.topology is None and len(topologies) != 1:
        found = f"the domain names no topology and the file has {len(topologies)}"
        problems.append(InputProblem(path, f"{found}; name the one that is meant"))
        return None
    return Domain(words.topology or topologies[0], words.level, words.required)


def _shape(path: Path, job: JobWords, ask: AskWords, problems: list[InputProblem]) -> Shape:
    extra = tuple(sorted(ask.extra.items()))
    request = Request(ask.cpu, ask.memory, _gpu(path, ask, problems), extra)
    return Shape(request, _constraints(job, ask))


def _gpu(path: Path, ask: AskWords, problems: list[InputProblem]) -> GpuRequest | None:
    given = [word for word in _GPU_WORDS[:3] if getattr(ask, word) is not None]
    if len(given) > 1:
        sentence = f"it asks for {' and '.join(given)} at once; keep one of them"
        problems.append(InputProblem((*path, given[1]), sentence))
        return None
    if ask.devices and not ask.gpu_memory and not 0 < (ask.gpus or 0) < WHOLE:
        sentence = "devices goes with a fraction of a GPU or with gpu_memory; remove it"
        problems.append(InputProblem((*path, "devices"), sentence))
    models = tuple(ask.models)
    if ask.mig is not None:
        return GpuRequest(ask.mig.count, profile=ask.mig.profile, models=models)
    if ask.gpu_memory:
        return GpuRequest(ask.devices or 1, memory_mib=ask.gpu_memory, models=models)
    if not ask.gpus:
        return None
    if ask.gpus % WHOLE and ask.gpus > WHOLE:
        found = f"{ask.gpus / WHOLE:g} GPUs are neither whole nor a part of one"
        advice = "write a whole number, or a fraction with devices: 2"
        problems.append(InputProblem((*path, "gpus"), f"{found}; {advice}"))
        return None
    if ask.gpus >= WHOLE:
        return GpuRequest(ask.gpus // WHOLE, models=models)
    return GpuRequest(ask.devices or 1, ask.gpus, models=models)


def _constraints(job: JobWords, ask: AskWords) -> Constraints:
    wishes = [*_wishes(job, ask.near, 1), *_wishes(job, ask.apart, -1)]
    return Constraints(
        selector=pairs(ask.selector),
        affinity=tuple(_term(each) for each in ask.affinity),
        preferences=tuple(Preference(each.weight, _term(each.term)) for each in ask.preferences),
        tolerations=tuple(_toleration(each) for each in ask.tolerations),
        near=tuple(_pod_term(job, each) for each in ask.near if each.weight is None),
        apart=tuple(_pod_term(job, each) for each in ask.apart if each.weight is None),
        pod_preferences=tuple(wishes),
        spread=tuple(_spread(job, each) for each in ask.spread),
    )


def _term(conditions: Sequence[ConditionWords]) -> Term:
    return tuple(
        Expression(each.key, Operator(each.operator), tuple(each.values)) for each in conditions
    )


def _toleration(words: TolerationWords) -> Toleration:
    effect = None if words.effect is None else Effect(words.effect)
    return Toleration(words.key or "", words.value or "", words.value is None, effect)


def _wishes(job: JobWords, words: Sequence[NeighbourWords], sign: int) -> Iterator[PodPreference]:
    for each in words:
        if each.weight is not None:
            yield PodPreference(sign * each.weight, _pod_term(job, each))


def _pod_term(job: JobWords, words: NeighbourWords) -> PodTerm:
    return PodTerm(_selector(job, words.job, words.labels), words.over)


def _spread(job: JobWords, words: SpreadWords) -> Spread:
    selector = _selector(job, words.job, words.labels)
    return Spread(words.over, words.max_skew, selector, words.required)


def _selector(job: JobWords, other: str | None, labels: Mapping[str, str]) -> Term:
    wanted = dict(labels)
    if other is not None or not labels:
        wanted[JOB_LABEL] = other or job.name
    return tuple(Expression(key, Operator.IN, (value,)) for key, value in pairs(wanted))
