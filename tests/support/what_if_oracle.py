"""Every way in which a job or what is around it could be different, by plain loops over snapshots.

The brute-force side of the suggestions: it shares no code with them. A ladder is a list of altered
snapshots, each one unit further from what is there than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from windlass.engine.cycle import plan
from windlass.engine.plan import Verdict
from windlass.model.constraints import Effect, Toleration, tolerates
from windlass.model.jobs import ACTIVE, Gang, Task
from windlass.model.queues import Queue, guaranteed
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

Rungs = list[tuple[tuple[str, ...], Snapshot]]
"""What was changed, as words, and the snapshot with it."""


def starts(snapshot: Snapshot, gang: str) -> bool:
    """Is the gang bound now, or are places being freed for it?"""
    found = plan(Cluster.of(snapshot))
    if any(hold.gang == gang and hold.firm for hold in found.holds):
        return True
    return any(each.gang == gang and each.verdict is Verdict.PLACED for each in found.decisions)


def afresh(snapshot: Snapshot, gang: str) -> Snapshot:
    """As if room had not been sought for the gang before."""
    return replace(snapshot, searched=tuple(s for s in snapshot.searched if s.gang != gang))


class Altered:
    """One gang in one snapshot."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self.snapshot = afresh(snapshot, name)
        self.gang = next(each for each in snapshot.gangs if each.id == name)
        self.tasks = sorted((t for t in snapshot.tasks if t.gang == name), key=lambda t: t.id)
        self.parents = {queue.parent for queue in snapshot.queues}
        self.capacity = Cluster.of(snapshot).columns.capacity()
        self.held = Cluster.of(snapshot).accounts.held

    def again(self, gang: Gang | None = None, tasks: list[Task] | None = None) -> Snapshot:
        """The gang is submitted anew."""
        gang, found = replace(gang or self.gang, created_at=self.snapshot.now), self.snapshot
        others = [each for each in found.tasks if each.gang != gang.id]
        return replace(
            found,
            gangs=tuple(gang if each.id == gang.id else each for each in found.gangs),
            tasks=(*others, *(self.tasks if tasks is None else tasks)),
            holds=tuple(hold for hold in found.holds if hold.gang != gang.id),
        )

    def of_the_job(self) -> Iterator[Rungs]:
        """All changes of the job itself."""
        for kind in ("queue", "model", "flags", "domain", "wishes", "taint"):
            for words, altered in getattr(self, f"_{kind}")():
                yield [(words, altered)]
        yield self._priority()
        yield self._gpus()
        yield from self._minimum()

    def around(self) -> Iterator[Rungs]:
        """All changes of queues, settings and other gangs."""
        yield from self._limits()
        yield from self._lends()
        yield from self._guarantees()
        settings = self.snapshot.settings
        for way in set(Displacing) - set(settings.displacing):
            ways = tuple(w for w in Displacing if w in {*settings.displacing, way})
            changed = replace(settings, displacing=ways)
            words = ("displacing", way.value)
            yield [(words, replace(self.snapshot, settings=changed, searched=()))]
        yield from self._stops()

    def _queue(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        for queue in self.snapshot.queues:
            if queue.name not in self.parents | {self.gang.queue}:
                words = ("queue", queue.name)
                yield words, self.again(replace(self.gang, queue=queue.name))

    def _model(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        gpus = [task.shape.request.gpu for task in self.tasks]
        named = {model for gpu in gpus if gpu for model in gpu.models}
        there = {gpu.model for node in self.snapshot.nodes for gpu in node.gpus if gpu.healthy}
        for model in (there - named) if named else ():
            tasks = [
                _asking(task, models=(model,))
                if task.shape.request.gpu and task.shape.request.gpu.models
                else task
                for task in self.tasks
            ]
            yield ("model", model), self.again(tasks=tasks)

    def _flags(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        if not self.gang.preemptible:
            yield ("preemptible",), self.again(replace(self.gang, preemptible=True))
        if self.gang.displaces_after_s != 0:
            yield ("haste",), self.again(replace(self.gang, displaces_after_s=0))

    def _domain(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        wishes = [self.gang.domain, *(group.domain for group in self.gang.groups)]
        if any(wish and wish.required for wish in wishes):
            loose = [wish and replace(wish, required=False) for wish in wishes]
            groups = tuple(
                replace(group, domain=wish)
                for group, wish in zip(self.gang.groups, loose[1:], strict=True)
            )
            gang = replace(self.gang, domain=loose[0], groups=groups)
            yield ("domain",), self.again(gang)

    def _wishes(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        wants = [task.shape.constraints for task in self.tasks]
        keys = {key for each in wants for key, _ in each.selector}
        for key in keys:
            tasks = [
                _wanting(t, selector=tuple(p for p in t.shape.constraints.selector if p[0] != key))
                for t in self.tasks
            ]
            yield ("selector", key), self.again(tasks=tasks)
        drops: list[tuple[str, tuple[str, ...]]] = [("selector", ("affinity",))]
        drops += [("neighbours", (each,)) for each in ("near", "apart", "spread")]
        drops += [
            ("selector", ("selector", "affinity")),
            ("neighbours", ("near", "apart", "spread")),
        ]
        for kind, fields in drops:
            if any(getattr(each, field) for each in wants for field in fields):
                empty: dict[str, Any] = dict.fromkeys(fields, ())
                what = fields[0] if len(fields) == 1 else "all"
                yield (kind, what), self.again(tasks=[_wanting(t, **empty) for t in self.tasks])

    def _taint(self) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
        for taint in {taint for node in self.snapshot.nodes for taint in node.taints}:
            wants = [task.shape.constraints.tolerations for task in self.tasks]
            if taint.effect == Effect.PREFER_NO_SCHEDULE or all(tolerates(w, taint) for w in wants):
                continue
            more = Toleration(taint.key, taint.value, effect=taint.effect)
            tasks = [
                _wanting(t, tolerations=(*t.shape.constraints.tolerations, more))
                for t in self.tasks
            ]
            name = f"{taint.key}={taint.value}".rstrip("=") + f":{taint.effect}"
            yield ("taint", name), self.again(tasks=tasks)

    def _priority(self) -> Rungs:
        most = max(each.priority for each in self.snapshot.gangs) + 1
        return [
            (("priority", str(n)), self.again(replace(self.gang, priority=n)))
            for n in range(self.gang.priority + 1, most + 1)
        ]

    def _gpus(self) -> Rungs:
        most = max(
            (t.shape.request.gpu.count for t in self.tasks if t.shape.request.gpu), default=0
        )
        rungs: Rungs = []
        for left in range(most - 1, 0, -1):
            tasks = [
                _asking(t, count=min(left, t.shape.request.gpu.count)) if t.shape.request.gpu else t
                for t in self.tasks
            ]
            rungs.append((("gpus", str(left)), self.again(tasks=tasks)))
        return rungs

    def _minimum(self) -> Iterator[Rungs]:
        gang = self.gang
        for at, group in enumerate(gang.groups):
            rungs: Rungs = []
            for least in range(group.minimum - 1, 0, -1):
                groups = list(gang.groups)
                groups[at] = replace(group, minimum=least)
                whole = max(0, gang.minimum - (group.minimum - least))
                changed = replace(gang, groups=tuple(groups), minimum=whole)
                rungs.append((("minimum", group.name, str(least)), self.again(changed)))
            yield rungs
        floor = max(1, sum(group.minimum for group in gang.groups))
        yield [
            (("minimum", "", str(least)), self.again(replace(gang, minimum=least)))
            for least in range(gang.minimum - 1, floor - 1, -1)
        ]

    # -- amounts of queues

    def _path(self) -> Iterator[Queue]:
        by_name, name = {queue.name: queue for queue in self.snapshot.queues}, self.gang.queue
        while name in by_name:
            yield by_name[name]
            name = by_name[name].parent

    def _with(self, queue: Queue) -> Snapshot:
        queues = tuple(queue if q.name == queue.name else q for q in self.snapshot.queues)
        return replace(self.snapshot, queues=queues, searched=())

    def _raised(self, field: str, queue: Queue, dimension: str, most: int, unit: int) -> Rungs:
        amounts = getattr(queue, field)
        before = guaranteed(queue, dimension) if field == "guarantee" else amounts[dimension]
        rungs: Rungs = []
        value = before
        while value < most:
            value += unit
            changed = replace(queue, **{field: {**amounts, dimension: value}})
            rungs.append(((field, queue.name, dimension, str(value)), self._with(changed)))
        return rungs

    def unit(self, dimension: str, value: int) -> int:
        """Whole GPUs if all are whole, else tenths; CPUs; GiB."""
        if dimension in ("cpu", "memory"):
            return 1000 if dimension == "cpu" else 1024
        gpus = [task.shape.request.gpu for task in self.tasks]
        is_whole = all(
            gpu is None or (not gpu.profile and not gpu.memory_mib and gpu.milli == 1000)
            for gpu in gpus
        )
        return 1000 if is_whole and value % 1000 == 0 else 100

    def _limits(self) -> Iterator[Rungs]:
        for queue in self._path():
            for dimension, limit in queue.limit.items():
                unit = self.unit(dimension, limit)
                yield self._raised("limit", queue, dimension, self.capacity.get(dimension, 0), unit)

    def _lends(self) -> Iterator[Rungs]:
        mine = {queue.name for queue in self._path()}
        for queue in self.snapshot.queues:
            for dimension, lent in queue.lend.items() if queue.name not in mine else ():
                unit = self.unit(dimension, lent)
                yield self._raised("lend", queue, dimension, guaranteed(queue, dimension), unit)

    def _guarantees(self) -> Iterator[Rungs]:
        by_name = {queue.name: queue for queue in self.snapshot.queues}
        for queue in self._path():
            for dimension in {"gpu", *queue.guarantee}:
                most = min(self.capacity.get(dimension, 0), queue.limit.get(dimension, 10**9))
                above = by_name.get(queue.parent)
                if above is not None:
                    others = sum(
                        guaranteed(q, dimension)
                        for q in self.snapshot.queues
                        if q.parent == queue.parent and q.name != queue.name
                    )
                    most = min(most, guaranteed(above, dimension) - others)
                unit = self.unit(dimension, queue.guarantee.get(dimension, 0))
                yield self._raised("guarantee", queue, dimension, most, unit)

    def _stops(self) -> Iterator[Rungs]:
        found = self.snapshot
        running = sorted({t.gang for t in found.tasks if t.state in ACTIVE} - {self.gang.id})
        for count in (1, 2):
            for gone in combinations(running, count):
                yield [
                    (
                        ("stop", *gone),
                        replace(
                            found,
                            gangs=tuple(each for each in found.gangs if each.id not in gone),
                            tasks=tuple(each for each in found.tasks if each.gang not in gone),
                            holds=tuple(each for each in found.holds if each.gang not in gone),
                            broken=tuple(each for each in found.broken if each.gang not in gone),
                        ),
                    )
                ]


def _asking(task: Task, **fields: Any) -> Task:
    request = task.shape.request
    assert request.gpu is not None
    changed = replace(request, gpu=replace(request.gpu, **fields))
    return replace(task, shape=replace(task.shape, request=changed))


def _wanting(task: Task, **fields: Any) -> Task:
    wants = replace(task.shape.constraints, **fields)
    return replace(task, shape=replace(task.shape, constraints=wants))
