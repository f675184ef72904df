"""What was read of a cluster, and what was found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from windlass.model.viewers import Right
from windlass.workloads.objects import wire

SCHEDULER = "windlass"


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, but not as well as it could, or not for everybody."""
    FAIL = "fail"
    """It does not work until something is done."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was looked at, and what to do about it."""

    level: Severity
    said: str
    do: str = ""


def ok(said: str) -> DoctorFinding:
    """Nothing needs to be done."""
    return DoctorFinding(Severity.OK, said)


def warn(said: str, do: str) -> DoctorFinding:
    """It would be better if something were done."""
    return DoctorFinding(Severity.WARN, said, do)


def fail(said: str, do: str) -> DoctorFinding:
    """Something must be done."""
    return DoctorFinding(Severity.FAIL, said, do)


def _no_objects() -> Sequence[wire.Owner]:
    return ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the checks look at."""

    now: int = 0
    version: str = ""
    """Of the API server, like v1.36.4."""
    definitions: Mapping[str, Mapping[str, Any] | None] = field(
        default_factory=dict[str, Mapping[str, Any] | None]
    )
    """Our CustomResourceDefinitions by name; None for one that is missing."""
    rights: Mapping[Right, bool] = field(default_factory=dict[Right, bool])
    leader: str = ""
    """Who leads; empty: nobody."""
    paused: bool = False
    schedulers: frozenset[str] = frozenset({SCHEDULER})
    queues: Sequence[wire.Owner] = field(default_factory=_no_objects)
    nodes: Sequence[wire.NodeObject] = ()
    pods: Sequence[wire.Pod] = ()
    daemons: Sequence[wire.Owner] = field(default_factory=_no_objects)
    """DaemonSets of all namespaces."""
    deployments: Sequence[wire.Owner] = field(default_factory=_no_objects)
    policies: Sequence[wire.Owner] | None = None
    """ClusterPolicy objects of the GPU Operator; None: there is no such kind."""
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which of these could not be read, and what the server said."""


Check: TypeAlias = Callable[[Evidence], Iterator[DoctorFinding]]
"""Looks at the evidence; not called if what it needs could not be read."""


def named(objects: Sequence[wire.Owner], *parts: str) -> list[wire.Owner]:
    """The workloads whose name or image contains one of these."""
    return [
        each for each in objects if any(part in word for part in parts for word in _words(each))
    ]


def _words(workload: wire.Owner) -> Iterator[str]:
    yield workload.metadata.name
    pod = workload.spec.get("template", {}).get("spec", {})
    for container in pod.get("containers", ()):
        yield container.get("image", "").rpartition("/")[2]


def place(thing: wire.Owner) -> str:
    """Where an object lies: namespace/name."""
    return f"{thing.metadata.namespace}/{thing.metadata.name}"
