"""A process that ends a plane's processes when the process that started them is gone.

It runs as a plain script without the rest of Windlass, so that it starts at once. It reads `+pid`
and `-pid` lines from a pipe that only the owner holds. When the pipe closes, at a regular stop or
because the owner was killed, it kills the remaining processes and removes the temporary folder. A
parent-death signal would not do: Linux ties it to the thread that started the child, not to the
process.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def keep(lines: Iterable[str], folder: str | None) -> None:
    """Track the running processes until the lines end; then kill the remaining ones."""
    running: set[int] = set()
    for line in lines:
        change, pid = line[0], int(line[1:])
        if change == "+":
            running.add(pid)
        else:
            running.discard(pid)
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # whoever ends everything around it politely must not end it before its work is done
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    keep(sys.stdin, sys.argv[1] if len(sys.argv) > 1 else None)
