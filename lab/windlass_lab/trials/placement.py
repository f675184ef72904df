"""The packing trial: a trace's pods arrive one by one on a trace's nodes, and stay.

The protocol of the FGD paper (USENIX ATC'23): pods in an order drawn by the seed, repeated until
130 % of the cluster's GPUs have been requested; each is tried once; a pod that fits somewhere must
be placed. The names of nodes start with a random number, so that ties are random. The engine
decides by whole cycles, as it does live; a referee with its own account checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from time import perf_counter
from typing import TypeAlias

from windlass.engine.cycle import plan
from windlass.engine.nodes import NodeIndex, PlacementScorer
from windlass.model.actions import Bind
from windlass.model.errors import WindlassError
from windlass.model.events import GangGone, GangSeen, TaskSeen
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang, GangId, JobId, Shape, Task, TaskId
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.model.settings import Settings
from windlass.sim.traces import TracePod
from windlass.state.cluster import Cluster
from windlass.state.node_columns import NodeTable
from windlass.state.snapshot import RequestArrivals, Snapshot
from windlass_lab.trials.fgd import Fgd, typical
from windlass_lab.trials.referee import Referee

ASKED = 130
"""The percentage of the cluster's GPUs that is requested in the end."""
WARM = 1000
"""The number of first decisions that are not timed: every shape is new once."""
QUEUE = "trace"
FIXED = 1 << 20
"""A count so large that arrivals never outweigh it: a given mix stays as it is."""

Policy: TypeAlias = Callable[[NodeTable, Sequence[TracePod], int], PlacementScorer]
"""A function that makes a placement scorer from the columns, all pods of the trace, and
the seed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The input of a trial: pods on nodes, the order drawn by a seed; the mix is known or
    learned."""

    nodes: Sequence[Node]
    pods: Sequence[TracePod]
    seed: int = 42
    mix_given: bool = True
    policy: Policy | None = None
    """The scorer in place of the engine's own; None for the engine's."""
    redrawn: bool = False
    """True if every node must be scored again for every pod."""


@dataclass(frozen=True, slots=True)
class PlacementSample:
    """The state after a pod: percent of all GPUs requested and allocated, and the time."""

    asked: float
    allocated: float
    milliseconds: float
    fragmented: float | None = None


def try_out(trial: Trial) -> list[PlacementSample]:
    """Let all pods arrive, and return the state after each."""
    random = Random(trial.seed)
    pods = arrivals(trial.pods, trial.nodes, random)
    nodes = shuffled(trial.nodes, random)
    run = Run(trial, nodes)
    moments: list[PlacementSample] = []
    for number, pod in enumerate(pods):
        milliseconds, bind = run.decide(pod.request, f"{number:06}")
        run.referee.judge(pod.request, bind)
        asked, allocated = run.referee.asked, run.referee.allocated
        late = round(asked) == 80
        fragmented = run.fragmented() if late else None
        moments.append(PlacementSample(asked, allocated, milliseconds, fragmented))
    return moments


def figures(moments: Sequence[PlacementSample]) -> dict[str, float]:
    """Return the figures of one trial."""
    at_80 = [each.fragmented for each in moments if each.fragmented is not None]
    times = sorted(each.milliseconds for each in moments[WARM:] or moments)
    return {
        "allocation_at_100": _mean(_allocated(moments, 100)),
        "allocation_at_130": _mean(_allocated(moments, ASKED)),
        "fragmentation_at_80": _mean(at_80),
        "decision_ms_p50": round(times[len(times) // 2], 3),
        "decision_ms_p99": round(times[len(times) * 99 // 100], 3),
    }


class Run:
    """One cluster on which pods arrive."""

    def __init__(self, trial: Trial, nodes: Sequence[Node]) -> None:
        # nothing but the place is decided: nobody is displaced, nothing reserved
        settings = Settings(displacing=(), reserve_after_s=1 << 40)
        arrived = given_mix(trial.pods) if trial.mix_given else ()
        queues = (Queue(QUEUE),)
        world = Snapshot(nodes=tuple(nodes), queues=queues, arrived=arrived, settings=settings)
        self.cluster = Cluster.of(world)
        self.referee = Referee(nodes)
        columns = self.cluster.columns
        if trial.policy is not None:
            self.cluster.recall(NodeIndex).scorer = trial.policy(columns, trial.pods, trial.seed)
        self._redrawn = trial.redrawn
        self._fgd = Fgd(typical(trial.pods), columns)

    def decide(self, request: Request, name: str) -> tuple[float, Bind | None]:
        """Let one pod arrive; return the milliseconds of the cycle, and its bind or None."""
        gang = Gang(GangId(name), QUEUE, JobId(name))
        task = Task(TaskId(name), gang.id, Shape(request))
        self.cluster.apply(GangSeen(gang))
        self.cluster.apply(TaskSeen(task))
        if self._redrawn:
            self.cluster.columns.log.extend(range(len(self.cluster.columns)))
        start = perf_counter()
        found = plan(self.cluster)
        milliseconds = (perf_counter() - start) * 1000
        if not found.binds:
            self.cluster.apply(GangGone(gang.id))
            return milliseconds, None
        self.cluster.assume(found)
        return milliseconds, found.binds[0]

    def leave(self, request: Request, bind: Bind) -> None:
        """Remove a pod that has ended."""
        self.cluster.apply(GangGone(self.cluster.tasks[bind.task].gang))
        self.referee.leave(request, bind)

    def fragmented(self) -> float:
        """Return the percentage of all GPUs that are idle and useless to the typical pod, as FGD
        counts it."""
        return self._fgd.fragmented(self.cluster.columns) / self.referee.total * 100


def arrivals(pods: Sequence[TracePod], nodes: Iterable[Node], random: Random) -> list[TracePod]:
    """Return the pods in random order; some repeated or left out, to request the given
    percentage."""
    most = sum(len(node.gpus) for node in nodes) * WHOLE * ASKED // 100
    pods = _to_try(pods, most)
    found = random.sample(pods, len(pods))
    asked = sum(milli_of(pod.request) for pod in found)
    while asked > most:
        asked -= milli_of(found.pop(random.randrange(len(found))).request)
    if len(found) < len(pods):
        return found
    while True:
        pod = random.choice(pods)
        gpu = pod.request.gpu
        # the paper's tool looks at one GPU of the pod, so the last one may pass the mark
        if asked + (gpu.milli if gpu else 0) > most:
            return found
        asked += milli_of(pod.request)
        found.append(pod)


def _to_try(pods: Sequence[TracePod], most: int) -> list[TracePod]:
    """Return the pods that do not exceed the mark alone; raise an error if none with GPUs
    is left."""
    if not most:
        raise WindlassError("no node has a GPU; give a node list with GPUs")
    if not any(milli_of(pod.request) for pod in pods):
        raise WindlassError("no pod asks for GPUs; give a pod list in which some do")
    found = [pod for pod in pods if milli_of(pod.request) <= most]
    if not any(milli_of(pod.request) for pod in found):
        sentence = f"every pod with GPUs asks for more than {ASKED} % of all GPUs of the nodes"
        raise WindlassError(f"{sentence}; give more nodes or smaller pods")
    return found


def shuffled(nodes: Sequence[Node], random: Random) -> list[Node]:
    """Return the nodes under names that put them in random order."""
    numbers = random.sample(range(len(nodes)), len(nodes))
    return [
        replace(node, name=f"{at:05}-{node.name}") for at, node in zip(numbers, nodes, strict=True)
    ]


def given_mix(pods: Iterable[TracePod]) -> tuple[RequestArrivals, ...]:
    """Return the mix of a trace, known from the start."""
    counts: dict[Request, int] = {}
    for pod in pods:
        counts[pod.request] = counts.get(pod.request, 0) + 1
    return tuple(RequestArrivals(request, 0, count * FIXED) for request, count in counts.items())


def milli_of(request: Request) -> int:
    """Return the milli-GPU that a pod requests."""
    return request.gpu.count * request.gpu.milli if request.gpu else 0


def _allocated(moments: Sequence[PlacementSample], per_cent: int) -> list[float]:
    """Return the allocated percentages at the time when this much had been requested, or just
    before on a small cluster."""
    found = [each for each in moments if round(each.asked) == per_cent]
    found = found or [each for each in moments if each.asked < per_cent][-1:]
    return [round(each.allocated, 2) for each in found]


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0
