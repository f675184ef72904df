"""Work that saves itself: what a training loop can rely on."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.checkpointed_job import Counting
from windlass.checkpoint import Checkpoint
from windlass.checkpoint.listeners import request_in
from windlass.checkpoint.protocol import (
    DEFAULT_PATH,
    EXIT_SAVED,
    REQUEST,
    Ack,
    CheckpointRequest,
    SaveState,
    accepts,
    read_ack,
)
from windlass.checkpoint.session import SaveFailed
from windlass.checkpoint.store import CheckpointStore

ASKED = CheckpointRequest("7f3a", 4_000_000_000, 'room for "big"')


class Number:
    """The least that can be trained."""

    def __init__(self) -> None:
        self.value = 0
        self.is_broken = False

    def save(self, folder: Path) -> None:
        if self.is_broken:
            raise OSError("the disk is full")
        (folder / "value").write_text(str(self.value))

    def load(self, folder: Path) -> None:
        self.value = int((folder / "value").read_text())


@pytest.fixture
def last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDLASS_TERMINATION_LOG", str(tmp_path / "last-word"))
    return tmp_path / "last-word"


@pytest.fixture
def letterbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDLASS_CHECKPOINT_FILE", str(tmp_path / "annotations"))
    monkeypatch.setattr("windlass.checkpoint.listeners.LOOK_EVERY_S", 0)
    return tmp_path / "annotations"


def put(letterbox: Path, request: CheckpointRequest | None) -> None:
    """As a kubelet writes all annotations of a pod."""
    others = 'kubernetes.io/config.source="api"\n'
    asked = f"{REQUEST}={json.dumps(request.text())}\n" if request else ""
    letterbox.write_text(others + asked)


# --- saves ----------------------------------------------------------------------------------------


def test_work_goes_on_after_the_newest_save_and_saves_its_end(tmp_path: Path) -> None:
    first, second = Number(), Number()
    for step in (work := Checkpoint(tmp_path, first.save, first.load, every_s=0)).steps(3):
        first.value += step
    assert work.store.steps() == [2, 3]  # the newest two
    again = Checkpoint(tmp_path, second.save, second.load)
    assert list(again.steps(5)) == [3, 4]
    assert second.value == 0 + 1 + 2


def test_finished_work_does_nothing_again(tmp_path: Path) -> None:
    number = Number()
    assert list(Checkpoint(tmp_path, number.save, number.load).steps(2)) == [0, 1]
    assert list(Checkpoint(tmp_path, number.save, number.load).steps(2)) == []


def test_a_save_that_was_never_completed_is_not_seen_and_swept_away(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.begin(1)
    store.finish(1)
    store.begin(2)
    (store.saving(2) / "half").write_text("…")
    assert store.newest() == 1
    store.begin(3)
    store.finish(3)
    assert [one.name for one in sorted(tmp_path.iterdir())] == [store.at(1).name, store.at(3).name]


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    number = Number()
    work = Checkpoint(tmp_path, number.save, number.load, every_s=0)
    work.after(1)
    number.is_broken = True
    with pytest.raises(SaveFailed, match="the disk is full"):
        work.after(2)
    work.close()
    assert work.store.newest() == 1


def test_killed_at_any_moment_it_goes_on_from_a_whole_save(tmp_path: Path) -> None:
    dice, reached = random.Random(8), 0
    for _ in range(8):
        life = Counting(tmp_path, every_s=0)  # it saves after every step
        life.count_to(reached + 1)
        reached = life.count_to(reached + 1 + dice.randrange(5)) - 1  # its last step may be lost
        time.sleep(dice.random() / 50)  # a step, with its save, takes less
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
        newest = CheckpointStore(tmp_path / "saves").newest()
        assert newest is not None
        assert newest >= reached
    last = Counting(tmp_path, end=reached + 20)
    assert last.end() == 0


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_told_by_a_signal_it_saves_leaves_and_loses_no_step(
    tmp_path: Path, number: signal.Signals
) -> None:
    life = Counting(tmp_path, WINDLASS_CHECKPOINT_SIGNAL=number.name)
    life.count_to(20)
    assert life.end(number) == EXIT_SAVED
    word = read_ack((tmp_path / "last-word").read_text())
    assert word is not None
    assert (word.state, word.id) == (SaveState.DONE, "")
    assert word.step >= 20
    assert word.step == CheckpointStore(tmp_path / "saves").newest()
    successor = Counting(tmp_path, end=word.step + 3)
    assert successor.count_to(0) == word.step + 1  # the step after the last one that was done
    assert successor.end() == 0


def test_a_signal_interrupts_no_step_and_others_hear_it_too(
    tmp_path: Path, last_word: Path
) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    number = Number()
    try:
        work = Checkpoint(tmp_path / "saves", number.save, number.load)
        steps = work.steps(9)
        next(steps)
        signal.raise_signal(signal.SIGTERM)
        number.value += 1  # the step goes on to its end
        with pytest.raises(SystemExit) as left:
            next(steps)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.value.code == EXIT_SAVED
    assert heard == [signal.SIGTERM, signal.SIGTERM]
    assert (work.store.at(1) / "value").read_text() == "1"


def test_a_signal_during_the_last_step_ends_it_as_finished(tmp_path: Path) -> None:
    number = Number()
    for _ in Checkpoint(tmp_path, number.save, number.load).steps(1):
        signal.raise_signal(signal.SIGTERM)
    assert CheckpointStore(tmp_path).newest() == 1


def test_under_torchrun_no_save_begins_that_would_be_killed(
    tmp_path: Path, last_word: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "0")  # any save takes longer
    number = Number()
    work = Checkpoint(tmp_path / "saves", number.save, number.load, every_s=0)
    work.after(1)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        work.after(2)
    word = read_ack(last_word.read_text())
    assert word is not None
    assert word.step == work.store.newest() == 1


# --- the file -------------------------------------------------------------------------------------


def test_asked_by_file_it_saves_and_answers_with_its_end(
    tmp_path: Path, last_word: Path, letterbox: Path
) -> None:
    number = Number()
    work = Checkpoint(tmp_path / "saves", number.save, number.load)
    work.after(1)  # nobody asks
    put(letterbox, ASKED)
    with pytest.raises(SystemExit) as left:
        work.after(2)
    assert left.value.code == EXIT_SAVED
    word = read_ack(last_word.read_text())
    assert word is not None
    assert accepts(ASKED, word)
    assert (word.step, word.uri) == (2, work.store.at(2).as_uri())


def test_a_request_withdrawn_in_time_leaves_the_work_untouched(
    tmp_path: Path, letterbox: Path
) -> None:
    number = Number()
    for step in (work := Checkpoint(tmp_path / "saves", number.save, number.load)).steps(3):
        put(letterbox, ASKED if step == 0 else None)
        if step == 0:
            put(letterbox, None)
    assert work.store.steps() == [3]


def test_asked_by_file_what_cannot_be_saved_is_not_left(
    tmp_path: Path, last_word: Path, letterbox: Path
) -> None:
    number = Number()
    number.is_broken = True
    work = Checkpoint(tmp_path / "saves", number.save, number.load)
    put(letterbox, ASKED)
    work.after(1)
    work.after(2)  # and it is not tried again for the same request
    work.close()
    assert not last_word.exists()


def test_the_file_may_hold_the_request_alone() -> None:
    assert request_in(ASKED.text()) == ASKED
    assert request_in("") is None
    assert request_in(f'{REQUEST}=""\n') is None
    assert request_in(f"{REQUEST}=broken\n") is None


# --- the endpoint ---------------------------------------------------------------------------------


class Scheduler:
    """Whoever asks over HTTP."""

    def __init__(self, work: Checkpoint) -> None:
        assert work.endpoint is not None
        self._url = f"http://127.0.0.1:{work.endpoint.port}{DEFAULT_PATH}"

    def send(self, method: str, body: str = "", query: str = "") -> tuple[int, Ack | None]:
        call = urllib.request.Request(self._url + query, body.encode() or None, method=method)
        try:
            with urllib.request.urlopen(call, timeout=5) as answer:
                return answer.status, read_ack(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None


@pytest.fixture
def served(tmp_path: Path, last_word: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_CHECKPOINT_PORT", "0")
    monkeypatch.setenv("WINDLASS_CHECKPOINT_HOST", "127.0.0.1")
    number = Number()
    work = Checkpoint(tmp_path / "saves", number.save, number.load)
    yield work, number
    work.close()


def test_asked_over_http_it_saves_answers_and_works_on(served: tuple[Checkpoint, Number]) -> None:
    work, _ = served
    scheduler = Scheduler(work)
    assert scheduler.send("GET") == (204, None)
    status, ack = scheduler.send("POST", ASKED.text())
    assert ack is not None
    assert (status, ack.id, ack.state) == (202, "7f3a", SaveState.SAVING)
    work.after(1)
    work.after(2)  # asked once, saved once
    status, ack = scheduler.send("GET")
    assert accepts(ASKED, ack)
    assert ack is not None
    assert (status, ack.state, ack.step) == (200, SaveState.DONE, 1)
    assert scheduler.send("POST", ASKED.text()) == (202, ack)  # asked again: it is done


def test_after_an_answer_a_signal_saves_what_was_done_since(
    served: tuple[Checkpoint, Number], last_word: Path
) -> None:
    work, _ = served
    Scheduler(work).send("POST", ASKED.text())
    work.after(1)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        work.after(5)
    word = read_ack(last_word.read_text())
    assert word is not None
    assert accepts(ASKED, word)
    assert word.step == 5


def test_a_withdrawal_counts_for_its_own_request_only(served: tuple[Checkpoint, Number]) -> None:
    work, _ = served
    scheduler = Scheduler(work)
    scheduler.send("POST", ASKED.text())
    assert scheduler.send("DELETE", query="?id=older")[0] == 409
    assert scheduler.send("DELETE", query="?id=7f3a")[0] == 204
    work.after(1)
    assert work.store.steps() == []


def test_what_cannot_be_saved_is_refused_over_http(served: tuple[Checkpoint, Number]) -> None:
    work, number = served
    number.is_broken = True
    scheduler = Scheduler(work)
    scheduler.send("POST", ASKED.text())
    work.after(1)
    _, ack = scheduler.send("GET")
    assert ack is not None
    assert ack.state is SaveState.REFUSED


def test_nonsense_is_turned_away(served: tuple[Checkpoint, Number]) -> None:
    work, _ = served
    scheduler = Scheduler(work)
    assert scheduler.send("POST", "save!")[0] == 400
    assert scheduler.send("POST", " " * 5000)[0] == 413
    assert scheduler.send("GET", query="/elsewhere")[0] == 404
    work.after(1)
    assert work.store.steps() == []


# --- several processes of one job -----------------------------------------------------------------


class Threads:
    """Ranks that are threads, to be asked one after the other."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)
        self._said: dict[int, object] = {}
        self.ranks = [Threads.Rank(self, index) for index in range(count)]

    def all(self, index: int, said: object) -> list[object]:
        self._said[index] = said
        self._barrier.wait(10)
        found = [self._said[one.index] for one in self.ranks]
        self._barrier.wait(10)
        return found

    class Rank:
        def __init__(self, group: Threads, index: int) -> None:
            self.group, self.index, self.is_first = group, index, index == 0

        def most(self, number: int) -> int:
            return max(self.group.all(self.index, number))  # pyright: ignore

        def any_of(self, text: str) -> str:
            return next((str(one) for one in self.group.all(self.index, text) if one), "")


def test_if_one_process_is_asked_all_save_the_same_step_and_give_the_same_answer(
    tmp_path: Path, last_word: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.checkpoint.listeners.LOOK_EVERY_S", 0)
    group, lock = Threads(3), threading.Lock()
    left: dict[int, int] = {}

    def train(index: int) -> None:
        with lock:  # only the last one has a letterbox
            box = tmp_path / ("annotations" if index == 2 else "none/annotations")
            monkeypatch.setenv("WINDLASS_CHECKPOINT_FILE", str(box))
            rank = group.ranks[index]
            shard = f"shard-{index}"
            work = Checkpoint(
                tmp_path / "saves",
                lambda folder: (folder / shard).write_text(str(step)),
                lambda folder: None,
                ranks=rank,
            )
        step = 0
        try:
            for step in work.steps(1000):
                if (index, step) == (2, 40):
                    put(tmp_path / "annotations", ASKED)
        except SystemExit:
            left[index] = step + 1

    threads = [threading.Thread(target=train, args=(index,)) for index in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert left == {0: 41, 1: 41, 2: 41}
    saved = CheckpointStore(tmp_path / "saves").at(41)
    assert sorted(one.name for one in saved.iterdir()) == ["shard-0", "shard-1", "shard-2"]
    assert accepts(ASKED, read_ack(last_word.read_text()))


# --- what it stands on ----------------------------------------------------------------------------


def test_it_stands_on_the_standard_library_alone() -> None:
    code = "import sys, windlass.checkpoint.torch; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    before = subprocess.check_output(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], text=True
    ).split()
    foreign = {
        name
        for name in set(loaded) - set(before)
        if name.partition(".")[0] not in sys.stdlib_module_names
    }
    ours = {name for name in foreign if name.startswith("windlass.checkpoint")}
    assert foreign - ours == {"windlass", "windlass.model", "windlass.model.units"}
