"""Who is next: a walk down the tree of queues, one gang at a time.

Among the children of a queue: higher tier first, then the one that would have least of what it is
entitled to once its next gang is placed, then the one that has least, then the one whose head waits
longest. Inside a queue: gangs that lost members first, then priority, then the place that the
order in the settings gives them (`policies.py`), then, where users take turns, the user who has
and had least, then age. Placing a gang changes only the standing of the queues on its path, so
only those are keyed anew.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import TypeAlias

from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import Progress
from windlass.engine.queueing.shares import QueueShares
from windlass.model.queues import ROOT
from windlass.state.cluster import Cluster

Key: TypeAlias = tuple[int, int, int, int, str]
"""Tier, standing with the next gang, standing without it, age of the head, name."""

NOTHING: Mapping[str, int] = {}
_SCALE = 1 << 20
_NOT_ENTITLED = 1 << 50


class GangOrder:
    """The line of gangs; `next` answers them one by one, as the queues stand by then."""

    def __init__(
        self, cluster: Cluster, standing: QueueShares, limits: Limits, gangs: Iterable[Progress]
    ) -> None:
        self._cluster, self._standing, self._limits = cluster, standing, limits
        self.gangs = tuple(gangs)
        """All that stand in it, before the first has left."""
        self._lines: dict[str, _Line] = {}
        self._heaps: dict[str, list[Key]] = {}
        self._keys: dict[str, Key] = {}
        self._needs: dict[str, Mapping[str, int]] = {}
        """What the next gang of each queue would add."""
        self._saturation: dict[str, tuple[Mapping[str, int], int, int]] = {}
        self._stale = ROOT
        self._only: _Line | None = None
        """The line of the one queue that has any: nobody has to be compared."""

    def next(self) -> Progress | None:
        """The next gang, which leaves the line; None at the end."""
        if not self.gangs:
            return None
        if not self._lines:
            self._line_up()
        if self._only is not None:
            return self._only.pop() if self._only.head() else None
        self._rekey(self._stale)
        name = ROOT
        while name not in self._lines:
            child = self._first_child(name)
            if child is None:
                return None
            name = child
        self._stale = name
        return self._lines[name].pop()

    def placed(self, progress: Progress) -> None:
        """The gang got what it asked for: the queues above it stand differently now."""
        for name in self._cluster.accounts.path(progress.gang.queue):
            self._saturation.pop(name, None)

    def put_back(self, progress: Progress) -> None:
        """The gang stands in line again, where it stood."""
        self._lines[progress.gang.queue].put_back(progress)

    def _line_up(self) -> None:
        """Put all in their lines: only once somebody asks, since often nobody does."""
        cluster = self._cluster
        ranks = cluster.recall(OrderLevels)
        average = cluster.recall(_Average).use() if ranks.by_user else {}
        for each in self.gangs:
            queue = each.gang.queue
            if queue not in self._lines:
                self._lines[queue] = _Line(cluster, queue, average, ranks)
            self._lines[queue].add(each)
        for line in self._lines.values():
            line.sort()
        if len(self._lines) == 1:
            self._only = next(iter(self._lines.values()))
        else:
            self._key_all()

    def _first_child(self, name: str) -> str | None:
        heap = self._heaps.get(name, [])
        while heap:
            child = heap[0][-1]
            if self._keys.get(child) == heap[0]:
                return child
            heappop(heap)
        return None

    def _key_all(self) -> None:
        """Key every queue that has gangs, and then those above, each once."""
        path, above = self._cluster.accounts.path, set[str]()
        for queue in sorted(self._lines):
            self._stand(queue, self._lines[queue])
            above.update(path(queue)[1:])
        for name in sorted(above, key=lambda each: (-len(path(each)), each)):
            self._rise(name)

    def _rekey(self, queue: str) -> None:
        """Key a queue and those above it anew, bottom up."""
        if queue == ROOT:
            return
        self._stand(queue, self._lines[queue])
        for name in self._cluster.accounts.path(queue)[1:]:
            self._rise(name)

    def _stand(self, queue: str, line: _Line) -> None:
        """Key a queue by the gang that is next in it."""
        head = line.head()
        need = self._need(head) if head is not None else NOTHING
        self._set_key(queue, line.oldest(), need)

    def _rise(self, name: str) -> None:
        """Key a queue by the one below it that is next."""
        first = self._first_child(name)
        if first is None:
            self._set_key(name, None, NOTHING)
        else:
            self._set_key(name, self._keys[first][3], self._needs[first])

    def _set_key(self, name: str, oldest: int | None, need: Mapping[str, int]) -> None:
        if oldest is None:
            self._keys.pop(name, None)
            return
        self._needs[name] = need
        key = self._key(name, oldest, need)
        if self._keys.get(name) != key:
            self._keys[name] = key
            above = self._cluster.accounts.path(name)[1:2]
            heappush(self._heaps.setdefault(above[0] if above else ROOT, []), key)

    def _key(self, name: str, oldest: int, need: Mapping[str, int]) -> Key:
        queue = self._cluster.queues[name]
        known = self._saturation.get(name)
        if known is None or known[0] is not need:
            known = self._saturation[name] = (need, *self._work_out(name, need))
        return -queue.tier, known[1], known[2], oldest, name

    def _need(self, progress: Progress) -> Mapping[str, int]:
        parts = progress.parts or progress.elastic[:1]
        if len(parts) == 1 and len(parts[0].tasks) == 1:
            return self._limits.needs_of(parts[0].tasks[0].shape)
        return self._limits.need(progress.counts)

    def _work_out(self, name: str, need: Mapping[str, int]) -> tuple[int, int]:
        """What a queue would have, and has, of what it is entitled to: the most of any dimension.

        Scaled, as integers.
        """
        held = self._cluster.accounts.held.get(name, NOTHING)
        most = most_now = 0
        for dimension, entitled in self._standing.entitled[name].items():
            now = held.get(dimension, 0)
            then = now + need.get(dimension, 0)
            if entitled:
                now, then = now * _SCALE // entitled, then * _SCALE // entitled
            else:
                now += _NOT_ENTITLED * (now > 0)
                then += _NOT_ENTITLED * (then > 0)
            most = max(most, then)
            most_now = max(most_now, now)
        return most, most_now


class _Line:
    """The gangs of one queue, a line per user."""

    __slots__ = ("_average", "_cluster", "_queue", "_ranks", "_users")

    def __init__(
        self, cluster: Cluster, queue: str, average: dict[tuple[str, str], int], ranks: OrderLevels
    ) -> None:
        self._cluster, self._queue, self._average = cluster, queue, average
        self._ranks = ranks
        self._users: dict[str, list[Progress]] = {}

    def add(self, progress: Progress) -> None:
        self._users.setdefault(self._user(progress), []).append(progress)

    def put_back(self, progress: Progress) -> None:
        insort(self._users.setdefault(self._user(progress), []), progress, key=self._rank)

    def sort(self) -> None:
        for line in self._users.values():
            line.sort(key=self._rank)

    def oldest(self) -> int | None:
        return min((line[0].gang.created_at for line in self._users.values()), default=None)

    def head(self) -> Progress | None:
        """The gang that is next."""
        return self._users[self._first()][0] if self._users else None

    def pop(self) -> Progress:
        user = self._first()
        line = self._users[user]
        found = line.pop(0)
        if not line:
            del self._users[user]
        return found

    def _first(self) -> str:
        if len(self._users) == 1:
            return next(iter(self._users))
        return min(self._users, key=self._user_rank)

    def _user_rank(self, user: str) -> tuple[object, ...]:
        head = self._users[user][0]
        whole, priority, _, _, new, grown, created_at, gang = self._rank(head)
        key = (self._queue, user)
        use = self._cluster.accounts.users.get(key, 0) + self._average.get(key, 0)
        return whole, priority, new, use, grown, created_at, gang

    def _user(self, progress: Progress) -> str:
        """Whose turn it would be; where users take no turns all stand in one line."""
        return progress.gang.user if self._ranks.by_user else ""

    def _rank(self, progress: Progress) -> tuple[bool, int, int, int, bool, int, int, str]:
        gang = progress.gang
        whole = not (progress.started and progress.parts)
        place = self._ranks.place(gang)
        new = not gang.stops  # who lost its place to others comes before its equals
        return whole, -gang.priority, *place, new, progress.grown, gang.created_at, gang.id


class _Average:
    """Decayed usage as the GPU that, held all the time, would have led to it; anew each epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rests_on: object = None
        self._use: dict[tuple[str, str], int] = {}

    def use(self) -> dict[tuple[str, str], int]:
        """Per queue and user, in thousandths of GPUs."""
        usage, half_life_s = self._cluster.epoch_usage, self._cluster.settings.half_life_s
        if self._rests_on is not usage:
            use: dict[tuple[str, str], int] = {}
            for each in usage:
                key = (each.queue, each.user)
                use[key] = use.get(key, 0) + each.milli_seconds
            # a constant rate r settles at r * h / ln 2, and 1 / ln 2 is 1.4427
            self._use = {
                key: value * 10_000 // (half_life_s * 14_427) for key, value in use.items()
            }
            self._rests_on = usage
        return self._use
