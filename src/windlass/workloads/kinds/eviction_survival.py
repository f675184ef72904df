"""The fate of an evicted pod, by the spec of its owner: recreated or lost.

A pod that would be lost is not preemptible unless its user opts in. A function returns None if its
kind of owner does not decide; then the next owner below it decides.

The first paragraph of the docstring of each such function is shown to users: it is a cell of the
table in docs/reference/job-kinds.md.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias, cast

from windlass.workloads.objects import Owner, Spec, count, inner, items, roles

UNLIMITED = 1 << 30
"""A number of evictions that is never reached."""
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 10, 600
"""The back-off of the Job controller in seconds: after the first failure, and at most. It doubles
with each failure."""
BY_SIGNAL = frozenset({137, 143})
"""The exit codes of a container that was killed by SIGKILL or SIGTERM."""
BACKOFF_SLACK_S = 30
"""Seconds added to the back-off: the controller's clock differs, and it may be busy."""


class Survives(StrEnum):
    """The fate of a pod that is evicted."""

    RECREATED = "recreated"
    """Its owner creates another."""
    LOST = "lost"
    """It is not replaced: it is not preempted unless its user opts in."""


Survival: TypeAlias = Callable[[Spec], Survives | None]
"""Returns the fate of an evicted pod by the spec of an owner; None if another owner decides."""


def recreated(_spec: Spec) -> Survives | None:
    """Recreated."""
    return Survives.RECREATED


def left_open(_spec: Spec) -> Survives | None:
    """As the object that it creates says."""
    return None


def job(spec: Spec) -> Survives | None:
    """Recreated, unless a rule fails the Job, or a limit is 0 and no rule ignores disruptions."""
    action = _on_disruption(spec)
    if action == "FailJob":
        return Survives.LOST
    is_ignored = action == "Ignore"
    limits = [count(spec, "backoffLimit", 6), count(spec, "backoffLimitPerIndex", 6)]
    return Survives.RECREATED if is_ignored or all(limits) else Survives.LOST


def jobset(spec: Spec) -> Survives | None:
    """Recreated, if it may restart, or if each of its Jobs recreates its pods; else lost."""
    if count(inner(spec, "failurePolicy"), "maxRestarts", 0):
        return Survives.RECREATED
    templates = [
        inner(inner(replicated, "template"), "spec") for replicated in items(spec, "replicatedJobs")
    ]
    return Survives.LOST if Survives.LOST in map(job, templates) else Survives.RECREATED


def training(spec: Spec) -> Survives | None:
    """Recreated, unless the `restartPolicy` of a role is Never."""
    policies = {role.get("restartPolicy") for _, role in roles(spec)}
    return Survives.LOST if "Never" in policies else Survives.RECREATED


def mpi(spec: Spec) -> Survives | None:
    """Recreated, unless `runPolicy.backoffLimit` is 0."""
    limit = count(inner(spec, "runPolicy"), "backoffLimit", 6)
    return Survives.RECREATED if limit else Survives.LOST


def ray_job(spec: Spec) -> Survives | None:
    """Lost with its head pod, unless `backoffLimit` allows another cluster."""
    return Survives.RECREATED if count(spec, "backoffLimit", 0) else Survives.LOST


# --- the number of evictions that an owner tolerates
# -------------------------------------------------------

Forgives: TypeAlias = Callable[[Owner], int | None]
"""Returns the number of its pods that may still be evicted before the owner fails; None if its kind
does not count failures itself."""


def no_count(_owner: Owner) -> int | None:
    """Return None: the owner counts no failures."""
    return None


def job_forgives(owner: Owner) -> int | None:
    """Return the rest of `backoffLimit`; each evicted pod counts as a failure."""
    spec = owner.spec
    if _on_disruption(spec) == "Ignore":
        return UNLIMITED
    if "backoffLimitPerIndex" in spec:  # failures are counted per index
        return UNLIMITED if count(spec, "backoffLimitPerIndex", 0) else 0
    return max(0, count(spec, "backoffLimit", 6) - count(owner.status, "failed", 0))


def jobset_forgives(owner: Owner) -> int | None:
    """Return UNLIMITED while the JobSet may restart; None after that: its Jobs decide."""
    most = count(inner(owner.spec, "failurePolicy"), "maxRestarts", 0)
    return UNLIMITED if most > count(owner.status, "restarts", 0) else None


# --- the time that an owner takes to recreate a pod
# ------------------------------------------------


Backoff: TypeAlias = Callable[[Owner, int], int]
"""Returns the seconds that an owner waits before it recreates a pod, if so many failures are added
to those in its status."""


def at_once(_owner: Owner, _more: int) -> int:
    """Return 0: the owner does not wait."""
    return 0


def job_backoff_s(owner: Owner, more: int) -> int:
    """Return the back-off of the Job controller: it doubles with each failure."""
    failed = count(owner.status, "failed", 0) + more
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S << min(failed - 1, 10)) if failed else 0


def _on_disruption(spec: Spec) -> object:
    """Return the action of a Job's podFailurePolicy for an evicted pod; None if no rule matches.

    The first rule that matches decides. An evicted pod has the condition DisruptionTarget and ends
    by SIGTERM or SIGKILL.
    """
    for rule in items(inner(spec, "podFailurePolicy"), "rules"):
        conditions = {on.get("type") for on in items(rule, "onPodConditions")}
        if "DisruptionTarget" in conditions or _matches_signals(inner(rule, "onExitCodes")):
            return rule.get("action")
    return None


def _matches_signals(on_exit: Spec) -> bool:
    """Return whether a rule on exit codes matches a pod that was killed by a signal."""
    values: object = on_exit.get("values")
    listed = cast(list[object], values) if isinstance(values, list) else []
    named = [code for code in BY_SIGNAL if code in listed]
    if on_exit.get("operator") == "In":
        return bool(named)
    return on_exit.get("operator") == "NotIn" and len(named) < len(BY_SIGNAL)
