"""The GPU map of the live view: a row per rack, a tray per node, a cell per GPU.

    █ in use   ▁▂▃▄▅▆▇ in part   · free   ░ held   ▒ reserved   × out of service   ┄ gone

The colour of a cell is the queue that has most of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from windlass.cli.live_view.frame import Drawn
from windlass.cli.live_view.palette import BAD, FAINT, QUIET, TRAY
from windlass.model.constraints import HOSTNAME
from windlass.model.gpus import WHOLE
from windlass.model.jobs import OCCUPYING
from windlass.model.nodes import Node

PARTS = "▁▂▃▄▅▆▇"
Place = tuple[str, int]


@dataclass(slots=True)
class _Cells:
    """What is on every device."""

    given: dict[Place, dict[str, int]] = field(default_factory=dict[Place, dict[str, int]])
    claimed: dict[Place, tuple[str, bool]] = field(default_factory=dict[Place, tuple[str, bool]])
    """The queue it is kept for, and whether only from later on."""


def draw_map(moment: Drawn, paint: Mapping[str, str], width: int, room: int) -> list[Text]:
    """One column of racks if they fit below each other, else several; the rest is counted."""
    cells = _cells(moment)
    away = {node.name for node in moment.away}
    rows = [
        _row(label, nodes, cells, paint, away) for label, nodes in _racks(moment, max(9, width))
    ]
    wide = max((row.cell_len for row in rows), default=0) + 2
    fitting = max(1, (width + 2) // wide)
    columns = min(fitting, max(1, -(-len(rows) // room)))
    lines = _in_columns(rows, columns, wide)
    if len(lines) <= room:
        return lines
    hidden = len(rows) - (room - 1) * columns
    return [*lines[: room - 1], Text(f"and {hidden} more rows of nodes", QUIET)]


def map_key() -> Text:
    """What the cells mean."""
    words = "█ in use  ▃ part of it  · free  ░ held  ▒ reserved  × out of service  ┄ gone"
    return Text(words, QUIET)


def _cells(moment: Drawn) -> _Cells:
    cells, cluster = _Cells(), moment.cluster
    for task in cluster.tasks.values():
        if task.state in OCCUPYING:
            queue = cluster.gangs[task.gang].queue
            for each in task.devices:
                there = cells.given.setdefault((task.node, each.device), {})
                there[queue] = there.get(queue, 0) + each.milli
    for hold in moment.plan.holds:
        gang = cluster.gangs.get(hold.gang)
        for claim in hold.claims if gang else ():
            for each in claim.devices:
                later = hold.starts_at > moment.now
                cells.claimed[claim.node, each.device] = (gang.queue if gang else "", later)
    return cells


def _racks(moment: Drawn, width: int) -> list[tuple[str, list[Node]]]:
    """Nodes by the narrowest domain that holds several, in rows that fit the width."""
    keys = [key for each in moment.cluster.topologies.values() for key in each.levels]
    key = next((each for each in reversed(keys) if each != HOSTNAME), "")
    everyone = sorted((*moment.cluster.nodes.values(), *moment.away), key=lambda each: each.name)
    racks: dict[str, list[Node]] = {}
    for node in everyone:
        if node.gpus:
            racks.setdefault(node.labels.get(key, ""), []).append(node)
    rows: list[tuple[str, list[Node]]] = []
    for label, nodes in racks.items():
        each = max(len(node.gpus) for node in nodes) + 1
        most = max(1, min(8, (width - 10) // each))
        rows += [(label, nodes[i : i + most]) for i in range(0, len(nodes), most)]
    return rows


def _row(
    label: str, nodes: Sequence[Node], cells: _Cells, paint: Mapping[str, str], away: set[str]
) -> Text:
    model = nodes[0].gpus[0].model.split("-")[0]
    line = Text().append(f"{label:<3.8} ", QUIET).append(f"{model:<5.6}", QUIET)
    for node in nodes:
        line.append(" ")
        for device in range(len(node.gpus)):
            if node.name in away:
                line.append("┄", FAINT)
            else:
                line.append(*_cell(node, device, cells, paint))
    return line


def _cell(node: Node, device: int, cells: _Cells, paint: Mapping[str, str]) -> tuple[str, str]:
    place = (node.name, device)
    there = cells.given.get(place)
    if there:
        queue = max(there, key=lambda name: (there[name], name))
        colour, level = paint.get(queue, QUIET), sum(there.values())
        if level >= WHOLE:
            return "█", colour
        return PARTS[min(level * len(PARTS) // WHOLE, len(PARTS) - 1)], f"{colour} on {TRAY}"
    if place in cells.claimed:
        queue, later = cells.claimed[place]
        return ("▒" if later else "░"), paint.get(queue, QUIET)
    if not node.is_open or not node.gpus[device].healthy:
        return "×", BAD
    return "·", QUIET


def _in_columns(rows: Sequence[Text], columns: int, wide: int) -> list[Text]:
    """Down first, then across, as one reads racks."""
    height = -(-len(rows) // columns)
    lines: list[Text] = []
    for index in range(height):
        line = Text()
        for row in rows[index::height]:
            line.append(" " * (-line.cell_len % wide)).append_text(row)
        lines.append(line)
    return lines
