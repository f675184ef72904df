"""A history that an earlier version wrote can still be replayed, and decides the same again."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.recordings import played_again


def test_history_of_version_0_1_0_decides_the_same_again(tmp_path: Path):
    copy = tmp_path / "history.sqlite"
    shutil.copy(ROOT / "tests/data/history-0.1.0.sqlite", copy)
    assert played_again(str(copy)) > 100
