"""The words between the scheduler and work that saves itself; pure, for both sides.

    asked    the annotation `REQUEST` on every pod of a gang, or POST to its endpoint
    saving   answered by GET
    done     the annotation `ACK`, or GET, or exit code `EXIT_SAVED` with the same JSON as the
             container's termination message (in `state` or, if it was restarted, in `lastState`;
             torchrun, where it runs the container, turns the code into its own)
    refused  likewise: it goes on working and will not save for this request
    forgotten  the annotation is removed, or DELETE with the request's id

An answer belongs to a request by its id, which the scheduler draws at random: what names another
id is stale or forged, and `accepts` refuses it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from windlass.model import units

PREFIX = "windlass.dev/"

MODE = PREFIX + "checkpoint"
"""Annotation of a pod: how it can be asked to save, one of `Mode`; without it, it cannot."""
SIGNAL = PREFIX + "checkpoint-signal"
"""Annotation: the signal at which it saves, such as `SIGUSR1`; SIGTERM without it."""
BUDGET = PREFIX + "checkpoint-budget"
"""Annotation: the longest that a save may take, such as `120s`."""
PORT = PREFIX + "checkpoint-port"
"""Annotation: the port of its endpoint, where the mode is `http`; `DEFAULT_PORT` without it."""
PATH = PREFIX + "checkpoint-path"
"""Annotation: the path of its endpoint; `DEFAULT_PATH` without it."""
EVERY = PREFIX + "checkpoint-every"
"""Annotation: how often it saves of its own accord, such as `15m`."""
REQUEST = PREFIX + "checkpoint-request"
"""Annotation, ours: a `Request`; the container sees it as a file of the downward API."""
ACK = PREFIX + "checkpoint-ack"
"""Annotation: an `Ack`, written by the pod or whoever speaks for it."""

DEFAULT_PORT = 8471
DEFAULT_PATH = "/checkpoint"
EXIT_SAVED = 85
"""A container that ends with this code has saved, and its termination message is an `Ack`."""
LONGEST = 4096
"""Bytes of a message at most: what Kubernetes keeps of a termination message."""


class RequestMode(StrEnum):
    """How work can be asked to save."""

    NONE = "none"
    SIGNAL = "signal"
    FILE = "file"
    HTTP = "http"


class SaveState(StrEnum):
    """How far a save has come."""

    SAVING = "saving"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """Somebody needs the place: save, by then. Moments are seconds since 1970."""

    id: str
    deadline: int
    reason: str = ""

    def text(self) -> str:
        """The JSON that is sent."""
        return _json(id=self.id, deadline=units.format_timestamp(self.deadline), reason=self.reason)


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer: how far the save for this request has come, at which step, and where it lies."""

    id: str
    state: SaveState
    step: int = 0
    uri: str = ""
    at: int = 0

    def text(self) -> str:
        """The JSON that is sent."""
        return _json(
            id=self.id,
            state=self.state,
            step=self.step,
            uri=self.uri,
            at=units.format_timestamp(self.at),
        )


def accepts(request: CheckpointRequest, ack: Ack | None, last: Ack | None = None) -> bool:
    """Whether an answer is one to this request; `last`: what the same work was believed before.

    No id, another id, or a step before the one that was already safe: stale or forged.
    """
    if ack is None or not request.id or ack.id != request.id:
        return False
    return ack.state is not SaveState.DONE or last is None or ack.step >= last.step


def read_request(text: str | bytes) -> CheckpointRequest | None:
    """The request in a file, an annotation or a body; None if there is none in it."""
    found = _object(text)
    name, deadline = _string(found, "id"), units.parse_timestamp_or_none(_string(found, "deadline"))
    if not name or deadline is None:
        return None
    return CheckpointRequest(name, deadline, _string(found, "reason"))


def read_ack(text: str | bytes) -> Ack | None:
    """The answer in an annotation, a body or a termination message; None if there is none in it."""
    found = _object(text)
    state, step = _string(found, "state"), found.get("step", 0)
    at = units.parse_timestamp_or_none(_string(found, "at"))
    if state not in set(SaveState) or type(step) is not int or step < 0 or at is None:
        return None
    return Ack(_string(found, "id"), SaveState(state), step, _string(found, "uri"), at)


def _json(**fields: object) -> str:
    """One line, so that it survives annotations and logs as it is."""
    return json.dumps(fields, separators=(",", ":"))


def _object(text: str | bytes) -> dict[str, Any]:
    """The JSON object that a text is; empty if it is none, or longer than any of ours."""
    if len(text) > LONGEST:
        return {}
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _string(found: dict[str, Any], name: str) -> str:
    value: object = found.get(name)
    return value if isinstance(value, str) else ""
