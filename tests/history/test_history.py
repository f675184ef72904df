"""The history: replay gives exactly the recorded plans, and the ring stays within its size."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, insert

from tests.given import cluster, job, node
from tests.live.support.waiting import wait_until
from tests.support import kube_given, postgres, recordings
from tests.support.checkout import ROOT
from tests.support.postgres import Postgres
from tests.support.recordings import HOUR, SHORT, played_again, work
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.history import tables
from windlass.history.location import HistoryError, shown, url_of
from windlass.history.record import RecordedCycle, StretchStart, digest_of, start_to_bytes, to_bytes
from windlass.history.recorder import Recorder
from windlass.history.replay import replay_stretch
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import HistoryWriter
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.events import BindFailed, HoldSeen, TaskStarted
from windlass.model.jobs import GangId
from windlass.sim.run import Simulation
from windlass.state.cluster import Cluster

SEEDS = range(40) if os.environ.get("WINDLASS_PROOF") == "1" else (308, 7)
NO_POSTGRES = "PostgreSQL is not here; install Debian's postgresql, or put initdb on the PATH."


@pytest.fixture(scope="module")
def server(require: Callable[..., Path]) -> Iterator[Postgres]:
    with postgres.running(require(postgres.find(), NO_POSTGRES)) as found:
        yield found


@pytest.fixture
def database(server: Postgres) -> str:
    """Return the location of a new database."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: Any, tmp_path: Path) -> str:
    return request.getfixturevalue("database") if request.param != "sqlite" else str(tmp_path / "h")


# --- what is recorded ---


def test_replay_gives_exactly_the_recorded_plans(where: str):
    simulation, writer, said = recordings.recorded(where, work())
    assert (writer.lost, said) == (0, [])
    assert played_again(where) == writer.written > 100
    assert simulation.world.records, "there was something to decide"
    stretches = HistoryStore(where).stretches()
    assert len(stretches) > 5
    assert all(b.goes_on_from(a) for a, b in pairwise(stretches))


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_of_random_events_gives_exactly_the_recorded_plans(seed: int, tmp_path: Path):
    where = str(tmp_path / "h")
    recordings.recorded(where, work(seed, hours=4, nodes=5))
    assert played_again(where)


def test_recording_does_not_change_the_plans(tmp_path: Path):
    with_record, _, _ = recordings.recorded(str(tmp_path / "h"), work(hours=3))
    without = Simulation(work(hours=3))
    without.run()
    assert with_record.cluster.snapshot() == without.cluster.snapshot()


def test_a_hold_besides_the_plan_is_recorded_as_an_event(tmp_path: Path):
    """As when a new leader honours a promise, or the place of a failed bind is held."""
    where = str(tmp_path / "h")
    known = cluster(node("n1", gpus=2), job("a", 1), job("b", 1))
    writer = HistoryWriter(HistoryStore(where), "one", Keep(), print)
    recorder = Recorder(writer)
    for now in (1, 2):
        known.advance(now)
        if now == 2:
            task = next(iter(known.members(GangId("a"))))
            known.apply(TaskStarted(task.id))
            claim = PlaceClaim(task.id, "n1", task.devices, task.shape.request)
            known.apply(HoldSeen(Hold(task.gang, (claim,), 2, firm=True)))
        made = plan(known)
        recorder.note(known, made)
        known.assume(made)
    writer.close()
    found = HistoryStore(where).cycle("one", 2)
    assert found is not None
    assert [type(each) for each in found.heard[1:]] == [TaskStarted, HoldSeen]
    assert played_again(where) == 2


def test_holds_that_older_versions_recorded_without_an_event_are_replayed():
    known = cluster(node("n1", gpus=2), job("a", 1), job("b", 1))
    known.advance(1)
    start, first = StretchStart.of(known), plan(known)
    known.assume(first)
    task = next(iter(known.members(GangId("a"))))
    claim = PlaceClaim(task.id, "n1", task.devices, task.shape.request)
    hold = Hold(task.gang, (claim,), 2, firm=True)
    known.apply(TaskStarted(task.id))
    known.apply(HoldSeen(hold))
    cycles = [
        RecordedCycle(1, 1, (), None, first.actions, (), (), 0, digest_of(first)),
        RecordedCycle(
            2, 1, (TaskStarted(task.id),), (hold,), (), (), (), 0, digest_of(plan(known))
        ),
    ]
    assert [each.is_same for each in replay_stretch(start, cycles)] == [True, True]


def test_what_a_daemon_decides_comes_back_too(tmp_path: Path):
    """With promises, failed binds, evictions and pods that go."""
    where = str(tmp_path / "h")
    team = kube_given.queue("team", "ml", guarantee={"gpu": 4})
    urgent = kube_given.queue("urgent", "other", guarantee={"gpu": 4})
    there = kube_given.Stage(team, urgent, *(kube_given.node(f"n{i}", 2) for i in range(4)))
    writer = HistoryWriter(HistoryStore(where), "one", Keep(), print)
    there.brain._note = Recorder(writer).note
    there.see(*kube_given.crew("a", 4), *kube_given.crew("b", 3))
    there.step()
    there.see(BindFailed(kube_given.task_id("a-1"), "the node said no"))
    for _ in range(5):
        there.step(7)
    there.lose(*kube_given.crew("b", 3))
    there.step(61)
    there.see(*kube_given.crew("c", 4))
    there.step(3)
    there.step(90)
    writer.close(recordings.PATIENCE_S)
    assert writer.written > 5
    assert played_again(where) == writer.written


def test_a_cycle_without_events_is_not_recorded(tmp_path: Path):
    where = str(tmp_path / "h")
    known = cluster(node("n1", gpus=1), job("a", 2))
    writer = HistoryWriter(HistoryStore(where), "one", Keep(), print)
    recorder = Recorder(writer)
    for now in range(10):
        known.advance(now)
        made = plan(known)
        recorder.note(known, made)
        known.assume(made)
    writer.close()
    assert writer.written == 2, "the plan, and the one that found it carried out"


# --- the ring ---


def test_the_ring_stays_within_its_size_and_drops_whole_stretches(where: str):
    keep = Keep(bytes=60_000)
    _, writer, _ = recordings.recorded(where, work(), keep)
    store = HistoryStore(where)
    left = store.stretches()
    assert sum(each.bytes for each in left) <= keep.bytes
    assert left[-1].first + left[-1].cycles == writer.written + 1, "the newest is there"
    assert played_again(where) == sum(each.cycles for each in left) < writer.written
    assert store.cycle("one", left[0].first - 1) is None
    assert len(store.from_on(0, 10**6)) == sum(each.cycles for each in left)


def test_stretches_beyond_the_maximum_age_are_dropped(where: str):
    recordings.recorded(where, work(), Keep(seconds=HOUR))
    left = HistoryStore(where).stretches()
    assert left
    assert min(each.until for each in left) >= left[-1].until - HOUR
    assert played_again(where)


def test_a_stretch_ends_before_it_fills_the_ring(tmp_path: Path):
    where = str(tmp_path / "h")
    endless = recordings.Lengths(10**9, 10**9, 10**9)
    keep = Keep(bytes=100_000)
    simulation, writer = Simulation(work()), HistoryWriter(HistoryStore(where), "one", keep, print)
    recorder = Recorder(writer, endless)

    def note(cluster: Cluster, plan: Plan) -> None:
        recorder.note(cluster, plan)
        if len(writer._waiting) > 100:  # a day is played faster than it is written
            wait_until(lambda: not writer._waiting)

    simulation.note = note
    simulation.run()
    writer.close(recordings.PATIENCE_S)
    left = HistoryStore(where).stretches()
    assert len(left) > 1
    assert sum(each.bytes for each in left) <= keep.bytes


# --- what can go wrong ---


def test_a_blocked_database_delays_no_cycle(where: str):
    """Another process locks the tables until the whole day has been simulated."""
    HistoryStore(where).prepare()
    said: list[str] = []
    writer = HistoryWriter(HistoryStore(where), "one", Keep(), said.append, most=3000)
    simulation = Simulation(work())
    simulation.note = Recorder(writer, SHORT).note
    with _locked(where):
        simulation.run()
        assert writer.lost > 0, "the queue has an end"
        assert writer.written == 0
    writer.close(recordings.PATIENCE_S)
    assert writer.written > 0
    assert f"{writer.lost} cycles came faster" in " ".join(said)
    assert played_again(where) == writer.written


def test_after_a_gap_a_new_stretch_counts_the_lost_cycles(tmp_path: Path):
    where = str(tmp_path / "h")
    HistoryStore(where).prepare()
    writer = HistoryWriter(HistoryStore(where), "one", Keep(), print, most=4000)
    simulation = Simulation(work())
    simulation.note = Recorder(writer, SHORT).note
    with _locked(where):
        simulation.run(until=6 * HOUR)
    for at in range(6 * HOUR, 9 * HOUR, 900):  # no faster than it is written
        _wait_written(writer)
        simulation.run(until=at)
    writer.close(recordings.PATIENCE_S)
    stretches = HistoryStore(where).stretches()
    assert sum(each.lost for each in stretches) == writer.lost > 0
    assert stretches[-1].until > 6 * HOUR
    assert played_again(where) == writer.written


def test_failure_and_recovery_of_the_database_are_each_logged_once(tmp_path: Path):
    where = tmp_path / "folder" / "h"
    said: list[str] = []
    writer = HistoryWriter(HistoryStore(str(where)), "one", Keep(), said.append)
    simulation = Simulation(work(hours=1))
    simulation.note = Recorder(writer).note
    simulation.run()
    _wait(lambda: bool(said), "nobody said that the history cannot be written")
    where.parent.mkdir()
    writer.close(recordings.PATIENCE_S)
    assert len(said) == 2
    assert "cannot be written" in said[0]
    assert said[1] == "the history is written again"
    assert played_again(str(where)) == writer.written > 0


KILLED = """
import sys
import time
from tests.support.recordings import SHORT, work
from windlass.history.recorder import Recorder
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import HistoryWriter
from windlass.sim.run import Simulation
writer = HistoryWriter(HistoryStore(sys.argv[1]), "killed", Keep(), print)
simulation = Simulation(work())
simulation.note = Recorder(writer, SHORT).note
for _ in simulation.moments():
    print(writer.written, flush=True)
while True:  # a day is played faster than it is written
    print(writer.written, flush=True)
    time.sleep(0.05)
"""


def test_a_killed_process_leaves_complete_cycles_and_its_successor_continues(where: str):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, where], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) > 50:
                break
        process.kill()
    before = sum(each.cycles for each in HistoryStore(where).stretches())
    assert before > 50
    _, writer, _ = recordings.recorded(where, work(hours=2), writer="successor")
    assert played_again(where) == before + writer.written
    assert {each.writer for each in HistoryStore(where).stretches()} == {"killed", "successor"}


def test_damaged_bytes_give_a_history_error(tmp_path: Path):
    where = str(tmp_path / "h")
    recordings.recorded(where, work(hours=1))
    with sqlite3.connect(where) as connection:
        connection.execute("UPDATE windlass_cycles SET body = x'00' WHERE number = 2")
    connection.close()
    with pytest.raises(HistoryError, match=r"cycle 2 cannot be read.*damaged"):
        played_again(where)


@pytest.mark.parametrize("text", ["not a database", ""])
def test_a_file_that_is_no_history_is_refused_with_a_sentence(text: str, tmp_path: Path):
    file = tmp_path / "h"
    file.write_text(text * 1000)
    with pytest.raises(HistoryError, match=str(file)):
        HistoryStore(str(file), new=False).stretches()


def test_opening_a_foreign_database_to_read_creates_no_tables(tmp_path: Path):
    file = tmp_path / "other.db"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE theirs (it INTEGER)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(HistoryError, match="there is no history in"):
        HistoryStore(str(file), new=False).demand()
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_reading_a_history_changes_no_byte(tmp_path: Path):
    file = tmp_path / "h"
    recordings.recorded(str(file), work())
    before = file.read_bytes()
    store = HistoryStore(str(file), new=False)
    assert store.demand()
    assert len(list(store.cycles(store.stretches()[0]))) > 0
    with pytest.raises(HistoryError, match="readonly"):
        store.prepare()
    assert file.read_bytes() == before


def test_reading_a_missing_history_does_not_create_it(tmp_path: Path):
    with pytest.raises(HistoryError, match="there is no history"):
        HistoryStore(str(tmp_path / "h"), new=False)
    assert list(tmp_path.iterdir()) == []


# --- versions ---


def test_migration_from_the_first_version_keeps_all_data(where: str):
    source = HistoryStore(where)
    recordings.recorded(where, work(hours=2))
    stretch = source.stretches()[0]
    rows = list(source.cycles(stretch))
    start = source.start(stretch)
    _drop(where)

    engine = create_engine(url_of(where))
    with engine.begin() as connection:
        assert tables.migrate(connection, upto=1) == 1
        named = {"writer": "one", "first": stretch.first, "began": stretch.began}
        named |= {"until": stretch.until, "cycles": len(rows), "bytes": 1, "release": "0.0.1"}
        connection.execute(insert(tables.STRETCHES), [named | {"body": start_to_bytes(start)}])
        for each in rows:
            kept = {"writer": "one", "number": each.number, "first": stretch.first, "at": each.at}
            counts = {"binds": 0, "evictions": 0, "waiting": each.waiting}
            connection.execute(insert(tables.CYCLES), [kept | counts | {"body": to_bytes(each)}])
    engine.dispose()

    HistoryStore(where).prepare()
    assert [each.lost for each in HistoryStore(where).stretches()] == [0]
    assert played_again(where) == len(rows)


def test_a_history_of_a_newer_version_is_refused_unchanged(where: str):
    HistoryStore(where).prepare()
    engine = create_engine(url_of(where))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE windlass_history SET version = 99")
    engine.dispose()
    with pytest.raises(HistoryError, match="newer Windlass"):
        HistoryStore(where).prepare()


def test_a_failed_migration_leaves_the_old_version(where: str, monkeypatch: pytest.MonkeyPatch):
    def breaks(connection: Any) -> None:
        connection.exec_driver_sql("CREATE TABLE half_done (a INTEGER)")
        connection.exec_driver_sql("CREATE nonsense")

    HistoryStore(where).prepare()
    usual = tables.MIGRATIONS
    monkeypatch.setattr(tables, "MIGRATIONS", (*usual, breaks))
    with pytest.raises(HistoryError):
        HistoryStore(where).prepare()
    monkeypatch.setattr(tables, "MIGRATIONS", usual)
    engine = create_engine(url_of(where))
    with engine.begin() as connection:
        assert tables.migrate(connection) == len(usual)
        assert not engine.dialect.has_table(connection, "half_done")
    engine.dispose()


def test_two_processes_can_create_a_database_at_the_same_time(where: str):
    failed: list[Exception] = []

    def prepare() -> None:
        try:
            HistoryStore(where).prepare()
        except HistoryError as error:
            failed.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []


# --- secrets ---


def test_a_password_is_never_shown(server: Postgres):
    wrong = "not-the-p@ssword"
    url = server.url("postgres", password="not-the-p%40ssword")
    with pytest.raises(HistoryError) as caught:
        HistoryStore(url).prepare()
    assert "password authentication failed" in str(caught.value)
    said: list[str] = []
    writer = HistoryWriter(HistoryStore(url), "one", Keep(), said.append)
    simulation = Simulation(work(hours=1))
    simulation.note = Recorder(writer).note
    simulation.run()
    writer.close(1)
    for text in (
        str(caught.value),
        repr(caught.value),
        shown(url_of(url)),
        *said,
        str(HistoryStore(url).where),
    ):
        assert wrong not in text
        assert "not-the-p%40ssword" not in text
    assert len(said) == 2, "once that it cannot be written, once what was left"


@pytest.mark.parametrize(
    "text",
    [
        "mysql://u:hunter2@h/d",
        "postgresql://u:hunter2@h:port/d",
        "postgresql://u:hunter2@h",
        "postgresql://u@h/d?password=hunter2&nonsense=1",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(text: str):
    with pytest.raises(HistoryError) as caught:
        HistoryStore(text).prepare()
    assert "hunter2" not in str(caught.value)


# --- helpers ---


class _locked:  # noqa: N801 - reads like a function
    """Lock the tables from another connection."""

    def __init__(self, where: str) -> None:
        if "://" in where:
            self._connection: Any = psycopg.connect(where)
            self._connection.execute("LOCK TABLE windlass_stretches, windlass_cycles")
        else:
            self._connection = sqlite3.connect(where, isolation_level=None)
            self._connection.execute("BEGIN EXCLUSIVE")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._connection.rollback()
        self._connection.close()


def _drop(where: str) -> None:
    engine = create_engine(url_of(where))
    with engine.begin() as connection:
        for table in ("windlass_cycles", "windlass_stretches", "windlass_history"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    engine.dispose()


def _wait_written(writer: HistoryWriter) -> None:
    _wait(lambda: not writer._waiting, "what waits was not written within a minute")


def _wait(is_so: Callable[[], bool], sentence: str) -> None:
    pause = threading.Event()
    for _ in range(600):
        if is_so():
            return
        pause.wait(0.1)
    pytest.fail(sentence)
