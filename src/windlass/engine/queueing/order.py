"""The queue order: a walk down the tree of queues that returns one gang at a time.

Among the children of a queue: higher tier first, then the one that would have least of its
entitlement after its next gang is placed, then the one that has least of it now, then the one whose
head is oldest. Inside a queue: gangs that lost members first, then priority, then the level of the
ordering policy (`ordering_policies.py`), then, where users take turns, the user with the least
current and past usage, then age.

Placing a gang changes only the keys of the queues on its path to the root, so only those are
computed again. The children of each queue are in a heap of keys; a key that is no longer the
current one of its queue stays in the heap and is skipped when it comes up.
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
"""The sort key of a queue among its siblings, lowest first:
(-tier, saturation with its next gang, saturation now, creation time of its oldest head, name)."""

NOTHING: Mapping[str, int] = {}
_SCALE = 1 << 20
"""Saturation is a fixed-point number: `_SCALE` stands for 1, all of the entitlement."""
_NOT_ENTITLED = 1 << 50
"""The addition where a queue holds something without any entitlement: it comes after all others."""


class GangOrder:
    """The gangs in queue order; `next` returns them one by one, as the queues stand by then."""

    def __init__(
        self, cluster: Cluster, standing: QueueShares, limits: Limits, gangs: Iterable[Progress]
    ) -> None:
        self._cluster, self._standing, self._limits = cluster, standing, limits
        self.gangs = tuple(gangs)
        """All gangs, as they were before the first was returned."""
        self._lines: dict[str, _QueueLine] = {}
        """The gangs of each leaf queue; empty until the first call of `next`."""
        self._heaps: dict[str, list[Key]] = {}
        """Per parent, the keys of its children; it may contain outdated keys, see `_keys`."""
        self._keys: dict[str, Key] = {}
        """The current key of each queue that has gangs; a heap entry that differs is outdated."""
        self._needs: dict[str, Mapping[str, int]] = {}
        """The need of the next gang of each queue, per dimension."""
        self._saturation: dict[str, tuple[Mapping[str, int], int, int]] = {}
        """Per queue: the need that it was computed for, saturation with it, saturation now.
        An entry is dropped when something is placed below the queue."""
        self._stale = ROOT
        """The leaf queue whose head was returned last: its path must be keyed again. ROOT: none."""
        self._only: _QueueLine | None = None
        """The line of the only queue with gangs: then no queues have to be compared."""

    def next(self) -> Progress | None:
        """Return the next gang and remove it; None at the end."""
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
        """Note that a gang was placed: the saturation of all queues on its path has changed."""
        for name in self._cluster.accounts.path(progress.gang.queue):
            self._saturation.pop(name, None)

    def put_back(self, progress: Progress) -> None:
        """Insert a gang again at its place in the order."""
        self._lines[progress.gang.queue].put_back(progress)

    def _line_up(self) -> None:
        """Sort all gangs into lines. Delayed until the first question: often none is asked."""
        cluster = self._cluster
        levels = cluster.recall(OrderLevels)
        average = cluster.recall(_AverageUsage).use() if levels.by_user else {}
        for progress in self.gangs:
            queue = progress.gang.queue
            if queue not in self._lines:
                self._lines[queue] = _QueueLine(cluster, queue, average, levels)
            self._lines[queue].add(progress)
        for line in self._lines.values():
            line.sort()
        if len(self._lines) == 1:
            self._only = next(iter(self._lines.values()))
        else:
            self._key_all()

    def _first_child(self, name: str) -> str | None:
        """Return the child that is next, and drop outdated heap entries before it."""
        heap = self._heaps.get(name, [])
        while heap:
            child = heap[0][-1]
            if self._keys.get(child) == heap[0]:
                return child
            heappop(heap)
        return None

    def _key_all(self) -> None:
        """Key every queue that has gangs, then the queues above them, each once, deepest first."""
        path, above = self._cluster.accounts.path, set[str]()
        for queue in sorted(self._lines):
            self._key_leaf(queue, self._lines[queue])
            above.update(path(queue)[1:])
        for name in sorted(above, key=lambda queue: (-len(path(queue)), queue)):
            self._key_parent(name)

    def _rekey(self, queue: str) -> None:
        """Key a queue and those above it again, bottom up: a parent's key rests on its children."""
        if queue == ROOT:
            return
        self._key_leaf(queue, self._lines[queue])
        for name in self._cluster.accounts.path(queue)[1:]:
            self._key_parent(name)

    def _key_leaf(self, queue: str, line: _QueueLine) -> None:
        """Key a leaf queue by its next gang."""
        head = line.head()
        need = self._need(head) if head is not None else NOTHING
        self._set_key(queue, line.oldest(), need)

    def _key_parent(self, name: str) -> None:
        """Key a queue by its child that is next."""
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
        cached = self._saturation.get(name)
        if cached is None or cached[0] is not need:
            cached = self._saturation[name] = (need, *self._saturated(name, need))
        return -queue.tier, cached[1], cached[2], oldest, name

    def _need(self, progress: Progress) -> Mapping[str, int]:
        parts = progress.parts or progress.elastic[:1]
        if len(parts) == 1 and len(parts[0].tasks) == 1:
            return self._limits.needs_of(parts[0].tasks[0].shape)
        return self._limits.need(progress.counts)

    def _saturated(self, name: str, need: Mapping[str, int]) -> tuple[int, int]:
        """Return the saturation of a queue with a need and without it.

        Saturation is held / entitled in the dimension where that is highest (the dominant share),
        in units of 1 / `_SCALE`.
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


class _QueueLine:
    """The gangs of one leaf queue, one sorted list per user.

    Where users do not take turns, all gangs are in the list of the user "".
    """

    __slots__ = ("_average", "_cluster", "_levels", "_queue", "_users")

    def __init__(
        self, cluster: Cluster, queue: str, average: dict[tuple[str, str], int], levels: OrderLevels
    ) -> None:
        self._cluster, self._queue, self._average = cluster, queue, average
        self._levels = levels
        self._users: dict[str, list[Progress]] = {}
        """Never contains an empty list."""

    def add(self, progress: Progress) -> None:
        """Append a gang; `sort` must follow before anything is read."""
        self._users.setdefault(self._user(progress), []).append(progress)

    def put_back(self, progress: Progress) -> None:
        """Insert a gang into a sorted line."""
        insort(self._users.setdefault(self._user(progress), []), progress, key=self._rank)

    def sort(self) -> None:
        """Sort the gangs of each user."""
        for gangs in self._users.values():
            gangs.sort(key=self._rank)

    def oldest(self) -> int | None:
        """Return the earliest creation time among the users' heads; None if the line is empty."""
        return min((gangs[0].gang.created_at for gangs in self._users.values()), default=None)

    def head(self) -> Progress | None:
        """Return the next gang without removing it; None if the line is empty."""
        return self._users[self._first_user()][0] if self._users else None

    def pop(self) -> Progress:
        """Remove and return the next gang."""
        user = self._first_user()
        gangs = self._users[user]
        head = gangs.pop(0)
        if not gangs:
            del self._users[user]
        return head

    def _first_user(self) -> str:
        if len(self._users) == 1:
            return next(iter(self._users))
        return min(self._users, key=self._user_rank)

    def _user_rank(self, user: str) -> tuple[object, ...]:
        """Return the rank of a user's head, with the user's usage before growth and age."""
        head = self._users[user][0]
        whole, priority, _, _, new, grown, created_at, gang = self._rank(head)
        key = (self._queue, user)
        use = self._cluster.accounts.users.get(key, 0) + self._average.get(key, 0)
        return whole, priority, new, use, grown, created_at, gang

    def _user(self, progress: Progress) -> str:
        return progress.gang.user if self._levels.by_user else ""

    def _rank(self, progress: Progress) -> tuple[bool, int, int, int, bool, int, int, str]:
        gang = progress.gang
        whole = not (progress.started and progress.parts)
        place = self._levels.rank(gang)
        new = not gang.stops  # a gang that was evicted for others comes before its equals
        return whole, -gang.priority, *place, new, progress.grown, gang.created_at, gang.id


class _AverageUsage:
    """The past usage of users as a constant rate of GPUs, worked out once per epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rests_on: object = None
        """The usage list that `_use` was made of; a new epoch brings a new list object."""
        self._use: dict[tuple[str, str], int] = {}

    def use(self) -> dict[tuple[str, str], int]:
        """Return, per (queue, user), the thousandths of GPUs that would have led to the usage."""
        usages, half_life_s = self._cluster.epoch_usage, self._cluster.settings.half_life_s
        if self._rests_on is not usages:
            use: dict[tuple[str, str], int] = {}
            for usage in usages:
                key = (usage.queue, usage.user)
                use[key] = use.get(key, 0) + usage.milli_seconds
            # A constant rate r settles at a decayed usage of r * half_life / ln 2, and
            # 1 / ln 2 is 1.4427: so r = usage / (half_life * 1.4427).
            self._use = {
                key: value * 10_000 // (half_life_s * 14_427) for key, value in use.items()
            }
            self._rests_on = usages
        return self._use
