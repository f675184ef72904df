"""Checkpoints in a folder: complete or absent, even if the process is killed at any time.

    .saving-000000000120   being written; never read, removed by the next save
    step-000000000120      complete: its files were flushed to disk before the rename to this name

The file system must rename atomically. Only one job may write into a folder.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_DONE, _SAVING = "step-", ".saving-"


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The checkpoints of one job, of which the newest `keep` are kept."""

    folder: Path
    keep: int = 2

    def newest(self) -> int | None:
        """Return the step of the newest complete checkpoint; None if there is none."""
        return max(self.steps(), default=None)

    def steps(self) -> list[int]:
        """Return the steps of all complete checkpoints, in order."""
        if not self.folder.is_dir():
            return []
        names = (path.name.removeprefix(_DONE) for path in self.folder.glob(_DONE + "*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def at(self, step: int) -> Path:
        """Return the folder of the complete checkpoint of a step."""
        return self.folder / f"{_DONE}{step:012}"

    def saving(self, step: int) -> Path:
        """Return the folder in which the checkpoint of a step is written until it is complete."""
        return self.folder / f"{_SAVING}{step:012}"

    def begin(self, step: int) -> None:
        """Create an empty folder for a checkpoint, and remove incomplete ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for incomplete in self.folder.glob(_SAVING + "*"):
            shutil.rmtree(incomplete)
        self.saving(step).mkdir()

    def finish(self, step: int) -> None:
        """Turn the written folder into the newest checkpoint, and remove the oldest ones."""
        # The order matters: after a crash, a folder with the final name must have all its files.
        _flush(self.saving(step))
        os.replace(self.saving(step), self.at(step))
        _sync(self.folder)
        for old in self.steps()[: -self.keep]:
            # Renamed first: a half-removed checkpoint with the final name would look complete.
            os.replace(self.at(old), self.saving(old))
            shutil.rmtree(self.saving(old))


def _flush(folder: Path) -> None:
    """Flush all files of a folder to disk, each folder after its files."""
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
