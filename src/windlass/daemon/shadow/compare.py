"""Shadow mode: compare our plans with what another scheduler does, gang by gang.

Nothing is written, and no plan is assumed to take effect. Every plan is for the cluster as the
other scheduler has made it, so differences do not add up: each one is a single decision in which
both schedulers differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock

from windlass.controllers.queue_status import QueueNumbers, queue_numbers
from windlass.daemon.decide import SchedulerStep, StepInput, StepOutput
from windlass.engine.plan import Plan, Verdict
from windlass.kube.refs import ObjectLost, ObjectObserved
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task, TaskId
from windlass.model.queues import GPU
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire
from windlass.workloads.pods import task_id

MOST = 20_000
"""Comparisons that are kept at most; those of gone gangs are dropped first."""
PATIENCE_S = 2
"""Seconds for which the owner of a pod is waited for before its inputs are taken in."""
MOMENTARY = frozenset({ReasonCode.INCOMPLETE, ReasonCode.OWNER_UNSEEN})
"""Reasons to wait that end as soon as all pods of a gang and its owner have been observed."""


@dataclass(slots=True)
class GangComparison:
    """One gang as we would have placed it, and as the other scheduler has placed it."""

    gang: Gang
    ours: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    """The nodes on which our last plan placed its tasks while they were pending."""
    in_use: frozenset[str] = frozenset()
    """The nodes that had tasks when that plan was made."""
    waits: str = ""
    """The reasons why our last plan before its start let it wait; empty if it did not."""
    waits_for: ReasonCode | None = None
    """The first of these reasons."""
    theirs: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    """The nodes on which its tasks actually are or were."""
    began_at: int | None = None
    """The second at which its first task was active; None before that."""
    whole_at: int | None = None
    """The second at which it had its minimum of tasks; None before that."""
    started: int = 0
    """The highest number of its tasks that were active or finished at once."""
    held_milli: int = 0
    """Thousandths of GPUs that its active tasks hold."""
    idle_milli_seconds: int = 0
    """Milli-GPU seconds that its tasks held while the gang was incomplete."""
    is_gone: bool = False
    """The gang no longer exists."""

    @property
    def was_half(self) -> bool:
        """Return whether a part of it was started and it has never been complete."""
        return self.began_at is not None and self.whole_at is None

    @property
    def is_half(self) -> bool:
        """Return whether it exists and only a part of it has been started so far."""
        return self.was_half and not self.is_gone


class Shadow:
    """Compares our plans with the actual placements."""

    def __init__(self, now: int) -> None:
        self.since = self.now = now
        self.comparisons: dict[GangId, GangComparison] = {}
        """One for each gang that was observed since the start and did not run before it."""
        self.queues: dict[str, QueueNumbers] = {}
        """The numbers of all queues at the last step."""
        self.evictions: dict[GangId, int] = {}
        """The number of tasks that the last plan would evict, by preemptor."""
        self.forgotten = 0
        """The number of comparisons that were dropped because there were too many."""
        self.lock = Lock()
        """Held while comparing and while reporting: a report may be requested at any time."""
        self._old: set[GangId] | None = None
        """The gangs that ran before the first step: they are not compared. None before that."""
        self._kept_back: list[StepInput] = []
        """Inputs about pods for which there is no plan of ours yet, in their order."""
        self._kept_since = now
        """The second since which `_kept_back` is not empty."""

    def think(self, scheduler: SchedulerStep, inputs: list[StepInput], now: int) -> StepOutput:
        """Take in inputs, plan, and compare.

        The other scheduler may be so fast that a pod is created and bound between two steps, or is
        bound before its owner has been observed. Then there would never be a plan of ours to
        compare with. So the input that binds such a pod is kept back: the pod is first planned for
        as if it were pending.
        """
        first, then = _in_turn(self._kept_back, inputs)
        scheduler.take(first)
        output = scheduler.step(now)
        self.compare(scheduler.cluster, output.plan)
        if not self._kept_back:
            self._kept_since = now
        self._kept_back = then
        if then and not (
            now < self._kept_since + PATIENCE_S and _is_unclear(scheduler.cluster, then)
        ):
            self._kept_back = []
            scheduler.take(then)
            output = scheduler.step(now)
            self.compare(scheduler.cluster, output.plan)
        return replace(output, wake_at=now + 1) if self._kept_back else output

    def compare(self, cluster: Cluster, plan: Plan) -> None:
        """Record a plan, and the actual placements since the last one."""
        with self.lock:
            self._compare(cluster, plan)

    def _compare(self, cluster: Cluster, plan: Plan) -> None:
        elapsed, self.now = cluster.now - self.now, cluster.now
        if self._old is None:  # gangs that ran before the start had no plan of ours
            self._old = {gang for gang in cluster.gangs if cluster.active.get(gang)}
        for gang_id, comparison in self.comparisons.items():
            comparison.is_gone = gang_id not in cluster.gangs
        for gang_id, gang in cluster.gangs.items():
            if gang_id not in self._old:
                comparison = self.comparisons.setdefault(gang_id, GangComparison(gang))
                comparison.gang = gang
                _observe(comparison, list(cluster.members(gang_id)), elapsed, cluster.now)
        # Only now the new plan: what was observed above answers to earlier plans.
        self._forget()
        self._record(cluster, plan)
        self.queues = queue_numbers(cluster, plan)
        self.evictions = {}
        for evict in plan.evictions:
            self.evictions[evict.gainer] = self.evictions.get(evict.gainer, 0) + 1

    def _forget(self) -> None:
        """Drop the oldest comparisons of gone gangs if there are more than `MOST`."""
        if len(self.comparisons) > MOST:
            gone = [gang for gang, comparison in self.comparisons.items() if comparison.is_gone]
            for gang in gone[: len(self.comparisons) - MOST]:
                del self.comparisons[gang]
                self.forgotten += 1

    def _record(self, cluster: Cluster, plan: Plan) -> None:
        """Record the binds of a plan and the reasons of gangs that have not started."""
        in_use = frozenset(task.node for task in cluster.tasks.values() if task.node)
        for bind in plan.binds:
            comparison = self.comparisons.get(cluster.tasks[bind.task].gang)
            if comparison is not None:
                comparison.ours[bind.task], comparison.in_use = bind.node, in_use
        for decision in plan.decisions:
            comparison = self.comparisons.get(decision.gang)
            if comparison is not None and comparison.began_at is None:
                waits = decision.verdict in (Verdict.WAITS, Verdict.NEVER)
                reasons = decision.reasons if waits else ()
                comparison.waits = "; ".join(map(str, reasons))
                comparison.waits_for = reasons[0].why if reasons else None


def _observe(comparison: GangComparison, members: list[Task], elapsed: int, now: int) -> None:
    """Update a comparison with the current tasks of its gang, `elapsed` seconds after the last."""
    if comparison.is_half:
        comparison.idle_milli_seconds += comparison.held_milli * elapsed
    active = [task for task in members if task.state in ACTIVE]
    comparison.theirs |= {task.id: task.node for task in active}
    comparison.held_milli = sum(_milli(task) for task in active)
    counted = Counter(task.group for task in members if task.state in COUNTED)
    comparison.started = max(comparison.started, counted.total())
    if active and comparison.began_at is None:
        comparison.began_at = now
    if comparison.whole_at is None and comparison.gang.has_minimum(counted):
        comparison.whole_at = now if comparison.began_at is not None else None


def _milli(task: Task) -> int:
    gpu = task.shape.request.gpu
    return gpu.count * (gpu.milli or WHOLE) if gpu else 0


def _in_turn(
    kept: list[StepInput], inputs: list[StepInput]
) -> tuple[list[StepInput], list[StepInput]]:
    """Split inputs into those to take in now, and those to keep back until there is a plan.

    Kept back are: inputs that bind or delete a pod which is pending in an earlier one of these
    inputs, and all later inputs about a pod of which one is kept back.
    """
    then = list(kept)
    late = {task_id(pod) for pod in map(_pod_of, kept) if pod is not None}
    waiting: set[TaskId] = set()
    first: list[StepInput] = []
    for item in inputs:
        pod = _pod_of(item)
        task = task_id(pod) if pod is not None else None
        if pod is None or task is None:
            first.append(item)
            continue
        if task in waiting and (pod.spec.node_name or isinstance(item, ObjectLost)):
            late.add(task)
        if not pod.spec.node_name:
            waiting.add(task)
        (then if task in late else first).append(item)
    return first, then


def _pod_of(item: StepInput) -> wire.Pod | None:
    thing = item.object if isinstance(item, ObjectObserved | ObjectLost) else None
    return thing if isinstance(thing, wire.Pod) else None


def _is_unclear(cluster: Cluster, inputs: list[StepInput]) -> bool:
    """Return whether the owner of one of these pods has not been observed yet."""
    for pod in map(_pod_of, inputs):
        task = cluster.tasks.get(task_id(pod)) if pod is not None else None
        refusal = cluster.gangs[task.gang].refusal if task is not None else None
        if refusal is not None and refusal.why is ReasonCode.OWNER_UNSEEN:
            return True
    return False


def nodes_of(places: dict[TaskId, str]) -> list[str]:
    """Return the nodes of some tasks, sorted, each once."""
    return sorted(set(places.values()))


def half_started(shadow: Shadow) -> list[GangComparison]:
    """Return the gangs that held GPUs without being complete, now or earlier."""
    comparisons = [comparison for _, comparison in sorted(shadow.comparisons.items())]
    return [gang for gang in comparisons if gang.is_half or gang.idle_milli_seconds]


def started_early(shadow: Shadow) -> Iterator[GangComparison]:
    """Yield the gangs that were started and that we would have let wait, not only for a moment."""
    for _, comparison in sorted(shadow.comparisons.items()):
        if comparison.whole_at and comparison.waits and comparison.waits_for not in MOMENTARY:
            yield comparison


def placed_elsewhere(shadow: Shadow) -> Iterator[GangComparison]:
    """Yield the gangs of which we would have placed a task on another node."""
    for _, comparison in sorted(shadow.comparisons.items()):
        if is_compared(comparison) and any(
            comparison.ours[task] != node for task, node in comparison.theirs.items()
        ):
            yield comparison


def is_compared(comparison: GangComparison) -> bool:
    """Return whether both nodes, the actual one and ours, are known for all started tasks."""
    return bool(comparison.theirs) and all(task in comparison.ours for task in comparison.theirs)


def above_share(shadow: Shadow) -> Iterator[tuple[str, QueueNumbers]]:
    """Yield the queues that have more GPUs than their share, if other gangs wait."""
    waiting = sum(numbers.waiting_milli for numbers in shadow.queues.values())
    for name, numbers in sorted(shadow.queues.items()):
        if waiting and numbers.allocated.get(GPU, 0) > numbers.share.get(GPU, 0):
            yield name, numbers
