"""The GPU map of the live view: a row per rack, a tray per node, a cell per GPU.

    █ in use   ▁▂▃▄▅▆▇ in part   · free   ░ held   ▒ reserved   × out of service   ┄ gone

The colour of a cell is that of the queue that has most of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from windlass.cli.format import counted
from windlass.cli.live_view.frame import DrawableCluster
from windlass.cli.live_view.palette import BAD, FAINT, QUIET, TRAY
from windlass.model.constraints import HOSTNAME
from windlass.model.gpus import WHOLE
from windlass.model.jobs import OCCUPYING
from windlass.model.nodes import Node

PARTS = "▁▂▃▄▅▆▇"
"""The cells of a GPU that is used in part, from little to nearly all of it."""
Gpu = tuple[str, int]
"""The name of a node, and the index of a device on it."""


@dataclass(slots=True)
class _GpuUse:
    """The use of every GPU."""

    allocated: dict[Gpu, dict[str, int]] = field(default_factory=dict[Gpu, dict[str, int]])
    """The thousandths of the GPU that each queue has."""
    held: dict[Gpu, tuple[str, bool]] = field(default_factory=dict[Gpu, tuple[str, bool]])
    """The queue for which it is held, and True if that is a reservation for later."""


def draw_map(
    moment: DrawableCluster, palette: Mapping[str, str], width: int, height: int
) -> list[Text]:
    """Return the lines of the map: one column of racks, or several if the height is too small.

    Racks that do not fit are counted in the last line.
    """
    use = _gpu_use(moment)
    away = {node.name for node in moment.away}
    rows = [
        _row(label, nodes, use, palette, away) for label, nodes in _racks(moment, max(9, width))
    ]
    column_width = max((row.cell_len for row in rows), default=0) + 2
    fitting = max(1, (width + 2) // column_width)
    columns = min(fitting, max(1, -(-len(rows) // height)))
    lines = _in_columns(rows, columns, column_width)
    if len(lines) <= height:
        return lines
    hidden = len(rows) - (height - 1) * columns
    return [*lines[: height - 1], Text(f"and {counted(hidden, 'more row')} of nodes", QUIET)]


def map_legend() -> Text:
    """Return the legend of the cells."""
    legend = "█ in use  ▃ part of it  · free  ░ held  ▒ reserved  × out of service  ┄ gone"
    return Text(legend, QUIET)


def _gpu_use(moment: DrawableCluster) -> _GpuUse:
    use, cluster = _GpuUse(), moment.cluster
    for task in cluster.tasks.values():
        if task.state in OCCUPYING:
            queue = cluster.gangs[task.gang].queue
            for part in task.devices:
                queues = use.allocated.setdefault((task.node, part.device), {})
                queues[queue] = queues.get(queue, 0) + part.milli
    for hold in moment.plan.holds:
        gang = cluster.gangs.get(hold.gang)
        if gang is None:
            continue
        is_reservation = hold.starts_at > moment.now
        for claim in hold.claims:
            for part in claim.devices:
                use.held[claim.node, part.device] = (gang.queue, is_reservation)
    return use


def _racks(moment: DrawableCluster, width: int) -> list[tuple[str, list[Node]]]:
    """Return the nodes by their narrowest topology domain above a node, in rows that fit."""
    keys = [key for topology in moment.cluster.topologies.values() for key in topology.levels]
    key = next((key for key in reversed(keys) if key != HOSTNAME), "")
    racks: dict[str, list[Node]] = {}
    for node in sorted((*moment.cluster.nodes.values(), *moment.away), key=lambda node: node.name):
        if node.gpus:
            racks.setdefault(node.labels.get(key, ""), []).append(node)
    rows: list[tuple[str, list[Node]]] = []
    for label, nodes in racks.items():
        node_width = max(len(node.gpus) for node in nodes) + 1
        most = max(1, min(8, (width - 10) // node_width))
        rows += [(label, nodes[start : start + most]) for start in range(0, len(nodes), most)]
    return rows


def _row(
    label: str, nodes: Sequence[Node], use: _GpuUse, palette: Mapping[str, str], away: set[str]
) -> Text:
    model = nodes[0].gpus[0].model.split("-")[0]
    line = Text().append(f"{label:<3.8} ", QUIET).append(f"{model:<5.6}", QUIET)
    for node in nodes:
        line.append(" ")
        for device in range(len(node.gpus)):
            if node.name in away:
                line.append("┄", FAINT)
            else:
                line.append(*_cell(node, device, use, palette))
    return line


def _cell(node: Node, device: int, use: _GpuUse, palette: Mapping[str, str]) -> tuple[str, str]:
    """Return the character and the style of a GPU."""
    gpu = (node.name, device)
    queues = use.allocated.get(gpu)
    if queues:
        queue = max(queues, key=lambda name: (queues[name], name))
        colour, level = palette.get(queue, QUIET), sum(queues.values())
        if level >= WHOLE:
            return "█", colour
        return PARTS[min(level * len(PARTS) // WHOLE, len(PARTS) - 1)], f"{colour} on {TRAY}"
    if gpu in use.held:
        queue, is_reservation = use.held[gpu]
        return ("▒" if is_reservation else "░"), palette.get(queue, QUIET)
    if not node.is_open or not node.gpus[device].healthy:
        return "×", BAD
    return "·", QUIET


def _in_columns(rows: Sequence[Text], columns: int, column_width: int) -> list[Text]:
    """Return the rows in columns, filled from top to bottom and then from left to right."""
    height = -(-len(rows) // columns)
    lines: list[Text] = []
    for index in range(height):
        line = Text()
        for row in rows[index::height]:
            line.append(" " * (-line.cell_len % column_width)).append_text(row)
        lines.append(line)
    return lines
