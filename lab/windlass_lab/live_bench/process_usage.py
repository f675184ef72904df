"""The CPU time and memory that a process has used, as Linux reports it."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
USER, SYSTEM = 11, 12
"""The places of both times in `stat`, counted after the name, which may contain anything."""


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU time that a process has used, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS_PER_S


def peak_mib(pid: int) -> float:
    """Return the largest resident memory of a process so far, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/{pid}/status has no line VmHWM; this kernel does not count memory")
