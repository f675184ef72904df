"""The traces of Alibaba's GPU clusters of 2023 (`openb`): a list of nodes and lists of pods.

    nodes   sn, cpu_milli, memory_mib, gpu, model
    pods    name, cpu_milli, memory_mib, num_gpu, gpu_milli
            and, in most files, gpu_spec (models that will do, `A|B`), creation_time, deletion_time

A pod with one GPU and fewer than 1000 thousandths shares it; all others have theirs alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.model.errors import InputError
from windlass.model.gpus import WHOLE, Gpu, GpuRequest
from windlass.model.nodes import Node
from windlass.model.resources import Request

LEAST_CPU = 100
"""What a pod takes that asks for no CPU at all."""
MEMORY_MIB = 16 * 1024
"""What every model is said to have: the trace does not tell, and no model is to seem dearer."""
PODS = 1000
"""How many pods a node takes: the trace knows no such limit."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the trace, and when it came and went, in seconds, where the file says so."""

    name: str
    request: Request
    created_at: int | None = None
    deleted_at: int | None = None


def read_nodes(file: str) -> list[Node]:
    """The nodes of a node list, by name."""
    found = [_node(file, line, row) for line, row in _rows(file, "sn")]
    return sorted(found, key=lambda node: node.name)


def read_pods(file: str) -> list[Pod]:
    """The pods of a pod list, by name."""
    found = [_pod(file, line, row) for line, row in _rows(file, "name")]
    return sorted(found, key=lambda pod: pod.name)


def _node(file: str, line: int, row: Mapping[str, str]) -> Node:
    gpus = (Gpu(row.get("model") or "", MEMORY_MIB),) * _number(file, line, row, "gpu")
    return Node(
        row["sn"],
        _number(file, line, row, "cpu_milli"),
        _number(file, line, row, "memory_mib"),
        pods=PODS,
        gpus=gpus,
    )


def _pod(file: str, line: int, row: Mapping[str, str]) -> Pod:
    cpu = _number(file, line, row, "cpu_milli") or LEAST_CPU
    memory = _number(file, line, row, "memory_mib")
    request = Request(cpu, memory, _gpus(file, line, row))
    came, went = _time(file, line, row, "creation_time"), _time(file, line, row, "deletion_time")
    return Pod(row["name"], request, came, went)


def _gpus(file: str, line: int, row: Mapping[str, str]) -> GpuRequest | None:
    count = _number(file, line, row, "num_gpu")
    if not count:
        return None
    share = _number(file, line, row, "gpu_milli")
    if not 1 <= share <= WHOLE:
        sentence = f'gpu_milli is "{share}"; write a number from 1 to {WHOLE:,}'
        raise InputError(file, line, sentence)
    models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
    return GpuRequest(count, share if count == 1 else WHOLE, models=models)


def _rows(file: str, first: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with open(file, newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream)
            if first not in (rows.fieldnames or ()):
                sentence = f'no column "{first}" in its first line; give a file of an openb trace'
                raise InputError(file, 1, sentence)
            line = 1
            for line, row in enumerate(rows, start=2):
                if not row[first]:
                    raise InputError(file, line, f'"{first}" is empty; every row has its own')
                yield line, row
            if line == 1:
                raise InputError(file, 1, "nothing follows its first line; give it rows")
    except OSError as error:
        sentence = f"it cannot be read ({error.strerror}); check its name"
        raise InputError(file, None, sentence) from None
    except (UnicodeDecodeError, csv.Error):
        sentence = "it is not a table of comma-separated text; give a file of an openb trace"
        raise InputError(file, None, sentence) from None


def _time(file: str, line: int, row: Mapping[str, str], column: str) -> int | None:
    return _number(file, line, row, column) if row.get(column) else None


def _number(file: str, line: int, row: Mapping[str, str], column: str) -> int:
    text = row.get(column) or ""
    if not (text.isascii() and text.isdecimal()):
        raise InputError(file, line, f'"{text}" is no "{column}"; write a whole number')
    return int(text)
