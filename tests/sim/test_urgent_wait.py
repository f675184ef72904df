"""An urgent gang on a full cluster waits for others to save and stop, and for nothing else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings

from tests.given import ask, job, node
from tests.support.small_workloads import arrives, record, work
from windlass.sim.report import times
from windlass.sim.run import Simulation
from windlass.sim.workload import Workload

BUDGET_S, GRACE_S = 60, 30
ALLOWED_S = 5
"""For everything else: deciding, binding and coming up, which takes a second here."""
MANY = 300 if settings().max_examples == 50 else 3000


def full(rolls: Random, hurry_s: int | None) -> Workload:
    """A cluster full of work that saves in time, late or never, or cannot; then an urgent gang."""
    nodes, gpus = rolls.randint(1, 4), rolls.choice([2, 4, 8])
    left, low = nodes * gpus, list[object]()
    while left:
        size = min(left, rolls.choice([1, 2, 4, 8]))
        left -= size
        made = job(
            f"low{left}",
            size,
            ask(gpus=1),
            saves_within_s=rolls.choice([None, 20, BUDGET_S, BUDGET_S]),
        )
        saving_s, grace_s = rolls.choice([None, 10, BUDGET_S, 500]), rolls.choice([1, GRACE_S])
        low.append(arrives(made, runs=10**6, saving_s=saving_s, terminates_s=grace_s))
    tasks, each = rolls.randint(1, nodes), rolls.choice([1, 2, gpus])
    urgent = job("urgent", tasks, ask(gpus=each), priority=9, hurry_s=hurry_s)
    machines = [node(f"n{i}", gpus=gpus) for i in range(nodes)]
    return work(*machines, *low, arrives(urgent, at=rolls.randrange(700, 5000), runs=100))  # type: ignore[arg-type]


@pytest.mark.parametrize("hurry_s", [None, 15])
def test_the_wait_of_urgent_work_is_bounded_by_budget_and_grace(hurry_s: int | None):
    waits: list[int] = []
    for seed in range(MANY):
        simulation = Simulation(full(Random(f"{seed} {hurry_s}"), hurry_s), start_s=1)
        simulation.run(until=10_000)
        waits.append(record(simulation, "urgent").waited(10_000))
    found, budget_s = times(waits), min(BUDGET_S, hurry_s or BUDGET_S)
    print(f"p50 {found.p50} s, p99 {found.p99} s, at most {max(waits)} s of {found.count}")
    assert found.p99 < budget_s + GRACE_S + ALLOWED_S
