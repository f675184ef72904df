"""The annotations of a pod that control the fake kubelet, and the defaults without them.

fake.windlass.dev/starts-after: 2s        containers start this long after admission
fake.windlass.dev/runs-for: 30s           then run this long (without it: for ever)
fake.windlass.dev/exit-code: "1"          and end with this code (without it: 0)
fake.windlass.dev/terminates-after: 10s   obey a deletion after this long, or "never"
fake.windlass.dev/refuse: SomeReason      are not admitted, for this reason
fake.windlass.dev/runs: process           the command really runs, as a process of this machine
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "fake.windlass.dev/"
STARTS_AFTER = f"{PREFIX}starts-after"
RUNS_FOR = f"{PREFIX}runs-for"
EXIT_CODE = f"{PREFIX}exit-code"
TERMINATES_AFTER = f"{PREFIX}terminates-after"
REFUSE = f"{PREFIX}refuse"
RUNS = f"{PREFIX}runs"
PROCESS = "process"

NEVER = math.inf

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class UnreadableScript(ValueError):
    """An annotation has an invalid value."""


@dataclass(frozen=True, slots=True)
class Script:
    """The course of one pod; None leaves a step to the kubelet's defaults."""

    starts_after_s: float | None = None
    runs_for_s: float = NEVER
    exit_code: int = 0
    terminates_after_s: float | None = None
    refuse: str = ""
    is_process: bool = False
    """True if it runs as long as its process, and ends as the process ends."""


_DEFAULT = Script()


def read(annotations: Mapping[str, str]) -> Script:
    """Return the script in a pod's annotations."""
    if not any(key.startswith(PREFIX) for key in annotations):
        return _DEFAULT
    runs_for = _duration(annotations, RUNS_FOR)
    return Script(
        starts_after_s=_duration(annotations, STARTS_AFTER),
        runs_for_s=NEVER if runs_for is None else runs_for,
        exit_code=_exit_code(annotations),
        terminates_after_s=_duration(annotations, TERMINATES_AFTER),
        refuse=annotations.get(REFUSE, ""),
        is_process=_is_process(annotations),
    )


def _duration(annotations: Mapping[str, str], key: str) -> float | None:
    text = annotations.get(key)
    if text is None:
        return None
    if text == "never":
        return NEVER
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UnreadableScript(f'{key} is {text!r}; write a duration like "30s" or "never"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not text.isdecimal() or int(text) > 255:
        raise UnreadableScript(f"{EXIT_CODE} is {text!r}; write a number from 0 to 255")
    return int(text)


def _is_process(annotations: Mapping[str, str]) -> bool:
    if RUNS not in annotations:
        return False
    if annotations[RUNS] != PROCESS:
        raise UnreadableScript(f'{RUNS} is {annotations[RUNS]!r}; write "{PROCESS}" or nothing')
    for key in (RUNS_FOR, EXIT_CODE, TERMINATES_AFTER):
        if key in annotations:
            raise UnreadableScript(f"{key} does not go with {RUNS}: the process decides")
    return True


@dataclass(frozen=True, slots=True)
class Habits:
    """Delays, periods and choices, the same for all nodes."""

    starts_after_s: float = 0.0
    """The seconds from admission until the containers run."""
    terminates_after_s: float = 0.0
    """The seconds from a deletion until the containers have stopped."""
    kill_delay_s: float = 1.0
    """The seconds from the disappearance of a pod in the API server until its containers
    are dead."""
    restart_delay_s: float = 10.0
    """The seconds from the end of containers until their restart."""
    lease_period_s: float = 10.0
    lease_duration_s: int = 40
    devices_first: bool = False
    """Ask the device manager before counting, as kubelet 1.36 does: too many GPUs are then an
    UnexpectedAdmissionError. Otherwise they are OutOfnvidia.com/gpu, which tells a double
    booking from a device that failed meanwhile."""
    untaint: bool = False
    """Remove the not-ready taint of new nodes, for a control plane without controllers."""
    processes: int = 0
    """The number of pods that may really run at once, as processes of this machine; none by
    default."""
    in_flight: int = 16
    """The number of concurrent writes; more only lengthen the wait on a small machine."""
