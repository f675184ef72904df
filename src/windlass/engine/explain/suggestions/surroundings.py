"""Changes around a waiting gang: what its queues may have, what settings allow, who else runs.

None of them touches the job: it keeps its place in line. Amounts of queues go up in units that
people use: whole GPUs (tenths where amounts are no whole ones), whole CPUs, GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from windlass.engine.explain.suggestions.catalog import (
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    once,
)
from windlass.engine.queueing.limits import Lending, in_units
from windlass.model.display_names import known_as
from windlass.model.events import GangGone, QueueSeen, SettingsSeen
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import ACTIVE, Gang, GangId
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX, Queue, guaranteed, of_model
from windlass.model.settings import Displacing
from windlass.model.validation.problems import amount

UNITS = {CPU: 1000, MEMORY: 1024}
TENTH = WHOLE // 10
PER_GPU = {CPU: 8, MEMORY: 64}
"""How much of another dimension weighs as much as one GPU, in units: only to compare sizes."""
MOST_RUNNING = 24
"""So many running gangs are looked at, the smallest first."""
MOST_IN_PAIRS = 8
"""Among so few, two that would have to stop together are sought as well."""


def _limits(asked: WaitingGang) -> Iterator[Ladder]:
    """A higher limit, of its queue or of one above it."""
    held, capacity = asked.cluster.accounts.held, asked.cluster.columns.capacity()
    for queue in _path(asked):
        for dimension, limit in sorted(queue.limit.items()):
            need = _need(asked, dimension)
            if need:
                has = held.get(queue.name, {}).get(dimension, 0)
                lack, most = has + need - limit, capacity.get(dimension, 0) - limit
                most = max(most, lack)  # what runs on nodes that take nothing new has no capacity
                yield from _raised(asked, ChangeKind.LIMIT, queue, dimension, (lack, most))


def _lends(asked: WaitingGang) -> Iterator[Ladder]:
    """Another queue lends more of what it does not use."""
    lending = Lending(asked.cluster)
    mine = {queue.name for queue in _path(asked)}
    for dimension in lending.dimensions:
        lack = _need(asked, dimension) - lending.free(dimension)
        lack += lending.kept(dimension, asked.gang.queue)
        for name, queue in sorted(asked.cluster.queues.items()):
            if _need(asked, dimension) and name not in mine and dimension in queue.lend:
                most = guaranteed(queue, dimension) - queue.lend[dimension]
                yield from _raised(asked, ChangeKind.LEND, queue, dimension, (lack, most))


def _guarantees(asked: WaitingGang) -> Iterator[Ladder]:
    """A higher guarantee, of its queue or of one above it, as far as the tree allows it."""
    accounts, capacity = asked.cluster.accounts, asked.cluster.columns.capacity()
    amounts = accounts.firm if asked.gang.is_firm else accounts.held
    for queue in _path(asked):
        for dimension in sorted({GPU, *queue.guarantee}):
            need, own = _need(asked, dimension), guaranteed(queue, dimension)
            if need:
                lack = amounts.get(queue.name, {}).get(dimension, 0) + need - own
                most = min(capacity.get(dimension, 0), _allowed(asked, queue, dimension)) - own
                yield from _raised(asked, ChangeKind.GUARANTEE, queue, dimension, (lack, most))


def _raised(
    asked: WaitingGang, kind: ChangeKind, queue: Queue, dimension: str, sums: tuple[int, int]
) -> Iterator[Ladder]:
    """An amount of a queue, unit by unit: what lacks by sums, and the most that makes sense."""
    lack, most = sums
    unit = _unit(asked, dimension, getattr(queue, kind.value).get(dimension, 0))
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
    said, was = amount(dimension, after), in_units(dimension, before)
    says = {
        ChangeKind.LIMIT: f"if the limit of queue {queue.name} were {said}",
        ChangeKind.LEND: f"if queue {queue.name} lent {said} of its idle guarantee",
        ChangeKind.GUARANTEE: f"if the guarantee of queue {queue.name} were {said}",
    }[kind] + f" instead of {was}"
    values = {"queue": queue.name, "dimension": dimension, "amount": after, "before": before}
    seen = replace(queue, **{kind.value: {**amounts, dimension: after}})
    size = number * unit
    if dimension in PER_GPU:
        size = size * WHOLE // (UNITS[dimension] * PER_GPU[dimension])
    return SuggestedChange(kind, says, values | {"unit": unit}, (QueueSeen(seen),), size)


def _unit(asked: WaitingGang, dimension: str, value: int) -> int:
    if dimension in UNITS:
        return UNITS[dimension]
    gpus = (task.shape.request.gpu for task in asked.tasks)
    whole = all(gpu is None or _is_whole(gpu) for gpu in gpus) and value % WHOLE == 0
    return WHOLE if whole else TENTH


def _is_whole(gpu: GpuRequest) -> bool:
    return gpu.milli == WHOLE and not gpu.memory_mib and not gpu.profile


def _need(asked: WaitingGang, dimension: str) -> int:
    """What it needs of a dimension, or may come to need: which model it gets is not settled."""
    if dimension.startswith(MODEL_PREFIX) and dimension not in asked.need:
        some = (task.shape.request.gpu for task in asked.tasks)
        open_to = any(
            gpu and (not gpu.models or dimension in map(of_model, gpu.models)) for gpu in some
        )
        return asked.need.get(GPU, 0) if open_to else 0
    return asked.need.get(dimension, 0)


def _allowed(asked: WaitingGang, queue: Queue, dimension: str) -> int:
    """The highest guarantee that neither its own limit nor the queue above speaks against."""
    queues = asked.cluster.queues
    own = guaranteed(queue, dimension)
    most = queue.limit.get(dimension, 1 << 60)
    above = queues.get(queue.parent)
    if above is not None:
        siblings = (each for each in queues.values() if each.parent == queue.parent)
        taken = sum(guaranteed(each, dimension) for each in siblings)
        most = min(most, own + guaranteed(above, dimension) - taken)
    return most


def _path(asked: WaitingGang) -> list[Queue]:
    """Its queue and those above it."""
    queues = asked.cluster.queues
    return [
        queues[name] for name in asked.cluster.accounts.path(asked.gang.queue) if name in queues
    ]


def _displacing(asked: WaitingGang) -> Iterator[Ladder]:
    """One more way of making room."""
    settings = asked.cluster.settings
    for way in Displacing:
        if way not in settings.displacing:
            ways = tuple(each for each in Displacing if each in (*settings.displacing, way))
            events = (SettingsSeen(replace(settings, displacing=ways)),)
            says = f"if the settings allowed Windlass to {way.value}"
            yield once(ChangeKind.DISPLACING, says, {"way": way.value}, events)


def _stops(asked: WaitingGang) -> Iterator[Ladder]:
    """Another gang stops, or two do, which it may not displace; the smallest first."""
    needs_gpu = bool(asked.need.get(GPU))

    def order(gang: GangId) -> tuple[bool, int, GangId]:
        size = _size(asked, gang)
        return needs_gpu and not size, size, gang  # who has no GPU is seldom in the way of one

    running = sorted((gang for gang in asked.cluster.active if gang != asked.gang.id), key=order)
    sets: list[tuple[GangId, ...]] = [(gang,) for gang in running[:MOST_RUNNING]]
    if len(running) <= MOST_IN_PAIRS:
        sets += combinations(running, 2)
    for gangs in sets:
        yield Ladder(partial(_stop, asked, gangs))


def _stop(asked: WaitingGang, names: Sequence[GangId], _: int) -> SuggestedChange:
    sizes = [_size(asked, name) for name in names]
    gangs = [asked.cluster.gangs[name] for name in names]
    said = [_named(gang, size) for gang, size in zip(gangs, sizes, strict=True)]
    says = f"if {' and '.join(said)} stopped, which it may not displace now"
    events = tuple(GangGone(name) for name in names)
    return SuggestedChange(ChangeKind.STOP, says, {"gangs": list(names)}, events, sum(sizes))


def _named(gang: Gang, size: int) -> str:
    has = f", {amount(GPU, size)}" if size else ""
    return f"{known_as(gang.id)} (queue {gang.queue}{has})"


def _size(asked: WaitingGang, gang: GangId) -> int:
    """What a gang has, in thousandths of a GPU."""
    active = (task for task in asked.cluster.members(gang) if task.state in ACTIVE)
    return sum(each.milli for task in active for each in task.devices)


AROUND: dict[ChangeKind, Ladders] = {
    ChangeKind.LIMIT: _limits,
    ChangeKind.LEND: _lends,
    ChangeKind.GUARANTEE: _guarantees,
    ChangeKind.DISPLACING: _displacing,
    ChangeKind.STOP: _stops,
}
"""In the order in which they are tried."""
