"""The status of Gang objects: the state of each gang, written when it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from windlass.crds.definitions import GANG
from windlass.crds.gang import GangStatus
from windlass.crds.queue_validation import QueueVerdict as Judgement
from windlass.crds.queue_validation import ready_condition, unreadable_verdict
from windlass.crds.read import read_gang
from windlass.daemon.decide.queue_status import SOONEST_S, StatusWrite, ready_in
from windlass.engine.plan import Decision, Plan
from windlass.kube.ingest import gang_id
from windlass.kube.writers import ConditionReason, message_of
from windlass.model import units
from windlass.model.jobs import ACTIVE, GangId, Task, TaskState
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

State: TypeAlias = Literal["Waiting", "Admitted", "Running", "Finished"]
SOUND = Judgement(message="the gang makes sense and is used")
NO_PODS = "no pod names it yet; set the label windlass.dev/gang on its pods"
_ADMITTED = frozenset({ConditionReason.UNSCHEDULABLE, ConditionReason.PLACE_HELD})
"""The reasons of a waiting gang that its queue has admitted."""


@dataclass(slots=True)
class _GangStatusWritten:
    """A Gang object, and the status that was written last."""

    object: wire.Owner
    judgement: Judgement
    written: dict[str, Any]
    written_at: int = 0
    seen: tuple[int, Decision | None] | None = None
    """The stamp and decision of the gang at the last look; while these stay, so does the status."""


class GangStatuses:
    """All Gang objects, and the status that was written last on each."""

    def __init__(self) -> None:
        self._objects: dict[GangId, _GangStatusWritten] = {}

    def read(self, owner: wire.Owner) -> None:
        """Take note of an object that is new or has changed."""
        read = read_gang(owner.metadata.name, owner.spec)
        judgement = unreadable_verdict(read.complaints) if read.complaints else SOUND
        before = self._objects.get(gang_id(owner.metadata))
        written, at = (before.written, before.written_at) if before else (owner.status, 0)
        self._objects[gang_id(owner.metadata)] = _GangStatusWritten(owner, judgement, written, at)

    def lose(self, owner: wire.Owner) -> None:
        """Forget an object that was deleted."""
        self._objects.pop(gang_id(owner.metadata), None)

    def due(self, cluster: Cluster, plan: Plan) -> list[StatusWrite]:
        """Return the statuses to write now."""
        decisions = {each.gang: each for each in plan.decisions} if self._objects else {}
        due: list[StatusWrite] = []
        for gang, known in sorted(self._objects.items()):
            seen = (cluster.stamps.get(gang, 0), decisions.get(gang))
            if cluster.now < known.written_at + SOONEST_S or seen == known.seen:
                continue
            known.seen = seen
            status = _status(known, cluster, gang, decisions.get(gang))
            if status != known.written:
                known.written, known.written_at = status, cluster.now
                meta = known.object.metadata
                due.append(StatusWrite(GANG.path(meta.name, meta.namespace, "status"), status))
        return due


def _status(
    known: _GangStatusWritten, cluster: Cluster, gang: GangId, decision: Decision | None
) -> dict[str, Any]:
    meta, members = known.object.metadata, list(cluster.members(gang))
    judgement = _judged(known.judgement, cluster, gang)
    ready = ready_condition(
        judgement, meta.generation, units.format_timestamp(cluster.now), ready_in(known.written)
    )
    state, reason = _state_of(members, decision, str(known.written.get("state", "")))
    return GangStatus(
        observed_generation=meta.generation,
        conditions=[ready],
        state=state,
        reason=reason or None,
        waiting=sum(task.state is TaskState.WAITING for task in members),
        running=sum(task.state in ACTIVE for task in members),
    ).as_json()


def _judged(judgement: Judgement, cluster: Cluster, gang: GangId) -> Judgement:
    """Return the judgement of an object, which may be valid by itself and contradict its pods."""
    made = cluster.gangs.get(gang)
    refusal = made.refusal if made else None
    if judgement.ready and refusal is not None and refusal.why is ReasonCode.UNREADABLE:
        return unreadable_verdict([str(refusal)])
    return judgement


def _state_of(members: list[Task], decision: Decision | None, before: str) -> tuple[State, str]:
    """Return the state of a gang, and the reason why it waits; empty if it does not."""
    if any(task.state in ACTIVE for task in members):
        return "Running", ""
    if any(task.state is TaskState.WAITING for task in members):
        # its position in the queue would change all the time
        said = message_of(replace(decision, position=0)) if decision else None
        state = "Admitted" if said and said.reason in _ADMITTED else "Waiting"
        return state, said.text if said else ""
    ended = bool(members) or before in ("Running", "Finished")
    return ("Finished", "") if ended else ("Waiting", NO_PODS)
