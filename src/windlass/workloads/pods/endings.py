"""How a pod ended: by itself, well or badly, or because somebody ended it.

Only what fails by itself tells anything about its node or its gang. Whatever was evicted, deleted,
preempted or refused for lack of room did not, and neither did work that saved itself and left.
"""

from __future__ import annotations

from windlass.checkpoint.protocol import EXIT_SAVED
from windlass.model.events import WorkEnded
from windlass.model.jobs import GangId
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.objects.wire import Pod, Terminated, condition

OWN = frozenset({"", "Error", "UnexpectedAdmissionError"})
"""Reasons of pods that failed by themselves; the last one is a device that could not be given."""


def end_of(pod: Pod, gang: GangId, now: int) -> WorkEnded | None:
    """What the end of a pod tells; None if it has not ended, or not by itself."""
    succeeded = pod.status.phase == "Succeeded"
    if not pod.spec.node_name or not (succeeded or _failed_by_itself(pod)):
        return None
    finished = [end.finished_at for end in _terminations(pod)]
    at = max((at for each in finished if (at := parse_timestamp_or_none(each))), default=now)
    since = parse_timestamp_or_none(pod.status.start_time)
    return WorkEnded(gang, pod.spec.node_name, at if since is None else since, at, succeeded)


def _failed_by_itself(pod: Pod) -> bool:
    if pod.status.phase != "Failed" or pod.status.reason not in OWN:
        return False
    disturbed = condition(pod, "DisruptionTarget")
    if pod.metadata.deletion_timestamp or (disturbed and disturbed.status == "True"):
        return False
    return all(each.exit_code != EXIT_SAVED for each in _terminations(pod))


def _terminations(pod: Pod) -> list[Terminated]:
    states = (each.state for each in pod.status.container_statuses or ())
    return [each.terminated for each in states if each.terminated]
