"""Read the cluster once and plan for it, for commands that only show a cluster.

The daemon's own scheduler step translates and plans, in shadow mode, so that nothing is written and
no command has an explanation of its own. A user who may read only one namespace sees that
namespace; nodes that the user may not read are then known by name alone.
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
from windlass.daemon.decide import SchedulerStep, StepInput
from windlass.daemon.loop.watches import NEEDED, Watches, paths_of, sort_inputs
from windlass.daemon.serving import as_leader, is_paused, leader_of, read_lease, scope_of, seal_of
from windlass.engine.plan import Plan
from windlass.kube.client import (
    Api,
    ApiError,
    Forbidden,
    NotFound,
    Unauthorized,
    connect,
    list_all,
    load,
)
from windlass.kube.refs import ObjectObserved
from windlass.model.errors import WindlassError, one_line
from windlass.model.jobs import TaskId
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.workloads.objects import Seal, wire
from windlass.workloads.pods import task_id

TIMEOUT_S = 30.0
"""The time-out of a request of a command; longer than that of the daemon, which has a lease."""
NO_CRDS = "the server does not know this kind; apply the CRDs that `windlass crds` prints"
_UNSEEN = frozenset({"budgets"})
"""Kinds that only the evictor needs: they are no part of the state."""


class ClusterUnreadable(WindlassError):
    """The cluster cannot be read; the text says why, and what to do."""


class ReadForbidden(ClusterUnreadable):
    """The user lacks the right to read the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """The state of a cluster at a moment, and the plan that the engine would make for it."""

    cluster: Cluster
    plan: Plan
    pods: dict[TaskId, wire.Pod] = field(default_factory=dict[TaskId, wire.Pod])
    leader: str | None = None
    """The identity of the leader; empty: nobody leads; None: the lease may not be read."""
    paused: bool = False
    """Evictions are paused."""
    trouble: str = ""
    """The reason why this state may be old, in a sentence; empty if it is current."""
    away: tuple[Node, ...] = ()
    """Nodes that existed before; empty if the cluster was read only once."""
    config: Config = Config()
    """The configuration with which it was read, completed by the settings of the leader."""
    open_to: Callable[[str], Collection[str]] | None = None
    """Returns the queues that a namespace may use."""

    @property
    def now(self) -> int:
        """The time of this state, in seconds since 1970."""
        return self.cluster.now


More: TypeAlias = Callable[[Sequence[StepInput], Config, int], list[StepInput]]
"""Returns further inputs, given those that were read, the configuration and the second."""


@asynccontextmanager
async def open_api(config: Config) -> AsyncGenerator[Api, None]:
    """Open a session with the configured cluster; API errors become `ClusterUnreadable`."""
    access = load(config.kubeconfig or None, config.context or None)
    try:
        async with connect(access, timeout_s=TIMEOUT_S) as api:
            yield api
    except ApiError as error:
        sentence = one_line(f"{access.server}: {error.message}{_advice(error)}")
        raise _KINDS.get(type(error), ClusterUnreadable)(sentence) from None


async def read_cluster(
    config: Config, namespace: str = "", more: More | None = None
) -> ClusterReading:
    """Read the whole cluster or, if a namespace is named, as much as its users may see of it.

    `more` adds objects that do not exist, such as a job that may be submitted later, to see what
    the engine would decide about them.
    """
    async with open_api(config) as api:
        lease = await read_lease(api, config)
        config = as_leader(config, lease)
        inputs = await _read(api, config, namespace)
    now = int(time.time())
    if more is not None:
        inputs += more(inputs, config, now)
    scheduler = _awake(config, inputs, is_paused(lease), seal_of(lease))
    return ClusterReading(
        scheduler.cluster,
        scheduler.step(now).plan,
        {task_id(pod): pod for pod in _pods(inputs)} | scheduler.placeholders(),
        leader_of(lease, now),
        is_paused(lease),
        config=config,
        open_to=scheduler.queues_open_to,
    )


async def follow_cluster(
    config: Config, every_s: float, show: Callable[[ClusterReading], None]
) -> None:
    """Show the whole cluster every `every_s` seconds, until cancelled.

    The cluster is watched after the first read, so that nothing is read twice.
    """
    show(last := await read_cluster(config))
    config = last.config
    inputs: list[StepInput] = []
    scheduler: SchedulerStep | None = None
    async with open_api(config) as api, asyncio.TaskGroup() as group:
        owners = paths_of(scope_of(config).kinds)
        seal = seal_of(await read_lease(api, config))
        watches = Watches(api, inputs.extend, Random(), owners)
        group.create_task(watches.run())
        while True:
            await asyncio.sleep(every_s)
            last = await _with_lease(api, config, last)
            if scheduler is None and watches.are_open():
                scheduler = _awake(config, _taken(inputs), last.paused, seal)
            if scheduler is not None:
                scheduler.take(_taken(inputs))
                scheduler.pause(last.paused)
                output = await asyncio.to_thread(scheduler.step, int(time.time()))
                last = replace(last, cluster=scheduler.cluster, plan=output.plan)
            last = replace(last, trouble=watches.trouble())
            show(last)


def _taken(inputs: list[StepInput]) -> list[StepInput]:
    """Empty the list in place, because the watches add to it, and return what it held."""
    taken = inputs[:]
    inputs.clear()
    return taken


async def _with_lease(api: Api, config: Config, sight: ClusterReading) -> ClusterReading:
    with suppress(ApiError):  # the watches report what is wrong
        lease = await read_lease(api, config)
        leader = leader_of(lease, int(time.time()))
        return replace(sight, leader=leader, paused=is_paused(lease))
    return sight


def _awake(config: Config, inputs: list[StepInput], paused: bool, seal: Seal) -> SchedulerStep:
    """Return a scheduler step in shadow mode that has taken in these inputs."""
    scheduler = SchedulerStep(scope_of(config, seal), int(time.time()), shadow=True)
    scheduler.pause(paused)
    scheduler.take(sort_inputs(inputs))
    scheduler.resume()
    return scheduler


async def _read(api: Api, config: Config, namespace: str) -> list[StepInput]:
    owners = paths_of(scope_of(config).kinds)
    kinds = {kind: row for kind, row in NEEDED.items() if kind not in _UNSEEN}
    reads = [_list(api, row, namespace, kind == "pods") for kind, row in kinds.items()]
    reads += [_list_owners(api, path, namespace) for path in owners.values()]
    objects = dict(zip((*kinds, *owners), await asyncio.gather(*reads), strict=True))
    if objects["nodes"] is None:
        names = {pod.spec.node_name for pod in objects["pods"] or ()} - {""}
        labels = dict(config.node_selector)  # assume that these nodes are ours
        objects["nodes"] = [
            wire.NodeObject(wire.ObjectMeta(name=name, labels=labels)) for name in sorted(names)
        ]
    return [
        ObjectObserved(kind, thing) for kind, things in objects.items() for thing in things or ()
    ]


Things: TypeAlias = Sequence[Any] | None
"""The objects of a kind; None if they may not be read or the kind is not served."""


async def _list(api: Api, row: tuple[str, type[Any]], namespace: str, must: bool) -> Things:
    """Return the objects of a kind; raise the error of the API server if they `must` be read.

    With a namespace, the collection of that namespace is tried first, then the whole one, which is
    right for cluster-scoped kinds.
    """
    path, struct = row
    if not namespace:
        try:
            return await list_all(api, path, struct)
        except NotFound:
            raise ClusterUnreadable(f"{path}: {NO_CRDS}") from None
    for place in (_inside(path, namespace), path):
        with suppress(Forbidden, NotFound):
            return await list_all(api, place, struct)
    return await list_all(api, _inside(path, namespace), struct) if must else None


async def _list_owners(api: Api, path: str, namespace: str) -> Things:
    place = _inside(path, namespace) if namespace else path
    try:
        return await list_all(api, place, wire.Owner)
    except NotFound:  # the kind is not installed
        return None
    except Forbidden:
        if namespace:
            return None
        raise


def _pods(inputs: Iterable[StepInput]) -> Iterator[wire.Pod]:
    for item in inputs:
        if isinstance(item, ObjectObserved) and isinstance(item.object, wire.Pod):
            yield item.object


def _inside(path: str, namespace: str) -> str:
    folder, _, plural = path.rpartition("/")
    return f"{folder}/namespaces/{namespace}/{plural}"


_KINDS: dict[type[ApiError], type[ClusterUnreadable]] = {Forbidden: ReadForbidden}


def _advice(error: ApiError) -> str:
    if isinstance(error, Forbidden):
        return "; ask for that right (`windlass jobs -n` needs no more than a namespace's)"
    return "; check your credentials" if isinstance(error, Unauthorized) else ""
