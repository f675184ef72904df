"""Forecasts of starts: forward runs of the engine with run times and arrivals of the past."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.given import Job, ask, job, node, snapshot
from tests.support.checkout import ROOT
from tests.support.small_workloads import arrives, work
from windlass.cli import windlass
from windlass.daemon.serving import forecaster
from windlass.daemon.serving.forecaster import Forecaster, settled
from windlass.engine.cycle import plan
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.forecast import experience as past
from windlass.forecast import forward_run
from windlass.forecast.eta import Forecast, StartEta, quantile, stretched
from windlass.forecast.experience import Experience
from windlass.forecast.sampling import Draws, RunRandomness
from windlass.forecast.survival import Survival
from windlass.forecast.text import eta_by_the_clock, eta_in_message, eta_sentence
from windlass.kube.writers.conditions import message_of
from windlass.model.events import GangGone
from windlass.model.jobs import GangId, JobId
from windlass.model.reasons import Reason, ReasonCode
from windlass.sim.generate.week import generate
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot
from windlass_lab.trials.eta import Day, ask_day, figures, misstated

ONE = ask(gpus=1)
G = GangId("g")
HOUR = 3600
times = st.lists(st.floats(1, 1000), max_size=20)


def running(name: str, stated: int | None, **fields: int) -> Job:
    """A job that has had the one GPU of `n` since 0."""
    return job(name, 1, ONE, duration_s=stated, **fields).runs(0, on="n", devices=[0])


def etas(there: Snapshot, known: Experience | None = None) -> dict[str, StartEta]:
    forecast = Forecast(there, known or Experience())
    for _ in forecast.steps():
        pass
    return {str(gang): eta for gang, eta in forecast.etas().items()}


def taught(*arrivals: Arrival, until: int | None = None) -> Experience:
    """What is learned while these play, one after the other, on one GPU."""
    known = Experience()

    def watched(cluster: Cluster) -> Plan:
        known.look(cluster)
        return plan(cluster)

    simulation = Simulation(work(node("n", 1), *arrivals, until=until), watched, start_s=1)
    simulation.run()
    known.look(simulation.cluster)
    return known


# -- how long things last


@for_all(times, times, st.floats(0, 1000), st.floats(0.001, 0.999))
def test_a_draw_is_never_shorter_than_the_time_so_far(
    ended: list[float], going: list[float], so_far: float, chance: float
):
    drawn = Survival(ended, going).draw(so_far, chance)
    assert drawn is None or so_far <= drawn <= max(ended)


def test_without_unfinished_runs_draws_follow_the_ends():
    known = Survival([10, 20, 30, 40])
    assert [known.draw(0, 1 - part) for part in (0.25, 0.5, 0.75)] == [10, 20, 30]


def test_longer_unfinished_runs_make_draws_longer():
    assert Survival([10, 20], [100, 100]).draw(0, 0.4) is None
    assert Survival([10, 20]).draw(0, 0.4) is not None


@for_all(st.lists(st.integers(0, 1000), min_size=1))
def test_quantiles_are_ordered_and_within_the_values(values: list[int]):
    early, at, late = (quantile(sorted(values), part) for part in (0.1, 0.5, 0.9))
    assert min(values) <= early <= at <= late <= max(values)


# -- what is learned


def test_an_end_is_remembered_with_its_stated_run_time():
    known = taught(arrives(job("a", 1, ONE, duration_s=100), runs=200))
    (ended,) = known.ends(stated=True)
    assert (ended.queue, ended.ran_s, ended.stated_s) == ("team", 200, 100)


def test_a_gang_deleted_while_waiting_is_no_run():
    long = arrives(job("a", 1, ONE), runs=1000)
    known = taught(long, arrives(job("b", 1, ONE), at=10, deleted_at=50), until=100)
    assert list(known.ends(stated=False)) == []


def test_a_displaced_gang_has_not_ended():
    low, high = job("low", 1, ONE), job("high", 1, ONE, priority=1)
    known = taught(arrives(low, runs=500), arrives(high, at=100, runs=50), until=300)
    assert [each.job for each in known.ends(stated=False)] == ["high"]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(past, "MOST_ENDS", 3)
    known = taught(*(arrives(job(f"j{i}", 1, ONE), runs=10) for i in range(8)))
    assert [each.job for each in known.ends(stated=False)] == ["j5", "j6", "j7"]


def who_comes(known: Experience, now: int) -> list[tuple[int, str]]:
    """When whose submission comes again within eight hours, in any of the runs."""
    draws = Draws(Cluster.of(snapshot(node("n", 1), now=now)), known)
    return [
        (at, gang.id.partition(" ")[0])
        for run in range(16)
        for at, gang, _ in draws.arrivals(now + 8 * HOUR, RunRandomness.draw("1", run, 16))
    ]


def every_hour(hours: int) -> Experience:
    """A submission in the middle of every hour, named after it."""
    jobs = (arrives(job(f"j{i}", 1, ONE), at=i * HOUR + 1800, runs=10) for i in range(hours))
    return taught(*jobs)


def test_recent_arrivals_repeat_in_the_near_future():
    came = who_comes(every_hour(10), now=10 * HOUR)
    assert {name for at, name in came if at < 12 * HOUR} == {"j8", "j9"}


def test_later_arrivals_repeat_any_part_of_the_past_before_a_day_is_known():
    came = who_comes(every_hour(10), now=10 * HOUR)
    assert {name for at, name in came if at >= 12 * HOUR} > {"j1", "j5", "j9"}


def test_later_arrivals_repeat_the_same_time_of_day_once_a_day_is_known():
    came = who_comes(every_hour(58), now=58 * HOUR)
    later = [(at, name) for at, name in came if at >= 60 * HOUR]
    assert {name for _, name in later} >= {"j12", "j36"}, "of either day"
    assert all((at // HOUR - int(name[1:])) % 24 == 0 for at, name in later)


def test_a_bounded_memory_knows_how_far_back_it_reaches(monkeypatch: pytest.MonkeyPatch):
    assert every_hour(10).remembers_since == 1800
    monkeypatch.setattr(past, "MOST_ARRIVALS", 4)
    assert every_hour(10).remembers_since == 6 * HOUR + 1800


# -- what is forecast


def test_a_job_behind_a_stated_one_starts_when_that_ends():
    eta = etas(snapshot(node("n", 1), running("a", 1000), job("b", 1, ONE)))["b"]
    assert eta.at is not None
    assert eta.late is not None
    assert eta.early < 900 < eta.at < 1300 < eta.late


def test_stated_run_times_are_corrected_by_observed_errors():
    past_jobs = (arrives(job(f"j{i}", 1, ONE, duration_s=100), runs=200) for i in range(100))
    there = snapshot(node("n", 1), running("a", 1000), job("b", 1, ONE))
    at = etas(there, taught(*past_jobs))["b"].at
    assert at is not None
    assert 1700 < at < 2300


def test_gangs_of_one_job_run_alike_whatever_was_stated():
    known = taught(*(arrives(of_sweep(f"j{i}"), runs=300) for i in range(6)))
    at = etas(snapshot(node("n", 1), of_sweep("a", 1), job("b", 1, ONE)), known)["b"].at
    assert at is not None
    assert 280 < at < 340


def of_sweep(name: str, running_tasks: int = 0) -> Job:
    made = job(name, 1, ONE, duration_s=5000)
    made = replace(made, gang=replace(made.gang, job=JobId("sweep")))
    return made.runs(0, on="n", devices=[0]) if running_tasks else made


def test_a_gang_that_outlived_its_estimate_is_not_expected_to_end_at_once():
    there = snapshot(node("n", 1), running("a", 1000), job("b", 1, ONE), now=2000)
    at = etas(there)["b"].at
    assert at is not None
    assert at > 2200


def test_waiting_gangs_start_one_after_another():
    waiting = [job(f"w{i}", 1, ONE, duration_s=600, created_at=i) for i in range(3)]
    found = etas(snapshot(node("n", 1), running("a", 600), *waiting))
    starts = [found[f"w{i}"].at or 0 for i in range(3)]
    assert starts == sorted(starts)
    assert starts[0] + 400 < starts[1]


def test_without_experience_there_are_no_etas():
    assert etas(snapshot(node("n", 1), running("a", None), job("b", 1, ONE))) == {}


def test_a_start_beyond_the_forecast_has_no_time():
    there = snapshot(node("n", 1), running("a", 40_000), job("b", 1, ONE))
    forecast = Forecast(there, Experience(), horizon_s=14_400)
    for _ in forecast.steps():
        pass
    eta = forecast.etas().get(GangId("b"), StartEta(14_400, None, None))
    assert (eta.at, eta.late) == (None, None)


@for_all(st.integers(1, 1000), st.integers(1, 1000))
def test_a_band_is_stretched_around_its_median(early: int, late: int):
    early, late = min(early, 500), max(late, 500)
    wide = stretched(StartEta(early, 500, late), 0, 1000)
    assert wide.early <= early <= 500 <= late <= (wide.late or 0)


@for_all(st.integers(1, 1000))
def test_an_early_bound_beyond_the_forecast_is_at_most_half_of_it(early: int):
    wide = stretched(StartEta(early, None, None), 0, 1000)
    assert wide.early <= min(early, 500)


def test_gangs_that_write_checkpoints_continue_to_write_them():
    there = snapshot(node("n", 1), running("a", 40_000, saved_at=0), job("b", 1, ONE))
    copy = forward_run.ForwardRun(there, Experience(), 10_000, RunRandomness.draw("1", 0, 12))
    for _ in copy.steps():
        pass
    saved_at = copy.cluster.gangs[GangId("a")].saved_at or 0
    assert copy.cluster.now - saved_at <= forward_run.SAVES_EVERY_S


def test_the_same_snapshot_gives_the_same_etas():
    there = snapshot(node("n", 2), running("a", 900), job("b", 2, ONE), job("c", 2, ONE))
    assert etas(there) == etas(there)


def test_a_forecast_leaves_the_cluster_as_it_is():
    there = Cluster.of(snapshot(node("n", 1), running("a", 900), job("b", 1, ONE)))
    before = there.snapshot()
    etas(before)
    assert there.snapshot() == before


# -- what is said


@pytest.mark.parametrize(
    ("eta", "sentence"),
    [
        (StartEta(1200, 2400, 5400), "starts in about 40 min (20 min to 1 h 30)"),
        (StartEta(60, 61, 70), "starts in about 1 min"),
        (StartEta(3000, 9000, None), "starts in about 2 h 30 (50 min at the earliest)"),
        (StartEta(14_400, None, None), "starts in 4 h at the earliest"),
    ],
)
def test_an_eta_in_words(eta: StartEta, sentence: str):
    assert eta_sentence(eta, 0) == sentence


def test_pods_are_told_times_of_day():
    eta = StartEta(1_763_300_000, 1_763_301_000, 1_763_305_000)
    now = 1_763_299_000
    assert eta_by_the_clock(eta, now) == "starts at about 2025-11-16 13:50 UTC (13:35 to 15:00)"
    late, later = "starts at about 2025-11-16 14:15 UTC", 1_763_302_400
    assert eta_by_the_clock(eta, later) == f"{late} (14:15 to 15:00)", "never in the past"
    assert eta_by_the_clock(replace(eta, late=later), later) == late
    decision = Decision(G, "team", Verdict.WAITS, (Reason(ReasonCode.HELD, {"tasks": 1}),), 1)
    assert message_of(decision, "starts at noon").text.endswith("in line); starts at noon")


def test_a_gang_that_never_starts_is_told_no_time():
    reasons = (
        Reason(ReasonCode.NEVER_LIMIT, {"queue": "q", "limit": 1, "unit": "GPUs", "need": 2}),
    )
    decision = Decision(G, "team", Verdict.NEVER, reasons)
    assert "noon" not in message_of(decision, "starts at noon").text


def test_an_eta_is_kept_until_it_is_wrong_by_much():
    said = {G: StartEta(1000, 2000, 4000)}
    assert settled(said, {G: StartEta(1100, 2200, 4100)}, now=0) == said
    much_later = {G: StartEta(3000, 5000, 9000)}
    assert settled(said, much_later, now=0) == much_later
    assert settled(said, {}, now=0) == {}


def test_an_eta_is_found_in_the_message_of_a_pod():
    now = 1_763_299_000
    told = eta_by_the_clock(StartEta(1_763_300_000, 1_763_301_000, None), now)
    decision = Decision(G, "team", Verdict.WAITS, (Reason(ReasonCode.HELD, {"tasks": 1}),), 1)
    assert eta_in_message(message_of(decision, told).text, now) == told
    assert eta_in_message(message_of(decision).text, now) == ""
    assert eta_in_message(message_of(decision, told).text, now + 3600) == "", (
        "that time has gone by"
    )


def test_explain_says_when_a_waiting_job_is_expected_to_start():
    scenario = ROOT / "examples" / "13-reservation-and-backfill.yaml"
    asked = ["explain", "large", "--scenario", str(scenario), "--at", "20m"]
    assert "- Starts in about 1 h" in CliRunner().invoke(windlass, asked).output
    eta = json.loads(CliRunner().invoke(windlass, [*asked, "--json"]).output)["gangs"][0]["eta"]
    assert 1200 < eta["early"] < eta["at"] < eta["late"]


async def test_the_daemon_forecasts_beside_its_cycles(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forecaster, "CPU_PART", 0.9)
    there = Cluster.of(snapshot(node("n", 1), running("a", 1000), job("b", 1, ONE)))
    beside = Forecaster(pytest.fail)
    beside.look(there)
    work = asyncio.create_task(beside.run())
    try:
        async with asyncio.timeout(60):
            while not beside.texts:
                await asyncio.sleep(0.02)
    finally:
        work.cancel()
    assert beside.texts.keys() == {"b"}
    assert beside.texts[GangId("b")].startswith("starts at about 1970-01-01 00:")


async def test_a_forecast_that_fails_is_logged_only(
    monkeypatch: pytest.MonkeyPatch,
):
    def fail(_cluster: Cluster) -> Plan:
        raise KeyError("n")

    monkeypatch.setattr(forward_run, "plan", fail)
    complaints = asyncio.Queue[str]()
    beside = Forecaster(complaints.put_nowait)
    beside.look(Cluster.of(snapshot(node("n", 1), running("a", 1000), job("b", 1, ONE))))
    work = asyncio.create_task(beside.run())
    try:
        async with asyncio.timeout(60):
            assert await complaints.get() == "KeyError('n')"
    finally:
        work.cancel()
    assert beside.texts == {}


# -- how good it is


def test_stated_run_times_are_wrong_by_the_factor_and_unstated_ones_stay_unstated():
    right = generate(1, hours=2, nodes=4)
    wrong = misstated(right, 1, 0.7)
    pairs = list(zip(right.arrivals, wrong.arrivals, strict=True))
    assert all((a.gang.duration_s is None) == (b.gang.duration_s is None) for a, b in pairs)
    assert all(a.runs_s == b.runs_s for a, b in pairs)
    assert misstated(right, 1, 0.0) != wrong


def test_the_trial_judges_every_eta_of_its_days():
    found = figures(ask_day(Day(3, nodes=4, hours=7, runs=5)))
    assert found.answers > 0
    assert 0 <= found.coverage <= 1
    assert found.error >= 0


def test_gangs_that_are_gone_are_forgotten():
    known, there = Experience(), Cluster.of(snapshot(node("n", 1), running("a", 10)))
    known.look(there)
    there.apply(GangGone(GangId("a")))
    known.look(there)
    assert [each.job for each in known.ends(stated=True)] == ["a"]
