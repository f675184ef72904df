"""The status of Gang objects: the state of each gang, written when it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from windlass.crds.definitions import GANG
from windlass.crds.gang import GangStatus
from windlass.crds.queue_validation import QueueVerdict as Judgement
from windlass.crds.queue_validation import condition, unreadable
from windlass.crds.read import read_gang
from windlass.daemon.decide.queue_status import SOONEST_S, Written, ready_in
from windlass.engine.plan import Decision, Plan
from windlass.kube.ingest.gangs import gang_id
from windlass.kube.writers.conditions import ConditionReason, message_of
from windlass.model import units
from windlass.model.jobs import ACTIVE, GangId, Task, TaskState
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

State: TypeAlias = Literal["Waiting", "Admitted", "Running", "Finished"]
SOUND = Judgement(message="the gang makes sense and is used")
NOBODY = "no pod names it yet; set the label windlass.dev/gang on its pods"
_ADMITTED = frozenset({ConditionReason.UNSCHEDULABLE, ConditionReason.PLACE_HELD})
"""The reasons of a waiting gang that its queue has admitted."""


@dataclass(slots=True)
class _GangStatusWritten:
    """A Gang object, and the status that was written last."""

    object: wire.Owner
    judgement: Judgement
    told: dict[str, Any]
    told_at: int = 0
    seen: tuple[int, Decision | None] | None = None
    """The stamp and decision of the gang at the last look; while these stay, so does the status."""


class GangStatuses:
    """All Gang objects, and the status that was written last on each."""

    def __init__(self) -> None:
        self._files: dict[GangId, _GangStatusWritten] = {}

    def read(self, found: wire.Owner) -> None:
        """Take note of an object that is new or has changed."""
        read = read_gang(found.metadata.name, found.spec)
        judgement = unreadable(read.complaints) if read.complaints else SOUND
        before = self._files.get(gang_id(found.metadata))
        told, at = (before.told, before.told_at) if before else (found.status, 0)
        self._files[gang_id(found.metadata)] = _GangStatusWritten(found, judgement, told, at)

    def lose(self, found: wire.Owner) -> None:
        """Forget an object that was deleted."""
        self._files.pop(gang_id(found.metadata), None)

    def due(self, cluster: Cluster, plan: Plan) -> list[Written]:
        """Return the statuses to write now."""
        decisions = {each.gang: each for each in plan.decisions} if self._files else {}
        found: list[Written] = []
        for gang, file in sorted(self._files.items()):
            seen = (cluster.stamps.get(gang, 0), decisions.get(gang))
            if cluster.now < file.told_at + SOONEST_S or seen == file.seen:
                continue
            file.seen = seen
            status = _status(file, cluster, gang, decisions.get(gang))
            if status != file.told:
                file.told, file.told_at = status, cluster.now
                meta = file.object.metadata
                found.append(Written(GANG.path(meta.name, meta.namespace, "status"), status))
        return found


def _status(
    file: _GangStatusWritten, cluster: Cluster, gang: GangId, decision: Decision | None
) -> dict[str, Any]:
    meta, members = file.object.metadata, list(cluster.members(gang))
    judgement = _judged(file.judgement, cluster, gang)
    ready = condition(
        judgement, meta.generation, units.format_timestamp(cluster.now), ready_in(file.told)
    )
    state, reason = _life(members, decision, str(file.told.get("state", "")))
    return GangStatus(
        observed_generation=meta.generation,
        conditions=[ready],
        state=state,
        reason=reason or None,
        waiting=sum(each.state is TaskState.WAITING for each in members),
        running=sum(each.state in ACTIVE for each in members),
    ).as_json()


def _judged(judgement: Judgement, cluster: Cluster, gang: GangId) -> Judgement:
    """Return the judgement of an object, which may be valid by itself and contradict its pods."""
    known = cluster.gangs.get(gang)
    refusal = known.refusal if known else None
    if judgement.ready and refusal is not None and refusal.why is ReasonCode.UNREADABLE:
        return unreadable([str(refusal)])
    return judgement


def _life(members: list[Task], decision: Decision | None, before: str) -> tuple[State, str]:
    """Return the state of a gang, and the reason why it waits; empty if it does not."""
    if any(each.state in ACTIVE for each in members):
        return "Running", ""
    if any(each.state is TaskState.WAITING for each in members):
        # its position in the queue would change all the time
        said = message_of(replace(decision, position=0)) if decision else None
        state = "Admitted" if said and said.reason in _ADMITTED else "Waiting"
        return state, said.text if said else ""
    ended = bool(members) or before in ("Running", "Finished")
    return ("Finished", "") if ended else ("Waiting", NOBODY)
