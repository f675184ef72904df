"""Small workloads, and what became of them when played."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from tests.given import Job, queue
from windlass.model.jobs import GangId
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.sim.records import GangRecord
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, NodeChange, Workload

Thing: TypeAlias = Node | Queue | Topology | Arrival | NodeChange


def arrives(what: Job, at: int = 0, runs: int | None = 100, **fields: Any) -> Arrival:
    """A job submitted at a time, whose tasks run so long."""
    return Arrival(at, replace(what.gang, created_at=at), what.tasks, runs, **fields)


def work(*things: Thing, until: int | None = None) -> Workload:
    """A workload made of these things; without a queue it has the queue `team`."""
    queues = tuple(each for each in things if isinstance(each, Queue))
    return Workload(
        nodes=tuple(each for each in things if isinstance(each, Node)),
        queues=queues or (queue("team"),),
        arrivals=tuple(each for each in things if isinstance(each, Arrival)),
        topologies=tuple(each for each in things if isinstance(each, Topology)),
        node_changes=tuple(each for each in things if isinstance(each, NodeChange)),
        until=until,
    )


def play(*things: Thing, until: int | None = None) -> Simulation:
    """The same, played to its end by Windlass."""
    simulation = Simulation(work(*things, until=until))
    simulation.run()
    return simulation


def record(simulation: Simulation, name: str) -> GangRecord:
    """What became of a gang."""
    return simulation.records[GangId(name)]
