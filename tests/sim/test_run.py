"""The embedded cluster: what starts, ends, fails and is lost, and what is measured meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.given import ask, job, node, queue
from tests.support.small_workloads import arrives, play, record, work
from windlass.engine.plan import Plan
from windlass.model.gpus import WHOLE
from windlass.sim import run
from windlass.sim.baselines.kube_default import default
from windlass.sim.generate.week import generate
from windlass.sim.records import GangStage
from windlass.sim.report import compare, offered_milli_seconds, report, times
from windlass.sim.run import Simulation, SimulationError
from windlass.sim.workload import NodeChange
from windlass.state.cluster import Cluster


def test_a_gang_that_fits_starts_after_its_start_up_and_ends_after_its_run_time():
    found = record(play(node("n", gpus=2), arrives(job("a", 2, ask(gpus=1)), at=10)), "a")
    assert (found.submitted, found.started, found.ended) == (10, 15, 115)
    assert found.stage is GangStage.FINISHED


def test_a_gang_waits_for_the_room_that_another_gives_back():
    a, b = job("a", 2, ask(gpus=1)), job("b", 2, ask(gpus=1))
    simulation = play(node("n", gpus=3), arrives(a), arrives(b, at=1))
    assert record(simulation, "b").started == 110
    assert record(simulation, "b").waited(simulation.cluster.now) == 109


def test_elastic_tasks_end_with_the_tasks_their_gang_needed():
    simulation = play(node("n", gpus=4), arrives(job("a", 4, ask(gpus=1), minimum=2)))
    assert record(simulation, "a").ended == 105
    assert not simulation.cluster.tasks


def test_a_service_runs_until_it_is_deleted():
    simulation = play(
        node("n", gpus=1), arrives(job("a", 1, ask(gpus=1)), runs=None, deleted_at=50)
    )
    assert (record(simulation, "a").stage, record(simulation, "a").ended) == (GangStage.DELETED, 50)


def test_a_gang_deleted_while_it_waits_is_gone():
    a, b = job("a", 1, ask(gpus=1)), job("b", 1, ask(gpus=1))
    simulation = play(node("n", gpus=1), arrives(a), arrives(b, deleted_at=30))
    assert record(simulation, "b").started is None
    assert record(simulation, "b").waited(999) == 30


def test_a_failed_task_is_replaced_and_its_gang_starts_over():
    a = arrives(job("a", 2, ask(gpus=1)), fails_after_s=40)
    simulation = Simulation(work(node("n", gpus=2), a))
    simulation.run(until=60)
    assert sorted(simulation.cluster.tasks) == ["a-0.r1", "a-1"]
    simulation.run()
    assert record(simulation, "a").ended == 5 + 40 + 5 + 100
    assert record(simulation, "a").restarts == 1
    assert simulation.meter.past["team"].lost == 2 * 40 * WHOLE


def test_losing_an_elastic_task_does_not_stop_its_gang():
    a = arrives(job("a", 2, ask(gpus=1), minimum=1), fails_after_s=40)
    simulation = play(node("n", gpus=2), a)
    assert record(simulation, "a").ended == 105
    assert simulation.meter.past["team"].lost == 40 * WHOLE


def test_a_lost_node_kills_its_tasks_and_their_replacements_wait_for_its_return():
    machine = node("n", gpus=1)
    loss, back = NodeChange(55, "n", None), NodeChange(200, "n", machine)
    simulation = play(machine, arrives(job("a", 1, ask(gpus=1))), loss, back)
    assert record(simulation, "a").ended == 200 + 5 + 100
    assert record(simulation, "a").started == 5
    assert simulation.meter.past["team"].lost == 50 * WHOLE
    assert simulation.meter.past["team"].useful == 100 * WHOLE
    assert simulation.meter.past_ground.capacity == (305 - 145) * WHOLE


def test_a_changed_node_keeps_its_tasks():
    machine = node("n", gpus=2)
    cordon = NodeChange(50, "n", replace(machine, cordoned=True))
    a, b = arrives(job("a", 1, ask(gpus=1))), arrives(job("b", 1, ask(gpus=1)), at=60)
    simulation = play(machine, a, b, cordon)
    assert record(simulation, "a").stage is GangStage.FINISHED
    assert record(simulation, "b").stage is GangStage.WAITING
    assert simulation.meter.ground.free == 2 * WHOLE


def test_a_part_of_a_gpu_counts_as_much_as_was_asked_for():
    half = play(node("n", gpus=1), arrives(job("a", 1, ask(gpus=1, milli=500))))
    assert half.meter.past["team"].useful == 100 * 500
    quarter = play(node("n", gpus=1), arrives(job("a", 1, ask(gpus=1, memory_mib=20 * 1024))))
    assert quarter.meter.past["team"].useful == 100 * 250


def test_a_gang_that_holds_gpus_but_lacks_members_does_no_useful_work():
    half = arrives(job("a", 2, ask(gpus=1)), at=10)
    simulation = Simulation(work(node("n", gpus=1), half, until=110), default)
    simulation.run()
    team = simulation.meter.past["team"]
    assert (team.useful, team.idle, team.allocated) == (0, 100 * WHOLE, 100 * WHOLE)
    assert [each.gang.id for each in simulation.world.half_started()] == ["a"]


def test_free_gpus_are_stranded_where_the_typical_task_does_not_fit():
    big, small = job("big", 1, ask(gpus=2)), job("small", 1, ask(gpus=1))
    nodes = (node("n1", gpus=2), node("n2", gpus=2))
    simulation = Simulation(work(*nodes, arrives(big), arrives(small), until=105))
    simulation.run(until=50)
    assert simulation.meter.typical_gpus == 2
    assert simulation.meter.ground.stranded == simulation.meter.ground.free == WHOLE


def test_what_is_given_and_what_is_free_add_up_at_every_moment():
    workload = generate(5, hours=8, nodes=6)
    for scheduler in (None, default):
        simulation = Simulation(workload, scheduler) if scheduler else Simulation(workload)
        for moment in simulation.moments():
            tallies = moment.figures.queues.values()
            ground = moment.figures.ground
            assert ground.capacity - ground.free == sum(each.allocated for each in tallies)
            assert all(each.useful + each.idle <= each.allocated for each in tallies)
            assert 0 <= ground.stranded <= ground.free


def test_the_same_workload_always_takes_the_same_course():
    workload = generate(6, hours=6, nodes=6)
    one, other = Simulation(workload), Simulation(workload)
    one.run()
    for _ in other.moments():
        pass
    assert report(one, "x") == report(other, "x")
    assert one.records == other.records


def test_a_hopeless_gang_does_not_keep_the_simulation_from_ending():
    service = arrives(job("service", 1, ask(gpus=1)), runs=None)
    simulation = play(node("n", gpus=1), service, arrives(job("a", 1, ask(gpus=1)), at=9))
    assert simulation.next_at() is None
    assert record(simulation, "a").stage is GangStage.WAITING


def test_a_scheduler_that_wants_to_be_woken_in_the_past_is_told_so():
    def impatient(cluster: Cluster) -> Plan:
        return Plan(wake_at=cluster.now)

    simulation = Simulation(work(node("n", gpus=1), arrives(job("a"), at=7)), impatient)
    with pytest.raises(SimulationError, match=r"at 7 s .* asked to be woken at 7 s"):
        simulation.run()


def test_an_instant_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "CYCLES_PER_INSTANT", 50)
    crowd = [arrives(job(f"a{i}", 1, ask(gpus=1)), runs=0) for i in range(60)]
    simulation = Simulation(work(node("n", gpus=1), *crowd), start_s=0)
    with pytest.raises(SimulationError, match="50 cycles at 0 s"):
        simulation.run()


def test_percentiles_are_values_that_occurred():
    assert times([]) == times([]).__class__(0, 0, 0, 0, 0)
    found = times(range(1, 11))
    assert (found.p50, found.p90, found.p99, found.mean) == (5, 9, 10, 5)


def test_a_report_tells_queue_by_queue_with_all_below_it():
    queues = (queue("lab", gpus=3), queue("x", "lab"), queue("y", "lab"))
    jobs = [arrives(job(name, 1, ask(gpus=1), queue=name)) for name in ("x", "y")]
    found = report(play(node("n", gpus=4), *queues, *jobs, until=210), "windlass")
    lab, x, _ = found.queues
    assert (lab.guarantee_gpus, lab.gangs, x.gangs) == (3.0, 2, 1)
    assert (lab.useful_gpus, x.useful_gpus) == (0.95, 0.48)
    assert found.utilisation == pytest.approx(200 / (4 * 210), abs=0.0001)


def test_two_runs_are_compared_over_the_same_window():
    rivals = [arrives(job(name, 2, ask(gpus=1))) for name in ("a", "b")]
    workload = work(node("n", gpus=3), *rivals)
    ours, theirs = Simulation(workload), Simulation(workload, default)
    ours.run()
    theirs.run()
    found = compare(ours, theirs)
    assert found.ours.window_seconds == found.theirs.window_seconds == 210
    assert found.gain == pytest.approx(1.0)
    assert found.ours.gangs.finished == found.theirs.gangs.finished == 2


def test_the_offered_load_stops_at_deletion_and_at_the_end_of_the_window():
    one = ask(gpus=1)
    works = arrives(job("a", 2, one), at=10, runs=100)
    serves = arrives(job("b", 1, one), runs=None, deleted_at=70)
    assert offered_milli_seconds(work(node("n", gpus=1), works, serves), 50) == (80 + 50) * WHOLE
