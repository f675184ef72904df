"""Builders for who makes room for whom: what runs since long, and a plan made late."""

from __future__ import annotations

from typing import Any

from tests.given import Job, Outcome, Thing, ask, job, queue, schedule
from windlass.model.constraints import HOSTNAME, Constraints
from windlass.model.settings import Displacing, Settings

LATER = 1000
"""Long enough that nothing that runs since 0 is protected, short enough for no reservation."""
ONE, TWO = ask(gpus=1), ask(gpus=2)
OWNER, OTHER = queue("owner", gpus=2), queue("other")


def runs(name: str, *devices: int, on: str = "n1", tasks: int = 1, **fields: Any) -> Job:
    """A gang that runs since 0 on these GPUs of a node, the same number for every task."""
    each = len(devices) // tasks
    found = job(name, tasks, ask(gpus=each), **fields)
    for i in range(tasks):
        found = found.runs(i, on=on, devices=devices[i * each : (i + 1) * each])
    return found


def late(*things: Thing, now: int = LATER, **fields: Any) -> Outcome:
    """Plan once, when everything that runs has run for a while."""
    return schedule(*things, now=now, settings=Settings(**fields))


def only(name: str) -> Constraints:
    """Nowhere but on one node."""
    return Constraints(selector=((HOSTNAME, name),))


TAKES: dict[str, Any] = {"displacing": (Displacing.PREEMPT,)}
"""Nobody moves and nobody is reclaimed from."""
