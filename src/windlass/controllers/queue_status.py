"""What each queue has, should have, lends and waits for, with all queues below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine.plan import Plan
from windlass.model.jobs import GangId, TaskState
from windlass.model.queues import GPU, Queue, guaranteed
from windlass.state.cluster import Cluster


def _nothing() -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """A queue and those below it, in the units of the model; amounts per dimension."""

    share: Mapping[str, int] = field(default_factory=_nothing)
    guarantee: Mapping[str, int] = field(default_factory=_nothing)
    allocated: Mapping[str, int] = field(default_factory=_nothing)
    borrowed: Mapping[str, int] = field(default_factory=_nothing)
    lent: Mapping[str, int] = field(default_factory=_nothing)
    waiting_gangs: int = 0
    waiting_tasks: int = 0
    waiting_milli: int = 0
    """Thousandths of GPUs that the waiting tasks ask for."""
    milli_seconds: int = 0
    """Usage."""
    used: Sequence[tuple[str, str, int]] = ()
    """Usage of its own gangs alone: user, GPU model, thousandth GPU-seconds."""


def queue_numbers(cluster: Cluster, plan: Plan) -> dict[str, QueueNumbers]:
    """The numbers of every queue, as of now."""
    waiting = _waiting(cluster)
    used = _used(cluster)
    idle = _idle(cluster)
    found: dict[str, QueueNumbers] = {}
    for name, queue in cluster.queues.items():
        below = [each for each in cluster.queues if name in cluster.accounts.path(each)]
        guarantee = {key: guaranteed(queue, key) for key in sorted({GPU, *queue.guarantee})}
        allocated = {key: held for key, held in _held(cluster, name).items() if held}
        found[name] = QueueNumbers(
            share=plan.shares.get(name, {}),
            guarantee=guarantee,
            allocated=allocated,
            borrowed=_above(allocated, guarantee),
            lent={GPU: _lent(cluster, queue, idle)},
            waiting_gangs=sum(waiting[each][0] for each in below if each in waiting),
            waiting_tasks=sum(waiting[each][1] for each in below if each in waiting),
            waiting_milli=sum(waiting[each][2] for each in below if each in waiting),
            milli_seconds=sum(part[2] for each in below for part in used.get(each, ())),
            used=used.get(name, ()),
        )
    return found


def _held(cluster: Cluster, queue: str) -> Mapping[str, int]:
    return cluster.accounts.held.get(queue, {})


def _above(allocated: Mapping[str, int], guarantee: Mapping[str, int]) -> dict[str, int]:
    above = {key: held - guarantee.get(key, 0) for key, held in allocated.items()}
    return {key: amount for key, amount in above.items() if amount > 0}


def _waiting(cluster: Cluster) -> dict[str, tuple[int, int, int]]:
    """Gangs, tasks and GPU thousandths that wait, per queue."""
    return {
        queue: (len(line), *_asked(cluster, line))
        for queue, line in cluster.waiting.items()
        if line
    }


def _asked(cluster: Cluster, line: Mapping[GangId, int]) -> tuple[int, int]:
    tasks = [
        task for gang in line for task in cluster.members(gang) if task.state == TaskState.WAITING
    ]
    gpus = (task.shape.request.gpu for task in tasks)
    return len(tasks), sum(gpu.count * gpu.milli for gpu in gpus if gpu is not None)


def _used(cluster: Cluster) -> dict[str, list[tuple[str, str, int]]]:
    used: dict[str, list[tuple[str, str, int]]] = {}
    for holder, value in cluster.ledger.at(cluster.now):
        used.setdefault(holder.queue, []).append((holder.user, holder.model, value))
    return used


def _idle(cluster: Cluster) -> tuple[int, int]:
    """GPU thousandths that nobody holds, and the idle guarantees of the top queues together."""
    free = cluster.columns.free_gpu() if cluster.nodes else 0
    tops = [queue for queue in cluster.queues.values() if queue.parent not in cluster.queues]
    return free, sum(_unused(cluster, queue) for queue in tops)


def _unused(cluster: Cluster, queue: Queue) -> int:
    return max(0, guaranteed(queue, GPU) - cluster.allocated(queue.name, GPU))


def _lent(cluster: Cluster, queue: Queue, idle: tuple[int, int]) -> int:
    """Its part of the idle guarantees that are not free any more: somebody else has them."""
    free, all_unused = idle
    unused = _unused(cluster, queue)
    if not unused or not all_unused:
        return 0
    return max(0, unused - free * unused // max(all_unused, 1)) if free < all_unused else 0
