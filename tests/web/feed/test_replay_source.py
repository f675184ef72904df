"""The recorded past on the dashboard: cycles older than the remembered ones, replayed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.asgi import Told, ask
from tests.support.recordings import PATIENCE_S, SHORT, work
from tests.web.redact.test_redaction import ANN, BOARD, Judge
from windlass.daemon.serving.replay_reader import ReplayReader
from windlass.engine.plan import Plan
from windlass.history.recorder import Recorder
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import HistoryWriter
from windlass.sim.run import Simulation
from windlass.state.cluster import Cluster
from windlass.web.auth.authentication import AccessDenied
from windlass.web.auth.authorization import AccessRights, VisibleScope
from windlass.web.documents.decisions import cycle_document
from windlass.web.documents.live_state import LiveState
from windlass.web.feed.replay_source import ReplayUnavailable
from windlass.web.redact.viewer import ViewReader
from windlass.web.schema.cycles import CycleDocument
from windlass.web.server.app import application

LOCAL = {"host": "127.0.0.1"}


class Day:
    """A few recorded hours, and what each cycle was when it was decided."""

    def __init__(self, file: Path) -> None:
        self.made: list[CycleDocument] = []
        self._last: Plan | None = None
        self.store = HistoryStore(str(file))
        writer = HistoryWriter(self.store, "one", Keep(), pytest.fail)
        self._recorder = Recorder(writer, SHORT)
        simulation = Simulation(work())
        simulation.note = self._note
        simulation.run()
        writer.close(PATIENCE_S)
        self.record = ReplayReader(self.store)

    def _note(self, cluster: Cluster, plan: Plan) -> None:
        self._recorder.note(cluster, plan)
        if plan is not self._last:
            self._last = plan
            number = len(self.made) + 1
            self.made.append(cycle_document(number, cluster, plan, cluster.holds))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return Day(tmp_path_factory.mktemp("history") / "day.db")


def test_a_replayed_cycle_equals_the_original_with_its_reasons(day: Day, monkeypatch: Any):
    monkeypatch.setattr("windlass.daemon.serving.replay_reader.PAUSES", 0)
    acted = [each for each in day.made if each.evicted or each.held]
    assert acted, "somebody had to make room"
    for each in (*acted[:3], day.made[0], day.made[-1]):
        assert day.record.cycle(f"{each.cycle}~one") == each


def test_consecutive_windows_cover_every_recorded_cycle(day: Day, monkeypatch: Any):
    monkeypatch.setattr("windlass.daemon.serving.replay_reader.MOST_CYCLES", 50)
    keys: list[str] = []
    until = 10**9
    while True:
        window = day.record.window(None, until)
        if not window.cycles.key:
            break
        keys = window.cycles.key + keys
        until = window.cycles.at[0] - 1
    assert keys == [f"{each.cycle}~one" for each in day.made]
    assert (window.began, window.until) == (day.made[0].at, day.made[-1].at)
    first = day.record.window(window.began, None).cycles
    assert first.key == keys[: len(first.key)]


def test_a_window_never_splits_a_second(day: Day):
    times = [each.at for each in day.made]
    for most in range(2, 12):
        last = day.store.up_to(10**9, most)
        at_first = [each for each in last if each.at == last[0].at]
        assert len(at_first) == times.count(last[0].at) or len({each.at for each in last}) == 1


@pytest.mark.parametrize("key", ["0~one", "1~other", "x~one", "", "1"])
def test_an_unknown_key_is_not_found(day: Day, key: str):
    assert day.record.cycle(key) is None


async def get(board: LiveState, path: str) -> Told:
    return await ask(application(board, Path("/nonexistent")), path, **LOCAL)


async def test_the_record_is_served_over_http(day: Day):
    board = LiveState("run")
    board.recorded = day.record
    told = await get(board, "/api/recorded?until=1000000000")
    key = told.json["cycles"]["key"][0]
    assert (await get(board, f"/api/recorded/cycle?key={key}")).json["at"] == day.made[0].at
    assert (await get(board, "/api/recorded/cycle?key=0~one")).status == 404
    assert (await get(board, "/api/recorded")).status == 400
    assert (await get(board, "/api/recorded?since=1&until=2")).status == 400


async def test_without_a_record_the_response_says_so():
    told = await get(LiveState("run"), "/api/recorded?until=9")
    assert told.status == 404
    assert "Nothing is recorded" in told.json["error"]


async def test_an_unreadable_record_is_answered_with_503(tmp_path: Path):
    board = LiveState("run")
    board.recorded = ReplayReader(HistoryStore(str(tmp_path / "empty.db")))
    told = await get(board, "/api/recorded?until=9")
    assert told.status == 503
    assert "cannot be read" in told.json["error"]


async def test_the_record_needs_the_right_to_see_everything():
    reader = ViewReader(
        BOARD, AccessRights(Judge(VisibleScope(frozenset({"red"}), frozenset(), nodes=False)))
    )
    with pytest.raises(AccessDenied, match="further back") as refused:
        await reader.recorded(ANN, None, 9)
    assert refused.value.status == 403


def test_a_long_replay_is_done_in_parts_of_bounded_time(day: Day, monkeypatch: Any):
    monkeypatch.setattr("windlass.daemon.serving.replay_reader.PAUSES", 0)
    monkeypatch.setattr("windlass.daemon.serving.replay_reader.PATIENCE_S", 0.0)
    record, last = ReplayReader(day.store), day.store.stretches()[-1]
    key = f"{last.first + last.cycles - 1}~one"
    for _ in range(last.cycles - 1):
        with pytest.raises(ReplayUnavailable, match="still being played"):
            record.cycle(key)
    assert record.cycle(key) == day.made[-1]
