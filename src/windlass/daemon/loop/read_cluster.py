"""The cluster as it is now, read once: what commands show that look at a cluster.

It is read, understood and planned for as the daemon does it, by a brain that writes nothing. So no
command has an explanation of its own. Who may read only one namespace sees that namespace; nodes
that may not be read are then known by name alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

from windlass.config import Config
from windlass.daemon.decide.inputs import ObjectObserved, StepInput
from windlass.daemon.decide.step import SchedulerStep
from windlass.daemon.loop.watches import NEEDED, Watches, in_order, paths_of
from windlass.daemon.serving.leader_info import as_leader, is_paused, leader_of, read_lease, seal_of
from windlass.daemon.serving.scope import scope_of
from windlass.engine.plan import Plan
from windlass.kube.client.auth import load
from windlass.kube.client.client import Api, connect, list_all
from windlass.kube.client.errors import ApiError, Forbidden, NotFound, Unauthorized
from windlass.model.errors import WindlassError, one_line
from windlass.model.jobs import TaskId
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire
from windlass.workloads.objects.signed_marks import Seal
from windlass.workloads.pods.task import task_id

TIMEOUT_S = 30.0
NO_CRDS = "the server does not know this kind; apply the CRDs that `windlass crds` prints"
_UNSEEN = frozenset({"budgets"})
"""Asked for while evicting; no part of what is known."""


class CannotLook(WindlassError):
    """The API server does not show what is needed; the sentence says what, and what to do."""


class MayNotLook(CannotLook):
    """Whoever asks has not the rights for it."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A cluster at a moment, and what the engine would do with it."""

    cluster: Cluster
    plan: Plan
    pods: dict[TaskId, wire.Pod] = field(default_factory=dict[TaskId, wire.Pod])
    leader: str | None = None
    """Who leads; empty: nobody; None: that may not be read."""
    paused: bool = False
    trouble: str = ""
    """Why this may be old, in a sentence."""
    away: tuple[Node, ...] = ()
    """Nodes that were there before; who looks once knows of none."""
    config: Config = Config()
    """The settings by which it was seen: those of the leader, where nothing else was said."""
    open_to: Callable[[str], Collection[str]] | None = None
    """The queues that a namespace may use."""

    @property
    def now(self) -> int:
        """Seconds since 1970."""
        return self.cluster.now


More: TypeAlias = Callable[[Sequence[StepInput], Config, int], list[StepInput]]
"""Says what else is to be seen, given what is there, the settings and the time."""


@asynccontextmanager
async def opened(config: Config) -> AsyncGenerator[Api, None]:
    """A session with the cluster that the configuration names; failures become sentences."""
    access = load(config.kubeconfig or None, config.context or None)
    try:
        async with connect(access, timeout_s=TIMEOUT_S) as api:
            yield api
    except ApiError as error:
        sentence = one_line(f"{access.server}: {error.message}{_advice(error)}")
        raise _KINDS.get(type(error), CannotLook)(sentence) from None


async def look(config: Config, namespace: str = "", more: More | None = None) -> Sight:
    """The whole cluster; or, if a namespace is named, as much as its users may see of it.

    `more` adds what is not there, to see what would become of it.
    """
    async with opened(config) as api:
        lease = await read_lease(api, config)
        config = as_leader(config, lease)
        pieces = await _read(api, config, namespace)
    now = int(time.time())
    if more is not None:
        pieces += more(pieces, config, now)
    brain = _awake(config, pieces, is_paused(lease), seal_of(lease))
    return Sight(
        brain.cluster,
        brain.step(now).plan,
        {task_id(each): each for each in _pods(pieces)} | brain.without_pods(),
        leader_of(lease, now),
        is_paused(lease),
        config=config,
        open_to=brain.open_to,
    )


async def follow(config: Config, every_s: float, show: Callable[[Sight], None]) -> None:
    """Show the whole cluster again and again; it is watched, so that nothing is read twice."""
    show(last := await look(config))
    config = last.config
    pieces: list[StepInput] = []
    brain: SchedulerStep | None = None
    async with opened(config) as api, asyncio.TaskGroup() as group:
        owners = paths_of(scope_of(config).kinds)
        seal = seal_of(await read_lease(api, config))
        watches = Watches(api, pieces.extend, Random(), owners)
        group.create_task(watches.run())
        while True:
            await asyncio.sleep(every_s)
            last = await _with_lease(api, config, last)
            if brain is None and watches.are_open():
                brain = _awake(config, _taken(pieces), last.paused, seal)
            if brain is not None:
                brain.take(_taken(pieces))
                brain.pause(last.paused)
                work = await asyncio.to_thread(brain.step, int(time.time()))
                last = replace(last, cluster=brain.cluster, plan=work.plan)
            last = replace(last, trouble=watches.trouble())
            show(last)


def _taken(pieces: list[StepInput]) -> list[StepInput]:
    taken = pieces[:]
    pieces.clear()
    return taken


async def _with_lease(api: Api, config: Config, sight: Sight) -> Sight:
    with suppress(ApiError):  # the watches say what is wrong
        lease = await read_lease(api, config)
        leader = leader_of(lease, int(time.time()))
        return replace(sight, leader=leader, paused=is_paused(lease))
    return sight


def _awake(config: Config, pieces: list[StepInput], paused: bool, seal: Seal) -> SchedulerStep:
    """A brain that has been told all this, and writes nothing."""
    brain = SchedulerStep(scope_of(config, seal), int(time.time()), shadow=True)
    brain.pause(paused)
    brain.take(in_order(pieces))
    brain.resume()
    return brain


async def _read(api: Api, config: Config, namespace: str) -> list[StepInput]:
    owners = paths_of(scope_of(config).kinds)
    kinds = {kind: row for kind, row in NEEDED.items() if kind not in _UNSEEN}
    reads = [_list(api, row, namespace, kind == "pods") for kind, row in kinds.items()]
    reads += [_list_owners(api, path, namespace) for path in owners.values()]
    found = dict(zip((*kinds, *owners), await asyncio.gather(*reads), strict=True))
    if found["nodes"] is None:
        names = {pod.spec.node_name for pod in found["pods"] or ()} - {""}
        ours = dict(config.node_selector)  # as far as anybody can tell
        found["nodes"] = [
            wire.NodeObject(wire.ObjectMeta(name=name, labels=ours)) for name in sorted(names)
        ]
    return [ObjectObserved(kind, each) for kind, things in found.items() for each in things or ()]


Things: TypeAlias = Sequence[Any] | None
"""All of a kind that may be read; None if none may."""


async def _list(api: Api, row: tuple[str, type[Any]], namespace: str, must: bool) -> Things:
    path, struct = row
    if not namespace:
        try:
            return await list_all(api, path, struct)
        except NotFound:
            raise CannotLook(f"{path}: {NO_CRDS}") from None
    for place in (_inside(path, namespace), path):
        with suppress(Forbidden, NotFound):
            return await list_all(api, place, struct)
    return await list_all(api, _inside(path, namespace), struct) if must else None


async def _list_owners(api: Api, path: str, namespace: str) -> Things:
    place = _inside(path, namespace) if namespace else path
    try:
        return await list_all(api, place, wire.Owner)
    except NotFound:  # nobody has installed it
        return None
    except Forbidden:
        if namespace:
            return None
        raise


def _pods(pieces: Iterable[StepInput]) -> Iterator[wire.Pod]:
    for piece in pieces:
        if isinstance(piece, ObjectObserved) and isinstance(piece.object, wire.Pod):
            yield piece.object


def _inside(path: str, namespace: str) -> str:
    folder, _, plural = path.rpartition("/")
    return f"{folder}/namespaces/{namespace}/{plural}"


_KINDS: dict[type[ApiError], type[CannotLook]] = {Forbidden: MayNotLook}


def _advice(error: ApiError) -> str:
    if isinstance(error, Forbidden):
        return "; ask for that right (`windlass jobs -n` needs no more than a namespace's)"
    return "; check your credentials" if isinstance(error, Unauthorized) else ""
