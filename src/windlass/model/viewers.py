"""Users of the dashboard, and the rights that an operation needs."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.model.errors import WindlassError


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user as the API server has authenticated them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Right:
    """A permission in the terms of RBAC: a verb on all objects of a resource, or on some."""

    verb: str
    resource: str
    """The plural name of the resource, with a subresource after a slash."""
    group: str = ""
    namespace: str = ""
    """The namespace; empty: all of them."""
    name: str = ""
    """The name of the only object; empty: all objects."""

    def __str__(self) -> str:
        plural, slash, sub = self.resource.partition("/")
        where = f" in namespace {self.namespace}" if self.namespace else ""
        name = f"{plural}.{self.group}" if self.group else plural
        only = f" {self.name}" if self.name else ""
        return f"{self.verb} {name}{slash}{sub}{only}{where}"


class ReviewUnavailable(WindlassError):
    """The API server could not be asked to authenticate or authorize a user."""
