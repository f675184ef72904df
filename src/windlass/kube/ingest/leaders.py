"""The leaders of groups whose followers are created once the leader has a node.

A gang that waited for all of its pods would wait for ever, because its controller waits for the
leaders. So each missing follower has a placeholder. The gang is placed whole, its leaders are
bound, and the places of the followers are held until their pods exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from windlass.kube.ingest.owners import OwnerIndex
from windlass.model.jobs import GangId, TaskId
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.kinds import Kinds, followers_of, group_of, is_leader, owner_chain
from windlass.workloads.objects import Pod

FOLLOW_WITHIN_S = 180
"""Seconds for which places are held for followers after their leader has started. The Job
controller backs off for up to a minute while its pods are refused."""


class Leaders:
    """The leader pods of each gang."""

    def __init__(self, owners: OwnerIndex, kinds: Kinds) -> None:
        self._owners, self._kinds = owners, kinds
        self._by_gang: dict[GangId, dict[TaskId, Pod]] = {}
        """No empty entries: `in` tells whether a gang has leaders."""

    def __contains__(self, gang: GangId) -> bool:
        return gang in self._by_gang

    def see(self, gang: GangId, task: TaskId, pod: Pod) -> None:
        """Store a pod of a gang if it is a leader."""
        if is_leader(pod):
            self._by_gang.setdefault(gang, {})[task] = pod

    def lose(self, gang: GangId, task: TaskId) -> None:
        """Remove a pod of a gang."""
        leaders = self._by_gang.get(gang)
        if leaders is not None and leaders.pop(task, None) and not leaders:
            del self._by_gang[gang]

    def followers(self, gang: GangId, present: Iterable[Pod], now: int) -> dict[TaskId, Pod]:
        """Return placeholders for the followers of a gang that are not among the present pods.

        Empty once a leader has waited for its followers for longer than `FOLLOW_WITHIN_S`.
        """
        missing: dict[TaskId, Pod] = {}
        if gang not in self._by_gang:
            return missing
        group_sizes = Counter(map(group_of, present))
        for _, leader in sorted(self._by_gang.get(gang, {}).items()):
            started = parse_timestamp_or_none(leader.status.start_time)
            if started is not None and now - started > FOLLOW_WITHIN_S:
                return {}
            way = owner_chain(leader, self._owners.find, self._kinds)
            if way and way[0].owner is not None:
                missing |= followers_of(leader, way[0].owner, group_sizes[group_of(leader)])
        return missing

    def expired(self, before: int, now: int) -> list[GangId]:
        """Return the gangs whose wait for followers ended between two seconds."""
        gangs: list[GangId] = []
        for gang, leaders in sorted(self._by_gang.items()):
            starts = [parse_timestamp_or_none(pod.status.start_time) for pod in leaders.values()]
            if any(at is not None and before <= at + FOLLOW_WITHIN_S < now for at in starts):
                gangs.append(gang)
        return gangs
