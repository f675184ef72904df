"""What `make run` promises, measured on days that nobody has tuned for."""

from __future__ import annotations

from windlass.sim.baseline import default
from windlass.sim.generate import generate
from windlass.sim.report import Comparison, compare
from windlass.sim.run import Simulation

UNSEEN = (301, 302, 303)
"""Seeds that played no part in choosing the numbers of the mix."""


def played(seed: int) -> Comparison:
    workload = generate(seed)
    ours, theirs = Simulation(workload), Simulation(workload, default)
    ours.run()
    theirs.run()
    return compare(ours, theirs)


def test_windlass_does_more_work_and_starts_gangs_sooner_than_kubernetes_by_itself():
    days = [played(seed) for seed in UNSEEN]
    ours = sum(day.ours.gpu_hours.useful for day in days)
    theirs = sum(day.theirs.gpu_hours.useful for day in days)
    assert ours >= 1.3 * theirs
    our_waits = sum(day.ours.gang_wait_seconds.p90 for day in days)
    their_waits = sum(day.theirs.gang_wait_seconds.p90 for day in days)
    assert our_waits <= 0.5 * their_waits
    for day in days:
        assert day.ours.gpu_hours.useful > 1.1 * day.theirs.gpu_hours.useful
        assert day.ours.gang_wait_seconds.p90 < 0.8 * day.theirs.gang_wait_seconds.p90
        assert day.ours.gangs.finished > day.theirs.gangs.finished
