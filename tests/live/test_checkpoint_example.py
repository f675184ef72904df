"""The example of a training that is preempted: once by file and once over HTTP.

With WINDLASS_PROOF=1 four times in each of the three ways.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.live.conftest import FindParts
from windlass_lab.control_plane.binaries import NAMES

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint" / "run.py"
PROOF = os.environ.get("WINDLASS_PROOF") == "1"
WAYS = ("signal", "file", "http") if PROOF else ("file", "http")
RUNS = 4 if PROOF else 1


def test_a_preempted_training_ends_with_the_weights_of_an_undisturbed_one(
    find_parts: FindParts,
) -> None:
    find_parts(NAMES)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--runs", str(RUNS), "--by", *WAYS],
        capture_output=True,
        text=True,
        timeout=300 * RUNS * len(WAYS),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = RUNS * len(WAYS)
    assert done.stdout.count("left after step") >= 2 * runs  # both workers, every time
    assert done.stdout.count("the same weights as the undisturbed run") == runs
