"""What an eviction does to the embedded cluster: who keeps what, who waits, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.given import ask, job, node, queue
from tests.support.small_workloads import Thing, arrives, record, work
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.actions import Bind, Evict, EvictionRule
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.sim.records import GangRecord, GangStage, What
from windlass.sim.report import report
from windlass.sim.run import Scheduler, Simulation
from windlass.sim.workload import Arrival, NodeChange
from windlass.state.cluster import Cluster


def evicting(at: int, *tasks: str, **fields: Any) -> Scheduler:
    """The engine without any displacing of its own, which evicts these tasks at a time."""
    done: list[int] = []

    def scheduler(cluster: Cluster) -> Plan:
        if cluster.now < at or done:
            return plan(cluster)
        done.append(cluster.now)
        named = {"rule": EvictionRule.GUARANTEE, "gainer": GangId("gainer")} | fields
        return Plan(tuple(Evict(TaskId(task), **named) for task in tasks))

    return scheduler


def tick(at: int) -> Arrival:
    """Something that happens, so that there is a cycle."""
    return arrives(job(f"tick{at}"), at=at, runs=1)


def play(scheduler: Scheduler, *things: Thing, until: int | None = None) -> Simulation:
    simulation = Simulation(work(*things), scheduler)
    simulation.run(until=until)
    return simulation


def one(**fields: Any) -> Arrival:
    """A gang of one task on one GPU that works for 100 s from second 5 on."""
    return arrives(job("a", 1, ask(gpus=1)), **fields)


def lost(simulation: Simulation) -> int:
    return simulation.meter.past["team"].displaced // WHOLE


def test_an_evicted_task_keeps_its_devices_while_it_terminates():
    things = (node("n", gpus=1), one(), tick(50))
    simulation = play(evicting(50, "a-0"), *things, until=59)
    assert simulation.cluster.tasks[TaskId("a-0")].state is TaskState.RELEASING
    assert simulation.meter.ground.free == 0
    simulation.run(until=60)
    assert "a-0" not in simulation.cluster.tasks
    assert simulation.cluster.tasks[TaskId("a-0.r1")].state is TaskState.BOUND


def test_a_gang_that_saves_nothing_starts_over():
    simulation = play(evicting(50, "a-0"), node("n", gpus=1), one(), tick(50))
    assert record(simulation, "a").ended == 50 + 10 + 5 + 100
    assert lost(simulation) == 50 - 5
    assert simulation.meter.past["team"].useful == 100 * WHOLE


def test_a_gang_that_saves_its_work_goes_on_from_there():
    simulation = play(evicting(50, "a-0"), node("n", gpus=1), one(saves_every_s=20), tick(50))
    assert record(simulation, "a").ended == 50 + 10 + 5 + 60
    assert lost(simulation) == 5
    assert simulation.meter.past["team"].useful == 100 * WHOLE


def test_what_was_saved_before_an_earlier_eviction_is_not_lost_in_the_next():
    first, second = evicting(50, "a-0"), evicting(90, "a-0.r1")

    def twice(cluster: Cluster) -> Plan:
        return first(cluster) if cluster.now < 90 else second(cluster)

    things = (node("n", gpus=1), one(saves_every_s=20), tick(50), tick(90))
    simulation = play(twice, *things)
    assert record(simulation, "a").ended == 90 + 10 + 5 + 40
    assert record(simulation, "a").evictions == 2


def test_a_failed_gang_goes_on_from_its_last_save_too():
    simulation = play(plan, node("n", gpus=1), one(saves_every_s=15, fails_after_s=40))
    assert record(simulation, "a").ended == 5 + 40 + 5 + 70
    assert simulation.meter.past["team"].lost == 10 * WHOLE
    assert lost(simulation) == 0


def test_the_scheduler_knows_of_the_last_save_whenever_it_plans():
    seen: list[tuple[int, int | None]] = []

    def watching(cluster: Cluster) -> Plan:
        if "a" in cluster.gangs:
            seen.append((cluster.now, cluster.gangs[GangId("a")].saved_at))
        return plan(cluster)

    things = (node("n", gpus=1), one(saves_every_s=20), *map(tick, (24, 25, 64, 99)))
    play(watching, *things)
    assert dict(seen) | {0: None, 5: None, 24: None, 25: 25, 64: 45, 99: 85} == dict(seen)


def test_saving_causes_no_cycles():
    often, never = (
        play(plan, node("n", gpus=1), one(saves_every_s=saves), tick(60)) for saves in (1, None)
    )
    assert often.cycles == never.cycles


def test_a_gang_that_loses_part_of_its_minimum_halts_as_a_whole():
    gang = arrives(job("a", 2, ask(gpus=1)))
    simulation = play(evicting(50, "a-1"), node("n", gpus=2), gang, tick(50), until=50)
    assert record(simulation, "a").stage is GangStage.WAITING
    assert lost(simulation) == 2 * 45
    assert (record(simulation, "a").evictions, record(simulation, "a").stops) == (1, 1)


def test_an_elastic_member_goes_alone():
    gang = arrives(job("a", 3, ask(gpus=1), minimum=1))
    simulation = play(evicting(50, "a-2"), node("n", gpus=3), gang, tick(50))
    found = record(simulation, "a")
    assert found.ended == 105
    assert (found.evictions, found.stops, found.restarts) == (1, 0, 0)
    assert lost(simulation) == 45


def test_moves_are_counted_apart_from_evictions():
    things = (node("n", gpus=1), one(), tick(50))
    found = record(play(evicting(50, "a-0", moves_to="n"), *things), "a")
    assert (found.evictions, found.stops, found.moves, found.journeys) == (0, 0, 1, 1)
    assert found.gainers == ["gainer"]


def test_a_service_loses_only_time():
    service = one(runs=None, deleted_at=200)
    simulation = play(evicting(50, "a-0"), node("n", gpus=1), service, tick(50))
    assert lost(simulation) == 0
    assert simulation.meter.past["team"].useful == (200 - 5 - 15) * WHOLE


def test_a_task_evicted_before_it_came_up_never_starts():
    simulation = play(evicting(3, "a-0"), node("n", gpus=1), one(), tick(3), until=12)
    assert record(simulation, "a").started is None
    simulation.run()
    assert record(simulation, "a").started == 3 + 10 + 5


@pytest.mark.parametrize(("grace_s", "ends"), [(0, 50 + 5 + 100), (60, 50 + 60 + 5 + 100)])
def test_a_gang_may_take_its_own_time_to_terminate(grace_s: int, ends: int):
    things = (node("n", gpus=1), one(terminates_s=grace_s), tick(50))
    assert record(play(evicting(50, "a-0"), *things), "a").ended == ends


def test_a_stuck_task_is_never_gone_until_its_node_is():
    machine = node("n", gpus=1)
    changes = NodeChange(500, "n", None), NodeChange(600, "n", machine)
    things = (machine, one(terminates_s=None), tick(50))
    simulation = play(evicting(50, "a-0"), *things, *changes, until=499)
    assert simulation.cluster.tasks[TaskId("a-0")].state is TaskState.RELEASING
    simulation.run()
    found = record(simulation, "a")
    assert (found.ended, found.evictions, found.restarts) == (600 + 5 + 100, 1, 0)


def test_a_gang_deleted_while_it_terminates_leaves_nothing_behind():
    things = (node("n", gpus=1), one(deleted_at=55), tick(50))
    simulation = play(evicting(50, "a-0"), *things)
    assert record(simulation, "a").stage is GangStage.DELETED
    assert not simulation.cluster.tasks
    assert simulation.meter.ground.free == WHOLE


def test_the_time_of_terminating_is_nobodys_work():
    simulation = play(evicting(50, "a-0"), node("n", gpus=1), one(), tick(50), until=60)
    team = simulation.meter.past["team"]
    assert (team.allocated, team.useful, team.idle, team.displaced) == (
        60 * WHOLE, 0, (5 + 10) * WHOLE, 45 * WHOLE,
    )  # fmt: skip


def test_a_gang_that_terminates_is_not_half_started():
    simulation = play(evicting(50, "a-0"), node("n", gpus=1), one(), tick(50), until=55)
    assert list(simulation.world.half_started()) == []


def test_a_note_says_for_whom_and_by_which_rule():
    fields = {"rule": EvictionRule.PRIORITY, "gainer": GangId("b")}
    things = (node("n", gpus=1), one(), tick(50))
    simulation = play(evicting(50, "a-0", **fields), *things, until=50)
    note = simulation.world.diary.notes[-1]
    assert (note.what, note.gang, note.tasks, note.nodes) == (What.EVICTED, "a", 1, ("n",))
    assert (note.rule, note.gainer) == (EvictionRule.PRIORITY, "b")


def test_the_report_counts_what_was_displaced_queue_by_queue():
    queues = (queue("lab"), queue("x", "lab"), queue("y"))
    gang = arrives(job("a", 2, ask(gpus=2), queue="x"), runs=7200)
    at = arrives(job("tick", queue="y"), at=3605, runs=1)
    scheduler = evicting(3605, "a-0", "a-1")
    found = report(play(scheduler, node("n", gpus=4), *queues, gang, at, until=4000), "windlass")
    lab, x, y = (each.displaced for each in found.queues)
    assert found.displaced == lab == x
    assert (x.tasks_evicted, x.gangs_stopped, x.tasks_moved, x.gpu_hours_lost) == (2, 1, 0, 4.0)
    assert (y.tasks_evicted, y.gpu_hours_lost) == (0, 0.0)
    assert (found.gpu_hours.displaced, found.gpu_hours.lost) == (4.0, 0.0)


def test_room_that_was_made_is_used_once_it_is_free():
    """A whole exchange by hand: `b` takes the place of `a`, which returns when `b` has ended."""
    a, b = one(), arrives(job("b", 1, ask(gpus=1)), at=50)

    def exchange(cluster: Cluster) -> Plan:
        if cluster.now == 50:
            return Plan((Evict(TaskId("a-0"), EvictionRule.PRIORITY, GangId("b")),))
        free = not any(each.node for each in cluster.tasks.values())
        wanted = ["a-0", "b-0", "a-0.r1"]
        waiting = [each for each in wanted if TaskId(each) in cluster.tasks]
        return Plan((bind(waiting),)) if free and waiting else Plan()

    def bind(waiting: Sequence[str]) -> Bind:
        return Bind(TaskId(waiting[0]), "n", (Slice(0, WHOLE),))

    simulation = play(exchange, node("n", gpus=1), a, b)
    assert (record(simulation, "b").started, record(simulation, "b").ended) == (65, 165)
    assert record(simulation, "a").ended == 165 + 5 + 100


def test_a_gang_evicted_twice_in_one_plan_is_stopped_once():
    gang = arrives(job("a", 2, ask(gpus=1)))
    scheduler = evicting(50, "a-0", "a-1")
    found: GangRecord = record(play(scheduler, node("n", gpus=2), gang, tick(50)), "a")
    assert (found.evictions, found.stops) == (2, 1)


def test_time_alone_may_pass_several_instants_before_somebody_makes_room():
    """Services end by themselves never; all that happens is what the scheduler waits for."""
    service = arrives(job("a", 1, ask(gpus=1)), runs=None)
    waiting = arrives(job("b", 1, ask(gpus=1)), at=10)
    evicts = evicting(300, "a-0")

    def patient(cluster: Cluster) -> Plan:
        found = evicts(cluster)
        wake = next((at for at in (100, 200, 300) if at > cluster.now), None)
        return replace(found, wake_at=wake) if wake else found

    things = (node("n", gpus=1), service, waiting)
    assert record(play(patient, *things), "a").evictions == 1
