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
    """One request, and what became of it."""

    verb: str
    resource: str
    """With its subresource: `pods/binding`."""
    path: str
    query: Mapping[str, str]
    body: bytes
    at: float
    """Monotonic seconds."""
    number: int = 0
    is_sent: bool = False
    """It was passed on to the server."""
    is_over: bool = False
    """It was, and its answer has come or will not come any more."""
    status: int | None = None
    """What the server answered, if it did."""

    @property
    def is_write(self) -> bool:
        """Was it to change something?"""
        return self.verb not in ("get", "list", "watch")

    def json(self) -> Any:
        """The object that was sent."""
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.path}"


def call_of(method: str, path: str, query: Mapping[str, str], body: bytes) -> Call:
    """A request as the call that it is."""
    resource, is_named = _resource(path)
    verb = VERBS.get(method) or ("get" if is_named else "list")
    if query.get("watch") == "true":
        verb = "watch"
    return Call(verb, resource, path, query, body, monotonic())


def _resource(path: str) -> tuple[str, bool]:
    """What a path names, and whether it names one object: /api/v1/… or /apis/group/version/…"""
    words = path.strip("/").split("/")
    rest = words[2:] if words[0] == "api" else words[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return path, True
    return "/".join([rest[0], *rest[2:]]), len(rest) > 1
