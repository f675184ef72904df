"""A job that saves itself, as a process: it counts, a step takes a few milliseconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

COUNTING = """
import sys, time
from pathlib import Path
from windlass.checkpoint import Checkpoint

count = 0

def save(folder):
    for part in range(3):
        (folder / f"part-{part}").write_text(str(count))
        time.sleep(0.002)  # so that a kill may come in between

def load(folder):
    global count
    (count,) = {int((folder / f"part-{part}").read_text()) for part in range(3)}

work = Checkpoint(sys.argv[1], save, load, every_s=float(sys.argv[3]))
for step in work.steps(int(sys.argv[2])):
    assert step == count, (step, count)
    count += 1
    print(count, flush=True)
    time.sleep(0.001)
"""


class Counting:
    """One life of the job; the next one goes on where it was saved."""

    def __init__(self, folder: Path, end: int = 10**9, every_s: float = 900, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COUNTING, str(folder / "saves"), str(end), str(every_s)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"WINDLASS_TERMINATION_LOG": str(folder / "last-word")} | env,
        )

    def count_to(self, number: int) -> int:
        """Wait until it has counted so far."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if int(line) >= number:
                return int(line)
        raise AssertionError(f"it ended with {self.process.wait()} before {number}")

    def end(self, number: signal.Signals | None = None) -> int:
        """Send it a signal, if any; the code it ends with, and nothing it said is left unread."""
        if number is not None:
            self.process.send_signal(number)
        try:
            self.process.communicate(timeout=20)
        finally:
            self.process.kill()
        return self.process.returncode
