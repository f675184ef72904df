"""Checks of queues: that they form a tree, and that their amounts agree.

Top queues are not compared with the cluster, because nodes come and go. Problems that a user can
create in a live cluster at any time are marked `passing`: they must not stop everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from windlass.model.queues import GPU, MODEL_PREFIX, ROOT, Queue, guaranteed
from windlass.model.validation.problems import (
    InputProblem,
    Path,
    amount_in_words,
    check_name,
    check_range,
    check_unique,
    is_dimension,
    join_names,
    unknown_dimension,
)

MOST_WEIGHT = 1_000_000
DEEPEST = 32
"""The most levels of the tree; real organisations have about five."""


def check_queues(queues: Sequence[Queue]) -> Iterator[InputProblem]:
    """Yield the problems of the queues."""
    by_name = {queue.name: queue for queue in queues}
    yield from check_unique("queues", "name", "queue", (queue.name for queue in queues))
    for index, queue in enumerate(queues):
        path = ("queues", index)
        yield from check_name((*path, "name"), "queue", queue.name)
        yield from _numbers(path, queue)
        yield from _own_amounts(path, queue)
        yield from _parent(path, queue, by_name)
    yield from _sums(queues, by_name)


def _numbers(path: Path, queue: Queue) -> Iterator[InputProblem]:
    name = f'queue "{queue.name}"'
    yield from check_range((*path, "weight"), f"{name}: its weight", queue.weight, 0, MOST_WEIGHT)
    yield from check_range((*path, "tier"), f"{name}: its tier", queue.tier, -1000, 1000)
    if queue.min_run_s is not None:
        yield from check_range((*path, "min_run_s"), f"{name}: min_run_s", queue.min_run_s, 0)
    for field in ("guarantee", "limit", "lend"):
        amounts: Mapping[str, int] = getattr(queue, field)
        for dimension, value in amounts.items():
            at = (*path, field, dimension)
            if not is_dimension(dimension):
                yield InputProblem(at, f"{name}: {field}: {unknown_dimension(dimension)}")
            yield from check_range(at, f"{name}: {field} of {dimension}", value, 0)


def _own_amounts(path: Path, queue: Queue) -> Iterator[InputProblem]:
    for dimension in _dimensions(queue):
        own = guaranteed(queue, dimension)
        limit = queue.limit.get(dimension)
        if limit is not None and own > limit:
            yield InputProblem(
                (*path, "guarantee"),
                f'queue "{queue.name}": guarantee {amount_in_words(dimension, own)} is above '
                f"its limit of {amount_in_words(dimension, limit)}; lower the guarantee or raise "
                "the limit",
                passing=True,
            )
        lent = queue.lend.get(dimension, 0)
        if lent > own:
            yield InputProblem(
                (*path, "lend"),
                f'queue "{queue.name}": it lends {amount_in_words(dimension, lent)} but is '
                f"guaranteed only {amount_in_words(dimension, own)}; lower lend or raise the "
                "guarantee",
                passing=True,
            )


def _dimensions(queue: Queue) -> list[str]:
    named = {*queue.guarantee, *queue.limit, *queue.lend}
    return sorted(name for name in named if is_dimension(name))


def _parent(path: Path, queue: Queue, by_name: Mapping[str, Queue]) -> Iterator[InputProblem]:
    at = (*path, "parent")
    if queue.parent != ROOT and queue.parent not in by_name:
        fault = f'queue "{queue.name}": its parent "{queue.parent}" does not exist'
        sentence = f"{fault}; name a queue that does, or none"
        yield InputProblem(at, sentence, passing=True, wrong=queue.parent, known=by_name)
        return
    way = _way_up(queue, by_name)
    if way[-1] == queue.name and len(way) > 1:
        yield InputProblem(
            at,
            f'queue "{queue.name}": it is above itself ({" < ".join(way)}); '
            "give one of them another parent, or none",
        )
    elif len(way) > DEEPEST:
        yield InputProblem(
            at, f'queue "{queue.name}": it lies deeper than {DEEPEST} levels; flatten the tree'
        )


def _way_up(queue: Queue, by_name: Mapping[str, Queue]) -> list[str]:
    """Return the names from a queue upwards, until the top, a repetition, or DEEPEST.

    A cycle through the queue itself ends with its name; a cycle further up is not its problem.
    """
    way, at = [queue.name], by_name.get(queue.parent)
    while at is not None and len(way) <= DEEPEST:
        if at.name in way:
            return [*way, at.name] if at.name == queue.name else way[:1]
        way.append(at.name)
        at = by_name.get(at.parent)
    return way


def _sums(queues: Sequence[Queue], by_name: Mapping[str, Queue]) -> Iterator[InputProblem]:
    children: dict[str, list[int]] = {}
    for index, queue in enumerate(queues):
        if queue.parent in by_name:
            children.setdefault(queue.parent, []).append(index)
    for parent, indexes in children.items():
        below = [(index, queues[index]) for index in indexes]
        dimensions = {name for _, queue in below for name in _guaranteed_in(queue)}
        for dimension in sorted(dimensions):
            yield from _sum(by_name[parent], below, dimension)


def _guaranteed_in(queue: Queue) -> set[str]:
    named = {name for name in queue.guarantee if is_dimension(name)}
    return named | {GPU} if any(name.startswith(MODEL_PREFIX) for name in named) else named


def _sum(parent: Queue, below: list[tuple[int, Queue]], dimension: str) -> Iterator[InputProblem]:
    """Yield a problem at the last child if the guarantees of children exceed their parent's."""
    own = guaranteed(parent, dimension)
    parts = [(index, queue, guaranteed(queue, dimension)) for index, queue in below]
    parts = [part for part in parts if part[2]]
    total = sum(part[2] for part in parts)
    if total <= own:
        return
    index, queue, last = parts[-1]
    names = join_names(part[1].name for part in parts)
    parents = f"above its parent's {amount_in_words(dimension, own)}"
    fault = (
        f"guarantee {amount_in_words(dimension, last)} is {parents}"
        if last > own
        else f'with it the queues below "{parent.name}" ({names}) are guaranteed '
        f"{amount_in_words(dimension, total)}, {parents.replace('its', 'their', 1)}"
    )
    yield InputProblem(
        ("queues", index, "guarantee"),
        f'queue "{queue.name}": {fault}; lower it or raise the parent\'s',
        passing=True,
    )
