"""Short recordings of the embedded cluster, and what must be true of every one of them."""

from __future__ import annotations

from windlass.history.record import DecisionChange
from windlass.history.recorder import Lengths, Recorder
from windlass.history.replay import replay_stretch
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import MOST_WAITING, HistoryWriter
from windlass.sim.generate.week import generate
from windlass.sim.run import Simulation
from windlass.sim.workload import Workload

HOUR = 3600
SHORT = Lengths(seconds=600)
"""Several stretches in a short time."""
PATIENCE_S = 60


def work(seed: int = 308, hours: int = 9, nodes: int = 2) -> Workload:
    """The first busy hours of a small cluster: gangs, evictions, lost nodes."""
    return generate(seed, hours, nodes)


def recorded(
    where: str,
    workload: Workload,
    keep: Keep = Keep(),  # noqa: B008
    lengths: Lengths = SHORT,
    most: int = MOST_WAITING,
    writer: str = "one",
) -> tuple[Simulation, HistoryWriter, list[str]]:
    """Play a workload while it is recorded; what the writer said comes with it."""
    said: list[str] = []
    simulation, write = (
        Simulation(workload),
        HistoryWriter(HistoryStore(where), writer, keep, said.append, most),
    )
    simulation.note = Recorder(write, lengths).note
    simulation.run()
    write.close(PATIENCE_S)
    return simulation, write, said


def played_again(where: str) -> int:
    """Every recorded cycle decides the same again; how many there were."""
    store, cycles = HistoryStore(where, new=False), 0
    for stretch in store.stretches():
        count, said = 0, {}
        for each in replay_stretch(store.start(stretch), store.cycles(stretch)):
            assert each.acts_the_same, f"other actions in cycle {each.cycle.number}"
            assert each.is_same, f"another plan in cycle {each.cycle.number}"
            said = _followed(said, each.cycle.changes, each.cycle.gone)
            assert said == {
                decision.gang: (decision.verdict, tuple(str(r.why) for r in decision.reasons))
                for decision in each.plan.decisions
            }
            count += 1
        assert count == stretch.cycles, "a stretch is there whole"
        cycles += count
    return cycles


def _followed(said: dict, changes: tuple[DecisionChange, ...], gone: tuple[str, ...]) -> dict:
    left = {gang: what for gang, what in said.items() if gang not in gone}
    return left | {each.gang: (each.verdict, each.whys) for each in changes}
