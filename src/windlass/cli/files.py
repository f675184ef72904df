"""The files that commands read: bytes in, checked values out, one sentence for every failure.

For "-" every function here reads stdin. The lower half finds the line of a problem in a JSON text.
That search runs only after a check has failed, and walks over the tokens without building values,
so that deep nesting cannot exhaust the stack.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from windlass.model.errors import InputError
from windlass.model.validation import check

if TYPE_CHECKING:
    from windlass.sim.scenario import Scenario
    from windlass.state.snapshot import Snapshot

STDIN = "-"
MOST_SNAPSHOT_BYTES = 512 * 2**20
CHUNK_BYTES = 2**16
MOST_SEARCHED_BYTES = 32 * 2**20
"""The largest JSON text that is searched for a line; in larger ones the search takes too long."""

# The path, and the byte, in a message of msgspec.
_PATH = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_BYTE = re.compile(r"\(byte (\d+)\)")

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def read_scenario_file(file: str) -> Scenario:
    """Read and check the scenario in a file."""
    from windlass.sim.scenario import MOST_BYTES, read_scenario

    return read_scenario(read_bytes(file, MOST_BYTES), display_name(file))


def read_snapshot_file(file: str) -> Snapshot:
    """Read and check the snapshot in a file.

    States that a live cluster can pass through are accepted: the engine explains them.
    """
    from windlass.state.snapshot import SnapshotError, from_json

    data, name = read_bytes(file, MOST_SNAPSHOT_BYTES), display_name(file)
    if len(data) > MOST_SNAPSHOT_BYTES:
        limit = f"the {MOST_SNAPSHOT_BYTES // 2**20} MiB a snapshot may have"
        raise InputError(name, None, f"it is larger than {limit}; cut it down to what matters")
    try:
        snapshot = from_json(data)
    except SnapshotError as error:
        raise _not_a_snapshot(str(error), data, name) from None
    problems = [problem for problem in check(snapshot) if not problem.passing]
    if problems:
        first = problems[0]
        line = line_of(data, first.path)
        raise InputError(name, line, str(first), more=len(problems) - 1)
    return snapshot


def read_limited(file: str, max_bytes: int) -> tuple[bytes, str]:
    """Return the content and the display name of a file; refuse one that is too large."""
    data, name = read_bytes(file, max_bytes), display_name(file)
    if len(data) > max_bytes:
        raise InputError(name, None, f"it is larger than {max_bytes // 2**20} MiB; cut it down")
    return data, name


def read_bytes(file: str, max_bytes: int) -> bytes:
    """Return the content of a file, at most `max_bytes` + 1 bytes of it.

    One byte more than allowed tells the caller that the file is too large, and an endless file
    such as /dev/zero still ends.
    """
    try:
        if file == STDIN:
            return _read(sys.stdin.buffer, max_bytes)
        with open(file, "rb") as stream:
            return _read(stream, max_bytes)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be read ({why}); check its name") from None


def _read(stream: BinaryIO, max_bytes: int) -> bytes:
    # In chunks: during one long read Python would not see an interrupt.
    data = bytearray()
    while len(data) <= max_bytes:
        chunk = stream.read(min(CHUNK_BYTES, max_bytes + 1 - len(data)))
        if not chunk:
            break
        data += chunk
    return bytes(data)


def display_name(file: str) -> str:
    """Return the name of a file as error messages give it."""
    return "stdin" if file == STDIN else file


def _not_a_snapshot(message: str, data: bytes, file: str) -> InputError:
    """Return the error for a message of msgspec, with its path or byte turned into a line."""
    place, byte = _PATH.search(message), _BYTE.search(message)
    if place:
        steps = _STEP.findall(place["path"])
        path = tuple(int(index) if index else name for name, index in steps)
        line = line_of(data, path)
        message = f"{_PATH.sub('', message)} at {place['path'].lstrip('.') or 'the top'}"
    else:
        end = int(byte[1]) if byte else len(data)
        line = data.count(b"\n", 0, end) + 1
    clause = " ".join(message.replace("`", "").split()).rstrip(".")
    if not clause.startswith("JSON"):
        clause = clause[:1].lower() + clause[1:]
    advice = "write one with windlass snapshot, or with windlass scenario --out"
    return InputError(file, line, f"this is not a snapshot: {clause}; {advice}")


# -- lines of a JSON text


@dataclass(slots=True)
class _OpenJsonValue:
    """An object or array whose end has not been reached."""

    step: str | int
    """The key or index of the value that comes next."""
    wants_key: bool
    """True in an object before a colon: the next string is a key, not a value."""


def line_of(data: bytes, path: Sequence[str | int]) -> int | None:
    """Return the line (from 1) of the value at a path of keys and indices.

    If there is no such value, return the line of the deepest one on the way to it. Return None if
    the text is too large to be searched.
    """
    if len(data) > MOST_SEARCHED_BYTES:
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
            opened[-1].step = text[1:-1].decode("utf-8", "replace")
            continue
        if _is_on_path(opened, path) and len(opened) >= depth:
            best, depth = token.start(), len(opened)
            if depth == len(path):
                break
        if text in (b"[", b"{"):
            opened.append(_OpenJsonValue("" if text == b"{" else 0, text == b"{"))
    return data.count(b"\n", 0, best) + 1


def _move_on(opened: list[_OpenJsonValue], separator: bytes) -> None:
    """Note in the innermost open value that a comma or a colon was read."""
    if not opened:
        return
    innermost = opened[-1]
    if separator == b":":
        innermost.wants_key = False
    elif isinstance(innermost.step, int):
        innermost.step += 1
    else:
        innermost.wants_key = True


def _is_on_path(opened: list[_OpenJsonValue], path: Sequence[str | int]) -> bool:
    """Return whether the value that comes next is the one at the path, or contains it."""
    if len(opened) > len(path):
        return False
    return all(value.step == step for value, step in zip(opened, path, strict=False))
