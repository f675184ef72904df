"""On which line of a JSON text does something stand? Asked only once something is wrong.

Tokens are walked over without building values, so depth does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_BYTES = 32 * 2**20
"""In larger files the search would take longer than it helps."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(slots=True)
class _OpenJsonValue:
    """A collection that is being walked over; `step` leads to the value that comes next."""

    step: str | int
    wants_key: bool


def line_of(data: bytes, path: Sequence[str | int]) -> int | None:
    """The line (from 1) of what a path leads to, or of the nearest thing that is there."""
    if len(data) > MOST_BYTES:
        return None
    best, depth = 0, 0
    opened: list[_OpenJsonValue] = []
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text in (b"]", b"}"):
            if opened:
                opened.pop()
            continue
        if text in (b",", b":"):
            _move_on(opened, text)
            continue
        if opened and opened[-1].wants_key:
            opened[-1].step = _name(text)
            continue
        if _leads_to(opened, path) and len(opened) >= depth:
            best, depth = token.start(), len(opened)
            if depth == len(path):
                break
        if text in (b"[", b"{"):
            opened.append(_OpenJsonValue("" if text == b"{" else 0, text == b"{"))
    return data.count(b"\n", 0, best) + 1


def _move_on(opened: list[_OpenJsonValue], text: bytes) -> None:
    if not opened:
        return
    here = opened[-1]
    if text == b":":
        here.wants_key = False
    elif isinstance(here.step, int):
        here.step += 1
    else:
        here.wants_key = True


def _leads_to(opened: list[_OpenJsonValue], path: Sequence[str | int]) -> bool:
    """Is the value that comes next on the way?"""
    if len(opened) > len(path):
        return False
    return all(here.step == step for here, step in zip(opened, path, strict=False))


def _name(text: bytes) -> str:
    return text[1:-1].decode("utf-8", "replace")
