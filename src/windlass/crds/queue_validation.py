"""Do the queues of a cluster make sense together? What the API server cannot tell by itself.

A rule of the API server sees one object; unknown parents, cycles, and guarantees above the
parent's need all of them. `judge` says per queue what stands in its condition `Ready`, and
`mended` is the tree that the engine may work with meanwhile: whoever writes a wrong parent stops
neither the scheduler nor what runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.crds.base import StatusCondition
from windlass.model.queues import ROOT, Queue
from windlass.model.validation.problems import InputProblem
from windlass.model.validation.queues import check_queues

READY = "Ready"
VALID = "Valid"
INVALID = "Invalid"
_REASONS = {
    "guarantee": "GuaranteeTooLarge",
    "lend": "LendTooLarge",
}
_TOP = "(until then it stands at the top)"


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """Whether a queue is as it should be, and if not, what to do."""

    ready: bool = True
    reason: str = VALID
    message: str = "the queue makes sense and is used"


def judge(queues: Sequence[Queue]) -> dict[str, QueueVerdict]:
    """The verdict on every queue; of queues that ask too much together, the last is told so."""
    by_name = {queue.name: queue for queue in queues}
    verdicts: dict[str, QueueVerdict] = {}
    for problem in check_queues(queues):
        name = queues[int(problem.path[1])].name
        verdicts.setdefault(name, _verdict(problem, by_name[name], by_name))
    for queue in queues:
        verdicts.setdefault(queue.name, _below(queue, by_name))
    return verdicts


def mended(queues: Sequence[Queue]) -> list[Queue]:
    """The queues, those with a parent that cannot be theirs put to the top."""
    by_name = {queue.name: queue for queue in queues}
    wrong = {
        queues[int(problem.path[1])].name
        for problem in check_queues(queues)
        if problem.path[-1] == "parent"
    }
    wrong.update(name for name in by_name if _meets_itself(name, by_name))
    return [replace(each, parent=ROOT) if each.name in wrong else each for each in queues]


def condition(
    verdict: QueueVerdict, generation: int, now: str, before: StatusCondition | None
) -> StatusCondition:
    """A verdict as a condition; the time moves only when the status does."""
    status = "True" if verdict.ready else "False"
    same = before is not None and before.status == status
    return StatusCondition(
        type=READY,
        status=status,
        reason=verdict.reason,
        message=verdict.message,
        last_transition_time=before.last_transition_time if before and same else now,
        observed_generation=generation,
    )


def unreadable(complaints: Sequence[str]) -> QueueVerdict:
    """The verdict on an object that could not be read."""
    more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
    return QueueVerdict(False, INVALID, complaints[0] + more)


def _verdict(problem: InputProblem, queue: Queue, by_name: Mapping[str, Queue]) -> QueueVerdict:
    field = str(problem.path[2])
    if field == "parent":
        return QueueVerdict(False, _reason_of_parent(queue, by_name), f"{problem} {_TOP}")
    return QueueVerdict(False, _REASONS.get(field, INVALID), str(problem))


def _reason_of_parent(queue: Queue, by_name: Mapping[str, Queue]) -> str:
    if queue.parent not in by_name:
        return "ParentUnknown"
    return "ParentCycle" if _meets_itself(queue.name, by_name) else "TooDeep"


def _meets_itself(name: str, by_name: Mapping[str, Queue]) -> bool:
    """Does the way up from a queue lead back to it?"""
    seen: set[str] = set()
    at = by_name[name].parent
    while at in by_name and at not in seen:
        if at == name:
            return True
        seen.add(at)
        at = by_name[at].parent
    return False


def _below(queue: Queue, by_name: Mapping[str, Queue]) -> QueueVerdict:
    """A queue that is sound itself may still hang below one whose parent is not."""
    seen: set[str] = {queue.name}
    at = queue
    while at.parent in by_name and at.parent not in seen:
        at = by_name[at.parent]
        seen.add(at.name)
    if at.parent == ROOT:
        return QueueVerdict()
    found = f'queue "{queue.name}": it lies below queue "{at.name}", whose parent cannot be used'
    return QueueVerdict(False, "ParentNotReady", f'{found}; correct queue "{at.name}"')
