"""Files as commands read them: bytes in, checked values out, one sentence on every failure."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, BinaryIO

from windlass.cli.json_lines import line_of
from windlass.model.errors import InputError
from windlass.model.validation.cluster import check

if TYPE_CHECKING:
    from windlass.sim.scenario.read import Scenario
    from windlass.state.snapshot import Snapshot

STDIN = "-"
MOST_SNAPSHOT_BYTES = 512 * 2**20
PIECE = 2**16

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_BYTE = re.compile(r"\(byte (\d+)\)")


def read_scenario_file(file: str) -> Scenario:
    """The scenario in a file, or on stdin for "-"."""
    from windlass.sim.scenario.read import read_scenario
    from windlass.sim.scenario.yaml_lines import MOST_BYTES

    return read_scenario(read_bytes(file, MOST_BYTES), name_of(file))


def read_snapshot_file(file: str) -> Snapshot:
    """The snapshot in a file, or on stdin for "-".

    What a live cluster may pass through is let in: the engine answers it with a reason.
    """
    from windlass.state.snapshot import SnapshotError, from_json

    data = read_bytes(file, MOST_SNAPSHOT_BYTES)
    if len(data) > MOST_SNAPSHOT_BYTES:
        found = f"it is larger than the {MOST_SNAPSHOT_BYTES // 2**20} MiB a snapshot may have"
        raise InputError(name_of(file), None, f"{found}; cut it down to what matters")
    try:
        snapshot = from_json(data)
    except SnapshotError as error:
        raise _not_a_snapshot(str(error), data, name_of(file)) from None
    problems = [problem for problem in check(snapshot) if not problem.passing]
    if problems:
        first = problems[0]
        line = line_of(data, first.path)
        raise InputError(name_of(file), line, str(first), more=len(problems) - 1)
    return snapshot


def read_whole(file: str, most: int) -> tuple[bytes, str]:
    """What is in a file, or on stdin for "-", and how to call it; not more than allowed."""
    data = read_bytes(file, most)
    if len(data) > most:
        sentence = f"it is larger than {most // 2**20} MiB; cut it down"
        raise InputError(name_of(file), None, sentence)
    return data, name_of(file)


def read_bytes(file: str, most: int) -> bytes:
    """What is in a file: at most one byte more than allowed, so that endless files end."""
    try:
        if file == STDIN:
            return _read(sys.stdin.buffer, most)
        with open(file, "rb") as stream:
            return _read(stream, most)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be read ({why}); check its name") from None


def _read(stream: BinaryIO, most: int) -> bytes:
    # in pieces: inside one long read Python would not see an interrupt
    data = bytearray()
    while len(data) <= most and (piece := stream.read(min(PIECE, most + 1 - len(data)))):
        data += piece
    return bytes(data)


def name_of(file: str) -> str:
    """A file as complaints name it."""
    return "stdin" if file == STDIN else file


def _not_a_snapshot(told: str, data: bytes, file: str) -> InputError:
    """msgspec's message, with its path turned into a line."""
    place, byte = _PLACE.search(told), _BYTE.search(told)
    if place:
        steps = _STEP.findall(place["path"])
        path = tuple(int(index) if index else name for name, index in steps)
        line = line_of(data, path)
        told = f"{_PLACE.sub('', told)} at {place['path'].lstrip('.') or 'the top'}"
    else:
        end = int(byte[1]) if byte else len(data)
        line = data.count(b"\n", 0, end) + 1
    sentence = " ".join(told.replace("`", "").split()).rstrip(".")
    if not sentence.startswith("JSON"):
        sentence = sentence[:1].lower() + sentence[1:]
    advice = "write one with windlass snapshot, or with windlass scenario --out"
    return InputError(file, line, f"this is not a snapshot: {sentence}; {advice}")
