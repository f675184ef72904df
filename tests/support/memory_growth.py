"""How large everything is that lives long: lengths of containers, by class and attribute."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

PLAIN = (str, bytes, int, float, bool, type(None))
CONTAINERS = (dict, list, set, frozenset, tuple, deque)


def lengths(*roots: Any, without: frozenset[str] = frozenset()) -> Counter[str]:
    """The sum of the lengths of all containers below each attribute that are reachable."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root) for root in roots]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, PLAIN) or id(value) in seen or name in without:
            continue
        seen.add(id(value))
        if isinstance(value, CONTAINERS):
            found[name] += len(value)
            inner = [*value, *value.values()] if isinstance(value, dict) else list(value)
            waiting += [(name, each) for each in inner]
        elif type(value).__module__.startswith("windlass."):
            waiting += [(f"{type(value).__name__}.{at}", each) for at, each in _attributes(value)]
    return found


def _attributes(value: Any) -> list[tuple[str, Any]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    named = {name: getattr(value, name, None) for name in names if not name.startswith("__")}
    return list((named | getattr(value, "__dict__", {})).items())
