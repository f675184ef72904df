"""What we have set going and not yet seen.

A pod that we have decided to bind is on its node for us at once; the API server follows.

    waiting --assume--> assumed --confirm (the watch shows its node)--> bound
       ^                   |
       +------ fail -------+------ expire (no sign of it for long): the pod is read again

What an older object says does not undo an assumption; only a failed write, the pod's own node, or
its end does. After a failure the whole gang is left alone for a moment, longer each time.
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
"""For so long a gang is not chosen again whose owner would have failed by its eviction."""


@dataclass(frozen=True, slots=True)
class GangBackoff:
    """Binds of a gang that failed, or evictions for it: how often, and until when it is left alone.

    `what` says what failed, and `why` which kind of reason this is for the gang.
    """

    times: int
    what: str
    until: int
    why: ReasonCode


class Assumed:
    """Binds and evictions under way, and gangs whose binds failed."""

    def __init__(self) -> None:
        self._binds: dict[TaskId, tuple[Bind, int]] = {}
        self._leaving: dict[TaskId, int] = {}
        self._troubles: dict[GangId, GangBackoff] = {}
        self._kept: dict[GangId, int] = {}
        """Until when a gang stays where it is, whatever happens."""

    def __len__(self) -> int:
        return len(self._binds)

    def node_of(self, task: TaskId) -> str:
        """The node that a pod is being bound to; none if it is not."""
        found = self._binds.get(task)
        return found[0].node if found else ""

    def leaving_since(self, task: TaskId) -> int | None:
        """When we began to evict a pod."""
        return self._leaving.get(task)

    def bind(self, action: Bind, now: int) -> None:
        """A pod is being bound."""
        self._binds.pop(action.task, None)
        self._binds[action.task] = (action, now)

    def evict(self, task: TaskId, now: int) -> None:
        """A pod is being evicted."""
        self._leaving[task] = now

    def settle(self, task: TaskId) -> Bind | None:
        """A bind is over, well or badly; answers what it was."""
        found = self._binds.pop(task, None)
        return found[0] if found else None

    def stay(self, task: TaskId) -> bool:
        """An eviction did not happen; answers whether there was one."""
        return self._leaving.pop(task, None) is not None

    def forget(self, task: TaskId) -> None:
        """A pod is gone."""
        self._binds.pop(task, None)
        self._leaving.pop(task, None)

    def overdue(self, now: int) -> list[TaskId]:
        """Binds of which nothing was heard for long; each is named once per that time."""
        # the oldest stand in front, since whoever is named goes to the end
        first = takewhile(lambda each: now - each[1][1] >= EXPIRES_AFTER_S, self._binds.items())
        late = [task for task, _ in first]
        for task in late:
            self._binds[task] = (self._binds.pop(task)[0], now)
        return late

    def failed(
        self, gang: GangId, what: str, now: int, why: ReasonCode = ReasonCode.FAILED_BEFORE
    ) -> None:
        """A bind of the gang, or an eviction for it, failed: it is left alone for a moment."""
        before = self._troubles.get(gang)
        if before is not None and before.until > now:
            return  # its pods fail together: that counts once
        times = 1 + (before.times if before else 0)
        wait = min(LONGEST_RETRY_S, FIRST_RETRY_S << min(times - 1, 10))
        self._troubles[gang] = GangBackoff(times, what, now + wait, why)

    def keep(self, gang: GangId, now: int) -> None:
        """Let a gang stay where it is for a while: its owner would fail if it were evicted."""
        self._kept[gang] = now + KEPT_FOR_S

    def is_kept(self, gang: GangId, now: int) -> bool:
        """Does a gang stay where it is, whatever happens?"""
        return self._kept.get(gang, now) > now

    def went_well(self, gang: GangId) -> None:
        """A bind of the gang happened, or it is gone."""
        self._troubles.pop(gang, None)

    def trouble(self, gang: GangId, now: int) -> Reason | None:
        """Why the gang is left alone, if it is."""
        trouble = self._troubles.get(gang)
        if trouble is None or trouble.until <= now:
            return None
        wait = duration_in_words(trouble.until - now)
        return Reason(trouble.why, {"what": trouble.what, "wait": wait})

    def over(self, before: int, now: int) -> list[GangId]:
        """The gangs that may be tried again, or evicted again, since then."""
        tried = {gang for gang, each in self._troubles.items() if before < each.until <= now}
        free = {gang for gang, until in self._kept.items() if until <= now}
        self._kept = {gang: until for gang, until in self._kept.items() if gang not in free}
        return sorted(tried | free)

    def wake_at(self, now: int) -> int | None:
        """When the next gang may be tried again, or a bind is overdue."""
        instants = [each.until for each in self._troubles.values() if each.until > now]
        instants += [until for until in self._kept.values() if until > now]
        instants += [at + EXPIRES_AFTER_S for _, at in islice(self._binds.values(), 1)]
        return min(instants, default=None)
