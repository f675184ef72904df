"""A history that version 0.1.0 wrote can still be replayed, and gives the same plans."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.recordings import played_again


def test_replay_of_a_history_of_version_0_1_0_gives_the_same_plans(tmp_path: Path):
    copy = tmp_path / "history.sqlite"
    shutil.copy(ROOT / "tests/data/history-0.1.0.sqlite", copy)
    assert played_again(str(copy)) > 100
