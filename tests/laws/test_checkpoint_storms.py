"""Whatever happens while others save for somebody: nothing that was promised safe is lost.

Each storm plays a small full cluster in the simulator, with crashes of scheduler, work and nodes,
and looks at every law after every cycle (`storm_laws.py`).
"""

from __future__ import annotations

from hypothesis import given, settings

from tests.laws.preemption_storms import forgeries, storms, successor, trouble, workload_of
from tests.laws.storm_invariants import Watch
from tests.support.strategies import Recipe
from windlass.sim.run import Simulation

STORMS = settings(max_examples={50: 50}.get(settings().max_examples, 1000))
MOST_CYCLES = 3000
"""By then a storm must have come to rest."""


@STORMS
@given(storms())
def test_a_storm_breaks_no_law_and_comes_to_rest(storm: Recipe):
    assert broken_laws(storm) == []


def broken_laws(storm: Recipe) -> list[str]:
    """The first laws that a storm breaks."""
    simulation, rolls = Simulation(workload_of(storm)), storm.dice("storm")
    watch = Watch(simulation)
    for _ in range(MOST_CYCLES):
        if simulation.next_at() is None:
            return []
        simulation.step()
        found = watch.look()
        if "forgeries" in storm.features and rolls.random() < 0.3:
            before = simulation.cluster.snapshot()
            for each in forgeries(rolls, simulation.cluster, watch.asked):
                simulation.cluster.apply(each)
            if simulation.cluster.snapshot() != before:
                found.append("a forged answer changed something")
        if "crashes" in storm.features and rolls.random() < 0.1:
            simulation.take_over(successor(rolls, simulation.cluster))
            watch.forget_since_when()
            if simulation.plan.withdrawals:
                found.append("a successor forgets whom its predecessor has asked")
            found += watch.look()
        watch.refused |= trouble(storm, rolls, simulation)
        if found:
            return [f"at {simulation.cluster.now}: {each}" for each in found]
    return [f"still something to do after {MOST_CYCLES} cycles"]
