"""What becomes of an evicted pod, by what its owner's spec says: pure functions.

Whatever would be lost for good is not preemptible unless its owner opted in. A function answers
None if its kind has no say in it; then the owner below it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from windlass.workloads.specs import Spec, count, inner, items, roles


class Survives(StrEnum):
    """What becomes of a pod that is evicted."""

    RECREATED = "recreated"
    """Its owner makes another."""
    LOST = "lost"
    """It is gone for good: not to be preempted unless its owner opted in."""


Survival: TypeAlias = Callable[[Spec], Survives | None]


def recreated(_spec: Spec) -> Survives | None:
    """Recreated."""
    return Survives.RECREATED


def left_open(_spec: Spec) -> Survives | None:
    """As the owner below it says."""
    return None


def job(spec: Spec) -> Survives | None:
    """Recreated, unless `backoffLimit` is 0 and disruptions count as failures."""
    forgiven = _ignores_disruption(spec)
    limits = [count(spec, "backoffLimit", 6), count(spec, "backoffLimitPerIndex", 6)]
    return Survives.RECREATED if forgiven or all(limits) else Survives.LOST


def jobset(spec: Spec) -> Survives | None:
    """Recreated, if it restarts or each of its Jobs recreates its pods."""
    if count(inner(spec, "failurePolicy"), "maxRestarts", 0):
        return Survives.RECREATED
    templates = [inner(inner(each, "template"), "spec") for each in items(spec, "replicatedJobs")]
    return Survives.LOST if Survives.LOST in map(job, templates) else Survives.RECREATED


def training(spec: Spec) -> Survives | None:
    """Recreated, unless a role's `restartPolicy` is Never."""
    policies = {role.get("restartPolicy") for _, role in roles(spec)}
    return Survives.LOST if "Never" in policies else Survives.RECREATED


def mpi(spec: Spec) -> Survives | None:
    """Recreated, unless `runPolicy.backoffLimit` is 0."""
    limit = count(inner(spec, "runPolicy"), "backoffLimit", 6)
    return Survives.RECREATED if limit else Survives.LOST


def ray_job(spec: Spec) -> Survives | None:
    """Lost with its head, unless `backoffLimit` allows another cluster."""
    return Survives.RECREATED if count(spec, "backoffLimit", 0) else Survives.LOST


def _ignores_disruption(spec: Spec) -> bool:
    return any(
        rule.get("action") == "Ignore" and on.get("type") == "DisruptionTarget"
        for rule in items(inner(spec, "podFailurePolicy"), "rules")
        for on in items(rule, "onPodConditions")
    )
