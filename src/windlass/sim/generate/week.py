"""A generated day or week: the work of four teams on one GPU cluster, from a seed.

The mix follows what is published about shared GPU clusters: most jobs are small, most GPU time
belongs to large ones; durations are log-normal; people submit in office hours; inference and
notebooks ask for parts of a GPU.

    training    gangs of 2 to 64 GPUs, a median of three quarters of an hour, the larger the longer
    sweeps      8 to 40 tasks of one GPU each, every task a gang of its own
    services    inference replicas with a part of a GPU, elastic, all week; by day more of them
    notebooks   one task with a part of a GPU or a MIG instance, opened and closed in office hours

`job_mix.py` holds the numbers. Work is drawn hour by hour until the GPU time of that hour's part of
the load is reached, so the offered load is what `JobMix.load_percent` says and not a matter of
luck; on weekends people submit less. What users say about durations is mostly too much, sometimes
too little, often nothing. Nodes fail now and then. The scheduler plays no part in any of it: a seed
gives every scheduler the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from windlass.model.gpu.mig import milli_of_profile
from windlass.model.gpus import WHOLE, GpuRequest, milli_of_memory
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Shape, Task, TaskId
from windlass.model.resources import Request
from windlass.sim.generate.cluster import (
    A100,
    BLOCK,
    H100,
    NETWORK,
    RACK,
    build_nodes,
    build_queues,
)
from windlass.sim.generate.job_mix import (
    DAY,
    DEFAULT_MIX,
    HOUR,
    LARGE_TEAMS,
    NOTEBOOKS,
    REPLICAS,
    SAVES_WITHIN_S,
    SERVICES,
    SIZES,
    TEAMS,
    URGENT,
    WEEKEND_PERCENT,
    WORDS,
    JobMix,
    Site,
    is_weekend,
    pick,
)
from windlass.sim.workload import Arrival, NodeChange, Workload

SERVES = {H100: (H100.model,), A100: (A100.model, H100.model)}
"""The models that suit a request for a model: that one and better ones."""
EXAMPLE_SEED = 308
"""The seed of the day in the documentation; its gain over the default scheduler is moderate."""


def generate(seed: int, hours: int = 24, nodes: int = 24, mix: JobMix = DEFAULT_MIX) -> Workload:
    """Return the work of this many hours on a cluster of this many nodes, from midnight on."""
    site = Site(seed, mix, hours, build_nodes(nodes))
    arrivals = [*_services(site), *_notebooks(site), *_sweeps(site), *_training(site)]
    arrivals.sort(key=lambda each: (each.at, each.gang.id))
    return Workload(
        nodes=site.nodes,
        queues=build_queues(site.gpus),
        arrivals=tuple(arrivals),
        topologies=(NETWORK,),
        node_changes=tuple(_losses(site)),
        until=hours * HOUR,
    )


# -- training


def _training(site: Site) -> Iterator[Arrival]:
    chance, saving = site.chance("training"), site.chance("saving")
    asking, urgent = site.chance("asking"), site.chance("urgent")
    owed = number = 0
    for start, amount in site.hourly(site.mix.training_percent):
        owed += amount
        while owed > 0:
            number += 1
            arrival, gpus = _train(site, chance, start, number)
            owed -= gpus * (arrival.runs_s or 0)
            arrival = _asked(asking, site.mix, arrival)
            if urgent.randrange(100) < site.mix.urgent_percent and gpus <= 8:
                arrival = replace(arrival, gang=replace(arrival.gang, priority=URGENT))
            yield replace(arrival, saves_every_s=_saves_every(saving, site.mix))


def _train(site: Site, chance: Random, start: int, number: int) -> tuple[Arrival, int]:
    gpus = pick(chance, SIZES)
    gpu = H100 if gpus > 8 or chance.randrange(100) < 65 else A100
    while gpus > max(2, site.of_model(gpu) * 2 // 3):
        gpus //= 2  # a small cluster has no room for the largest
    team = pick(chance, LARGE_TEAMS if gpus > 16 else TEAMS)
    runs_s = _duration(chance, site.mix, gpus)
    any_model = gpus <= 8 and chance.randrange(100) < 30
    models = () if any_model else SERVES[gpu]
    wanted = site.wanted(GpuRequest(_per_task(chance, gpus), models=models))
    gang = Gang(
        GangId(f"{'pretrain' if gpus > 16 else WORDS[team]}-{number:03}"),
        team,
        JobId(f"{team}-training-{number}"),
        (Group(minimum=gpus // wanted.count),),
        domain=_domain(gpus),
        user=f"{team}-{chance.randrange(6) + 1}",
        namespace=team,
        created_at=start + chance.randrange(HOUR),
        duration_s=_estimate(chance, site.mix, runs_s),
    )
    fails = chance.randrange(100) < site.mix.failing_percent
    fails_s = max(1, runs_s * (5 + chance.randrange(50)) // 100) if fails else None
    return _arrival(gang, wanted, gpus // wanted.count, runs_s, fails_after_s=fails_s), gpus


def _per_task(chance: Random, gpus: int) -> int:
    """Return the GPUs per task: large gangs take nodes or half nodes, small ones anything from
    single GPUs up."""
    if gpus > 8:
        return 8 if chance.randrange(100) < 75 else 4
    return chance.choice((1, 1, gpus // 2, gpus, gpus))


def _domain(gpus: int) -> Domain | None:
    if gpus <= 8:
        return None
    return Domain(NETWORK.name, BLOCK if gpus > 32 else RACK, required=False)


def _duration(chance: Random, mix: JobMix, gpus: int) -> int:
    """Return a log-normal duration in seconds; the median grows by a fifth with every doubling of
    the gang."""
    median = mix.median_minutes * 60 * (5 + gpus.bit_length() - 2) // 5
    drawn = int(median * chance.lognormvariate(0, 1.1))
    return min(max(drawn, 180), mix.longest_minutes * 60)


def _estimate(chance: Random, mix: JobMix, runs_s: int) -> int | None:
    """Return the user's estimate of the duration in seconds: mostly too long, sometimes too short,
    often None."""
    if chance.randrange(100) >= mix.estimated_percent:
        return None
    percent = 50 + chance.randrange(45) if chance.randrange(8) == 0 else 100 + chance.randrange(150)
    return max(60, runs_s * percent // 100)


def _saves_every(chance: Random, mix: JobMix) -> int | None:
    """Return a checkpoint period of five to thirty minutes in seconds, or None."""
    every_s = 300 * (1 + chance.randrange(6))
    return every_s if chance.randrange(100) < mix.saving_percent else None


def _asked(chance: Random, mix: JobMix, arrival: Arrival) -> Arrival:
    """Let a part of the gangs answer checkpoint requests, within ten seconds to two minutes."""
    saving_s = min(10 + int(20 * chance.lognormvariate(0, 0.8)), SAVES_WITHIN_S)
    if chance.randrange(100) >= mix.asked_percent:
        return arrival
    gang = replace(arrival.gang, saves_within_s=SAVES_WITHIN_S)
    return replace(arrival, gang=gang, saving_s=saving_s)


# -- sweeps, services, notebooks


def _sweeps(site: Site) -> Iterator[Arrival]:
    chance = site.chance("sweeps")
    owed = number = 0
    for start, amount in site.hourly(site.mix.sweeps_percent):
        owed += amount
        while owed > 0:
            number += 1
            at = start + chance.randrange(HOUR)
            team = chance.choice(("vision", "vision", "ranking"))
            runs_s = 60 * (15 + chance.randrange(60))
            for index in range(8 + chance.randrange(33)):
                trial_s = runs_s * (70 + chance.randrange(60)) // 100
                owed -= trial_s
                name = f"sweep-{number:02}-{index:02}"
                gang = _small_gang(name, team, at, job=f"sweep-{number:02}", duration_s=runs_s)
                yield _arrival(gang, GpuRequest(), 1, trial_s)


def _services(site: Site) -> Iterator[Arrival]:
    """Yield a base of replicas that always runs, and a daily surge of replicas."""
    chance = site.chance("services")
    owed = site.gpus * WHOLE * site.mix.services_percent * 7 // 1000
    number = 0
    while owed > 0:
        name = SERVICES[number % len(SERVICES)] + (f"-{number}" if number >= len(SERVICES) else "")
        number += 1
        wanted = site.wanted(pick(chance, REPLICAS))
        replicas = 2 + chance.randrange(7)
        owed -= replicas * _asked_milli(wanted)
        base = _small_gang(name, "serving", chance.randrange(600), job=name)
        yield _arrival(base, wanted, replicas, None)
        for day in range(-(-site.hours // 24)):
            at = day * DAY + 7 * HOUR + chance.randrange(3 * HOUR)
            surge = _small_gang(f"{name}-day{day + 1}", "serving", at, job=name)
            ends = day * DAY + 18 * HOUR + chance.randrange(4 * HOUR)
            more = replicas * 4 * (WEEKEND_PERCENT if is_weekend(day) else 100) // 500
            if at < site.hours * HOUR:
                yield _arrival(surge, wanted, max(1, more), None, deleted_at=ends)


def _notebooks(site: Site) -> Iterator[Arrival]:
    chance = site.chance("notebooks")
    has_mig = any(gpu.mig for node in site.nodes for gpu in node.gpus)
    kinds = {each: weight for each, weight in NOTEBOOKS.items() if has_mig or not each.profile}
    owed = number = 0
    for start, amount in site.hourly(site.mix.notebooks_percent):
        owed += amount * WHOLE
        hour = start // HOUR % 24
        while owed > 0 and 8 <= hour < 18:
            number += 1
            wanted = pick(chance, kinds)
            open_s = min(max(int(7200 * chance.lognormvariate(0, 0.7)), 1200), 8 * HOUR)
            owed -= _asked_milli(wanted) * open_s
            at = start + chance.randrange(HOUR)
            team = pick(chance, TEAMS)
            yield _arrival(_small_gang(f"notebook-{number:03}", team, at), wanted, 1, open_s)


def _small_gang(
    name: str, team: str, at: int, job: str = "", duration_s: int | None = None
) -> Gang:
    return Gang(
        GangId(name),
        team,
        JobId(job or name),
        user=f"{team}-{len(name) % 6 + 1}",
        namespace=team,
        created_at=at,
        duration_s=duration_s,
    )


# -- what all have in common


def _arrival(gang: Gang, gpu: GpuRequest, tasks: int, runs_s: int | None, **more: Any) -> Arrival:
    """Return a gang of equal tasks, with CPU and memory in proportion to its GPUs."""
    parts = -(-_asked_milli(gpu) * 4 // WHOLE)
    request = Request(cpu_milli=3000 * parts, memory_mib=24 * 1024 * parts, gpu=gpu)
    shape = Shape(request)
    members = tuple(Task(TaskId(f"{gang.id}-{i}"), gang.id, shape) for i in range(tasks))
    return Arrival(gang.created_at, gang, members, runs_s, **more)


def _asked_milli(gpu: GpuRequest) -> int:
    """Return the request in milli-GPU, approximately."""
    if gpu.profile:
        return gpu.count * milli_of_profile(A100.model, gpu.profile)
    if gpu.memory_mib:
        return gpu.count * milli_of_memory(gpu.memory_mib, A100.memory_mib)
    return gpu.count * gpu.milli


def _losses(site: Site) -> Iterator[NodeChange]:
    """Yield the failures of nodes, which return within an hour or two."""
    chance = site.chance("losses")
    for day in range(-(-site.hours // 24)):
        for node in chance.sample(site.nodes, len(site.nodes) * site.mix.losses_per_day // 24):
            at = day * DAY + chance.randrange(DAY)
            yield NodeChange(at, node.name, None)
            yield NodeChange(at + 1200 + chance.randrange(4800), node.name, node)
