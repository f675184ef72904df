"""How a pod saves its work, and how it is asked to, as its annotations say.

A value that cannot be read refuses nothing: the pod counts as if it had said nothing, and is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from windlass.checkpoint import protocol
from windlass.checkpoint.protocol import Ack, RequestMode, read_ack
from windlass.model.units import format_duration, parse_duration
from windlass.workloads.objects.annotations import LATENCY_CRITICAL
from windlass.workloads.objects.wire import Pod

WITHIN_S = 120
"""How long a save may take where the pod does not say: a kubelet shows a request after a minute."""
LONGEST_S = 1800
"""Nobody gets longer: whoever may take for ever could not be displaced at all."""
HURRY_S = 30
GRACE_S = 30
"""From SIGTERM to SIGKILL, where a pod does not say."""
LEAST_PORT = 1024
"""Work that saves itself has no need of the ports of a node's own services."""
_PATH = re.compile(r"/[A-Za-z0-9._~/-]{0,255}", re.ASCII)


class CheckpointSettings(NamedTuple):
    """What a pod says about saving."""

    saves: bool = False
    within_s: int | None = None
    """How long it takes after it is asked; None: it cannot be asked."""
    at_most_s: int | None = None
    """No more of its work than this is ever unsaved."""
    hurry_s: int | None = None
    """Whoever makes room for it gets at most so long to save."""


MUTE = CheckpointSettings()


def saving_of(pod: Pod) -> CheckpointSettings:
    """How the pod saves; what cannot be read does not count."""
    notes = pod.metadata.annotations
    if not notes or not (protocol.MODE in notes or LATENCY_CRITICAL in notes):
        return MUTE
    mode, every_s = _mode(notes), _span(notes, protocol.EVERY)
    hurry_s = _hurry_s(notes.get(LATENCY_CRITICAL, ""))
    match mode:
        case RequestMode.FILE | RequestMode.HTTP:
            within_s = min(_span(notes, protocol.BUDGET) or WITHIN_S, LONGEST_S)
            return CheckpointSettings(True, within_s, every_s, hurry_s)
        case RequestMode.SIGNAL:  # it is stopped as ever, and saves within its grace
            grace_s = grace_of(pod)
            at_most_s = grace_s if every_s is None else min(every_s, grace_s)
            return CheckpointSettings(True, None, at_most_s, hurry_s)
        case _:
            return CheckpointSettings(hurry_s=hurry_s)


def grace_of(pod: Pod) -> int:
    """How long the pod has from SIGTERM to SIGKILL."""
    said = pod.spec.termination_grace_period_seconds
    return GRACE_S if said is None else max(0, said)


def complaints(pod: Pod) -> Iterator[str]:
    """What the pod says about saving and cannot be read, each with what is right."""
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
    """Where the pod is asked over HTTP; empty if it is not."""
    notes, ip = pod.metadata.annotations or {}, pod.status.pod_ip
    if _mode(notes) is not RequestMode.HTTP or not ip:
        return ""
    port, path = _port(notes), notes.get(protocol.PATH, protocol.DEFAULT_PATH)
    if port is None or not _PATH.fullmatch(path):
        return ""
    return f"http://{f'[{ip}]' if ':' in ip else ip}:{port}{path}"


def answers(pod: Pod) -> Iterator[Ack]:
    """What the pod says about requests to save: by annotation, and by the last words it left."""
    if ack := read_ack((pod.metadata.annotations or {}).get(protocol.ACK, "")):
        yield ack
    for each in pod.status.container_statuses or ():
        for state in (each.state, each.last_state):
            # by its id, not by its code: torchrun turns the code into its own
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
    is_one = text.isascii() and text.isdecimal() and len(text) <= 5
    return int(text) if is_one and LEAST_PORT <= int(text) < 1 << 16 else None


def _hurry_s(text: str) -> int | None:
    return HURRY_S if text == "true" else parse_duration(text) or None
