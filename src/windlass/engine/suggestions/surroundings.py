"""Changes around a waiting gang: amounts of queues, settings, and other running gangs.

None of them changes the job, which keeps its place in the queue order. Amounts of queues are raised
in units that people use: whole GPUs (tenths where an amount is not whole), whole CPUs, GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from windlass.engine.queueing import Lending, in_units
from windlass.engine.suggestions.catalog import (
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    single_change,
)
from windlass.model.events import GangGone, QueueSeen, SettingsSeen
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import ACTIVE, Gang, GangId
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX, Queue, guaranteed, of_model
from windlass.model.reasons import display_name
from windlass.model.settings import Displacing
from windlass.model.validation import amount_in_words

UNITS = {CPU: 1000, MEMORY: 1024}
"""The unit in which an amount is raised, in thousandths of CPUs and MiB."""
TENTH = WHOLE // 10
PER_GPU = {CPU: 8, MEMORY: 64}
"""The units of another dimension that count as one GPU when sizes of changes are compared."""
MOST_RUNNING = 24
"""The number of running gangs that are tried, the smallest first."""
MOST_IN_PAIRS = 8
"""The most running gangs among which pairs that would stop together are tried as well."""


def _limits(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield higher limits, of its queue or of one above it."""
    held, capacity = waiting.cluster.accounts.held, waiting.cluster.columns.capacity()
    for queue in _path(waiting):
        for dimension, limit in sorted(queue.limit.items()):
            need = _need(waiting, dimension)
            if need:
                has = held.get(queue.name, {}).get(dimension, 0)
                lack, most = has + need - limit, capacity.get(dimension, 0) - limit
                most = max(most, lack)  # work on cordoned nodes may exceed the capacity
                yield from _raised(waiting, ChangeKind.LIMIT, queue, dimension, (lack, most))


def _lends(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield other queues that lend more of their idle guarantee."""
    lending = Lending(waiting.cluster)
    own_path = {queue.name for queue in _path(waiting)}
    for dimension in lending.dimensions:
        lack = _need(waiting, dimension) - lending.free(dimension)
        lack += lending.kept(dimension, waiting.gang.queue)
        for name, queue in sorted(waiting.cluster.queues.items()):
            if _need(waiting, dimension) and name not in own_path and dimension in queue.lend:
                most = guaranteed(queue, dimension) - queue.lend[dimension]
                yield from _raised(waiting, ChangeKind.LEND, queue, dimension, (lack, most))


def _guarantees(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield higher guarantees, of its queue or of one above it, as far as the tree allows."""
    accounts, capacity = waiting.cluster.accounts, waiting.cluster.columns.capacity()
    amounts = accounts.firm if waiting.gang.is_firm else accounts.held
    for queue in _path(waiting):
        for dimension in sorted({GPU, *queue.guarantee}):
            need, own = _need(waiting, dimension), guaranteed(queue, dimension)
            if need:
                lack = amounts.get(queue.name, {}).get(dimension, 0) + need - own
                most = min(capacity.get(dimension, 0), _allowed(waiting, queue, dimension)) - own
                yield from _raised(waiting, ChangeKind.GUARANTEE, queue, dimension, (lack, most))


def _raised(
    waiting: WaitingGang, kind: ChangeKind, queue: Queue, dimension: str, sums: tuple[int, int]
) -> Iterator[Ladder]:
    """Yield one ladder for an amount of a queue, unit by unit.

    `sums` are the amount that lacks by sums and the most that makes sense.
    """
    lack, most = sums
    unit = _unit(waiting, dimension, getattr(queue, kind.value).get(dimension, 0))
    length = -(-most // unit)
    if length > 0:
        rung = partial(_raise, kind, queue, dimension, unit)
        yield Ladder(rung, length, guess=min(max(1, -(-lack // unit)), length))


def _raise(
    kind: ChangeKind, queue: Queue, dimension: str, unit: int, number: int
) -> SuggestedChange:
    amounts: Mapping[str, int] = getattr(queue, kind.value)
    before = guaranteed(queue, dimension) if kind is ChangeKind.GUARANTEE else amounts[dimension]
    after = before + number * unit
    new, old = amount_in_words(dimension, after), in_units(dimension, before)
    says = {
        ChangeKind.LIMIT: f"if the limit of queue {queue.name} were {new}",
        ChangeKind.LEND: f"if queue {queue.name} lent {new} of its idle guarantee",
        ChangeKind.GUARANTEE: f"if the guarantee of queue {queue.name} were {new}",
    }[kind] + f" instead of {old}"
    values = {"queue": queue.name, "dimension": dimension, "amount": after, "before": before}
    changed = replace(queue, **{kind.value: {**amounts, dimension: after}})
    size = number * unit
    if dimension in PER_GPU:
        size = size * WHOLE // (UNITS[dimension] * PER_GPU[dimension])
    return SuggestedChange(kind, says, values | {"unit": unit}, (QueueSeen(changed),), size)


def _unit(waiting: WaitingGang, dimension: str, value: int) -> int:
    """Return the unit of a ladder: tenths of GPUs if the amount or a request is not whole."""
    if dimension in UNITS:
        return UNITS[dimension]
    gpus = (task.shape.request.gpu for task in waiting.tasks)
    whole = all(gpu is None or _is_whole(gpu) for gpu in gpus) and value % WHOLE == 0
    return WHOLE if whole else TENTH


def _is_whole(gpu: GpuRequest) -> bool:
    return gpu.milli == WHOLE and not gpu.memory_mib and not gpu.profile


def _need(waiting: WaitingGang, dimension: str) -> int:
    """Return what the gang needs of a dimension, or may need if the GPU model is still open."""
    if dimension.startswith(MODEL_PREFIX) and dimension not in waiting.need:
        gpus = (task.shape.request.gpu for task in waiting.tasks)
        open_to = any(
            gpu and (not gpu.models or dimension in map(of_model, gpu.models)) for gpu in gpus
        )
        return waiting.need.get(GPU, 0) if open_to else 0
    return waiting.need.get(dimension, 0)


def _allowed(waiting: WaitingGang, queue: Queue, dimension: str) -> int:
    """Return the highest guarantee that the queue's limit and its parent's guarantee allow."""
    queues = waiting.cluster.queues
    own = guaranteed(queue, dimension)
    most = queue.limit.get(dimension, 1 << 60)
    above = queues.get(queue.parent)
    if above is not None:
        siblings = (other for other in queues.values() if other.parent == queue.parent)
        taken = sum(guaranteed(sibling, dimension) for sibling in siblings)
        most = min(most, own + guaranteed(above, dimension) - taken)
    return most


def _path(waiting: WaitingGang) -> list[Queue]:
    """Return the gang's queue and those above it."""
    queues = waiting.cluster.queues
    return [
        queues[name] for name in waiting.cluster.accounts.path(waiting.gang.queue) if name in queues
    ]


def _displacing(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield one more kind of preemption that the settings allow."""
    settings = waiting.cluster.settings
    for way in Displacing:
        if way not in settings.displacing:
            ways = tuple(kind for kind in Displacing if kind in (*settings.displacing, way))
            events = (SettingsSeen(replace(settings, displacing=ways)),)
            says = f"if the settings allowed Windlass to {way.value}"
            yield single_change(ChangeKind.DISPLACING, says, {"way": way.value}, events)


def _stops(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield one or two other gangs that stop, which it may not preempt; the smallest first."""
    needs_gpu = bool(waiting.need.get(GPU))

    def order(gang: GangId) -> tuple[bool, int, GangId]:
        size = _size(waiting, gang)
        return needs_gpu and not size, size, gang  # gangs without GPUs come last

    running = sorted(
        (gang for gang in waiting.cluster.active if gang != waiting.gang.id), key=order
    )
    sets: list[tuple[GangId, ...]] = [(gang,) for gang in running[:MOST_RUNNING]]
    if len(running) <= MOST_IN_PAIRS:
        sets += combinations(running, 2)
    for gangs in sets:
        yield Ladder(partial(_stop, waiting, gangs))


def _stop(waiting: WaitingGang, names: Sequence[GangId], _: int) -> SuggestedChange:
    sizes = [_size(waiting, name) for name in names]
    gangs = [waiting.cluster.gangs[name] for name in names]
    texts = [_named(gang, size) for gang, size in zip(gangs, sizes, strict=True)]
    says = f"if {' and '.join(texts)} stopped, which it may not displace now"
    events = tuple(GangGone(name) for name in names)
    return SuggestedChange(ChangeKind.STOP, says, {"gangs": list(names)}, events, sum(sizes))


def _named(gang: Gang, size: int) -> str:
    has = f", {amount_in_words(GPU, size)}" if size else ""
    return f"{display_name(gang.id)} (queue {gang.queue}{has})"


def _size(waiting: WaitingGang, gang: GangId) -> int:
    """Return what a gang holds, in thousandths of a GPU."""
    active = (task for task in waiting.cluster.members(gang) if task.state in ACTIVE)
    return sum(part.milli for task in active for part in task.devices)


SURROUNDING_CHANGES: dict[ChangeKind, Ladders] = {
    ChangeKind.LIMIT: _limits,
    ChangeKind.LEND: _lends,
    ChangeKind.GUARANTEE: _guarantees,
    ChangeKind.DISPLACING: _displacing,
    ChangeKind.STOP: _stops,
}
"""The kinds of change, in the order in which they are tried."""
