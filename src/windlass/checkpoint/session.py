"""The checkpoint session of a training loop: resume, save when due or requested, exit.

    between two steps   ┌─ nothing is due ─────────────────────────▶ next step
                        ├─ `every_s` has passed ──▶ save ──────────▶ next step
                        ├─ requested over HTTP ───▶ save, answer ──▶ next step, until SIGTERM
                        ├─ requested by file ─────▶ save ──┐
                        └─ SIGTERM ───────────────▶ save ──┴─ exit 85; its message is the answer

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
from windlass.checkpoint.listeners import (
    RequestFile,
    SignalListener,
    read_environment,
    write_termination_message,
)
from windlass.checkpoint.protocol import EXIT_SAVED, Ack, CheckpointRequest, SaveState, read_request
from windlass.checkpoint.ranks import Alone, RankGroup
from windlass.checkpoint.store import CheckpointStore

log = logging.getLogger(__name__)

EVERY_S = 900.0
"""The default interval of checkpoints in seconds."""


class SaveNeed(IntEnum):
    """The need of a process between two steps; the largest of all processes counts."""

    NOTHING = 0
    DUE = 1
    REQUESTED = 2
    REQUESTED_BY_FILE = 3
    EXIT = 4


class SaveFailed(Exception):
    """A checkpoint could not be made; the one before it is unchanged."""


class Checkpoint:
    """The checkpoints of a job; all its processes call `save(folder)` and `load(folder)`."""

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
        """Open the checkpoints in `folder`, of which the newest `keep` are kept.

        `every_s` is the interval of checkpoints without a request, in seconds; `ranks` connects the
        processes of the job, by default only this one. Make it in the main thread: it handles
        signals, and it starts the endpoint if the pod has one.
        """
        self.store = CheckpointStore(Path(folder), keep)
        self._save, self._load = save, load
        self._every_s = every_s
        self._ranks = ranks or Alone()
        pod = self._pod = read_environment(os.environ)
        self._signals = SignalListener(pod.signals)
        self._request_file = RequestFile(pod.file)
        self.endpoint: Endpoint | None = None
        """The HTTP endpoint; None if the pod has none, if another process has it, or when
        closed."""
        if pod.port is not None and pod.is_first_in_pod:
            self.endpoint = Endpoint(pod.host, pod.port, pod.path)
        self._saved: int | None = None
        """The number of steps in the newest checkpoint; None if there is none."""
        self._saved_at = time.monotonic()
        self._longest_s = 0.0
        """The duration of the longest save so far."""
        self._answered = ""
        """The id of the last request that was answered with done or refused."""

    def steps(self, end: int) -> Iterator[int]:
        """Yield the steps that are left, up to `end`, and save between them and after the last."""
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
        """Load the newest checkpoint and return its number of steps; 0 if there is none."""
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
        """Save after `done` steps if needed, and exit with `EXIT_SAVED` if that is requested."""
        request = self._request()
        need = SaveNeed(self._ranks.most(self._need(request)))
        if need is SaveNeed.DUE:
            self._do_save(done)
        if need <= SaveNeed.DUE:
            return
        request = read_request(self._ranks.any_of(request.text() if request else ""))
        if need is SaveNeed.EXIT:
            self._save_in_time(done)
            self._exit(request)
        elif (
            request is not None
            and self._save_for(request, done)
            and need is SaveNeed.REQUESTED_BY_FILE
        ):
            self._exit(request)

    def close(self) -> None:
        """Restore the signal handlers and stop the endpoint."""
        self._signals.close()
        if self.endpoint is not None:
            self.endpoint.close()
            self.endpoint = None

    def _request(self) -> CheckpointRequest | None:
        """Return the current request of this process; None if it is answered already."""
        request = self.endpoint.request() if self.endpoint else None
        request = request or self._request_file.request()
        return request if request and request.id != self._answered else None

    def _need(self, request: CheckpointRequest | None) -> SaveNeed:
        if self._signals.received_at is not None:
            return SaveNeed.EXIT
        if request is not None:
            return SaveNeed.REQUESTED_BY_FILE if self._pod.port is None else SaveNeed.REQUESTED
        is_due = time.monotonic() - self._saved_at >= self._every_s
        return SaveNeed.DUE if is_due else SaveNeed.NOTHING

    def _save_for(self, request: CheckpointRequest, done: int) -> bool:
        """Save for a request and answer it; if the save fails, answer refused and return False."""
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
        """Save before the exit, unless that would be killed and there is an earlier checkpoint."""
        if self._saved != done and not self._ranks.most(self._is_too_late()):
            self._do_save(done)

    def _exit(self, request: CheckpointRequest | None) -> NoReturn:
        """End the process, with the answer as its termination message."""
        write_termination_message(self._pod, self._ack(request, SaveState.DONE))
        self.close()
        raise SystemExit(EXIT_SAVED)

    def _is_too_late(self) -> bool:
        """Return whether a save would be killed before its end, and there is an earlier one."""
        signalled_at, limit_s = self._signals.received_at, self._pod.killed_after_s
        if signalled_at is None or limit_s is None or self._saved is None:
            return False
        return time.monotonic() - signalled_at + self._longest_s > limit_s

    def _do_save(self, done: int) -> None:
        """Save in all processes; SaveFailed in all of them if one fails."""
        began, first = time.monotonic(), self._ranks.is_first
        self._together(lambda: self.store.begin(done), first)
        self._together(lambda: self._save(self.store.saving(done)), True)
        self._together(lambda: self.store.finish(done), first)
        self._saved, self._saved_at = done, time.monotonic()
        self._longest_s = max(self._longest_s, self._saved_at - began)
        limit_s = self._pod.killed_after_s
        if limit_s is not None and self._longest_s > limit_s:
            log.warning(
                "Saving took %.0f s, and torchrun kills %.0f s after SIGTERM: ask by HTTP, or set "
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
                *(self._longest_s, limit_s),
            )

    def _together(self, act: Callable[[], object], acts: bool) -> None:
        """Call `act` if this process `acts`, and wait for all; SaveFailed if it failed anywhere."""
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
