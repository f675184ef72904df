"""Pod statuses as a kubelet writes them, as plain JSON values for a strategic merge patch.

Strategic, because conditions are then merged by type: what the scheduler and the eviction API wrote
into the same list (PodScheduled, DisruptionTarget) stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass_lab.fake_kubelet.wire import Pod

Status = dict[str, Any]

KILLED, TERMINATED = 137, 143
"""Exit codes of a container that SIGKILL, or SIGTERM, has ended."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of the containers of a pod."""

    exit_code: int
    started: str
    finished: str
    restarts: int = 0
    message: str = ""
    """The termination message of the container."""


def rejected(reason: str, message: str) -> Status:
    """Return the status of a pod that was not admitted: no container ever ran."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}


def creating(pod: Pod, stamp: str, host_ip: str) -> Status:
    """Return the status of an admitted pod whose containers are being made."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    return {
        "phase": "Pending",
        "startTime": stamp,
        "hostIP": host_ip,
        "conditions": [*_conditions(stamp, ready=False, reason="ContainersNotReady")],
        "containerStatuses": [*_containers(pod, waiting, ready=False)],
    }


def running(pod: Pod, started: str, ips: tuple[str, str], last: Ending | None = None) -> Status:
    """Return the status of a pod whose containers run and are ready; `last` is their end before a
    restart."""
    host_ip, pod_ip = ips
    state = {"running": {"startedAt": started}}
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or started,
        "hostIP": host_ip,
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": [*_conditions(started, ready=True)],
        "containerStatuses": [*_containers(pod, state, ready=True, last=last)],
    }


def crashed(pod: Pod, ending: Ending) -> Status:
    """Return the status of a pod whose containers ended and will be restarted."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    return {
        "phase": "Running",
        "conditions": [*_conditions(ending.finished, ready=False, reason="ContainersNotReady")],
        "containerStatuses": [*_containers(pod, state, ready=False, last=ending)],
    }


def ended(pod: Pod, ending: Ending) -> Status:
    """Return the status of a pod whose containers have ended for good."""
    succeeded = ending.exit_code == 0
    why = "PodCompleted" if succeeded else "PodFailed"
    state, restarts = {"terminated": _terminated(ending)}, ending.restarts
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": [*_conditions(ending.finished, ready=False, reason=why)],
        "containerStatuses": [*_containers(pod, state, ready=False, restarts=restarts)],
    }


def _terminated(ending: Ending) -> dict[str, Any]:
    found = {
        "exitCode": ending.exit_code,
        "reason": "Error" if ending.exit_code else "Completed",
        "startedAt": ending.started,
        "finishedAt": ending.finished,
    }
    return found | ({"message": ending.message} if ending.message else {})


def _conditions(stamp: str, *, ready: bool, reason: str | None = None) -> list[dict[str, Any]]:
    word = "True" if ready else "False"
    return [
        _condition("Initialized", "True", stamp, None),
        _condition("Ready", word, stamp, reason),
        _condition("ContainersReady", word, stamp, reason),
    ]


def _condition(kind: str, status: str, stamp: str, reason: str | None) -> dict[str, Any]:
    # An explicit null takes away the reason of an earlier state: the patch merges.
    return {"type": kind, "status": status, "lastTransitionTime": stamp, "reason": reason}


def _containers(
    pod: Pod, state: dict[str, Any], *, ready: bool, last: Ending | None = None, restarts: int = 0
) -> list[dict[str, Any]]:
    before = {"lastState": {"terminated": _terminated(last)}} if last else {}
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": last.restarts if last else restarts,
            "state": state,
            **before,
        }
        for container in pod.spec.containers
    ]
