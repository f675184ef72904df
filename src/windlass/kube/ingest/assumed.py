"""Binds and evictions that were decided and not yet observed, and the backoff of failed gangs.

A pod that is to be bound counts as bound at once; the API server follows.

    waiting --assume--> assumed --confirm (the watch shows its node)--> bound
       ^                   |
       +------ fail -------+------ expire (not confirmed for long): the pod is read again

An older object does not undo an assumption. Only a failed write, the pod's own node or its end
does. After a failure the whole gang backs off, twice as long each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile

from windlass.model.actions import Bind
from windlass.model.jobs import GangId, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import duration_in_words

FIRST_RETRY_S = 1
LONGEST_RETRY_S = 60
EXPIRES_AFTER_S = 30
KEPT_FOR_S = 60
"""Seconds for which a gang is no victim after its eviction would have failed its owner."""


@dataclass(frozen=True, slots=True)
class GangBackoff:
    """The backoff of a gang whose binds failed, or for which an eviction was refused."""

    times: int
    what: str
    """The failure, in words."""
    until: int
    why: ReasonCode
    """The code of the reason that the gang is given meanwhile."""


class Assumed:
    """The binds and evictions under way, the backoff of gangs, and gangs that are no victims."""

    def __init__(self) -> None:
        self._binds: dict[TaskId, tuple[Bind, int]] = {}
        """The bind and when it was assumed or last reported as overdue; the oldest first."""
        self._leaving: dict[TaskId, int] = {}
        """The second at which the eviction of a pod was decided."""
        self._troubles: dict[GangId, GangBackoff] = {}
        """Kept after it has ended, so that the next failure waits longer."""
        self._kept: dict[GangId, int] = {}
        """The second until which a gang is no victim."""

    def __len__(self) -> int:
        return len(self._binds)

    def node_of(self, task: TaskId) -> str:
        """Return the node that a pod is being bound to; empty if it is not being bound."""
        bind = self._binds.get(task)
        return bind[0].node if bind else ""

    def leaving_since(self, task: TaskId) -> int | None:
        """Return when the eviction of a pod was decided; None if it was not."""
        return self._leaving.get(task)

    def bind(self, action: Bind, now: int) -> None:
        """Assume a bind."""
        self._binds.pop(action.task, None)
        self._binds[action.task] = (action, now)

    def evict(self, task: TaskId, now: int) -> None:
        """Assume an eviction."""
        self._leaving[task] = now

    def settle(self, task: TaskId) -> Bind | None:
        """End the assumption of a bind, confirmed or failed; return it, or None if none was."""
        bind = self._binds.pop(task, None)
        return bind[0] if bind else None

    def stay(self, task: TaskId) -> bool:
        """End the assumption of an eviction that did not happen; return whether there was one."""
        return self._leaving.pop(task, None) is not None

    def forget(self, task: TaskId) -> None:
        """Forget a pod that is gone."""
        self._binds.pop(task, None)
        self._leaving.pop(task, None)

    def overdue(self, now: int) -> list[TaskId]:
        """Return the binds not confirmed for `EXPIRES_AFTER_S`; each at most once in that time."""
        # the oldest stand in front: a bind that is returned moves to the end
        first = takewhile(lambda item: now - item[1][1] >= EXPIRES_AFTER_S, self._binds.items())
        late = [task for task, _ in first]
        for task in late:
            self._binds[task] = (self._binds.pop(task)[0], now)
        return late

    def fail(
        self, gang: GangId, what: str, now: int, why: ReasonCode = ReasonCode.FAILED_BEFORE
    ) -> None:
        """Let a gang back off: one of its binds failed, or an eviction for it was refused."""
        before = self._troubles.get(gang)
        if before is not None and before.until > now:
            return  # the pods of a gang fail together: that counts once
        times = 1 + (before.times if before else 0)
        wait = min(LONGEST_RETRY_S, FIRST_RETRY_S << min(times - 1, 10))
        self._troubles[gang] = GangBackoff(times, what, now + wait, why)

    def succeed(self, gang: GangId) -> None:
        """End the backoff of a gang: one of its binds was confirmed, or the gang is gone."""
        self._troubles.pop(gang, None)

    def backoff_reason(self, gang: GangId, now: int) -> Reason | None:
        """Return the reason why a gang waits for its next try; None if it need not."""
        backoff = self._troubles.get(gang)
        if backoff is None or backoff.until <= now:
            return None
        wait = duration_in_words(backoff.until - now)
        return Reason(backoff.why, {"what": backoff.what, "wait": wait})

    def protect(self, gang: GangId, now: int) -> None:
        """Let a gang be no victim for `KEPT_FOR_S`: its eviction would have failed its owner."""
        self._kept[gang] = now + KEPT_FOR_S

    def is_protected(self, gang: GangId, now: int) -> bool:
        """Return whether a gang is no victim, by any rule."""
        return self._kept.get(gang, now) > now

    def ended_backoffs(self, before: int, now: int) -> list[GangId]:
        """Return the gangs whose backoff or protection ended between two seconds."""
        tried = {gang for gang, each in self._troubles.items() if before < each.until <= now}
        free = {gang for gang, until in self._kept.items() if until <= now}
        self._kept = {gang: until for gang, until in self._kept.items() if gang not in free}
        return sorted(tried | free)

    def wake_at(self, now: int) -> int | None:
        """Return when the next backoff or protection ends, or a bind is overdue; None if never."""
        instants = [backoff.until for backoff in self._troubles.values() if backoff.until > now]
        instants += [until for until in self._kept.values() if until > now]
        instants += [at + EXPIRES_AFTER_S for _, at in islice(self._binds.values(), 1)]
        return min(instants, default=None)
