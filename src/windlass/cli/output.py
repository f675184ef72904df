"""The output of commands: JSON for programs, tables that fit into 80 columns, and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from windlass.cli.format import sentence
from windlass.model.errors import InputError
from windlass.model.gpus import Slice
from windlass.model.reasons import Reason, display_name


def as_json(value: Any) -> str:
    """Return a value as indented JSON, always the same text for the same value."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def reason_as_json(reason: Reason) -> dict[str, Any]:
    """Return a reason with its code, its clause and its numbers."""
    return {"why": reason.why.value, "sentence": str(reason), "values": dict(reason.values)}


def reason_sentence(clause: str, values: Mapping[str, int | str]) -> str:
    """Return the clause as a sentence with a capital letter, unless it starts with the name of a
    gang, which is not capitalised."""
    return sentence(clause, display_name(str(values.get("gang", ""))))


def slices_in_words(slices: Sequence[Slice]) -> str:
    """Return devices in words: GPU 0-3, 0.5 of GPU 1, 3g.40gb at 4 of GPU 0."""
    whole = [part.device for part in slices if not part.profile and part.milli == 1000]
    words = [f"GPU {_ranges(whole)}"] if whole else []
    for part in slices:
        if part.profile:
            words.append(f"{part.profile} at {part.start} of GPU {part.device}")
        elif part.milli != 1000:
            words.append(f"{part.milli / 1000:g} of GPU {part.device}")
    return ", ".join(words) or "no GPU"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows in columns: the first `left` ones left-aligned, the others right-aligned."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def write_file(file: str, data: bytes) -> None:
    """Write a file whole or not at all.

    A symbolic link stays one, and its target is written. A device or a pipe is written to, not
    replaced.
    """
    try:
        target = os.path.realpath(file)
        if os.path.exists(target) and not os.path.isfile(target):
            _write(target, data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be written ({why}); check its name") from None


def _replace(target: str, data: bytes) -> None:
    """Write a file beside the target and rename it; remove it if that fails."""
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
    """Return numbers as ranges, such as "0-3, 5"."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
