"""The protocol between the scheduler and pods that can make checkpoints; pure, for both sides.

    requested  the annotation `REQUEST` on every pod of a gang, or POST to its endpoint
    saving     answered by GET
    done       the annotation `ACK`, or GET, or exit code `EXIT_SAVED` with the same JSON as the
               container's termination message (in `state` or, if it was restarted, in `lastState`;
               torchrun, if it runs the container, replaces the exit code)
    refused    the same ways: the pod continues and makes no checkpoint for this request
    withdrawn  the annotation is removed, or DELETE with the request's id

An answer belongs to a request by its id, which the scheduler draws at random. An answer with
another id is stale or forged, and `accepts` rejects it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from windlass.model import units

PREFIX = "windlass.dev/"

MODE = PREFIX + "checkpoint"
"""Annotation of a pod: the way to request a checkpoint, a `RequestMode`; without it there is
none."""
SIGNAL = PREFIX + "checkpoint-signal"
"""Annotation: the signal at which the pod saves, such as `SIGUSR1`; SIGTERM without it."""
BUDGET = PREFIX + "checkpoint-budget"
"""Annotation: the longest time that a checkpoint takes, such as `120s`."""
PORT = PREFIX + "checkpoint-port"
"""Annotation: the port of the endpoint in the mode `http`; `DEFAULT_PORT` without it."""
PATH = PREFIX + "checkpoint-path"
"""Annotation: the path of the endpoint; `DEFAULT_PATH` without it."""
EVERY = PREFIX + "checkpoint-every"
"""Annotation: the interval of checkpoints without a request, such as `15m`."""
REQUEST = PREFIX + "checkpoint-request"
"""Annotation, written by the scheduler: a `CheckpointRequest`. The container reads it from a file
of the downward API."""
ACK = PREFIX + "checkpoint-ack"
"""Annotation: an `Ack`, written by the pod or on its behalf."""

DEFAULT_PORT = 8471
DEFAULT_PATH = "/checkpoint"
EXIT_SAVED = 85
"""The exit code of a container after its checkpoint; its termination message is an `Ack`."""
LONGEST = 4096
"""The most bytes of a message: the limit of Kubernetes for a termination message."""


class RequestMode(StrEnum):
    """The way in which a pod receives checkpoint requests."""

    NONE = "none"
    SIGNAL = "signal"
    FILE = "file"
    HTTP = "http"


class SaveState(StrEnum):
    """The progress of a requested checkpoint."""

    SAVING = "saving"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """A request to make a checkpoint before the deadline, because the gang is to be evicted."""

    id: str
    """A random id, which the answer repeats."""
    deadline: int
    """The deadline, in seconds since 1970."""
    reason: str = ""
    """A sentence for the log of the pod."""

    def text(self) -> str:
        """Return the JSON that is sent."""
        return _json(id=self.id, deadline=units.format_timestamp(self.deadline), reason=self.reason)


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer to a request."""

    id: str
    """The id of the request."""
    state: SaveState
    step: int = 0
    """The number of steps in the checkpoint."""
    uri: str = ""
    """The location of the checkpoint."""
    at: int = 0
    """The time of the answer, in seconds since 1970."""

    def text(self) -> str:
        """Return the JSON that is sent."""
        return _json(
            id=self.id,
            state=self.state,
            step=self.step,
            uri=self.uri,
            at=units.format_timestamp(self.at),
        )


def accepts(request: CheckpointRequest, ack: Ack | None, last: Ack | None = None) -> bool:
    """Return whether an answer is valid for this request.

    `last` is the previous accepted answer of the same gang. An answer without an id, with another
    id, or with a step before that of `last` is stale or forged.
    """
    if ack is None or not request.id or ack.id != request.id:
        return False
    return ack.state is not SaveState.DONE or last is None or ack.step >= last.step


def read_request(text: str | bytes) -> CheckpointRequest | None:
    """Return the request in a file, an annotation or a body; None if it is not one."""
    fields = _object(text)
    name = _string(fields, "id")
    deadline = units.parse_timestamp_or_none(_string(fields, "deadline"))
    if not name or deadline is None:
        return None
    return CheckpointRequest(name, deadline, _string(fields, "reason"))


def read_ack(text: str | bytes) -> Ack | None:
    """Return the answer in an annotation, a body or a termination message; None if it is none."""
    fields = _object(text)
    state, step = _string(fields, "state"), fields.get("step", 0)
    at = units.parse_timestamp_or_none(_string(fields, "at"))
    if state not in set(SaveState) or type(step) is not int or step < 0 or at is None:
        return None
    return Ack(_string(fields, "id"), SaveState(state), step, _string(fields, "uri"), at)


def _json(**fields: object) -> str:
    """Return the fields as JSON in one line, which annotations and logs keep unchanged."""
    return json.dumps(fields, separators=(",", ":"))


def _object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object in a text; empty if it is none, or longer than LONGEST."""
    if len(text) > LONGEST:
        return {}
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _string(fields: dict[str, Any], name: str) -> str:
    value: object = fields.get(name)
    return value if isinstance(value, str) else ""
