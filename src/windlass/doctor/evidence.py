"""The evidence: objects that were read of a cluster; and the findings of the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from windlass.model.viewers import Right
from windlass.workloads.objects import wire

SCHEDULER = "windlass"


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    """Windlass works, but not as well as it could, or not for all users."""
    FAIL = "fail"
    """Windlass does not work until something is done."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of a check, and what to do about it."""

    level: Severity
    said: str
    """The result as a sentence."""
    do: str = ""
    """The advice; empty if nothing needs to be done."""


def ok(said: str) -> DoctorFinding:
    """Return a finding after which nothing needs to be done."""
    return DoctorFinding(Severity.OK, said)


def warn(said: str, do: str) -> DoctorFinding:
    """Return a finding that is no failure, with advice."""
    return DoctorFinding(Severity.WARN, said, do)


def fail(said: str, do: str) -> DoctorFinding:
    """Return a failure, with advice."""
    return DoctorFinding(Severity.FAIL, said, do)


def _no_objects() -> Sequence[wire.Owner]:
    return ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The objects and facts that the checks use."""

    now: int = 0
    version: str = ""
    """The version of the API server, such as v1.36.4; empty if unknown."""
    definitions: Mapping[str, Mapping[str, Any] | None] = field(
        default_factory=dict[str, Mapping[str, Any] | None]
    )
    """Our CustomResourceDefinitions by name; None for one that is missing."""
    rights: Mapping[Right, bool] = field(default_factory=dict[Right, bool])
    """The rights that the scheduler needs, and whether its account has them."""
    leader: str = ""
    """The identity of the leader; empty: nobody leads."""
    paused: bool = False
    """Evictions are paused."""
    schedulers: frozenset[str] = frozenset({SCHEDULER})
    """The scheduler names that Windlass serves."""
    queues: Sequence[wire.Owner] = field(default_factory=_no_objects)
    nodes: Sequence[wire.NodeObject] = ()
    pods: Sequence[wire.Pod] = ()
    daemons: Sequence[wire.Owner] = field(default_factory=_no_objects)
    """DaemonSets of all namespaces."""
    deployments: Sequence[wire.Owner] = field(default_factory=_no_objects)
    policies: Sequence[wire.Owner] | None = None
    """The ClusterPolicy objects of the GPU Operator; None: the kind is not installed."""
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fields above that could not be read, with the message of the server."""


Check: TypeAlias = Callable[[Evidence], Iterator[DoctorFinding]]
"""A check; it is not called if evidence that it needs could not be read."""


def named(objects: Sequence[wire.Owner], *parts: str) -> list[wire.Owner]:
    """Return the workloads whose name or image contains one of these parts."""
    return [
        workload
        for workload in objects
        if any(part in name for part in parts for name in _names(workload))
    ]


def _names(workload: wire.Owner) -> Iterator[str]:
    yield workload.metadata.name
    pod = workload.spec.get("template", {}).get("spec", {})
    for container in pod.get("containers", ()):
        yield container.get("image", "").rpartition("/")[2]


def place(thing: wire.Owner) -> str:
    """Return the namespace and name of an object, as namespace/name."""
    return f"{thing.metadata.namespace}/{thing.metadata.name}"
