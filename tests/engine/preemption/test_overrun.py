"""Gangs at their maximum run time: they checkpoint and stop; then they end, or are requeued."""

from __future__ import annotations

from typing import Any

import pytest

from tests.given import Job, Outcome, ask, job, node, outcome_of, queue, schedule
from tests.support import kube_given as kube
from tests.support.small_workloads import arrives, play, record
from windlass.engine.plan import Verdict
from windlass.model.actions import EvictionRule
from windlass.model.jobs import Overrun
from windlass.model.reasons import ReasonCode
from windlass.sim.records import GangStage
from windlass.workloads.objects.annotations import MAX_RUN, OVERRUN

HOUR = 3600
ONE = ask(gpus=1)
UP = 5
"""The seconds until a task has started."""


def running(tasks: int = 1, **fields: Any) -> Job:
    """Return a gang that may run for an hour, and started at zero."""
    made = job("a", tasks, ONE, max_run_s=HOUR, **fields)
    for index in range(tasks):
        made = made.runs(index, on="n", devices=[index])
    return made


def planned(now: int, *jobs: Job) -> Outcome:
    return schedule(node("n", 4), *jobs, now=now)


# --- the instant


@pytest.mark.parametrize(("now", "stops"), [(HOUR - 1, False), (HOUR, True), (HOUR + 9, True)])
def test_a_gang_is_evicted_at_its_maximum_run_time(now: int, stops: bool):
    outcome = planned(now, running(2))
    assert outcome.evicted == (
        {"a-0": EvictionRule.OVERRUN, "a-1": EvictionRule.OVERRUN} if stops else {}
    )


def test_the_plan_wakes_at_the_maximum_run_time():
    assert planned(60, running()).plan.wake_at == HOUR


def test_the_reason_names_the_maximum_run_time():
    outcome = planned(HOUR, running(2))
    assert outcome.verdict("a") is Verdict.DISPLACED
    said = "it has run for as long as it may, 1 h; 2 tasks stop, and it ends"
    assert str(outcome.reason("a", ReasonCode.OVERRAN)) == said
    again = planned(HOUR, running(overrun=Overrun.REQUEUE))
    said = "it has run for as long as it may, 1 h; 1 task stops, and it stands in line again"
    assert str(again.reason("a", ReasonCode.OVERRAN)) == said


def test_a_gang_that_is_not_preemptible_is_evicted_too():
    firm = running(preemptible=False, queue="q")
    outcome = schedule(node("n", 4), queue("q", guarantee={"gpu": 4000}), firm, now=HOUR)
    assert outcome.evicted == {"a-0": EvictionRule.OVERRUN}


def test_run_time_counts_from_the_minimum_and_growth_does_not_restart_it():
    grown = running(3, minimum=2).become(1, started_at=100).become(2, started_at=3000)
    assert planned(HOUR + 99, grown).evicted == {}
    assert len(planned(HOUR + 100, grown).evicted) == 3


def test_run_time_does_not_count_below_the_minimum():
    assert planned(2 * HOUR, running(2).become(1, started_at=None)).evicted == {}


def test_freed_places_are_held_for_others_in_the_same_plan():
    next_one = job("b", 1, ask(gpus=4))
    outcome = planned(HOUR, running(4), next_one)
    assert outcome.held == {"b": ["n"]}


# --- checkpoints


def test_a_checkpoint_is_requested_first_and_never_withdrawn():
    asked = planned(HOUR, running(saves_within_s=120))
    assert [each.deadline for each in asked.plan.asks] == [HOUR + 120]
    assert asked.evicted == {}
    there = asked.carried_out()
    there.advance(HOUR + 60)
    later = outcome_of(there)
    assert (later.plan.withdrawals, later.evicted) == ((), {})
    there.advance(HOUR + 120)
    assert outcome_of(there).evicted == {"a-0": EvictionRule.OVERRUN}


# --- afterwards


def test_a_gang_that_ends_does_not_return():
    timed = job("a", 2, ONE, max_run_s=HOUR)
    simulation = play(node("n", 2), arrives(timed, runs=5 * HOUR, terminates_s=10))
    found = record(simulation, "a")
    assert (found.stage, found.ended) == (GangStage.OVERRAN, UP + HOUR + 10)
    assert simulation.cluster.gangs == {}


def test_a_requeued_gang_waits_behind_later_gangs_and_resumes():
    timed = job("a", 1, ONE, max_run_s=HOUR, overrun=Overrun.REQUEUE, saves_within_s=60)
    simulation = play(
        node("n", 1),
        arrives(timed, runs=HOUR + 600, saving_s=0, terminates_s=0),
        arrives(job("b", 1, ONE), at=HOUR - 1, runs=300),
    )
    assert record(simulation, "b").started == UP + HOUR + UP
    found = record(simulation, "a")
    assert (found.stage, found.ended) == (GangStage.FINISHED, UP + HOUR + UP + 300 + UP + 600)


def test_an_overrun_gives_no_repeat_protection():
    timed = job("a", 1, ONE, max_run_s=HOUR, overrun=Overrun.REQUEUE)
    simulation = play(node("n", 1), arrives(timed, runs=3 * HOUR), until=HOUR + 60)
    gang = record(simulation, "a").gang
    assert (gang.stops, gang.spared) == (0, False)


# --- on Kubernetes


def read(**notes: str) -> kube.Stage:
    made = kube.pod("a", 1, annotations=notes)
    return kube.Stage(kube.queue("team", "ml", guarantee={"gpu": 2}), kube.node("n1", 1), made)


def test_annotations_set_the_maximum_run_time_and_what_follows():
    (gang,) = read(**{MAX_RUN: "8h", OVERRUN: "requeue"}).cluster.gangs.values()
    assert (gang.max_run_s, gang.overrun) == (8 * HOUR, Overrun.REQUEUE)
    (plain,) = read().cluster.gangs.values()
    assert (plain.max_run_s, plain.overrun) == (None, Overrun.END)


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ({MAX_RUN: "long"}, "annotation windlass.dev/max-run must be a time such as 90s"),
        ({MAX_RUN: "1h", OVERRUN: "again"}, "windlass.dev/overrun must be end or requeue"),
    ],
)
def test_an_invalid_annotation_is_reported_and_blocks_the_gang(notes: dict[str, str], said: str):
    (gang,) = read(**notes).cluster.gangs.values()
    assert said in str(gang.refusal)
