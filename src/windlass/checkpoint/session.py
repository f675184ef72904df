"""What a training loop holds: it goes on after the newest save, saves when due or asked, leaves.

    between two steps   ┌─ nothing is due ───────────────────────────▶ next step
                        ├─ `every_s` has passed ──▶ save ────────────▶ next step
                        ├─ asked over HTTP ───────▶ save, answer ────▶ next step, until SIGTERM
                        ├─ asked by file ─────────▶ save ──┐
                        └─ SIGTERM ───────────────▶ save ──┴─ exit 85 with the answer as last word

All processes of a job agree on the largest of their needs, so that they save the same step.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from windlass.checkpoint.endpoint import Endpoint
from windlass.checkpoint.listeners import Alarm, Letterbox, leave_word, look_around
from windlass.checkpoint.protocol import EXIT_SAVED, Ack, CheckpointRequest, SaveState, read_request
from windlass.checkpoint.ranks import Alone, RankGroup
from windlass.checkpoint.store import CheckpointStore

log = logging.getLogger(__name__)

EVERY_S = 900.0


class Need(IntEnum):
    """What has to be done between two steps; the larger one counts."""

    NOTHING = 0
    DUE = 1
    ASKED = 2
    ASKED_BY_FILE = 3
    LEAVE = 4


class SaveFailed(Exception):
    """A save did not come about; the one before is untouched."""


class Checkpoint:
    """A job's work: `save(folder)` and `load(folder)` are called in every process of it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        save: Callable[[Path], object],
        load: Callable[[Path], object],
        *,
        every_s: float = EVERY_S,
        keep: int = 2,
        ranks: RankGroup | None = None,
    ) -> None:
        self.store = CheckpointStore(Path(folder), keep)
        self._save, self._load = save, load
        self._every_s = every_s
        self._ranks = ranks or Alone()
        around = self._around = look_around(os.environ)
        self._alarm = Alarm(around.signals)
        self._letterbox = Letterbox(around.file)
        self.endpoint: Endpoint | None = None
        if around.port is not None and around.speaks:
            self.endpoint = Endpoint(around.host, around.port, around.path)
        self._saved: int | None = None
        self._saved_at = time.monotonic()
        self._longest_s = 0.0
        self._answered = ""

    def steps(self, end: int) -> Iterator[int]:
        """The steps that are still to be done, up to `end`; the last one is saved too."""
        try:
            for step in range(self.resume(), end):
                yield step
                if step + 1 < end:
                    self.after(step + 1)
            if self._saved != end:
                self._do_save(end)
        finally:
            self.close()

    def resume(self) -> int:
        """Load the newest save; how many steps are done."""
        newest = self.store.newest()
        agreed = self._ranks.most(-1 if newest is None else newest)
        if agreed < 0:
            return 0
        if agreed not in self.store.steps():
            raise FileNotFoundError(f"{self.store.at(agreed)}: seen by another process of the job")
        self._load(self.store.at(agreed))
        self._saved, self._saved_at = agreed, time.monotonic()
        return agreed

    def after(self, done: int) -> None:
        """So many steps are done: save if need be, and leave with `EXIT_SAVED` if told to."""
        request = self._request()
        need = Need(self._ranks.most(self._need(request)))
        if need is Need.DUE:
            self._do_save(done)
        if need <= Need.DUE:
            return
        request = read_request(self._ranks.any_of(request.text() if request else ""))
        if need is Need.LEAVE:
            self._save_in_time(done)
            self._leave(request)
        elif request is not None and self._save_for(request, done) and need is Need.ASKED_BY_FILE:
            self._leave(request)

    def close(self) -> None:
        """Hear no more; the loop is over."""
        self._alarm.close()
        if self.endpoint is not None:
            self.endpoint.close()
            self.endpoint = None

    def _request(self) -> CheckpointRequest | None:
        """What this process is asked for, unless it has answered that already."""
        found = self.endpoint.request() if self.endpoint else None
        found = found or self._letterbox.request()
        return found if found and found.id != self._answered else None

    def _need(self, request: CheckpointRequest | None) -> Need:
        if self._alarm.rang_at is not None:
            return Need.LEAVE
        if request is not None:
            return Need.ASKED_BY_FILE if self._around.port is None else Need.ASKED
        is_due = time.monotonic() - self._saved_at >= self._every_s
        return Need.DUE if is_due else Need.NOTHING

    def _save_for(self, request: CheckpointRequest, done: int) -> bool:
        """Save for somebody who asked and say so; what fails is refused, and the work goes on."""
        self._answer(request, SaveState.SAVING)
        try:
            if self._saved != done:
                self._do_save(done)
        except SaveFailed:
            log.exception("Step %d was not saved, although it was asked for", done)
        self._answered = request.id
        is_saved = self._saved == done
        self._answer(request, SaveState.DONE if is_saved else SaveState.REFUSED)
        return is_saved

    def _save_in_time(self, done: int) -> None:
        """Save before leaving, unless that would be killed half-way and something is safe."""
        if self._saved != done and not self._ranks.most(self._is_hopeless()):
            self._do_save(done)

    def _leave(self, request: CheckpointRequest | None) -> NoReturn:
        """End the process; without an endpoint, its end is the only way to answer."""
        leave_word(self._around, self._ack(request, SaveState.DONE))
        self.close()
        raise SystemExit(EXIT_SAVED)

    def _is_hopeless(self) -> bool:
        """Would the save be killed before its end, although an earlier one would do?"""
        rang, patience = self._alarm.rang_at, self._around.killed_after_s
        if rang is None or patience is None or self._saved is None:
            return False
        return time.monotonic() - rang + self._longest_s > patience

    def _do_save(self, done: int) -> None:
        """Save, together: a process that fails makes all of them fail."""
        began, first = time.monotonic(), self._ranks.is_first
        self._together(lambda: self.store.begin(done), first)
        self._together(lambda: self._save(self.store.saving(done)), True)
        self._together(lambda: self.store.finish(done), first)
        self._saved, self._saved_at = done, time.monotonic()
        self._longest_s = max(self._longest_s, self._saved_at - began)
        patience = self._around.killed_after_s
        if patience is not None and self._longest_s > patience:
            log.warning(
                "Saving took %.0f s, and torchrun kills %.0f s after SIGTERM: ask by HTTP, or set "
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
                *(self._longest_s, patience),
            )

    def _together(self, act: Callable[[], object], acts: bool) -> None:
        failure: Exception | None = None
        try:
            if acts:
                act()
        except Exception as error:
            failure = error
        if self._ranks.most(failure is not None):
            raise SaveFailed(str(failure or "another process of the job failed")) from failure

    def _answer(self, request: CheckpointRequest, state: SaveState) -> None:
        if self.endpoint is not None:
            self.endpoint.answer(self._ack(request, state))

    def _ack(self, request: CheckpointRequest | None, state: SaveState) -> Ack:
        name, step = request.id if request else self._answered, self._saved or 0
        uri = "" if self._saved is None else self.store.at(step).absolute().as_uri()
        return Ack(name, state, step, uri, int(time.time()))
