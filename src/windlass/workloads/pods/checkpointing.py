"""The checkpoint settings in the annotations of a pod, and its answers to checkpoint requests.

An annotation that cannot be read counts as missing: the pod is placed all the same, and
`complaints` has the sentence that its user gets to see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from windlass.checkpoint import protocol
from windlass.checkpoint.protocol import Ack, RequestMode, read_ack
from windlass.model.units import format_duration, parse_duration
from windlass.workloads.objects import LATENCY_CRITICAL, Pod

WITHIN_S = 120
"""The default time for a checkpoint. It includes the minute that a kubelet may take to show the
request to the pod."""
LONGEST_S = 1800
"""The longest time for a checkpoint; a pod with no limit could never be displaced."""
HURRY_S = 30
"""The time for a checkpoint of the victims of a latency-critical gang, if it does not say."""
GRACE_S = 30
"""The default time from SIGTERM to SIGKILL, as in Kubernetes."""
LEAST_PORT = 1024
"""The lowest port of a checkpoint endpoint: lower ones belong to services of the node."""
_PATH = re.compile(r"/[A-Za-z0-9._~/-]{0,255}", re.ASCII)


class CheckpointSettings(NamedTuple):
    """The checkpoint settings of a pod."""

    saves: bool = False
    """True if the pod makes checkpoints at all."""
    within_s: int | None = None
    """The seconds that a requested checkpoint takes; None if no checkpoint can be requested."""
    at_most_s: int | None = None
    """The most seconds of work since the last checkpoint; None if that is not known."""
    hurry_s: int | None = None
    """The most seconds that victims get for a checkpoint if this pod is latency-critical."""


MUTE = CheckpointSettings()
"""The settings of a pod without checkpoint annotations."""


def checkpoint_settings_of(pod: Pod) -> CheckpointSettings:
    """Return the checkpoint settings of a pod; unreadable annotations are ignored."""
    notes = pod.metadata.annotations
    if not notes or not (protocol.MODE in notes or LATENCY_CRITICAL in notes):
        return MUTE
    mode, every_s = _mode(notes), _span(notes, protocol.EVERY)
    hurry_s = _hurry_s(notes.get(LATENCY_CRITICAL, ""))
    match mode:
        case RequestMode.FILE | RequestMode.HTTP:
            within_s = min(_span(notes, protocol.BUDGET) or WITHIN_S, LONGEST_S)
            return CheckpointSettings(True, within_s, every_s, hurry_s)
        case RequestMode.SIGNAL:  # eviction itself is the request: it saves within its grace
            grace_s = grace_of(pod)
            at_most_s = grace_s if every_s is None else min(every_s, grace_s)
            return CheckpointSettings(True, None, at_most_s, hurry_s)
        case _:
            return CheckpointSettings(hurry_s=hurry_s)


def grace_of(pod: Pod) -> int:
    """Return the seconds from SIGTERM to SIGKILL of a pod."""
    grace_s = pod.spec.termination_grace_period_seconds
    return GRACE_S if grace_s is None else max(0, grace_s)


def complaints(pod: Pod) -> Iterator[str]:
    """Yield a sentence for each checkpoint annotation that cannot be read, with the right form."""
    notes = pod.metadata.annotations or {}
    mode = notes.get(protocol.MODE, "")
    if mode and mode not in set(RequestMode):
        yield f"annotation {protocol.MODE} is {mode}; it must be signal, file, http or none"
    for name in (protocol.BUDGET, protocol.EVERY):
        if name in notes and not parse_duration(notes[name]):
            yield f"annotation {name} is {notes[name]}; it must be a time such as 90s, 45m or 2h30m"
    if (_span(notes, protocol.BUDGET) or 0) > LONGEST_S:
        yield f"{_written(notes, protocol.BUDGET)}; it counts as {format_duration(LONGEST_S)}"
    if protocol.PORT in notes and _port(notes) is None:
        yield f"{_written(notes, protocol.PORT)}; it must be a port from {LEAST_PORT}"
    if protocol.PATH in notes and not _PATH.fullmatch(notes[protocol.PATH]):
        yield f"{_written(notes, protocol.PATH)}; it must be a path such as /checkpoint"
    hurry = notes.get(LATENCY_CRITICAL, "false")
    if hurry not in ("true", "false") and not parse_duration(hurry):
        yield f"annotation {LATENCY_CRITICAL} is {hurry}; it must be true, or a time such as 10s"


def endpoint_of(pod: Pod) -> str:
    """Return the URL of the checkpoint endpoint of a pod; "" if it has none."""
    notes, ip = pod.metadata.annotations or {}, pod.status.pod_ip
    if _mode(notes) is not RequestMode.HTTP or not ip:
        return ""
    port, path = _port(notes), notes.get(protocol.PATH, protocol.DEFAULT_PATH)
    if port is None or not _PATH.fullmatch(path):
        return ""
    return f"http://{f'[{ip}]' if ':' in ip else ip}:{port}{path}"


def answers(pod: Pod) -> Iterator[Ack]:
    """Yield the answers of a pod to checkpoint requests: annotation and termination messages."""
    if ack := read_ack((pod.metadata.annotations or {}).get(protocol.ACK, "")):
        yield ack
    for status in pod.status.container_statuses or ():
        for state in (status.state, status.last_state):
            # Recognised by the id in the message, not by the exit code: torchrun replaces the code.
            if state.terminated and (ack := read_ack(state.terminated.message)):
                yield ack


def _mode(notes: Mapping[str, str]) -> RequestMode:
    mode = notes.get(protocol.MODE, "")
    return RequestMode(mode) if mode in set(RequestMode) else RequestMode.NONE


def _written(notes: Mapping[str, str], name: str) -> str:
    return f"annotation {name} is {notes[name]}"


def _span(notes: Mapping[str, str], name: str) -> int | None:
    return parse_duration(notes.get(name, "")) or None


def _port(notes: Mapping[str, str]) -> int | None:
    text = notes.get(protocol.PORT, str(protocol.DEFAULT_PORT))
    is_number = text.isascii() and text.isdecimal() and len(text) <= 5
    return int(text) if is_number and LEAST_PORT <= int(text) < 1 << 16 else None


def _hurry_s(text: str) -> int | None:
    return HURRY_S if text == "true" else parse_duration(text) or None
