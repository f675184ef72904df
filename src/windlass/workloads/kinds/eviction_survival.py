"""What becomes of an evicted pod, by what its owner's spec says: pure functions.

Whatever would be lost for good is not preemptible unless its owner opted in. A function answers
None if its kind has no say in it; then the owner below it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias, cast

from windlass.workloads.objects.spec_fields import Spec, count, inner, items, roles
from windlass.workloads.objects.wire import Owner

UNLIMITED = 1 << 30
"""More evictions than anybody could make."""
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 10, 600
"""The Job controller waits so long after a first failure, doubles that with each one, and never
waits longer."""
BY_SIGNAL = frozenset({137, 143})
"""The exit codes of a container that was ended by SIGKILL or SIGTERM."""
BACKOFF_SLACK_S = 30
"""Added to the back-off: the controller's clock differs, and it makes pods when it comes to it."""


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
    """Recreated, unless `backoffLimit` is 0 or a rule fails it, and disruptions are not ignored."""
    action = _on_disruption(spec)
    if action == "FailJob":
        return Survives.LOST
    forgiven = action == "Ignore"
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


# --- how many evictions an owner forgives -------------------------------------------------------

Forgives: TypeAlias = Callable[[Owner], int | None]
"""Returns how many of its pods may still be evicted before the owner fails for good; None if its
kind does not count failures itself."""


def no_count(_owner: Owner) -> int | None:
    """Return None: it counts no failures."""
    return None


def job_forgives(owner: Owner) -> int | None:
    """Return what is left of `backoffLimit`; each evicted pod counts as a failure."""
    spec = owner.spec
    if _on_disruption(spec) == "Ignore":
        return UNLIMITED
    if "backoffLimitPerIndex" in spec:  # each index counts for itself
        return UNLIMITED if count(spec, "backoffLimitPerIndex", 0) else 0
    return max(0, count(spec, "backoffLimit", 6) - count(owner.status, "failed", 0))


def jobset_forgives(owner: Owner) -> int | None:
    """Return UNLIMITED while it may restart; after that its Jobs decide."""
    most = count(inner(owner.spec, "failurePolicy"), "maxRestarts", 0)
    return UNLIMITED if most > count(owner.status, "restarts", 0) else None


# --- how long an owner takes to make a pod again ------------------------------------------------


Backoff: TypeAlias = Callable[[Owner, int], int]
"""Returns for how many seconds an owner waits before it makes a pod again, after so many failures
more than it has counted."""


def at_once(_owner: Owner, _more: int) -> int:
    """Return 0: it does not wait."""
    return 0


def job_backoff_s(owner: Owner, more: int) -> int:
    """Return the back-off of the Job controller: it doubles with each failure."""
    failed = count(owner.status, "failed", 0) + more
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S << min(failed - 1, 10)) if failed else 0


def _on_disruption(spec: Spec) -> object:
    """Return what a Job's podFailurePolicy does with an evicted pod: the first rule that matches.

    Such a pod has the condition DisruptionTarget and ends by SIGTERM or SIGKILL.
    """
    for rule in items(inner(spec, "podFailurePolicy"), "rules"):
        conditions = {on.get("type") for on in items(rule, "onPodConditions")}
        if "DisruptionTarget" in conditions or _matches_signals(inner(rule, "onExitCodes")):
            return rule.get("action")
    return None


def _matches_signals(on_exit: Spec) -> bool:
    """Does a rule about exit codes match a pod that was ended by a signal?"""
    values: object = on_exit.get("values")
    listed = cast(list[object], values) if isinstance(values, list) else []
    named = [each for each in BY_SIGNAL if each in listed]
    if on_exit.get("operator") == "In":
        return bool(named)
    return on_exit.get("operator") == "NotIn" and len(named) < len(BY_SIGNAL)
