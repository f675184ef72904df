"""Where a document becomes bytes, and what has changed between two of them.

A viewer that has a document is sent only what is different in the next one. A change is one of

    {"is": value}                            something else stands here now
    {"size": n, "at": [...], "to": [...]}    a list of n, as before but for these places
    {"in": {name: change}, "out": [name]}    fields or keys that changed, and those that are gone

and `applied` in `ui/src/wire.ts` turns the old document into the new one. Lists are compared place
by place, so whoever wants small changes keeps things where they are (`table.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import compress
from operator import ne
from typing import Any, TypeAlias, cast

import msgspec

Change: TypeAlias = dict[str, Any]

BLOCK = 64
"""Lists are compared this many places at a time, which is done without looking at each."""


def as_bytes(document: object) -> bytes:
    """The document as it is sent."""
    return msgspec.json.encode(document)


def change(old: Any, new: Any) -> Change | None:
    """What makes the new of the old; None if they are the same."""
    if old is new:
        return None
    if type(old) is not type(new):
        return {"is": new}
    if isinstance(new, list):
        return _in_list(cast("list[object]", old), cast("list[object]", new))
    before, after = _parts(old), _parts(new)
    if before is not None and after is not None:
        return _in_parts(before, after)
    return None if old == new else {"is": new}


def _in_list(old: list[object], new: list[object]) -> Change | None:
    shared = min(len(old), len(new))
    at: list[int] = []
    for start in range(0, shared, BLOCK):
        end = min(start + BLOCK, shared)
        before, after = old[start:end], new[start:end]
        if before != after:
            at += compress(range(start, end), map(ne, before, after))
    at += range(shared, len(new))
    if not at and len(old) == len(new):
        return None
    if 2 * len(at) > len(new):
        return {"is": new}
    return {"size": len(new), "at": at, "to": [new[place] for place in at]}


def _in_parts(old: Mapping[str, object], new: Mapping[str, object]) -> Change | None:
    inside: dict[str, Change] = {}
    for name, value in new.items():
        found = change(old[name], value) if name in old else {"is": value}
        if found is not None:
            inside[name] = found
    out = [name for name in old if name not in new]
    return {"in": inside, "out": out} if inside or out else None


def _parts(value: Any) -> Mapping[str, object] | None:
    """Fields or keys by name, where there are any."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return None
