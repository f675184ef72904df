"""All measurements in order, round by round, as figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from windlass_lab.fake_nodes.machines import Fleet, uniform
from windlass_lab.live_bench.backlog import BacklogResult, bind_alone, race
from windlass_lab.live_bench.environment import Queues
from windlass_lab.live_bench.figures import Figures, drawn_together
from windlass_lab.live_bench.observer import Say
from windlass_lab.live_bench.pods import BenchPod, gang, singles
from windlass_lab.live_bench.reclaim import reclaim
from windlass_lab.live_bench.refusal import refusal
from windlass_lab.live_bench.schedulers import KUBE_SCHEDULER, WINDLASS
from windlass_lab.live_bench.startup import begin

GPUS = 8
GANG, GANGS, GANG_OF, RECLAIMED = 512, 100, 8, 1000
TEAMS = 4
AT_BEGINNING = (2, 5)
"""The factors of nodes and pods for the measurement of the start."""


@dataclass(frozen=True, slots=True)
class BenchSize:
    """The size of the cluster and of the backlog; a backlog that does not fit is made smaller."""

    nodes: int = 500
    pods: int = 4000

    @property
    def gpus(self) -> int:
        """The number of GPUs of all nodes."""
        return self.nodes * GPUS

    @property
    def fleet(self) -> Fleet:
        """The nodes."""
        return uniform(self.nodes, gpus=GPUS)


@dataclass(slots=True)
class BenchmarkRun:
    """The measurements to make, and the results so far."""

    size: BenchSize
    say: Say
    rounds: dict[str, list[float]] = field(
        default_factory=lambda: defaultdict[str, list[float]](list)
    )

    def note(self, **figures: float) -> None:
        """Keep figures of this round, and print them."""
        for name, value in figures.items():
            self.rounds[name].append(value)
        self.say("    " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


async def run(size: BenchSize, only: Sequence[str], rounds: int, say: Say) -> Figures:
    """Make the named measurements in several rounds, and return the medians."""
    course = BenchmarkRun(size, say)
    for number in range(1, rounds + 1):
        for name in only:
            say(f"round {number} of {rounds}: {name}")
            await SCENARIOS[name](course)
    return drawn_together(course.rounds)


async def _fill(course: BenchmarkRun) -> None:
    size, queues = course.size, _one_queue(course.size)
    pods = singles(min(size.pods, size.gpus))
    alone = await bind_alone(pods, size.fleet, queues)
    course.note(
        bind_ceiling_per_s=alone.pods_per_s,
        bind_ceiling_server_cpu_ms_per_pod=alone.server_cpu_ms_per_pod,
        bind_ceiling_all_cpu_ms_per_pod=alone.all_cpu_ms_per_pod,
    )
    theirs = await race(KUBE_SCHEDULER, pods, size.fleet, queues)
    course.note(
        kube_scheduler_pods_per_s=theirs.pods_per_s,
        kube_scheduler_cpu_ms_per_pod=theirs.cpu_ms_per_pod,
        kube_scheduler_rss_mib=theirs.rss_mib,
        kube_scheduler_server_cpu_ms_per_pod=theirs.server_cpu_ms_per_pod,
        kube_scheduler_all_cpu_ms_per_pod=theirs.all_cpu_ms_per_pod,
        kube_scheduler_start_s=theirs.start_s,
    )
    ours = await race(WINDLASS, pods, size.fleet, queues)
    course.note(
        windlass_pods_per_s=ours.pods_per_s,
        windlass_pods_bound=ours.pods,
        scheduler_cpu_ms_per_pod=ours.cpu_ms_per_pod,
        scheduler_rss_mib=ours.rss_mib,
        server_cpu_ms_per_pod=ours.server_cpu_ms_per_pod,
        all_cpu_ms_per_pod=ours.all_cpu_ms_per_pod,
        start_s=ours.start_s,
    )


async def _gang(course: BenchmarkRun) -> None:
    size = course.size
    pods = gang("gang", min(GANG, size.gpus // 2))
    theirs, ours = await _both(pods, size, _one_queue(size))
    course.note(kube_scheduler_gang_512_s=theirs.seconds, gang_512_s=ours.seconds)


async def _gangs(course: BenchmarkRun) -> None:
    """Measure gangs of several teams, each at the limit of its quota when all of its own have
    started."""
    size = course.size
    count = min(GANGS, size.gpus // GANG_OF)
    pods: list[BenchPod] = []
    quotas = dict.fromkeys((f"team-{at}" for at in range(TEAMS)), 0)
    for at in range(count):
        team = f"team-{at % TEAMS}"
        pods += gang(f"gang-{at:03}", GANG_OF, namespace=team)
        quotas[team] += GANG_OF
    queues: Queues = {
        team: {"namespaces": [team], "guarantee": {"gpu": quota}, "limit": {"gpu": quota}}
        for team, quota in quotas.items()
    }
    theirs, ours = await _both(pods, size, queues)
    course.note(kube_scheduler_gangs_100x8_s=theirs.seconds, gangs_100x8_s=ours.seconds)


async def _reclaim(course: BenchmarkRun) -> None:
    size = course.size
    course.note(reclaim_1000_s=await reclaim(size.fleet, min(RECLAIMED, size.gpus // 4)))


async def _cannot_fit(course: BenchmarkRun) -> None:
    theirs = await refusal(KUBE_SCHEDULER, course.size.fleet)
    ours = await refusal(WINDLASS, course.size.fleet)
    course.note(
        kube_scheduler_cannot_fit_ms=theirs.first_ms,
        cannot_fit_ms=ours.first_ms,
        cannot_fit_all_told_ms=ours.all_ms,
        cannot_fit_decided_ms=ours.decided_ms,
    )


async def _start(course: BenchmarkRun) -> None:
    times_nodes, times_pods = AT_BEGINNING
    fleet = uniform(course.size.nodes * times_nodes, gpus=GPUS)
    found = await begin(WINDLASS, fleet, course.size.pods * times_pods)
    course.note(
        first_bind_s=found.first_bind_s,
        first_bind_cpu_s=found.cpu_s,
        read_s=found.read_s,
        start_rss_mib=found.rss_mib,
    )


SCENARIOS: dict[str, Callable[[BenchmarkRun], Awaitable[None]]] = {
    "fill": _fill,
    "gang": _gang,
    "gangs": _gangs,
    "reclaim": _reclaim,
    "cannot-fit": _cannot_fit,
    "start": _start,
}
"""The measurements, by their names on the command line."""


def _one_queue(size: BenchSize) -> Queues:
    return {"all": {"namespaces": ["default"], "guarantee": {"gpu": size.gpus}}}


async def _both(
    pods: list[BenchPod], size: BenchSize, queues: Queues
) -> tuple[BacklogResult, BacklogResult]:
    theirs = await race(KUBE_SCHEDULER, pods, size.fleet, queues)
    return theirs, await race(WINDLASS, pods, size.fleet, queues)
