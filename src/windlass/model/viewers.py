"""Who looks, and what one would need the right for."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.model.errors import WindlassError


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody, as the API server knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Right:
    """To do something with a kind of object: with all, with those of a namespace, or with one."""

    verb: str
    resource: str
    """Plural, with a subresource after a slash."""
    group: str = ""
    namespace: str = ""
    """Where; empty: everywhere."""
    name: str = ""
    """Of the only object that is meant; empty: all."""

    def __str__(self) -> str:
        plural, slash, sub = self.resource.partition("/")
        where = f" in namespace {self.namespace}" if self.namespace else ""
        name = f"{plural}.{self.group}" if self.group else plural
        only = f" {self.name}" if self.name else ""
        return f"{self.verb} {name}{slash}{sub}{only}{where}"


class CannotAsk(WindlassError):
    """Nobody could be asked who somebody is or what they may do."""
