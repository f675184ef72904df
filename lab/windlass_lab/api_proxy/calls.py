"""A request to the API server in the words of its audit log: verb, resource and subresource."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True, eq=False)
class Call:
    """One request and its outcome."""

    verb: str
    resource: str
    """The resource with its subresource: `pods/binding`."""
    path: str
    query: Mapping[str, str]
    body: bytes
    at: float
    """The time in monotonic seconds."""
    number: int = 0
    is_sent: bool = False
    """True if it was passed on to the server."""
    is_over: bool = False
    """True if it was sent and its answer has arrived, or never will."""
    status: int | None = None
    """The status code of the server's answer; 0 if there was none."""

    @property
    def is_write(self) -> bool:
        """Return whether it would change something."""
        return self.verb not in ("get", "list", "watch")

    def json(self) -> Any:
        """Return the object that was sent."""
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.path}"


def call_of(method: str, path: str, query: Mapping[str, str], body: bytes) -> Call:
    """Return a request as a call."""
    resource, is_named = _resource(path)
    verb = VERBS.get(method) or ("get" if is_named else "list")
    if query.get("watch") == "true":
        verb = "watch"
    return Call(verb, resource, path, query, body, monotonic())


def _resource(path: str) -> tuple[str, bool]:
    """Return the resource that a path names (/api/v1/… or /apis/group/version/…), and whether it
    names one object."""
    words = path.strip("/").split("/")
    rest = words[2:] if words[0] == "api" else words[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return path, True
    return "/".join([rest[0], *rest[2:]]), len(rest) > 1
