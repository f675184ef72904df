"""One frame of the live view, drawn from one `SimulationMoment` and nothing else.

    header                        clock, GPUs in use, number of waiting gangs
    map            queues         a cell per GPU by rack; the tree with a bar per queue
    waiting gangs                 position, request, waiting time, and the reason of the plan
    latest notes                  gangs that were placed, finished, lost, evicted or moved

A frame is a list of lines of a known width, so that it fits the terminal it is made for.
`windlass top` uses the functions for the map, the queues and the waiting gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from windlass.cli.format import clock, counted, duration, gpus, rounded
from windlass.cli.live_view.frame import DrawableCluster
from windlass.cli.live_view.map import draw_map, map_legend
from windlass.cli.live_view.palette import FAINT, INK, QUIET, colours
from windlass.cli.live_view.tree import draw_queues, queue_legend
from windlass.cli.output import reason_sentence
from windlass.engine.plan import Decision, Verdict
from windlass.model.actions import EvictionRule
from windlass.model.gpu.resources import is_gpu, short_name
from windlass.model.gpus import WHOLE
from windlass.model.jobs import JobId, Task, TaskState
from windlass.model.reasons import display_name
from windlass.model.resources import Request
from windlass.sim.metrics import requested
from windlass.sim.records import GangStage, RunNote, What
from windlass.sim.run import SimulationMoment

WIDE = 170
"""The width from which a reason is in the line of its gang, not below it."""

TALL = 30
"""The height from which there is room for legends and empty lines."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of a terminal in characters."""

    width: int = 80
    height: int = 24


def render(moment: SimulationMoment, size: TerminalSize) -> Group:
    """Return a frame that fits the terminal."""
    upper = [*draw_header(moment, size.width), *draw_upper(moment, size)]
    remaining = max(4, size.height - len(upper))
    waiting = draw_waiting(moment, size.width, remaining * 2 // 3)
    gap = [Text()] if size.height >= TALL else []
    notes = draw_notes(moment, remaining - len(waiting) - len(gap))
    lines = [*upper, *waiting, *gap, *notes]
    return Group(*(fitted(line, size.width) for line in lines[: size.height]))


def draw_header(moment: SimulationMoment, width: int) -> list[Text]:
    """Return a line with the name, the clock and five figures, and a ruler below it."""
    ground, stages = moment.figures.ground, moment.figures.stages
    useful = sum(queue.useful for queue in moment.figures.queues.values())
    parts = [
        (gpus(ground.capacity), "GPUs"),
        (_share(ground.capacity - ground.free, ground.capacity), "in use"),
        (_share(useful, ground.capacity), "useful"),
        (f"{stages.get(GangStage.WAITING, 0):,}", "waiting"),
        (f"{stages.get(GangStage.FINISHED, 0):,}", "done"),
    ]
    line = Text().append("Windlass", f"bold {INK}").append(f"  {clock(moment.now)}", INK)
    for value, label in parts:
        line.append(f"  {value}", f"bold {INK}").append(f" {label}", QUIET)
    return [line, Text("─" * width, FAINT)]


def _share(amount: int, whole: int) -> str:
    return f"{100 * amount // whole if whole else 0} %"


def draw_upper(moment: DrawableCluster, size: TerminalSize) -> list[Text]:
    """Return the map with the queues on its right; the legends below in a tall terminal."""
    palette = colours(moment.cluster.queues)
    map_lines = draw_map(moment, palette, size.width - 34, max(3, size.height // 2 - 2))
    map_width = max((line.cell_len for line in map_lines), default=0) + 2
    queue_lines = draw_queues(moment, palette, size.width - map_width)
    lines = _beside(map_lines, queue_lines, map_width)
    if size.height >= TALL:
        return [*lines, Text(), map_legend(), queue_legend(), Text()]
    return [*lines, Text()]


def _beside(left: Sequence[Text], right: Sequence[Text], left_width: int) -> list[Text]:
    """Return two blocks of lines side by side."""
    lines: list[Text] = []
    for index in range(max(len(left), len(right))):
        line = left[index].copy() if index < len(left) else Text()
        line.append(" " * (left_width - line.cell_len))
        lines.append(line.append_text(right[index]) if index < len(right) else line)
    return lines


def draw_waiting(moment: DrawableCluster, width: int, height: int) -> list[Text]:
    """Return the waiting gangs in queue order, with reasons; neighbours of one job share a row.

    Gangs that can never start come last. Rows that do not fit the height are left out.
    """
    waiting = sorted(
        (
            decision
            for decision in moment.plan.decisions
            if decision.verdict in (Verdict.WAITS, Verdict.NEVER)
        ),
        key=lambda decision: (
            decision.verdict is Verdict.NEVER,
            decision.position,
            decision.gang,
        ),
    )
    total = f"{counted(len(waiting), 'gang')} for {_requested_gpus(moment, waiting)} GPUs"
    lines = [_title("Waiting", total if waiting else "no gang")]
    for decisions in _by_job(moment, waiting):
        rows = _waiting_rows(moment, decisions, width)
        if len(lines) + len(rows) > height:
            break
        lines += rows
    return lines


def _requested_gpus(moment: DrawableCluster, decisions: Iterable[Decision]) -> str:
    """Return the GPUs that all waiting tasks of the gangs request, rounded."""
    cards = dict.fromkeys(gpu for node in moment.cluster.nodes.values() for gpu in node.gpus)
    extra = moment.cluster.columns.extra_gpus.least
    requests = (
        task.shape.request for decision in decisions for task in _waiting_tasks(moment, decision)
    )
    milli = sum(requested(request.gpu, cards) + extra(request) for request in requests)
    return rounded(milli / WHOLE)


def _by_job(moment: DrawableCluster, decisions: Iterable[Decision]) -> list[list[Decision]]:
    """Return the decisions in groups of neighbours that belong to one job."""
    groups: list[list[Decision]] = []
    for decision in decisions:
        job = moment.cluster.gangs[decision.gang].job
        if groups and moment.cluster.gangs[groups[-1][0].gang].job == job:
            groups[-1].append(decision)
        else:
            groups.append([decision])
    return groups


def _waiting_rows(moment: DrawableCluster, decisions: Sequence[Decision], width: int) -> list[Text]:
    """Return the row of one job, and its reason in the same line or below it."""
    first = decisions[0]
    gang = moment.cluster.gangs[first.gang]
    palette = colours(moment.cluster.queues)
    tasks = [task for decision in decisions for task in _waiting_tasks(moment, decision)]
    position = "  –" if first.verdict is Verdict.NEVER else f"{first.position:>3}"
    name = _short_name(gang.id if len(decisions) == 1 else gang.job)
    head = Text().append(position + " ", QUIET).append(f"{name:<14.14} ", INK)
    head.append(f"{gang.queue:<10.10} ", palette.get(gang.queue, INK))
    head.append(f"{_total_request(tasks):<13.13}", INK)
    head.append(f"{duration(moment.now - gang.created_at):>9}", QUIET)
    clauses = "; ".join(str(reason) for reason in first.reasons)
    reason = reason_sentence(clauses, first.reasons[0].values) if first.reasons else ""
    if width >= WIDE:
        return [head.append(f"  {reason}", QUIET)]
    wrapped = wrap(reason, width - 4, max_lines=2, placeholder=" …")
    return [head, *(Text(f"    {line}", QUIET) for line in wrapped)]


def _short_name(name: str) -> str:
    """Return the name of a gang or job of a live cluster without its namespace and uid."""
    return display_name(name).rpartition("/")[2]


def _total_request(tasks: Sequence[Task]) -> str:
    """Return the request of equal tasks, such as `8 × 4 GPUs`; empty if there are none."""
    if not tasks:
        return ""
    request = _request(tasks[0].shape.request)
    return f"{len(tasks)} × {request}" if len(tasks) > 1 else request


def _request(request: Request) -> str:
    """Return the GPUs of one task in words."""
    gpu = request.gpu
    if gpu is None:
        extras = [f"{amount} {short_name(name)}" for name, amount in request.extra if is_gpu(name)]
        return ", ".join(extras) or "no GPU"
    if gpu.profile:
        return gpu.profile if gpu.count == 1 else f"{gpu.count} {gpu.profile}"
    if gpu.memory_mib:
        return f"{gpu.memory_mib // 1024} GiB"
    total = gpu.count * gpu.milli
    return f"{gpus(total)} GPU{'s' if total > WHOLE else ''}"


def _waiting_tasks(moment: DrawableCluster, decision: Decision) -> list[Task]:
    members = moment.cluster.members(decision.gang)
    return [task for task in members if task.state is TaskState.WAITING]


def draw_notes(moment: SimulationMoment, height: int) -> list[Text]:
    """Return the latest notes, the newest first; neighbours of one job share a line."""
    palette = colours(moment.cluster.queues)
    lines = [_title("Lately", "")]
    for notes in _grouped(reversed(moment.notes)):
        if len(lines) >= height:
            break
        first = notes[0]
        line = Text().append(f"{clock(first.at)[4:]} ", QUIET).append(f"{MARKS[first.what]} ", INK)
        gangs = {note.gang for note in notes}
        name = first.gang if len(gangs) == 1 else f"{first.job} ({len(gangs)} gangs)"
        line.append(f"{name} ", palette.get(first.queue, INK)).append(_note_text(notes), QUIET)
        lines.append(line)
    return lines


MARKS = {
    What.PLACED: "▲",
    What.GREW: "▲",
    What.FINISHED: "●",
    What.DELETED: "○",
    What.OVERRAN: "○",
    What.LOST: "▼",
    What.ASKED: "▽",
    What.EVICTED: "▼",
    What.MOVED: "▶",
}

RULES = {
    EvictionRule.GUARANTEE: "reclaimed for {gainer}, which is within its guarantee",
    EvictionRule.SHARE: "reclaimed for {gainer}, whose queue has less of its share",
    EvictionRule.PRIORITY: "preempted by {gainer}, which has a higher priority",
    EvictionRule.ORDER: "preempted by {gainer}, which comes far before it in the queue",
    EvictionRule.CONSOLIDATE: "so that {gainer} fits",
    EvictionRule.STALE: "because it was below its minimum for too long",
    EvictionRule.LEAVING: "to start elsewhere: one of its nodes is going away",
    EvictionRule.LOST: "to start elsewhere: one of its nodes is lost",
    EvictionRule.OVERRUN: "because it reached its maximum run time",
}
"""The cause of an eviction by its rule, as a clause; `gainer` is the preemptor."""


def _note_text(notes: Sequence[RunNote]) -> str:
    """Return the text of notes of one kind, without the name of the gang."""
    tasks = counted(sum(note.tasks for note in notes), "task")
    nodes = _nodes(sorted({node for note in notes for node in note.nodes}))
    match notes[0].what:
        case What.PLACED:
            return f"placed: {tasks} on {nodes}"
        case What.GREW:
            return f"grew by {tasks} on {nodes}"
        case What.LOST:
            return f"lost {tasks} on {nodes}; they wait again"
        case What.ASKED:
            return f"asked to save: {tasks}, {_cause(notes)}"
        case What.EVICTED:
            return f"evicted: {tasks} on {nodes}, {_cause(notes)}"
        case What.MOVED:
            return f"moves {tasks} to {nodes}, {_cause(notes)}"
        case what:
            return str(what)


def _cause(notes: Sequence[RunNote]) -> str:
    """Return the cause of evictions; several preemptors are counted."""
    preemptors = list(dict.fromkeys(note.gainer for note in notes))
    name = display_name(preemptors[0]) if len(preemptors) == 1 else f"{len(preemptors)} gangs"
    return RULES[notes[0].rule or EvictionRule.STALE].format(gainer=name)


def _nodes(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _grouped(notes: Iterable[RunNote]) -> list[list[RunNote]]:
    """Return the notes in groups of one kind about one job within five minutes."""
    groups: list[list[RunNote]] = []
    for note in notes:
        last = groups[-1][0] if groups else None
        if last and _kind(last) == _kind(note) and last.at - note.at < 300:
            groups[-1].append(note)
        else:
            groups.append([note])
    return groups


def _kind(note: RunNote) -> tuple[What, JobId, EvictionRule | None]:
    return note.what, note.job, note.rule


def _title(name: str, more: str) -> Text:
    return Text().append(name, f"bold {INK}").append(f"  {more}", QUIET)


def fitted(line: Text, width: int) -> Text:
    """Cut a line where the terminal ends, and return it."""
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
