"""Ordering policies inside a queue: the next gang, preemption by order, and no starvation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.engine.cycle import plan, plan_without_reasons
from windlass.engine.plan import Plan
from windlass.engine.queueing.ordering_policies import POLICIES, OrderedGang
from windlass.model.settings import Ordering
from windlass.sim.records import GangRecord
from windlass.sim.run import Simulation
from windlass.sim.traces.replay import Replay, cluster_of, workload_of
from windlass.sim.traces.rows import TraceJob
from windlass.state.cluster import Cluster
from windlass.state.snapshot import from_json, to_json
from windlass.usage.run_times import Runs, WorkGroup

HOUR = 3600


def replay(
    jobs: Sequence[TraceJob],
    nodes: int,
    gpus: int,
    planner: Callable[[Cluster], Plan] = plan_without_reasons,
    **how: object,
):
    """Return the records of the jobs, in their order, and the simulation."""
    work = workload_of(jobs, cluster_of(nodes, gpus), Replay(**how))  # pyright: ignore[reportArgumentType]
    simulation = Simulation(work, planner, start_s=0)
    simulation.run()
    return [simulation.records[each.gang.id] for each in work.arrivals], simulation


def starts(found: Sequence[GangRecord]) -> list[int | None]:
    return [each.started for each in found]


def test_first_come_serves_the_oldest_job_of_any_user():
    jobs = [TraceJob(0, 100, 1), TraceJob(1, 10, 1, user="ann"), TraceJob(2, 10, 1, user="bob")]
    assert starts(replay(jobs, 1, 1, order=Ordering.FIRST_COME)[0]) == [0, 100, 110]


def test_shortest_serves_the_job_with_the_least_known_run_time_first():
    jobs = [TraceJob(0, 1000, 1), TraceJob(1, 900, 1), TraceJob(2, 90, 1)]
    how = {"order": Ordering.SHORTEST, "known": True, "min_run_s": 10_000}
    assert starts(replay(jobs, 1, 1, **how)[0]) == [0, 1090, 1000]


def test_shortest_preempts_a_much_longer_job_if_no_room_comes_free_soon():
    jobs = [TraceJob(0, 10_000, 1), TraceJob(4900, 100, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.SHORTEST, known=True)
    assert found[1].started == 4900
    assert (found[0].stops, found[0].ended) == (1, 10_000 + 100 + 30)


def test_shortest_waits_for_a_job_that_ends_within_the_minimum_run_time():
    jobs = [TraceJob(0, 10_000, 1), TraceJob(8300, 100, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.SHORTEST, known=True, min_run_s=1800)
    assert (found[0].stops, found[1].started) == (0, 10_000)


@pytest.mark.parametrize(("gpus", "stopped", "starts_at"), [(1, 1, 2000), (4, 0, 6000)])
def test_shortest_waits_longer_before_it_preempts_many_jobs(
    gpus: int, stopped: int, starts_at: int
):
    long = [TraceJob(0, 20_000, 1)] * 4
    ends = TraceJob(0, 6000, 4)  # before it, who comes last may stop one, but not four
    jobs = [*long, ends, TraceJob(2000, 5000, gpus)]
    found, _ = replay(jobs, 2, 4, order=Ordering.SHORTEST, known=True, min_run_s=1800)
    assert (sum(each.stops for each in found), found[-1].started) == (stopped, starts_at)


def test_a_job_near_its_end_is_measured_by_its_remaining_time():
    jobs = [TraceJob(0, 9000, 1), TraceJob(7000, 1900, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.SHORTEST, known=True)
    assert (found[0].stops, found[1].started) == (0, 9000)


def test_no_job_is_preempted_before_its_minimum_run_time():
    jobs = [TraceJob(0, 10_000, 1), TraceJob(100, 100, 1)]
    how = {"order": Ordering.SHORTEST, "known": True, "min_run_s": 1800}
    assert starts(replay(jobs, 1, 1, **how)[0]) == [0, 1800]


def test_jobs_of_similar_length_do_not_preempt_each_other():
    jobs = [TraceJob(0, 10_000, 1), TraceJob(2000, 7900, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.SHORTEST, known=True)
    assert (found[0].stops, found[1].started) == (0, 10_000)


def test_the_victim_is_the_candidate_of_the_worst_level():
    jobs = [TraceJob(0, 90_000, 1), TraceJob(1, 20_000, 1), TraceJob(2000, 100, 1)]
    found, _ = replay(jobs, 1, 2, order=Ordering.SHORTEST, known=True)
    assert [each.stops for each in found] == [1, 0, 0]


def test_least_served_preempts_a_job_once_it_has_had_more_gpu_time():
    jobs = [TraceJob(0, 3 * HOUR, 1), TraceJob(60, 600, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.LEAST_SERVED)
    assert starts(found) == [0, HOUR]
    assert found[0].ended == 3 * HOUR + 600 + 30


def test_a_preempted_job_is_measured_by_the_gpu_time_of_all_its_runs():
    jobs = [TraceJob(0, 3 * HOUR, 1), TraceJob(60, 2 * HOUR, 1)]
    found, _ = replay(jobs, 1, 1, order=Ordering.LEAST_SERVED)
    assert [each.stops for each in found] == [1, 0]  # equal after an hour each: the turn is over


def test_ageing_lets_a_waiting_job_preempt_the_others_in_the_end():
    jobs = [TraceJob(0, 100 * HOUR, 1), TraceJob(1, 90 * HOUR, 1)]
    how = {"order": Ordering.SHORTEST, "known": True, "reserve_after_s": 1000 * HOUR}
    assert replay(jobs, 1, 1, **how)[0][1].started == 100 * HOUR
    assert replay(jobs, 1, 1, age_s=10 * HOUR, **how)[0][1].started == pytest.approx(
        10 * HOUR, abs=600
    )


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=2))
def test_levels_rise_with_the_measure(amounts: list[int]):
    for policy in POLICIES.values():
        few, many = (policy.level(OrderedGang(1000, each, each)) for each in sorted(amounts))
        assert few <= many or (policy.measure is not None and not policy.grows)


# -- estimates


def test_an_estimate_is_the_median_of_similar_runs_with_an_error_factor():
    runs = Runs()
    for seconds in (100, 400, 1600):
        runs.learn(WorkGroup("team", "ann", "train-1", 8000), seconds)
    found = runs.estimate(WorkGroup("team", "ann", "train-2", 8000))
    assert found is not None
    assert found.seconds == pytest.approx(400, rel=0.01)
    assert found.error == pytest.approx(3100, rel=0.05)  # two doublings, times the root of 2/3


def test_the_narrowest_group_with_enough_runs_gives_the_estimate():
    runs = Runs()
    for _ in range(3):
        runs.learn(WorkGroup("team", "ann", "train", 8000), 1000)
        runs.learn(WorkGroup("team", "bob", "sweep", 1000), 10)
    asked = [
        WorkGroup("team", "bob", "sweep", 1000),
        WorkGroup("team", "eve", "train", 8000),
        WorkGroup("other"),
    ]
    found = [runs.estimate(each) for each in asked]
    assert [each.seconds if each else None for each in found] == [10, 1000, 100]
    assert Runs().estimate(WorkGroup("team")) is None


def test_run_times_are_learned_from_finished_jobs_and_survive_a_snapshot():
    jobs = [TraceJob(at, 500, 1, name="short") for at in range(3)]
    _, simulation = replay(jobs, 1, 1, order=Ordering.SHORTEST)
    again = Cluster.of(from_json(to_json(simulation.cluster.snapshot())))
    assert list(again.runs) == list(simulation.cluster.runs)
    found = again.runs.estimate(WorkGroup("everybody", "", "short-9", 1000))
    assert found is not None
    assert found.seconds == pytest.approx(500, rel=0.01)


# -- laws

CROWDED = st.lists(
    st.builds(TraceJob, st.integers(0, 3000), st.integers(1, 2000), st.sampled_from((1, 1, 2, 4))),
    min_size=1,
    max_size=25,
)


@settings(max_examples=15, deadline=None)
@given(CROWDED, st.sampled_from(tuple(Ordering)))
def test_every_job_of_a_trace_ends_and_works_exactly_as_long_as_it_needs(
    jobs: list[TraceJob], order: Ordering
):
    jobs.sort(key=lambda each: each.at)
    found, simulation = replay(jobs, 2, 4, order=order, min_run_s=60)
    assert all(each.ended is not None for each in found)
    useful = sum(each.useful for each in simulation.meter.past.values())
    assert useful == sum(job.gpus * job.runs_s for job in jobs) * 1000


@settings(max_examples=10, deadline=None)
@given(CROWDED)
def test_plan_without_reasons_starts_the_same_gangs_at_the_same_time(jobs: list[TraceJob]):
    jobs.sort(key=lambda each: each.at)
    without_reasons, explained = (
        starts(replay(jobs, 2, 4, planner, order=Ordering.FIRST_COME)[0])
        for planner in (plan_without_reasons, plan)
    )
    assert without_reasons == explained


BOUND_S, LONGEST_S = 600, 300


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(tuple(Ordering)))
def test_a_gang_of_half_the_cluster_starts_within_the_bound_despite_an_endless_stream(
    seed: int, order: Ordering
):
    stream = [
        TraceJob(at, 100 + (seed + 37 * at) % (LONGEST_S - 99), 1) for at in range(0, 3000, 10)
    ]
    jobs = sorted([*stream, TraceJob(101, 50, 8)], key=lambda each: each.at)
    found, _ = replay(jobs, 4, 4, order=order, reserve_after_s=BOUND_S, by_team=False)
    gang = next(each for each, job in zip(found, jobs, strict=True) if job.gpus == 8)
    assert gang.waited(10**9) <= BOUND_S + 2 * LONGEST_S
