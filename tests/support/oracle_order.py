"""The obvious version of the order: look at everything, pick the next gang, forget everything.

Like `oracle.py` it knows nothing but the model; shares, and what each gang would add, are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.laws.invariants import World, charges, holdings, path
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, TaskState
from windlass.model.queues import GPU, ROOT, Queue, guaranteed
from windlass.model.settings import Settings

SCALE = 1 << 20
BEYOND_ALL = 1 << 50
Shares = Mapping[str, Mapping[str, int]]
Needs = Mapping[str, Mapping[str, int]]
"""Per gang, what placing it adds to its queue."""
Key = tuple[int, int, int, int, str]


class Used(Protocol):
    """GPU time that somebody had lately."""

    @property
    def queue(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def milli_seconds(self) -> int: ...


class Past(World, Protocol):
    """A world with a past."""

    @property
    def epoch_usage(self) -> Sequence[Used]: ...
    @property
    def settings(self) -> Settings: ...


def next_gang(world: Past, line: Sequence[Gang], shares: Shares, needs: Needs) -> Gang:
    """Whose turn it is among the gangs of the line."""
    return _below(world, ROOT, line, shares, needs)[1]


def _below(
    world: Past, name: str, line: Sequence[Gang], shares: Shares, needs: Needs
) -> tuple[int, Gang]:
    """Since when the head of a queue waits, and the gang that is next; of an inner queue, those of
    its first child."""
    children = _busy_children(world, name, line)
    if children:
        return min(
            (_key(world, child, line, shares, needs) for child in children),
            key=lambda each: each[0],
        )[1]
    heads = _heads(world, [gang for gang in line if gang.queue == name])
    first = min(heads, key=lambda gang: _rank(world, gang, with_use=True))
    return min(gang.created_at for gang in heads), first


def _busy_children(world: Past, name: str, line: Sequence[Gang]) -> list[Queue]:
    above = {each for gang in line for each in path(world, gang.queue)}
    return [each for each in world.queues if each.parent == name and each.name in above]


def _key(
    world: Past, queue: Queue, line: Sequence[Gang], shares: Shares, needs: Needs
) -> tuple[Key, tuple[int, Gang]]:
    oldest, first = _below(world, queue.name, line, shares, needs)
    with_it = saturation(world, queue, shares, needs[first.id])
    without = saturation(world, queue, shares, {})
    return (-queue.tier, with_it, without, oldest, queue.name), (oldest, first)


def saturation(world: Past, queue: Queue, shares: Shares, more: Mapping[str, int]) -> int:
    """What a queue would have of what it is entitled to, in the dimension where it has most."""
    held = holdings(world)
    worst = 0
    for dimension, share in shares[queue.name].items():
        has = held.get((queue.name, dimension), 0) + more.get(dimension, 0)
        entitled = max(promised(world, queue, dimension), share)
        worst = max(worst, has * SCALE // entitled if entitled else bool(has) * BEYOND_ALL + has)
    return worst


def promised(world: World, queue: Queue, dimension: str) -> int:
    """A queue's guarantee, or what the queues below it are guaranteed together."""
    below = [each for each in world.queues if each.parent == queue.name]
    together = sum(promised(world, each, dimension) for each in below)
    return max(guaranteed(queue, dimension), together)


def _heads(world: Past, gangs: Sequence[Gang]) -> list[Gang]:
    """Per user, the gang that comes first whatever the others have."""
    users = {gang.user for gang in gangs}
    return [
        min((g for g in gangs if g.user == user), key=lambda gang: _rank(world, gang))
        for user in sorted(users)
    ]


def _rank(world: Past, gang: Gang, with_use: bool = False) -> tuple[object, ...]:
    there = [each for each in world.tasks if each.gang == gang.id]
    lost = any(each.state in {*ACTIVE, TaskState.SUCCEEDED} for each in there)
    use = _use(world, gang) if with_use else 0
    return not lost, -gang.priority, not gang.stops, use, gang.created_at, gang.id


def _use(world: Past, gang: Gang) -> int:
    """What the gang's user has in its queue, and what he had, as if he had had it all the time."""
    alike = {each.id for each in world.gangs if (each.queue, each.user) == (gang.queue, gang.user)}
    has = sum(
        charges(world, each).get(GPU, 0)
        for each in world.tasks
        if each.gang in alike and each.state in OCCUPYING
    )
    had = sum(
        each.milli_seconds
        for each in world.epoch_usage
        if (each.queue, each.user) == (gang.queue, gang.user)
    )
    return has + had * 10_000 // (world.settings.half_life_s * 14_427)
