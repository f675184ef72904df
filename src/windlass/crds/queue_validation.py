"""The validation of all queues of a cluster together, and their condition `Ready`.

A rule of the API server sees one object; unknown parents, cycles, and guarantees above the parent's
are found only by looking at all queues. `judge` returns a verdict per queue, which becomes its
condition `Ready`. `with_usable_parents` returns a valid tree for the engine to work with meanwhile,
so that a wrong parent stops neither the scheduler nor running gangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.crds.base import StatusCondition
from windlass.model.queues import ROOT, Queue
from windlass.model.validation import InputProblem, check_queues

READY = "Ready"
VALID = "Valid"
INVALID = "Invalid"
_REASONS = {
    "guarantee": "GuaranteeTooLarge",
    "lend": "LendTooLarge",
}
"""The reasons of the condition, by the field with the fault."""
_TOP = "(until then it stands at the top)"


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """The result of the validation of one object: valid, or a message that says what to correct."""

    ready: bool = True
    reason: str = VALID
    message: str = "the queue makes sense and is used"


def validate_queues(queues: Sequence[Queue]) -> dict[str, QueueVerdict]:
    """Return the verdict on every queue, by name.

    If queues are invalid only together, such as siblings whose guarantees exceed the parent's, the
    last of them gets the verdict.
    """
    by_name = {queue.name: queue for queue in queues}
    verdicts: dict[str, QueueVerdict] = {}
    for problem in check_queues(queues):
        name = queues[int(problem.path[1])].name
        verdicts.setdefault(name, _verdict(problem, by_name[name], by_name))
    for queue in queues:
        verdicts.setdefault(queue.name, _verdict_by_ancestors(queue, by_name))
    return verdicts


def with_usable_parents(queues: Sequence[Queue]) -> list[Queue]:
    """Return the queues as a valid tree: those with an unusable parent are put at the top."""
    by_name = {queue.name: queue for queue in queues}
    wrong = {
        queues[int(problem.path[1])].name
        for problem in check_queues(queues)
        if problem.path[-1] == "parent"
    }
    wrong.update(name for name in by_name if _is_in_cycle(name, by_name))
    return [replace(queue, parent=ROOT) if queue.name in wrong else queue for queue in queues]


def ready_condition(
    verdict: QueueVerdict, generation: int, now: str, before: StatusCondition | None
) -> StatusCondition:
    """Return the condition `Ready` for a verdict; its time changes only when the status does.

    `before` is the condition that the object has now, or None.
    """
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


def unreadable_verdict(complaints: Sequence[str]) -> QueueVerdict:
    """Return the verdict on an object that could not be read."""
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
    return "ParentCycle" if _is_in_cycle(queue.name, by_name) else "TooDeep"


def _is_in_cycle(name: str, by_name: Mapping[str, Queue]) -> bool:
    """Return whether a queue is its own ancestor."""
    seen: set[str] = set()  # a cycle further up that does not contain the queue must end the loop
    ancestor = by_name[name].parent
    while ancestor in by_name and ancestor not in seen:
        if ancestor == name:
            return True
        seen.add(ancestor)
        ancestor = by_name[ancestor].parent
    return False


def _verdict_by_ancestors(queue: Queue, by_name: Mapping[str, Queue]) -> QueueVerdict:
    """Return the verdict on a queue without own faults; an ancestor may have an unusable parent."""
    seen: set[str] = {queue.name}
    top = queue
    while top.parent in by_name and top.parent not in seen:
        top = by_name[top.parent]
        seen.add(top.name)
    if top.parent == ROOT:
        return QueueVerdict()
    fault = f'queue "{queue.name}": it lies below queue "{top.name}", whose parent cannot be used'
    return QueueVerdict(False, "ParentNotReady", f'{fault}; correct queue "{top.name}"')
