"""The traces of Alibaba's GPU clusters of 2023 (`openb`): a list of nodes and lists of pods.

    nodes   sn, cpu_milli, memory_mib, gpu, model
    pods    name, cpu_milli, memory_mib, num_gpu, gpu_milli
            and, in most files, gpu_spec (models that will do, `A|B`), creation_time, deletion_time

A pod with one GPU and fewer than 1000 thousandths shares it; all others have theirs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from windlass.model.errors import InputError
from windlass.model.gpus import WHOLE, Gpu, GpuRequest
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.sim.traces.rows import MOST_GPUS, TraceError, TraceRow, lines_of, table

LEAST_CPU = 100
"""The CPU of a pod that requests none, in milli-CPU."""
MEMORY_MIB = 16 * 1024
"""The memory assumed for every model: the trace does not contain it, and no model should seem more
valuable."""
MOST = 10**12
"""The largest plausible value of milli-CPU and MiB of a machine."""
MOST_ON_A_NODE = 64
"""The largest number of GPUs of a node in a replay."""
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
PODS = 1000
"""The number of pods that a node takes: the trace has no such limit."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod of the trace, with its start and end in seconds where the file has them."""

    name: str
    request: Request
    created_at: int | None = None
    deleted_at: int | None = None


def read_nodes(file: str) -> list[Node]:
    """Return the nodes of a node list, by name."""
    return sorted(_read(file, NODE_COLUMNS, _node), key=lambda node: node.name)


def read_pods(file: str) -> list[TracePod]:
    """Return the pods of a pod list, by name."""
    return sorted(_read(file, POD_COLUMNS, _pod), key=lambda pod: pod.name)


def went_before(came: str) -> str:
    """Return the error sentence for a pod that ended before it started."""
    return f'deletion_time is before creation_time, "{came}"; write when it ended'


def _read(file: str, columns: Sequence[str], make: Callable[[TraceRow], Made]) -> list[Made]:
    """Return the objects made of each row; the first column is the name."""
    try:
        with open(file, "rb") as stream:
            lines = lines_of(stream.read())
        found = [make(_named(row, columns[0])) for row in table(lines, columns)]
        if not found:
            raise TraceError(None, "nothing follows its first line; give it rows")
    except TraceError as error:
        raise InputError(file, error.line, error.sentence) from None
    except OSError as error:
        sentence = f"it cannot be read ({error.strerror}); check its name"
        raise InputError(file, None, sentence) from None
    except UnicodeDecodeError:
        sentence = "it is not a table of comma-separated text; give a file of an openb trace"
        raise InputError(file, None, sentence) from None
    return found


def _named(row: TraceRow, column: str) -> TraceRow:
    if not row.text(column):
        raise TraceError(row.line, f'"{column}" is empty; every row has its own')
    return row


def _node(row: TraceRow) -> Node:
    gpus = (Gpu(row.text("model"), MEMORY_MIB),) * row.whole("gpu", 0, MOST_ON_A_NODE)
    cpu, memory = _amount(row, "cpu_milli"), _amount(row, "memory_mib")
    return Node(row.text("sn"), cpu, memory, pods=PODS, gpus=gpus)


def _pod(row: TraceRow) -> TracePod:
    cpu, memory = _amount(row, "cpu_milli") or LEAST_CPU, _amount(row, "memory_mib")
    came, went = _time(row, "creation_time"), _time(row, "deletion_time")
    if came is not None and went is not None and went < came:
        raise TraceError(row.line, went_before(row.text("creation_time")))
    return TracePod(row.text("name"), Request(cpu, memory, _gpus(row)), came, went)


def _gpus(row: TraceRow) -> GpuRequest | None:
    count = row.whole("num_gpu", 0, MOST_GPUS)
    if not count:
        return None
    share = row.whole("gpu_milli", 1, WHOLE) if count == 1 else WHOLE
    models = tuple(sorted(filter(None, row.text("gpu_spec").split("|"))))
    return GpuRequest(count, share, models=models)


def _time(row: TraceRow, column: str) -> int | None:
    return row.instant(column) if row.text(column) else None


def _amount(row: TraceRow, column: str) -> int:
    return row.whole(column, 0, MOST)
