"""The generated day: the same for the same seed, as much as asked for, and all of it possible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from windlass.engine.cycle import plan
from windlass.engine.plan import Verdict
from windlass.model.events import GangSeen, TaskSeen
from windlass.model.gpus import WHOLE
from windlass.sim.generate.job_mix import JobMix
from windlass.sim.generate.week import generate
from windlass.sim.report import offered_milli_seconds
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload

HOUR = 3600
PRINT_DAY = (
    "from hashlib import sha256; from windlass.sim.generate.week import generate;"
    "print(sha256(repr(generate(3)).encode()).hexdigest())"
)


def of(workload: Workload, *teams: str) -> list[Arrival]:
    return [each for each in workload.arrivals if each.gang.queue in teams]


def training(workload: Workload) -> list[Arrival]:
    return [each for each in workload.arrivals if "training" in each.gang.job]


def test_a_seed_gives_the_same_day_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", PRINT_DAY],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(found) == 1


def test_another_seed_gives_another_day():
    assert generate(1).arrivals != generate(2).arrivals


def test_the_cluster_has_as_many_nodes_as_asked_for_with_racks_and_several_models():
    for count in (1, 2, 7, 24, 100):
        nodes = generate(1, hours=1, nodes=count).nodes
        assert len({node.name for node in nodes}) == len(nodes) == count
    assert {gpu.model for node in generate(1).nodes for gpu in node.gpus} == {
        "H100-80GB",
        "A100-80GB",
        "L40S-48GB",
    }


@pytest.mark.parametrize("nodes", [1, 2, 6, 24])
def test_everything_generated_could_run_on_the_empty_cluster(nodes: int):
    workload = generate(4, hours=24, nodes=nodes)
    cluster = Simulation(workload).cluster
    for arrival in workload.arrivals:
        cluster.apply(GangSeen(arrival.gang))
        for task in arrival.tasks:
            cluster.apply(TaskSeen(task))
    never = [each.gang for each in plan(cluster).decisions if each.verdict is Verdict.NEVER]
    assert never == []


@pytest.mark.parametrize("percent", [50, 80, 110])
def test_the_offered_load_is_what_the_mix_says(percent: int):
    days = 5  # of work; one day of a small cluster would depend on its largest jobs
    workload = generate(1, hours=24 * days, nodes=24, mix=JobMix(load_percent=percent))
    capacity = sum(len(node.gpus) for node in workload.nodes) * WHOLE * 24 * HOUR * days
    offered = offered_milli_seconds(workload, 24 * HOUR * days)
    assert abs(100 * offered // capacity - percent) <= 5


def test_all_four_teams_have_work_of_their_kind():
    workload = generate(1)
    assert {each.gang.queue for each in workload.arrivals} == {
        "language",
        "vision",
        "ranking",
        "serving",
    }
    assert all(each.runs_s is None for each in of(workload, "serving"))
    assert all(each.runs_s for each in of(workload, "language", "vision", "ranking"))
    days = (generate(seed) for seed in (1, 2, 3))
    asks = [each.tasks[0].shape.request.gpu for day in days for each in day.arrivals]
    assert any(gpu and gpu.profile for gpu in asks)
    assert any(gpu and gpu.memory_mib for gpu in asks)
    assert any(gpu and gpu.milli < WHOLE for gpu in asks)


def test_most_training_gangs_are_small_and_most_of_their_gpu_time_belongs_to_large_ones():
    gangs = training(generate(1, hours=24 * 7))
    gpus = [
        sum(task.shape.request.gpu.count for task in each.tasks if task.shape.request.gpu)
        for each in gangs
    ]
    assert min(gpus) == 2
    assert max(gpus) == 64
    assert sum(each <= 8 for each in gpus) > len(gpus) // 2
    time = [count * (each.runs_s or 0) for count, each in zip(gpus, gangs, strict=True)]
    large = sum(spent for count, spent in zip(gpus, time, strict=True) if count >= 16)
    assert large > sum(time) // 2


def test_users_say_nothing_or_too_much_and_sometimes_too_little():
    gangs = training(generate(1, hours=24 * 7))
    said = [(each.gang.duration_s, each.runs_s or 0) for each in gangs]
    silent = sum(estimate is None for estimate, _ in said)
    short = sum(estimate is not None and estimate < runs for estimate, runs in said)
    assert 15 < 100 * silent // len(said) < 35
    assert 4 < 100 * short // len(said) < 20


def test_people_work_by_day():
    hours = Counter(each.at // HOUR % 24 for each in training(generate(1, hours=24 * 7))[40:])
    by_day, by_night = sum(hours[h] for h in range(9, 18)), sum(hours[h] for h in range(9))
    assert by_day > 1.4 * by_night
    notebooks = [each for each in generate(1).arrivals if each.gang.id.startswith("notebook")]
    assert {each.at // HOUR for each in notebooks} <= set(range(8, 18))


def test_nodes_fail_and_come_back():
    changes = generate(1, hours=48).node_changes
    gone = {each.name for each in changes if each.node is None}
    assert gone
    assert gone == {each.name for each in changes if each.node is not None}


def test_arrivals_are_complete_and_in_order():
    workload = generate(2, hours=30)
    assert [each.at for each in workload.arrivals] == sorted(each.at for each in workload.arrivals)
    names = [each.gang.id for each in workload.arrivals]
    assert len(set(names)) == len(names)
    for each in workload.arrivals:
        assert each.at == each.gang.created_at < 30 * HOUR
        assert len(each.tasks) >= each.gang.needed()
