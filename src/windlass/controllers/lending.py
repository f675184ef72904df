"""What each queue lends: of its idle guarantee, what queues beside it or beside one above it have.

Nobody writes down whose guarantee a GPU belongs to, so this is the even way to tell it. What a
queue has beyond its guarantee it has first of its siblings that leave theirs idle, and of what its
parent is guaranteed and has handed down to nobody; then of the siblings of its parent, and so on up
to the top. There what nobody is guaranteed comes first: lent is only what is not free any more.
Each gives in proportion to what it leaves idle, and no more than it lends at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.model.queues import GPU, Queue, guaranteed
from windlass.state.cluster import Cluster


def lent(cluster: Cluster) -> dict[str, int]:
    """Thousandths of GPUs per queue, with those below it; what stays below it is not lent."""
    return _Settled(cluster).lent


class _Settled:
    """The tree from the leaves upwards; what is not settled below a queue is settled above it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, queues = cluster, cluster.queues
        self.lent = dict.fromkeys(queues, 0)
        self._below: dict[str, list[Queue]] = {}
        for queue in queues.values():
            self._below.setdefault(queue.parent, []).append(queue)
        tops = [queue for queue in queues.values() if len(cluster.accounts.path(queue.name)) == 1]
        idle = sum(
            max(0, guaranteed(each, GPU) - cluster.allocated(each.name, GPU)) for each in tops
        )
        free = cluster.columns.free_gpu() if cluster.nodes else 0
        needs, there = self._together(tops)
        self._settle(min(needs, max(0, idle - free)), there, "")

    def _of(self, queue: Queue) -> tuple[int, dict[str, int]]:
        """What is had beyond guarantees below a queue, and who leaves how much of its own idle."""
        below = self._below.get(queue.name, [])
        if not below:
            beyond = self._cluster.allocated(queue.name, GPU) - guaranteed(queue, GPU)
            return max(0, beyond), _at_most({queue.name: max(0, -beyond)}, queue.lend.get(GPU))
        needs, idle = self._together(below)
        handed_down = sum(guaranteed(each, GPU) for each in below)
        idle[queue.name] = max(0, guaranteed(queue, GPU) - handed_down)
        settled = min(needs, sum(idle.values()))
        left = self._settle(settled, idle, queue.name)
        return needs - settled, _at_most(left, queue.lend.get(GPU))

    def _together(self, queues: list[Queue]) -> tuple[int, dict[str, int]]:
        needs, idle = 0, dict[str, int]()
        for each in queues:
            more, there = self._of(each)
            needs += more
            idle |= there
        return needs, idle

    def _settle(self, amount: int, idle: Mapping[str, int], above: str) -> dict[str, int]:
        """Take so much from those that leave it idle; it is lent by all between them and there."""
        there, left = sum(idle.values()), dict[str, int]()
        for name, unused in idle.items():
            part = min(amount, there) * unused // max(1, there)
            left[name] = unused - part
            for queue in self._cluster.accounts.path(name):
                if queue == above:
                    break
                self.lent[queue] += part
        return left


def _at_most(idle: Mapping[str, int], most: int | None) -> dict[str, int]:
    there = sum(idle.values())
    if most is None or there <= most:
        return dict(idle)
    return {name: unused * most // there for name, unused in idle.items()}
