"""What commands print: JSON that a program can read, tables that fit into 80 columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from windlass.model.errors import InputError
from windlass.model.gpus import Slice
from windlass.model.reasons import Reason


def as_json(value: Any) -> str:
    """Indented JSON, the same for the same value."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def reason_as_json(reason: Reason) -> dict[str, Any]:
    """A reason with its sentence and its numbers."""
    return {"why": reason.why.value, "sentence": str(reason), "values": dict(reason.values)}


def slices_in_words(slices: Sequence[Slice]) -> str:
    """Devices in words: GPU 0-3, half of GPU 1, 3g.40gb at 4 of GPU 0."""
    whole = [part.device for part in slices if not part.profile and part.milli == 1000]
    words = [f"GPU {_ranges(whole)}"] if whole else []
    for part in slices:
        if part.profile:
            words.append(f"{part.profile} at {part.start} of GPU {part.device}")
        elif part.milli != 1000:
            words.append(f"{part.milli / 1000:g} of GPU {part.device}")
    return ", ".join(words) or "no GPU"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns of text: the first ones to the left, the others, being numbers, to the right."""
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def write_file(file: str, data: bytes) -> None:
    """Write a file whole or not at all; a link stays a link, and a device or a pipe what it is."""
    try:
        target = os.path.realpath(file)
        if os.path.exists(target) and not os.path.isfile(target):
            _write(target, data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        sentence = f"it cannot be written ({why}); check its name"
        raise InputError(file, None, sentence) from None


def _replace(target: str, data: bytes) -> None:
    part = f"{target}.{os.getpid()}.part"
    try:
        _write(part, data)
        os.replace(part, target)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 5."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)
