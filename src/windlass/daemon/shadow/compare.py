"""Shadow mode: what Windlass would have done beside another scheduler, and what that one did.

Nothing is written and nothing assumed. Every answer is for the cluster as the other scheduler has
made it, so differences do not add up: each is one moment at which the two would have parted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock

from windlass.controllers.queue_status import QueueNumbers, queue_numbers
from windlass.daemon.decide.inputs import StepInput
from windlass.daemon.decide.step import SchedulerStep, StepOutput
from windlass.engine.plan import Plan, Verdict
from windlass.kube.refs import Lost, ObjectObserved
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task, TaskId
from windlass.model.queues import GPU
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire
from windlass.workloads.pods.task import task_id

MOST = 20_000
"""Stories that are kept."""
PATIENCE_S = 2
"""An owner that is not seen for longer is not waited for."""
MOMENTARY = frozenset({ReasonCode.INCOMPLETE, ReasonCode.OWNER_UNSEEN})
"""Reasons that are over as soon as all of a gang has been seen."""


@dataclass(slots=True)
class Story:
    """A gang, as we would have it and as the other scheduler has it."""

    gang: Gang
    ours: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    """Where we would have put its tasks, as long as they waited."""
    in_use: frozenset[str] = frozenset()
    """The nodes that were in use at that moment."""
    waits: str = ""
    """Why we would have let it wait, when last asked before it started."""
    waits_for: ReasonCode | None = None
    """The first of these reasons."""
    theirs: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    """Where its tasks are."""
    began_at: int | None = None
    whole_at: int | None = None
    started: int = 0
    held_milli: int = 0
    """Thousandths of GPUs that its tasks have while it is not whole."""
    idle_milli_seconds: int = 0
    is_gone: bool = False

    @property
    def was_half(self) -> bool:
        """Has it not been whole since a part of it was started?"""
        return self.began_at is not None and self.whole_at is None

    @property
    def is_half(self) -> bool:
        """Has only a part of it been started, so far?"""
        return self.was_half and not self.is_gone


class Shadow:
    """Compares plans with what happens."""

    def __init__(self, now: int) -> None:
        self.since = self.now = now
        self.stories: dict[GangId, Story] = {}
        self.queues: dict[str, QueueNumbers] = {}
        self.evictions: dict[GangId, int] = {}
        """How many tasks would be evicted now, by whom that is for."""
        self.forgotten = 0
        """How many stories were too old to be kept."""
        self.lock = Lock()
        """Held while comparing: a report may be asked for at any time."""
        self._old: set[GangId] | None = None
        self._kept_back: list[StepInput] = []
        """What became of pods about which we could not be asked yet."""
        self._kept_since = now

    def think(self, brain: SchedulerStep, pieces: list[StepInput], now: int) -> StepOutput:
        """Take note of what was seen, decide, and compare.

        Another scheduler may be so fast that a pod is new and bound in the same breath, or before
        its owner is seen. It is asked about first as if it waited: else there would never be
        anything to compare.
        """
        first, then = _in_turn(self._kept_back, pieces)
        brain.take(first)
        work = brain.step(now)
        self.compare(brain.cluster, work.plan)
        if not self._kept_back:
            self._kept_since = now
        self._kept_back = then
        if then and not (now < self._kept_since + PATIENCE_S and _is_unclear(brain.cluster, then)):
            self._kept_back = []
            brain.take(then)
            work = brain.step(now)
            self.compare(brain.cluster, work.plan)
        return replace(work, wake_at=now + 1) if self._kept_back else work

    def compare(self, cluster: Cluster, plan: Plan) -> None:
        """Take note of a plan, and of what has become of earlier ones."""
        with self.lock:
            self._compare(cluster, plan)

    def _compare(self, cluster: Cluster, plan: Plan) -> None:
        elapsed, self.now = cluster.now - self.now, cluster.now
        if self._old is None:  # what ran before we looked is nobody's difference
            self._old = {gang for gang in cluster.gangs if cluster.active.get(gang)}
        for gang, story in self.stories.items():
            story.is_gone = gang not in cluster.gangs
        for gang, found in cluster.gangs.items():
            if gang not in self._old:
                story = self.stories.setdefault(gang, Story(found))
                story.gang = found
                _follow(story, list(cluster.members(gang)), elapsed, cluster.now)
        self._forget()
        self._note(cluster, plan)
        self.queues = queue_numbers(cluster, plan)
        self.evictions = {}
        for evict in plan.evictions:
            self.evictions[evict.gainer] = self.evictions.get(evict.gainer, 0) + 1

    def _forget(self) -> None:
        """Keep only the latest of the stories that have come to their end."""
        if len(self.stories) > MOST:
            ended = [gang for gang, story in self.stories.items() if story.is_gone]
            for gang in ended[: len(self.stories) - MOST]:
                del self.stories[gang]
                self.forgotten += 1

    def _note(self, cluster: Cluster, plan: Plan) -> None:
        in_use = frozenset(each.node for each in cluster.tasks.values() if each.node)
        for bind in plan.binds:
            story = self.stories.get(cluster.tasks[bind.task].gang)
            if story is not None:
                story.ours[bind.task], story.in_use = bind.node, in_use
        for decision in plan.decisions:
            story = self.stories.get(decision.gang)
            if story is not None and story.began_at is None:
                waits = decision.verdict in (Verdict.WAITS, Verdict.NEVER)
                reasons = decision.reasons if waits else ()
                story.waits = "; ".join(map(str, reasons))
                story.waits_for = reasons[0].why if reasons else None


def _follow(story: Story, members: list[Task], elapsed: int, now: int) -> None:
    """What has become of a gang since we looked last."""
    story.idle_milli_seconds += story.held_milli * elapsed if story.is_half else 0
    active = [each for each in members if each.state in ACTIVE]
    story.theirs |= {each.id: each.node for each in active}
    story.held_milli = sum(_milli(each) for each in active)
    there = Counter(each.group for each in members if each.state in COUNTED)
    story.started = max(story.started, there.total())
    if active and story.began_at is None:
        story.began_at = now
    if story.whole_at is None and story.gang.has_minimum(there):
        story.whole_at = now if story.began_at is not None else None


def _milli(task: Task) -> int:
    gpu = task.shape.request.gpu
    return gpu.count * (gpu.milli or WHOLE) if gpu else 0


def _in_turn(
    kept: list[StepInput], pieces: list[StepInput]
) -> tuple[list[StepInput], list[StepInput]]:
    """What was seen, without and then with what became of pods that are new in it."""
    then = list(kept)
    late = {task_id(pod) for pod in map(_pod_of, kept) if pod is not None}
    waiting: set[TaskId] = set()
    first: list[StepInput] = []
    for piece in pieces:
        pod = _pod_of(piece)
        task = task_id(pod) if pod is not None else None
        if pod is None or task is None:
            first.append(piece)
            continue
        if task in waiting and (pod.spec.node_name or isinstance(piece, Lost)):
            late.add(task)
        if not pod.spec.node_name:
            waiting.add(task)
        (then if task in late else first).append(piece)
    return first, then


def _pod_of(piece: StepInput) -> wire.Pod | None:
    found = piece.object if isinstance(piece, ObjectObserved | Lost) else None
    return found if isinstance(found, wire.Pod) else None


def _is_unclear(cluster: Cluster, pieces: list[StepInput]) -> bool:
    """Has the owner of one of these pods not been seen yet?"""
    for pod in map(_pod_of, pieces):
        task = cluster.tasks.get(task_id(pod)) if pod is not None else None
        refusal = cluster.gangs[task.gang].refusal if task is not None else None
        if refusal is not None and refusal.why is ReasonCode.OWNER_UNSEEN:
            return True
    return False


def nodes_of(places: dict[TaskId, str]) -> list[str]:
    """The nodes of some tasks, each once."""
    return sorted(set(places.values()))


def half_started(shadow: Shadow) -> list[Story]:
    """Gangs that had GPUs and could not use them, now or for a while."""
    stories = [story for _, story in sorted(shadow.stories.items())]
    return [each for each in stories if each.is_half or each.idle_milli_seconds]


def started_early(shadow: Shadow) -> Iterator[Story]:
    """Gangs that run and that we would have let wait, for more than a moment."""
    for _, story in sorted(shadow.stories.items()):
        if story.whole_at and story.waits and story.waits_for not in MOMENTARY:
            yield story


def parted(shadow: Shadow) -> Iterator[Story]:
    """Gangs whose tasks we would have put on other nodes."""
    for _, story in sorted(shadow.stories.items()):
        if compared(story) and any(story.theirs[task] != story.ours[task] for task in story.theirs):
            yield story


def compared(story: Story) -> bool:
    """Is it known of all its tasks where they are and where we would have put them?"""
    return bool(story.theirs) and all(task in story.ours for task in story.theirs)


def above_share(shadow: Shadow) -> Iterator[tuple[str, QueueNumbers]]:
    """Queues that have more than they should have now, while others wait."""
    waiting = sum(each.waiting_milli for each in shadow.queues.values())
    for name, numbers in sorted(shadow.queues.items()):
        if waiting and numbers.allocated.get(GPU, 0) > numbers.share.get(GPU, 0):
            yield name, numbers
