"""What `make run` promises, measured on days that nobody has tuned for."""

from __future__ import annotations

import pytest

from windlass.sim.baselines.kube_default import default
from windlass.sim.generate.week import generate
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


@pytest.mark.parametrize("seed", UNSEEN)
def test_windlass_does_more_work_and_starts_gangs_sooner_than_kubernetes_by_itself(seed: int):
    day = played(seed)
    assert day.ours.gpu_hours.useful >= 1.3 * day.theirs.gpu_hours.useful
    assert day.ours.gang_wait_seconds.p90 <= 0.5 * day.theirs.gang_wait_seconds.p90
    assert day.ours.gangs.finished > day.theirs.gangs.finished
