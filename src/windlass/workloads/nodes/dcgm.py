"""What a DCGM exporter tells about the GPUs of its node: how busy they are, and which are broken.

    DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-5c1e",...} 87
    DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-5c1e",...} 79

The second is the *last* XID error of a GPU, and stays until the driver starts anew. So a value that
was there when it was first seen counts as well: nobody can tell how old it is, and a GPU that once
fell off the bus is not back because time has passed. From then on a GPU is suspect until its
exporter says 0, or another process of the exporter says something else. Neither a later error of an
application, which hides the one of the hardware, nor silence about this GPU acquits it.

Rows of MIG instances (`GPU_I_ID`) do not say how busy the whole GPU is, but what is wrong with it
as well as others do. The text comes from a pod and is not trusted: whatever it is, it is read
without harm, and no more of it than is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.workloads.nodes.offers import MOST_GPUS
from windlass.workloads.objects.wire import Pod

LABELS = (
    ("app", "nvidia-dcgm-exporter"),  # of the GPU operator
    ("app.kubernetes.io/name", "dcgm-exporter"),  # of its own chart
)
PORT = 9400
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
"""XID errors that speak against a GPU, by NVIDIA's catalogue. What an application can cause (13,
31, 43, 45 and others) is not here: a bad program takes no node out. Nor is 63, a row of memory
that was remapped as it should be."""

LONGEST = 2 << 20
"""Bytes; sixteen GPUs with all their fields, shared by many pods, take a quarter of that."""
_LONGEST_LINE = 8192
_MOST_ROWS = 8192
_PREFIXES = (UTILISATION.encode() + b"{", XID.encode() + b"{")
# names are bounded, or a long one without an end would be read again from each of its letters
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,8}=\s{0,8}"((?:[^"\\]|\\.)*)"')
_INDEX = re.compile(r"[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Reading:
    """What an exporter told at one moment."""

    utilisation: tuple[int, ...] = ()
    """Thousandths of each GPU; -1 where it is not told."""
    xids: tuple[tuple[int, int], ...] = ()
    """GPUs and their last XID errors; 0: there was none."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """One process that tells about the GPUs of a node."""

    node: str
    url: str
    namespace: str
    created: str
    process: tuple[str, int]
    """The pod, and how often its containers were started anew."""


def exporter_of(pod: Pod) -> Exporter | None:
    """The exporter in a pod; None if it is none, or does not run."""
    labels, ip, node = pod.metadata.labels or {}, pod.status.pod_ip, pod.spec.node_name
    if not any(labels.get(key) == value for key, value in LABELS):
        return None
    if pod.status.phase != "Running" or pod.metadata.deletion_timestamp or not ip or not node:
        return None
    restarts = sum(each.restart_count for each in pod.status.container_statuses or ())
    return Exporter(
        node=node,
        url=f"http://{f'[{ip}]' if ':' in ip else ip}:{_port(pod)}/metrics",
        namespace=pod.metadata.namespace,
        created=pod.metadata.creation_timestamp or "",
        process=(pod.metadata.uid, restarts),
    )


def read(text: bytes) -> Reading | None:
    """A text of an exporter; None if it tells nothing about whole GPUs."""
    used: dict[int, int] = {}
    xids: dict[int, int] = {}
    for name, gpu, value in _rows(text):
        if name == UTILISATION and 0 <= value <= 100:
            used[gpu] = max(used.get(gpu, 0), round(value * 10))
        elif name == XID and 0 <= value <= 9999:
            # the pods that share a GPU have a row each: what speaks against it counts
            xids[gpu] = max(xids.get(gpu, 0), int(value), key=lambda xid: (xid in HARDWARE, xid))
    if not used and not xids:
        return None
    upto = max(used, default=-1) + 1
    return Reading(tuple(used.get(gpu, -1) for gpu in range(upto)), tuple(sorted(xids.items())))


def suspects(before: Mapping[int, int], now: Reading) -> dict[int, int]:
    """The GPUs that are suspect and why, given those that the same process told of before."""
    found = dict(before)
    for gpu, xid in now.xids:
        if xid == 0:
            found.pop(gpu, None)
        elif xid in HARDWARE:
            found[gpu] = xid
    return found


def trouble_of(suspect: Mapping[int, int], since: int) -> NodeTrouble | None:
    """What is wrong with a node that has these GPUs; None: nothing."""
    if not suspect:
        return None
    gpu = min(suspect)
    what = f"ill: GPU {gpu} reports XID {suspect[gpu]} ({HARDWARE[suspect[gpu]]})"
    if (more := len(suspect) - 1) > 0:
        what += f", and {more} more {'does' if more == 1 else 'do'} so too"
    return NodeTrouble(NodeStanding.AVOIDED, what, max(1, since))


def _port(pod: Pod) -> int:
    ports = [port for each in pod.spec.containers for port in each.ports or ()]
    return next((each.container_port for each in ports if each.name == PORT_NAME), 0) or PORT


def _rows(text: bytes) -> Iterator[tuple[str, int, float]]:
    """The rows that matter: what they tell, of which GPU, and how much."""
    lines = (line for line in text[:LONGEST].split(b"\n") if line.startswith(_PREFIXES))
    for _, line in zip(range(_MOST_ROWS), lines, strict=False):
        if len(line) > _LONGEST_LINE:
            continue
        name, _, rest = line.decode("utf-8", "replace").partition("{")
        labels, _, tail = rest.rpartition("}")
        told = dict(_LABEL.findall(labels))
        gpu, value = told.get("gpu", ""), _number(tail)
        is_part = name == UTILISATION and told.get("GPU_I_ID")
        if value is None or is_part or not _INDEX.fullmatch(gpu):
            continue
        if int(gpu) < MOST_GPUS:
            yield name, int(gpu), value


def _number(tail: str) -> float | None:
    """The value of a row; a time may follow it."""
    try:
        found = float(tail.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None
    return found if math.isfinite(found) else None
