"""The reports of DCGM exporters about the GPUs of their node: utilisation and XID errors.

    DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-5c1e",...} 87
    DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-5c1e",...} 79

The second metric is the *last* XID error of a GPU and stays until the driver restarts. An error in
the first report counts as well: its age is not known, and a GPU that fell off the bus does not
recover with time. From then on the GPU is suspect until its exporter reports 0, or until another
process of the exporter reports something else. A later error of an application, which hides the
hardware error, does not clear it, and neither does a report without this GPU.

Rows of MIG instances (`GPU_I_ID`) do not tell the utilisation of the whole GPU, but their XID
errors count. The text comes from a pod and is not trusted: parsing it must be safe for any input,
and the length and the number of rows are limited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.workloads.nodes.offers import MOST_GPUS
from windlass.workloads.objects import Pod

LABELS = (
    ("app", "nvidia-dcgm-exporter"),  # set by the GPU operator
    ("app.kubernetes.io/name", "dcgm-exporter"),  # set by the chart of the exporter
)
"""The labels of exporter pods, of which one must match."""
PORT = 9400
"""The port of an exporter without a port named `PORT_NAME`."""
PORT_NAME = "metrics"
UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
XID = "DCGM_FI_DEV_XID_ERRORS"

HARDWARE: Mapping[int, str] = {
    48: "double-bit ECC error",
    62: "its controller halted",
    64: "a row of its memory could not be remapped",
    74: "NVLink error",
    79: "fell off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "its system processor does not answer",
    120: "error of its system processor",
    140: "unrecovered ECC error",
    143: "could not be initialised",
}
"""The XID errors that indicate a broken GPU, by NVIDIA's catalogue. Errors that an application can
cause (13, 31, 43, 45 and others) are left out: a faulty program must not take a node out of
service. So is 63, a row of memory that was remapped successfully."""

LONGEST = 2 << 20
"""The most bytes of a report; 16 GPUs with all fields, shared by many pods, take a quarter."""
_LONGEST_LINE = 8192
_MOST_ROWS = 8192
_PREFIXES = (UTILISATION.encode() + b"{", XID.encode() + b"{")
# The length of a name is bounded: otherwise a long run of letters takes quadratic time.
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,8}=\s{0,8}"((?:[^"\\]|\\.)*)"')
_INDEX = re.compile(r"[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Reading:
    """One report of an exporter."""

    utilisation: tuple[int, ...] = ()
    """The utilisation of each GPU in thousandths, by index; -1 if it is not reported."""
    xids: tuple[tuple[int, int], ...] = ()
    """(GPU index, last XID error) in order of index; the error 0 means that there was none."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """One process that exports the metrics of the GPUs of a node."""

    node: str
    url: str
    namespace: str
    created: str
    process: tuple[str, int]
    """The uid of the pod, and the number of its container restarts."""


def exporter_of(pod: Pod) -> Exporter | None:
    """Return the exporter in a pod; None if the pod is none, or does not run."""
    labels, ip, node = pod.metadata.labels or {}, pod.status.pod_ip, pod.spec.node_name
    if not any(labels.get(key) == value for key, value in LABELS):
        return None
    if pod.status.phase != "Running" or pod.metadata.deletion_timestamp or not ip or not node:
        return None
    restarts = sum(status.restart_count for status in pod.status.container_statuses or ())
    return Exporter(
        node=node,
        url=f"http://{f'[{ip}]' if ':' in ip else ip}:{_port(pod)}/metrics",
        namespace=pod.metadata.namespace,
        created=pod.metadata.creation_timestamp or "",
        process=(pod.metadata.uid, restarts),
    )


def read_report(text: bytes) -> Reading | None:
    """Return the report in the metrics text of an exporter; None if it names no GPU."""
    used: dict[int, int] = {}
    xids: dict[int, int] = {}
    for name, gpu, value in _rows(text):
        if name == UTILISATION and 0 <= value <= 100:
            used[gpu] = max(used.get(gpu, 0), round(value * 10))
        elif name == XID and 0 <= value <= 9999:
            # Pods that share a GPU have a row each: a hardware error in any of them counts.
            xids[gpu] = max(xids.get(gpu, 0), int(value), key=lambda xid: (xid in HARDWARE, xid))
    if not used and not xids:
        return None
    gpus = max(used, default=-1) + 1
    return Reading(tuple(used.get(gpu, -1) for gpu in range(gpus)), tuple(sorted(xids.items())))


def suspects(before: Mapping[int, int], now: Reading) -> dict[int, int]:
    """Return the XID errors of the suspect GPUs, by GPU index.

    `before` is the result for the previous report of the same exporter process.
    """
    suspect = dict(before)
    for gpu, xid in now.xids:
        if xid == 0:
            suspect.pop(gpu, None)
        elif xid in HARDWARE:
            suspect[gpu] = xid
    return suspect


def trouble_of_gpus(suspect: Mapping[int, int], since: int) -> NodeTrouble | None:
    """Return the trouble of a node with these suspect GPUs; None if there are none."""
    if not suspect:
        return None
    gpu = min(suspect)
    what = f"ill: GPU {gpu} reports XID {suspect[gpu]} ({HARDWARE[suspect[gpu]]})"
    if (more := len(suspect) - 1) > 0:
        what += f", and {more} more {'does' if more == 1 else 'do'} so too"
    return NodeTrouble(NodeStanding.AVOIDED, what, max(1, since))


def _port(pod: Pod) -> int:
    ports = [port for container in pod.spec.containers for port in container.ports or ()]
    return next((port.container_port for port in ports if port.name == PORT_NAME), 0) or PORT


def _rows(text: bytes) -> Iterator[tuple[str, int, float]]:
    """Yield the metric, the GPU index and the value of each relevant row."""
    lines = (line for line in text[:LONGEST].split(b"\n") if line.startswith(_PREFIXES))
    for _, line in zip(range(_MOST_ROWS), lines, strict=False):
        if len(line) > _LONGEST_LINE:
            continue
        name, _, rest = line.decode("utf-8", "replace").partition("{")
        labels, _, tail = rest.rpartition("}")
        label_values = dict(_LABEL.findall(labels))
        gpu, value = label_values.get("gpu", ""), _number(tail)
        is_part = name == UTILISATION and label_values.get("GPU_I_ID")
        if value is None or is_part or not _INDEX.fullmatch(gpu):
            continue
        if int(gpu) < MOST_GPUS:
            yield name, int(gpu), value


def _number(tail: str) -> float | None:
    """Return the value of a row, which a timestamp may follow; None if it is no finite number."""
    try:
        value = float(tail.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) else None
