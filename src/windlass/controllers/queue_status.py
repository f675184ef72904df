"""The numbers in the status of each queue, with all queues below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.controllers.lending import lent_gpus
from windlass.engine.plan import Plan
from windlass.model.jobs import GangId, TaskState
from windlass.model.queues import GPU, guaranteed
from windlass.state.cluster import Cluster


def _nothing() -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """The numbers of a queue and those below it; amounts by dimension, in the model's units."""

    share: Mapping[str, int] = field(default_factory=_nothing)
    guarantee: Mapping[str, int] = field(default_factory=_nothing)
    allocated: Mapping[str, int] = field(default_factory=_nothing)
    borrowed: Mapping[str, int] = field(default_factory=_nothing)
    lent: Mapping[str, int] = field(default_factory=_nothing)
    waiting_gangs: int = 0
    waiting_tasks: int = 0
    waiting_milli: int = 0
    """The thousandths of GPU that the waiting tasks ask for."""
    milli_seconds: int = 0
    """The decayed usage, in thousandth GPU-seconds."""
    used: Sequence[tuple[str, str, int]] = ()
    """The usage of its own gangs alone: user, GPU model, thousandth GPU-seconds."""


def queue_numbers(cluster: Cluster, plan: Plan) -> dict[str, QueueNumbers]:
    """Return the numbers of every queue, as of now."""
    waiting = _waiting(cluster)
    by_queue = queue_balances(cluster, plan)
    for name, numbers in by_queue.items():
        below = [waiting[queue] for queue in _below(cluster, name) if queue in waiting]
        by_queue[name] = replace(
            numbers,
            waiting_gangs=sum(gangs for gangs, _, _ in below),
            waiting_tasks=sum(tasks for _, tasks, _ in below),
            waiting_milli=sum(milli for _, _, milli in below),
        )
    return by_queue


def queue_balances(cluster: Cluster, plan: Plan) -> dict[str, QueueNumbers]:
    """Return the numbers of every queue without the waiting gangs.

    Its cost depends on the numbers of queues and users alone, not on the backlog.
    """
    used, lends = _used(cluster), lent_gpus(cluster)
    by_queue: dict[str, QueueNumbers] = {}
    for name, queue in cluster.queues.items():
        guarantee = {key: guaranteed(queue, key) for key in sorted({GPU, *queue.guarantee})}
        allocated = {key: held for key, held in _held(cluster, name).items() if held}
        by_queue[name] = QueueNumbers(
            share=plan.shares.get(name, {}),
            guarantee=guarantee,
            allocated=allocated,
            borrowed=_above(allocated, guarantee),
            lent={GPU: lends[name]},
            milli_seconds=sum(
                part[2] for below in _below(cluster, name) for part in used.get(below, ())
            ),
            used=used.get(name, ()),
        )
    return by_queue


def _below(cluster: Cluster, queue: str) -> list[str]:
    """Return the queue and all below it."""
    return [name for name in cluster.queues if queue in cluster.accounts.path(name)]


def _held(cluster: Cluster, queue: str) -> Mapping[str, int]:
    return cluster.accounts.held.get(queue, {})


def _above(allocated: Mapping[str, int], guarantee: Mapping[str, int]) -> dict[str, int]:
    above = {key: held - guarantee.get(key, 0) for key, held in allocated.items()}
    return {key: amount for key, amount in above.items() if amount > 0}


def _waiting(cluster: Cluster) -> dict[str, tuple[int, int, int]]:
    """Return the waiting gangs, tasks and GPU thousandths, by queue of the gangs."""
    return {
        queue: (len(gangs), *_requested(cluster, gangs))
        for queue, gangs in cluster.waiting.items()
        if gangs
    }


def _requested(cluster: Cluster, gangs: Mapping[GangId, int]) -> tuple[int, int]:
    """Return the number of waiting tasks of some gangs, and their GPU thousandths."""
    tasks = [
        task for gang in gangs for task in cluster.members(gang) if task.state == TaskState.WAITING
    ]
    requests = [task.shape.request for task in tasks]
    milli = sum(own.gpu.count * own.gpu.milli for own in requests if own.gpu is not None)
    least = cluster.columns.extra_gpus.least
    return len(tasks), milli + sum(least(own) for own in requests if own.extra)


def _used(cluster: Cluster) -> dict[str, list[tuple[str, str, int]]]:
    used: dict[str, list[tuple[str, str, int]]] = {}
    for holder, value in cluster.ledger.at(cluster.now):
        used.setdefault(holder.queue, []).append((holder.user, holder.model, value))
    return used
