"""What each queue has, should have, lends and waits for, with all queues below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.controllers.lending import lent
from windlass.engine.plan import Plan
from windlass.model.jobs import GangId, TaskState
from windlass.model.queues import GPU, guaranteed
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
    found = queue_balances(cluster, plan)
    for name, numbers in found.items():
        below = [waiting[each] for each in _below(cluster, name) if each in waiting]
        found[name] = replace(
            numbers,
            waiting_gangs=sum(gangs for gangs, _, _ in below),
            waiting_tasks=sum(tasks for _, tasks, _ in below),
            waiting_milli=sum(milli for _, _, milli in below),
        )
    return found


def queue_balances(cluster: Cluster, plan: Plan) -> dict[str, QueueNumbers]:
    """The same without what waits: no more work than there are queues and users."""
    used, lends = _used(cluster), lent(cluster)
    found: dict[str, QueueNumbers] = {}
    for name, queue in cluster.queues.items():
        guarantee = {key: guaranteed(queue, key) for key in sorted({GPU, *queue.guarantee})}
        allocated = {key: held for key, held in _held(cluster, name).items() if held}
        found[name] = QueueNumbers(
            share=plan.shares.get(name, {}),
            guarantee=guarantee,
            allocated=allocated,
            borrowed=_above(allocated, guarantee),
            lent={GPU: lends[name]},
            milli_seconds=sum(
                part[2] for each in _below(cluster, name) for part in used.get(each, ())
            ),
            used=used.get(name, ()),
        )
    return found


def _below(cluster: Cluster, queue: str) -> list[str]:
    """The queue and all below it."""
    return [each for each in cluster.queues if queue in cluster.accounts.path(each)]


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
    requests = [task.shape.request for task in tasks]
    milli = sum(each.gpu.count * each.gpu.milli for each in requests if each.gpu is not None)
    least = cluster.columns.extra_gpus.least
    return len(tasks), milli + sum(least(each) for each in requests if each.extra)


def _used(cluster: Cluster) -> dict[str, list[tuple[str, str, int]]]:
    used: dict[str, list[tuple[str, str, int]]] = {}
    for holder, value in cluster.ledger.at(cluster.now):
        used.setdefault(holder.queue, []).append((holder.user, holder.model, value))
    return used
