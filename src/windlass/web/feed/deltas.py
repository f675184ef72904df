"""The encoding of documents, the delta between two of them, and a bounded trail of deltas.

A viewer that has a document is sent only its delta to the next one. A delta is one of

    {"is": value}                            another value
    {"size": n, "at": [...], "to": [...]}    a list of n, as before but for these places
    {"in": {name: delta}, "out": [name]}     the fields or keys that changed, and the removed

and `applied` in `ui/src/wire.ts` turns the old document into the new one. Lists are compared place
by place, so a document with small deltas keeps its rows in place (`documents/row_table.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import compress
from operator import ne
from typing import Any, TypeAlias, cast

import msgspec

Change: TypeAlias = dict[str, Any]

BLOCK = 64
"""The places of a list that are compared at a time; equal blocks are skipped without a loop."""
MOST_STEPS = 32
MOST_BYTES = 2_000_000


def as_bytes(document: object) -> bytes:
    """Encode a document, or a part of one, as JSON."""
    return msgspec.json.encode(document)


def change(old: Any, new: Any) -> Change | None:
    """Return the delta from the old value to the new one; None if they are equal."""
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
        delta = change(old[name], value) if name in old else {"is": value}
        if delta is not None:
            inside[name] = delta
    out = [name for name in old if name not in new]
    return {"in": inside, "out": out} if inside or out else None


def _parts(value: Any) -> Mapping[str, object] | None:
    """Return the fields or keys by name; None for a value without any."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    return None


class DeltaTrail:
    """The newest document of one kind, and the deltas that led to it.

    Each document is encoded at most once as a whole and once as a delta, however many request it.
    The trail is bounded: a viewer that is further behind, or has a document of another run, is sent
    the whole document.
    """

    def __init__(self) -> None:
        self.tag = ""
        """The tag of the newest document."""
        self._document: object = None
        self._whole: bytes | None = None
        """The newest document encoded; None until the first request for the whole of it."""
        self._steps: deque[tuple[str, bytes]] = deque()
        """Pairs of a tag and the encoded delta from that document to the next, oldest first."""

    def put(self, tag: str, document: object) -> None:
        """Add the next document."""
        if tag == self.tag:
            return
        if self._document is not None:
            delta = change(self._document, document)
            self._steps.append((self.tag, as_bytes(delta or {"in": {}, "out": []})))
            self._drop_oldest()
        self.tag, self._document, self._whole = tag, document, None

    def answer(self, since: str = "") -> bytes:
        """Return the deltas since the document with a tag if the trail has it, else the whole."""
        if since and since == self.tag:
            return _changes(since, [])
        tags = [tag for tag, _ in self._steps]
        if since in tags:
            return _changes(since, [step for _, step in self._steps][tags.index(since) :])
        if self._whole is None:
            self._whole = as_bytes(self._document)
        return self._whole

    def _drop_oldest(self) -> None:
        while (
            len(self._steps) > MOST_STEPS or sum(len(step) for _, step in self._steps) > MOST_BYTES
        ):
            self._steps.popleft()


def _changes(since: str, steps: list[bytes]) -> bytes:
    """Return a `Changes` document, put together from parts that are encoded already."""
    return b'{"since":%b,"changes":[%b]}' % (as_bytes(since), b",".join(steps))
