"""The schedule of searches: for which gangs a cycle searches, and when to try again.

A search takes much time and mostly fails for the same reason as the last one. It is therefore made

    not before     the gang has waited for `displaces_after_s`
    not again      until a backoff has passed that grows with the gang's wait (`_next_search_at`)
    not again      for an equal gang, while nothing has changed (`FailedSearches`)
    not at all     when a cycle has done `search_steps` steps; the next cycle continues

`wake_at` is the first instant at which time alone can change one of these answers.
"""

from __future__ import annotations

from collections.abc import Hashable

from windlass.engine.preemption.search import SearchResult
from windlass.engine.queueing import Limits, Progress, QueueShares
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.state.snapshot import FailedSearch

FIRST_RETRY_S = 60
"""The wait of a gang, in seconds, after which a way that was too costly is first considered
again."""


class FailedSearches:
    """The searches that failed; an equal search is made again only after something has changed.

    It lives as long as the cluster (`Cluster.recall`), over many cycles.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._failed_until: dict[Hashable, int | None] = {}
        self._rests_on: object = None
        """The state in which the searches failed: running work, shares, entitlements and holds."""

    def current(self, standing: QueueShares) -> dict[Hashable, int | None]:
        """Return the searches that would fail again, each with the instant until which it does.

        None instead of an instant: until something changes. The caller adds to the returned
        mapping.
        """
        cluster = self._cluster
        rests_on = (cluster.running_version, standing.shares, standing.entitled, cluster.holds)
        if rests_on != self._rests_on:
            self._failed_until, self._rests_on = {}, rests_on
        for search, until in list(self._failed_until.items()):
            if until is not None and until <= cluster.now:
                del self._failed_until[search]
        return self._failed_until


class RetrySchedule:
    """The schedule of one pass: the searches that are due, and the steps that are left for them."""

    def __init__(self, cluster: Cluster, limits: Limits, standing: QueueShares) -> None:
        self._cluster, self._limits, self._standing = cluster, limits, standing
        self._failed_before = {search.gang: search for search in cluster.searched}
        """The last failed search of each gang, from earlier cycles."""
        self._failed_alike = cluster.recall(FailedSearches).current(standing)
        """The searches that would fail again, by a key: searches with equal keys have equal
        results."""
        self._steps_left = cluster.settings.search_steps
        self.searched: dict[GangId, FailedSearch] = {}
        """The failed searches to remember: those of this pass, and earlier ones that are not due
        again."""
        self.wake_at: int | None = None
        """The first instant at which time alone may change an answer of this pass."""

    def wake(self, at: int | None) -> None:
        """Ask for the next plan at this instant or earlier; None changes nothing."""
        if at is not None:
            self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def is_due(self, gang: Gang) -> bool:
        """Return whether a search for the gang is due; if it is due later, note in `wake_at`
        when."""
        cluster, now = self._cluster, self._cluster.now
        if gang.displaces_after_s is None or not cluster.settings.displacing:
            return False
        if cluster.gains.has_lost(gang.id):
            return False
        ready_at = gang.created_at + gang.displaces_after_s
        if ready_at > now:
            self.wake(ready_at)
            return False
        failed = self._failed_before.get(gang.id)
        if failed is None:
            return True
        next_at = self._next_search_at(gang, failed)
        if next_at > now:
            self.searched[gang.id] = failed
            self.wake(next_at)
        return next_at <= now

    def has_budget(self) -> bool:
        """Return whether this cycle has steps left; if not, ask for the next cycle in one
        second."""
        if self._steps_left <= 0:
            self.wake(self._cluster.now + 1)
        return self._steps_left > 0

    def spend(self, steps: int) -> None:
        """Subtract the steps of a search from the budget of the cycle."""
        self._steps_left -= steps

    def fails_again(self, alike: Hashable) -> bool:
        """Return whether an equal search has failed and nothing has changed since."""
        if alike not in self._failed_alike:
            return False
        self.wake(self._failed_alike[alike])
        return True

    def note_failure(
        self, gang: Gang, alike: Hashable, result: SearchResult, protected_until: int | None
    ) -> None:
        """Remember a search without an outcome, and when its result may change.

        `protected_until` is the next instant at which a unit loses its protection; None: no unit
        does.
        """
        self.wake(protected_until)
        self.wake(result.wait_until)
        if result.too_costly:
            self.wake(_next_doubling(gang.created_at, self._cluster.now))
        elif result.wait_until is None:
            # remember only results that do not depend on how long this gang has waited
            self._failed_alike[alike] = protected_until

    def postpone(self, progress: Progress, ready_at: int | None) -> None:
        """Start the backoff of a gang; `ready_at` is the next end of a protection, None if there is
        none.

        A gang within its queue's guarantee is searched for at `ready_at` if that is earlier.
        """
        gang, cluster = progress.gang, self._cluster
        after = cluster.allocated(gang.queue, GPU) + self._limits.need(progress.counts).get(GPU, 0)
        is_guaranteed = after <= self._standing.guarantees[gang.queue].get(GPU, 0)
        self.searched[gang.id] = FailedSearch(
            gang.id, cluster.now, ready_at if is_guaranteed else None
        )

    def ready_at(self, alike: Hashable) -> int | None:
        """Return the end of the protection that made an equal search fail; None if there is
        none."""
        return self._failed_alike.get(alike)

    def _next_search_at(self, gang: Gang, failed: FailedSearch) -> int:
        """Return the end of the backoff: a quarter of the wait so far, within bounds."""
        settings = self._cluster.settings
        least, epoch = settings.search_again_s, settings.epoch_s
        next_at = failed.at + min(max(least, (failed.at - gang.created_at) // 4), 10 * least)
        if least:
            # at the end of an epoch, together with all others that are due about then
            next_at = -(-next_at // epoch) * epoch
        return next_at if failed.ready_at is None else min(next_at, failed.ready_at)


def _next_doubling(created_at: int, now: int) -> int:
    """Return the next doubling of the wait (60 s, 120 s, ...): a longer wait justifies a higher
    cost."""
    waited = FIRST_RETRY_S
    while created_at + waited <= now:
        waited *= 2
    return created_at + waited
