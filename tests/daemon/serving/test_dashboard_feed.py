"""The dashboard feed: noted cycles, documents only for viewers, and gangs that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from tests.given import ask, cluster, job, node, schedule
from windlass.daemon.decide.finished_gangs import MOST, FinishedGangs
from windlass.daemon.decide.step import SchedulerStep, StepOutput
from windlass.daemon.serving.dashboard_feed import NOTE_AT_LEAST_S, DashboardFeed
from windlass.engine.plan import Plan
from windlass.forecast.eta import StartEta
from windlass.kube.ingest.scope import Scope
from windlass.model.events import Event, GangGone, GangSeen, TaskGone, TaskSeen
from windlass.model.jobs import GangId, TaskState
from windlass.state.cluster import Cluster
from windlass.web.auth.authentication import AccessDenied
from windlass.web.documents.jobs import TOP
from windlass.web.documents.live_state import LiveState

GANG = job("ns/a", 2, ask(gpus=1))


class Stage:
    """A scheduler step with given plans, and its dashboard feed."""

    def __init__(self) -> None:
        self.board = LiveState("run")
        self.trouble = ""
        self.feed = DashboardFeed(self.board, lambda: self.trouble)
        self.brain = SchedulerStep(Scope(frozenset({"windlass"})), 0)

    def step(self, plan: Plan, now: int = 0) -> None:
        self.brain.cluster.now = now
        self.feed.step(self.brain, lambda: StepOutput(plan))

    @property
    def noted(self) -> int:
        return len(self.board.cycles())


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    running = asyncio.create_task(stage.feed.run())
    yield stage
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_without_viewers_no_document_is_made(stage: Stage):
    for now in range(100):
        stage.step(Plan(), now)
        await asyncio.sleep(0)
    assert stage.board.stamp is None


async def test_a_viewer_sees_the_last_step_at_once(stage: Stage):
    stage.step(Plan(), 7)
    await stage.feed.look()
    assert stage.board.stamp is not None
    assert stage.board.stamp.now == 7


async def test_a_viewer_sees_the_expected_start_of_a_gang(stage: Stage):
    there = schedule(node("n1"), GANG)
    soon, late = StartEta(early=60, at=90, late=200), StartEta(60, 90, None)
    stage.brain.expect({GangId("ns/a"): soon, GangId("ns/b"): late}, {})
    stage.brain.cluster = there.cluster
    stage.step(there.plan)
    await stage.feed.look()
    answer = stage.board.documents.jobs(TOP)
    assert answer is not None
    [waits] = msgspec.json.decode(answer.body)["waiting"]
    assert waits["eta"] == {"at": 90, "early": 60, "late": 200}


async def test_a_replica_in_trouble_refuses_viewers_with_its_reason(stage: Stage):
    stage.trouble = "r1 leads, and this replica stands by: look there."
    with pytest.raises(AccessDenied, match="r1 leads"):
        await stage.feed.look()


async def test_a_cycle_without_actions_is_noted_once_a_minute(stage: Stage):
    for now in range(2 * NOTE_AT_LEAST_S):
        stage.step(Plan(), now)
    assert stage.noted == 2


async def test_a_cycle_with_actions_is_noted_once_and_not_repeated(stage: Stage):
    """In shadow mode a plan has no effect, so that the same plan is made again and again."""
    there = schedule(node("n", gpus=2), GANG)
    stage.brain.cluster = there.cluster
    for _ in range(3):
        stage.step(replace(there.plan))
    assert stage.noted == 1
    stage.step(replace(there.plan, actions=there.plan.actions[:1]))
    assert stage.noted == 2


# --- gangs that have ended ---


class Watched:
    """A cluster with two running tasks of one gang, and the observer of their end."""

    def __init__(self) -> None:
        self.cluster: Cluster = cluster(node("n", gpus=2), GANG.runs(0, 1, on="n"), now=50)
        self.endings = FinishedGangs(self.cluster)
        self.endings.is_on = True

    def tell(self, *events: Event) -> None:
        for each in events:
            self.endings.before(each)
            self.cluster.apply(each)
            self.endings.after(each)

    def ended(self) -> list[tuple[str, int | None, int]]:
        return [(each.gang.id, each.started, each.ended) for each in self.endings.latest()]


def over(index: int, state: TaskState = TaskState.SUCCEEDED) -> TaskSeen:
    return TaskSeen(replace(GANG.tasks[index], state=state, started_at=index + 3))


def test_a_gang_has_ended_when_all_its_tasks_have():
    watched = Watched()
    watched.tell(over(0))
    assert watched.ended() == []
    watched.tell(over(1, TaskState.FAILED))
    assert watched.ended() == [("ns/a", 3, 50)]
    watched.tell(TaskGone(GANG.tasks[0].id), TaskGone(GANG.tasks[1].id), GangGone(GANG.gang.id))
    assert watched.ended() == [("ns/a", 3, 50)]


def test_a_deleted_gang_has_ended():
    watched = Watched()
    watched.tell(TaskGone(GANG.tasks[0].id), TaskGone(GANG.tasks[1].id), GangGone(GANG.gang.id))
    assert watched.ended() == [("ns/a", 0, 50)]


def test_a_gang_whose_pods_are_recreated_has_not_ended():
    watched = Watched()
    watched.tell(TaskGone(GANG.tasks[0].id), TaskGone(GANG.tasks[1].id), GangGone(GANG.gang.id))
    watched.tell(GangSeen(GANG.gang), TaskSeen(GANG.tasks[0]))
    assert watched.ended() == []


def test_pods_without_a_queue_and_earlier_endings_are_not_listed():
    watched = Watched()
    stranger = replace(GANG.gang, id="kube-system/dns", queue="")
    watched.tell(GangSeen(stranger), GangGone(stranger.id))
    watched.endings.is_on = False
    watched.tell(over(0), over(1))
    assert watched.ended() == []


def test_only_the_latest_endings_are_kept():
    watched = Watched()
    for number in range(MOST + 5):
        gang = replace(GANG.gang, id=f"ns/g{number}")
        watched.tell(GangSeen(gang), GangGone(gang.id))
    names = [name for name, _, _ in watched.ended()]
    assert (len(names), names[0], names[-1]) == (MOST, f"ns/g{MOST + 4}", "ns/g5")
