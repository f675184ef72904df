"""Saves in a folder: whole or not there, whatever is killed when.

    .saving-000000000120   being written; never read, removed by the next save
    step-000000000120      complete: its files were on the disk before it was given this name

It asks of the file system that a rename is atomic. One job, and only one, writes into a folder.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_DONE, _SAVING = "step-", ".saving-"


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The saves of one job; the newest `keep` of them stay."""

    folder: Path
    keep: int = 2

    def newest(self) -> int | None:
        """The step of the newest complete save."""
        return max(self.steps(), default=None)

    def steps(self) -> list[int]:
        """The steps of all complete saves."""
        if not self.folder.is_dir():
            return []
        names = (one.name.removeprefix(_DONE) for one in self.folder.glob(_DONE + "*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def at(self, step: int) -> Path:
        """Where the save of a step lies once it is complete."""
        return self.folder / f"{_DONE}{step:012}"

    def saving(self, step: int) -> Path:
        """Where it is written until then."""
        return self.folder / f"{_SAVING}{step:012}"

    def begin(self, step: int) -> None:
        """Make an empty place for a save, and sweep away what was never completed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for torn in self.folder.glob(_SAVING + "*"):
            shutil.rmtree(torn)
        self.saving(step).mkdir()

    def finish(self, step: int) -> None:
        """What was written becomes the newest save; the oldest ones go."""
        _flush(self.saving(step))
        os.replace(self.saving(step), self.at(step))
        _sync(self.folder)
        for old in self.steps()[: -self.keep]:
            # Under its own name, a save that is half removed would still look complete.
            os.replace(self.at(old), self.saving(old))
            shutil.rmtree(self.saving(old))


def _flush(folder: Path) -> None:
    """Files first, then the folders that name them."""
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(path, name))
        _sync(Path(path))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
