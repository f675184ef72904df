"""The GPUs that each queue lends: the part of its idle guarantee that other queues use.

No GPU belongs to a certain guarantee, so borrowed GPUs are attributed to lenders by a rule. A queue
borrows first from siblings that leave their guarantee idle, and from the part of its parent's
guarantee that no child has; then from the siblings of its parent, and so on up to the top. At the
top, GPUs that are guaranteed to no queue are used first: so queues lend only as much of the idle
guarantees as is not free any more. Lenders give in proportion to their idle guarantees, and no more
than their `lend` allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.model.queues import GPU, Queue, guaranteed
from windlass.state.cluster import Cluster


def lent_gpus(cluster: Cluster) -> dict[str, int]:
    """Return the thousandths of GPU that each queue and those below it lend to queues outside."""
    return _LendingTree(cluster).lent


class _LendingTree:
    """The queue tree, processed from the leaves upwards.

    Debts that cannot be matched with idle guarantees below a queue are matched above it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, queues = cluster, cluster.queues
        self.lent = dict.fromkeys(queues, 0)
        self._below: dict[str, list[Queue]] = {}
        """The children of each queue."""
        for queue in queues.values():
            self._below.setdefault(queue.parent, []).append(queue)
        tops = [queue for queue in queues.values() if len(cluster.accounts.path(queue.name)) == 1]
        idle = sum(max(0, guaranteed(top, GPU) - cluster.allocated(top.name, GPU)) for top in tops)
        free = cluster.columns.free_gpu() if cluster.nodes else 0
        borrowed, lenders = self._sum(tops)
        self._lend(min(borrowed, max(0, idle - free)), lenders, "")

    def _balance(self, queue: Queue) -> tuple[int, dict[str, int]]:
        """Return what a queue borrows from outside, and what it has to lend, by lender.

        Matches borrowers and lenders inside the queue first, and counts that as lent.
        """
        below = self._below.get(queue.name, [])
        if not below:
            beyond = self._cluster.allocated(queue.name, GPU) - guaranteed(queue, GPU)
            return max(0, beyond), _at_most({queue.name: max(0, -beyond)}, queue.lend.get(GPU))
        borrowed, idle = self._sum(below)
        handed_down = sum(guaranteed(child, GPU) for child in below)
        idle[queue.name] = max(0, guaranteed(queue, GPU) - handed_down)
        matched = min(borrowed, sum(idle.values()))
        left = self._lend(matched, idle, queue.name)
        return borrowed - matched, _at_most(left, queue.lend.get(GPU))

    def _sum(self, queues: list[Queue]) -> tuple[int, dict[str, int]]:
        """Return the balances of several queues together."""
        borrowed, lenders = 0, dict[str, int]()
        for queue in queues:
            more, idle = self._balance(queue)
            borrowed += more
            lenders |= idle
        return borrowed, lenders

    def _lend(self, amount: int, idle: Mapping[str, int], above: str) -> dict[str, int]:
        """Take an amount from lenders in proportion; return what they have left.

        Each part counts as lent by the lender and by all queues above it, up to below `above`.
        """
        total, left = sum(idle.values()), dict[str, int]()
        for name, unused in idle.items():
            part = min(amount, total) * unused // max(1, total)
            left[name] = unused - part
            for queue in self._cluster.accounts.path(name):
                if queue == above:
                    break
                self.lent[queue] += part
        return left


def _at_most(idle: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Return idle guarantees, scaled down so that their sum is at most `most` (None: no bound)."""
    total = sum(idle.values())
    if most is None or total <= most:
        return dict(idle)
    return {name: unused * most // total for name, unused in idle.items()}
