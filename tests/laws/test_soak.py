"""Nothing grows with the hours run, the jobs seen or the people who look.

The same hour is played again and again: gangs that come, are displaced, lose a node and end, all of
them new jobs, with a record and viewers on. Whatever lives longer than a cycle must be as large in
the last third as in the first, and a cycle must not do more.
"""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

from tests.given import ask, job, node
from tests.support.memory_growth import lengths
from windlass.cli.demo_support.dashboard import MOST_FINISHED, SimulationDashboard
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.history.recorder import Recorder
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import HistoryWriter
from windlass.model.queues import Queue
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, NodeChange, Workload
from windlass.state.cluster import Cluster
from windlass.web.documents.decisions import MOST_NAMED
from windlass.web.documents.live_state import MOST_CYCLES
from windlass.web.feed.deltas import MOST_STEPS
from windlass.web.feed.timeseries import MOST_SAMPLES
from windlass.web.server.local_server import run_local_server

PROOF = os.environ.get("WINDLASS_PROOF") == "1"
HOURS = 600 if PROOF else 36
VIEWERS = 3
HOUR = 3600
QUEUES = 2
OF_CYCLES = ("cycle", "at", "bound", "evicted", "held", "waiting")
OF_PAST = ("Timeseries.samples", "ShownMoment.samples", "Past.at", "Past.waiting", "Past.running")
NAMED = 1 + MOST_NAMED
"""A list of the gangs of a cycle is itself an entry."""
ALIVE = 4
"""Moments at a time: one that is shown, and the last that the map, the members and the lists of
jobs were each made of."""
RINGS = {
    **dict.fromkeys(("LiveState._cycles", "LiveState._shorts"), MOST_CYCLES),
    **dict.fromkeys(
        ("ShownMoment.cycles", *(f"Cycles.{each}" for each in OF_CYCLES)), MOST_CYCLES * ALIVE
    ),
    **dict.fromkeys(("CycleSummary.gangs", "Cycles.gangs"), MOST_CYCLES * ALIVE * NAMED),
    **dict.fromkeys(OF_PAST, MOST_SAMPLES * ALIVE),
    **dict.fromkeys(
        ("TimeseriesSample.allocated", "TimeseriesSample.share"), MOST_SAMPLES * QUEUES * ALIVE
    ),
    **dict.fromkeys(("Past.allocated", "Past.share"), MOST_SAMPLES * QUEUES * ALIVE),
    "ViewExtras.finished": MOST_FINISHED * ALIVE,
    "DeltaTrail._steps": MOST_STEPS * 3 * 3,  # of three documents, each step a pair
}
"""What has a bound of its own fills up to it."""
KEEP = Keep(bytes=150_000)
NOT_OURS = frozenset({"SimulatedWorld.records", "HistoryWriter._waiting", "QueueNumbers.used"})
"""A simulation's own account for its report, one line per gang; what waits to be written, which
depends on how fast the disk is and has its bound tested elsewhere; and numbers of moments that
viewers still read, which depend on how fast they are."""


def steady(hours: int) -> Workload:
    nodes = tuple(node(f"n{i}", gpus=4) for i in range(3))
    queues = (Queue("a", guarantee={"gpu": 8000}), Queue("b", guarantee={"gpu": 4000}))
    arrivals: list[Arrival] = []
    changes: list[NodeChange] = []
    for hour in range(hours):
        at, user = hour * HOUR, f"u{hour % 5}"
        for name, queue, tasks, gpus, when, runs_s in (
            ("wide", "b", 3, 4, 0, 500),
            ("urgent", "a", 2, 4, 300, 400),
            ("small", "a", 1, 1, 900, 300),
            ("late", "b", 2, 2, 1500, 700),
        ):
            made = job(f"{name}-{hour}", tasks, ask(gpus=gpus), queue=queue)
            gang = replace(made.gang, user=user, created_at=at + when)
            arrivals.append(Arrival(at + when, gang, made.tasks, runs_s))
        if hour % 3 == 1:
            changes += [NodeChange(at + 2000, "n2", None), NodeChange(at + 2600, "n2", nodes[2])]
    return Workload(nodes, queues, tuple(arrivals), node_changes=tuple(changes), until=hours * HOUR)


class Counted:
    """The engine, and how many calls of Python functions its cycles make."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.cycles: Counter[int] = Counter()

    def __call__(self, cluster: Cluster) -> Plan:
        hour, made = cluster.now // HOUR, 0
        if hour % 3:  # counting takes longer than deciding
            return plan(cluster)

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal made
            made += event == "call"

        sys.setprofile(count)
        try:
            return plan(cluster)
        finally:
            sys.setprofile(None)
            self.calls[hour] += made
            self.cycles[hour] += 1


@contextmanager
def watched(dashboard: SimulationDashboard) -> Iterator[None]:
    """People who follow the dashboard all the time."""
    with run_local_server(dashboard.board, 0) as address:
        threads = [Thread(target=_look, args=(address,), daemon=True) for _ in range(VIEWERS)]
        for each in threads:
            each.start()
        yield
    for each in threads:
        each.join(10)
        assert not each.is_alive(), "a viewer does not let go"


def _look(address: str) -> None:
    # in the end the server goes amid an answer
    with suppress(OSError, HTTPException), urlopen(f"{address}api/events") as stream:
        for line in stream:
            if line.startswith(b"data"):
                _read_all(address)


def _read_all(address: str) -> None:
    for name in ("cluster", "queues", "jobs", "decisions"):
        with urlopen(f"{address}api/{name}") as page:
            page.read()


def test_nothing_grows_with_hours_jobs_or_viewers(tmp_path: Path, capsys: Any):
    counted, dashboard = Counted(), SimulationDashboard()
    simulation = Simulation(steady(HOURS), counted)
    store = HistoryStore(str(tmp_path / "h"))
    writer = HistoryWriter(store, "soak", KEEP, print)
    recorder = Recorder(writer)
    simulation.note = recorder.note
    third = HOURS // 3
    early, late = Counter[str](), Counter[str]()
    memory: list[int] = []
    if PROOF:
        tracemalloc.start()
    with watched(dashboard):
        for hour in range(HOURS):
            while (at := simulation.next_at()) is not None and at < (hour + 1) * HOUR:
                dashboard.step(simulation)
            dashboard.show(simulation)
            roots = (simulation.cluster, dashboard.board, recorder, writer, simulation.world)
            with dashboard.board.lock:
                sizes = lengths(*roots, without=NOT_OURS)
            early |= sizes if hour < third else Counter()
            late |= sizes if hour >= HOURS - third else Counter()
            if PROOF and hour in (third, HOURS - 1):
                memory.append(_held_kib())
    tracemalloc.stop()
    writer.close(60)

    grown = {name: (early[name], late[name]) for name in late if _grew(name, early, late)}
    assert grown == {}, "these are larger in the last third than in the first"
    assert len(simulation.cluster.gangs) <= 4, "every hour gets its work done"
    assert sum(each.evictions for each in simulation.records.values()) > HOURS / 4

    first, last = _calls(counted, range(third)), _calls(counted, range(2 * third, HOURS))
    with capsys.disabled():
        print(
            f"\n{HOURS} hours, {len(simulation.records)} jobs, {simulation.cycles} cycles: ", end=""
        )
        print(f"{first:.0f} calls per cycle in the first third, {last:.0f} in the last", end="")
        if PROOF:
            print(f"; {memory[0]:,} KiB after the first third and {memory[1]:,} in the end", end="")
    assert last <= first * 1.05, "a cycle does more and more"
    assert not memory or memory[1] <= memory[0] * 1.2 + 512, "it holds more and more memory"
    assert sum(each.bytes for each in store.stretches()) <= KEEP.bytes
    assert writer.lost == 0


def _held_kib() -> int:
    """What our own code holds; a simulation keeps an account of every job for its report."""
    gc.collect()
    ours = (tracemalloc.Filter(True, "*/src/windlass/*"), tracemalloc.Filter(False, "*/sim/*"))
    found = tracemalloc.take_snapshot().filter_traces(ours)
    return sum(each.size for each in found.statistics("filename")) // 1024


def _grew(name: str, early: Counter[str], late: Counter[str]) -> bool:
    """Beyond its ring, or what one more job or two make of it."""
    return late[name] > max(early[name] * 1.1 + 20, RINGS.get(name, 0))


def _calls(counted: Counted, hours: range) -> float:
    cycles = sum(counted.cycles[hour] for hour in hours)
    return sum(counted.calls[hour] for hour in hours) / cycles
