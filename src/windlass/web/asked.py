"""How much GPU the waiting tasks ask for, in thousandths, whatever the way they ask."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, milli_of_memory
from windlass.model.jobs import GangId, Task, TaskState
from windlass.model.mig import milli_of_profile, offered_by
from windlass.state.cluster import Cluster


def is_waiting(decision: Decision) -> bool:
    """Is it about a gang that stays in line?"""
    return decision.verdict in (Verdict.WAITS, Verdict.NEVER)


def waiting_tasks(cluster: Cluster, gang: GangId) -> list[Task]:
    """The tasks of a gang that have no place."""
    return [task for task in cluster.members(gang) if task.state is TaskState.WAITING]


class Asked:
    """Knows the cards of one cluster, and so what a slice or some memory is of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[GpuRequest, int] = {}

    def of(self, tasks: Iterable[Task]) -> int:
        """The thousandths of all these tasks together."""
        return sum(self._milli(task.shape.request.gpu) for task in tasks)

    def by_queue(self, plan: Plan) -> dict[str, tuple[int, int]]:
        """Per queue, with all below it: the gangs in line and the thousandths they ask for."""
        sums: dict[str, tuple[int, int]] = {}
        for decision in plan.decisions:
            if is_waiting(decision) and decision.gang in self._cluster.gangs:
                milli = self.of(waiting_tasks(self._cluster, decision.gang))
                for queue in self._cluster.accounts.path(decision.queue):
                    gangs, before = sums.get(queue, (0, 0))
                    sums[queue] = gangs + 1, before + milli
        return sums

    def _milli(self, gpu: GpuRequest | None) -> int:
        if gpu is None:
            return 0
        if gpu not in self._known:
            in_parts = gpu.profile or gpu.memory_mib
            self._known[gpu] = gpu.count * (_least(gpu, self._cards) if in_parts else gpu.milli)
        return self._known[gpu]

    @cached_property
    def _cards(self) -> frozenset[Gpu]:
        return frozenset(gpu for node in self._cluster.nodes.values() for gpu in node.gpus)


def _least(gpu: GpuRequest, cards: Collection[Gpu]) -> int:
    """Of the card on which it is least; a whole one where no card would do."""
    fitting = [card for card in cards if not gpu.models or card.model in gpu.models]
    if gpu.profile:
        parts = [
            milli_of_profile(card.model, gpu.profile)
            for card in fitting
            if gpu.profile in offered_by(card.model)
        ]
    else:
        parts = [milli_of_memory(gpu.memory_mib, card.memory_mib) for card in fitting]
    return min(WHOLE, *parts) if parts else WHOLE
