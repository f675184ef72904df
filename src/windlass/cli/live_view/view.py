"""One frame of the live view, from one `Moment` and nothing else.

    figures                       clock, what is in use, who waits
    map            queues         a cell per GPU by rack; the tree with a bar per queue
    waiting gangs                 position, need, how long, and the plan's own reason
    latest notes                  what was placed, finished, lost, and who made room for whom

Everything is drawn as lines of a known width, so that a frame fits the terminal it is made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from windlass.cli.format import about, clock, duration, gpus
from windlass.cli.live_view.frame import Drawn
from windlass.cli.live_view.map import draw_map, map_key
from windlass.cli.live_view.palette import FAINT, INK, QUIET, colours
from windlass.cli.live_view.tree import draw_queues, queue_key
from windlass.engine.plan import Decision, Verdict
from windlass.model.actions import EvictionRule
from windlass.model.display_names import known_as
from windlass.model.gpu_resources import is_gpu, short_name
from windlass.model.gpus import WHOLE
from windlass.model.jobs import JobId, Task, TaskState
from windlass.model.resources import Request
from windlass.sim.metrics import requested
from windlass.sim.records import GangStage, RunNote, What
from windlass.sim.run import SimulationMoment

WIDE = 170
"""From here on a reason stands beside its gang, not below it."""

TALL = 30
"""From here on there is room for the keys and for gaps."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """What the terminal offers."""

    width: int = 80
    height: int = 24


def render(moment: SimulationMoment, size: TerminalSize) -> Group:
    """A frame that fits."""
    upper = [*draw_header(moment, size.width), *draw_upper(moment, size)]
    left = max(4, size.height - len(upper))
    waiting = draw_waiting(moment, size.width, left * 2 // 3)
    gap = [Text()] if size.height >= TALL else []
    notes = draw_notes(moment, left - len(waiting) - len(gap))
    lines = [*upper, *waiting, *gap, *notes]
    return Group(*(fitted(line, size.width) for line in lines[: size.height]))


def draw_header(moment: SimulationMoment, width: int) -> list[Text]:
    """The name, the clock and five figures."""
    ground, stages = moment.figures.ground, moment.figures.stages
    useful = sum(each.useful for each in moment.figures.queues.values())
    parts = [
        (gpus(ground.capacity), "GPUs"),
        (_share(ground.capacity - ground.free, ground.capacity), "in use"),
        (_share(useful, ground.capacity), "useful"),
        (f"{stages.get(GangStage.WAITING, 0):,}", "waiting"),
        (f"{stages.get(GangStage.FINISHED, 0):,}", "done"),
    ]
    line = Text().append("Windlass", f"bold {INK}").append(f"  {clock(moment.now)}", INK)
    for value, word in parts:
        line.append(f"  {value}", f"bold {INK}").append(f" {word}", QUIET)
    return [line, Text("─" * width, FAINT)]


def _share(amount: int, whole: int) -> str:
    return f"{100 * amount // whole if whole else 0} %"


def draw_upper(moment: Drawn, size: TerminalSize) -> list[Text]:
    """The map on the left and the queues on the right, or below it where there is no room."""
    paint = colours(moment.cluster.queues)
    room = max(3, size.height // 2 - 2)
    drawn = draw_map(moment, paint, size.width - 34, room)
    wide = max((line.cell_len for line in drawn), default=0) + 2
    queues = draw_queues(moment, paint, size.width - wide)
    key = map_key(), queue_key()
    if size.height >= TALL:
        return [*_beside(drawn, queues, wide), Text(), *key, Text()]
    return [*_beside(drawn, queues, wide), Text()]


def _beside(left: Sequence[Text], right: Sequence[Text], wide: int) -> list[Text]:
    lines: list[Text] = []
    for index in range(max(len(left), len(right))):
        line = left[index].copy() if index < len(left) else Text()
        line.append(" " * (wide - line.cell_len))
        lines.append(line.append_text(right[index]) if index < len(right) else line)
    return lines


def draw_waiting(moment: Drawn, width: int, room: int) -> list[Text]:
    """The line of waiting gangs; neighbours of one job share a row."""
    waiting = sorted(
        (each for each in moment.plan.decisions if each.verdict in (Verdict.WAITS, Verdict.NEVER)),
        key=lambda each: (each.verdict is Verdict.NEVER, each.position, each.gang),
    )
    more = f"{len(waiting)} gangs for {_asked_by(moment, waiting)} GPUs" if waiting else "nobody"
    lines = [_title("Waiting", more)]
    for decisions in _by_job(moment, waiting):
        rows = _waiting_rows(moment, decisions, width)
        if len(lines) + len(rows) > room:
            break
        lines += rows
    return lines


def _asked_by(moment: Drawn, decisions: Iterable[Decision]) -> str:
    cards = dict.fromkeys(gpu for node in moment.cluster.nodes.values() for gpu in node.gpus)
    tasks = (task for each in decisions for task in _waiting_of(moment, each))
    extra = moment.cluster.columns.extra_gpus.least
    asked = (task.shape.request for task in tasks)
    return about(sum(requested(each.gpu, cards) + extra(each) for each in asked) / WHOLE)


def _by_job(moment: Drawn, decisions: Iterable[Decision]) -> list[list[Decision]]:
    """Neighbours in the line that belong to one job."""
    groups: list[list[Decision]] = []
    for each in decisions:
        job = moment.cluster.gangs[each.gang].job
        if groups and moment.cluster.gangs[groups[-1][0].gang].job == job:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _waiting_rows(moment: Drawn, decisions: Sequence[Decision], width: int) -> list[Text]:
    first = decisions[0]
    gang = moment.cluster.gangs[first.gang]
    paint = colours(moment.cluster.queues)
    need = _need([task for each in decisions for task in _waiting_of(moment, each)])
    place = "  –" if first.verdict is Verdict.NEVER else f"{first.position:>3}"
    name = _short(gang.id if len(decisions) == 1 else gang.job)
    head = Text().append(place + " ", QUIET).append(f"{name:<14.14} ", INK)
    head.append(f"{gang.queue:<10.10} ", paint.get(gang.queue, INK))
    head.append(f"{need:<13.13}", INK)
    head.append(f"{duration(moment.now - gang.created_at):>9}", QUIET)
    reason = "; ".join(str(each) for each in first.reasons)
    if width >= WIDE:
        return [head.append(f"  {reason}", QUIET)]
    return [head, *(Text(f"    {line}", QUIET) for line in _wrapped(reason, width - 4))]


def _short(name: str) -> str:
    """Without the namespace and the uid that tell the gangs of a live cluster apart."""
    return known_as(name).rpartition("/")[2]


def _wrapped(sentence: str, width: int) -> list[str]:
    """At most two lines."""
    return wrap(sentence, width, max_lines=2, placeholder=" …")


def _need(tasks: Sequence[Task]) -> str:
    """What a gang waits for, such as `8 × 4 GPUs`."""
    if not tasks:
        return ""
    each = _ask(tasks[0].shape.request)
    return f"{len(tasks)} × {each}" if len(tasks) > 1 else each


def _ask(request: Request) -> str:
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


def _waiting_of(moment: Drawn, decision: Decision) -> list[Task]:
    members = moment.cluster.members(decision.gang)
    return [each for each in members if each.state is TaskState.WAITING]


def draw_notes(moment: SimulationMoment, room: int) -> list[Text]:
    """What happened last, the latest first; neighbours of one job share a line."""
    paint = colours(moment.cluster.queues)
    lines = [_title("Lately", "")]
    for notes in _together(reversed(moment.notes)):
        if len(lines) >= room:
            break
        first = notes[0]
        line = Text().append(f"{clock(first.at)[4:]} ", QUIET).append(f"{MARKS[first.what]} ", INK)
        gangs = {note.gang for note in notes}
        name = first.gang if len(gangs) == 1 else f"{first.job} ({len(gangs)} gangs)"
        line.append(f"{name} ", paint.get(first.queue, INK)).append(_sentence(notes), QUIET)
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
    EvictionRule.ORDER: "preempted by {gainer}, which comes far before it",
    EvictionRule.CONSOLIDATE: "so that {gainer} fits",
    EvictionRule.STALE: "given back: for too long below the minimum",
    EvictionRule.LEAVING: "to start elsewhere: a node of it leaves",
    EvictionRule.LOST: "to start elsewhere: a node of it is lost",
    EvictionRule.OVERRUN: "it has run for as long as it may",
}
"""For whom a gang is displaced, and by which rule."""


def _sentence(notes: Sequence[RunNote]) -> str:
    count = sum(note.tasks for note in notes)
    tasks = f"{count} task{'s' if count != 1 else ''}"
    nodes = _nodes(sorted({node for note in notes for node in note.nodes}))
    match notes[0].what:
        case What.PLACED:
            return f"placed: {tasks} on {nodes}"
        case What.GREW:
            return f"grew by {tasks} on {nodes}"
        case What.LOST:
            return f"lost {tasks} on {nodes}; they wait again"
        case What.ASKED:
            return f"asked to save: {tasks}, {_right(notes)}"
        case What.EVICTED:
            return f"evicted: {tasks} on {nodes}, {_right(notes)}"
        case What.MOVED:
            return f"moves {tasks} to {nodes}, {_right(notes)}"
        case what:
            return str(what)


def _right(notes: Sequence[RunNote]) -> str:
    """For whom, by which rule; several gangs that gain are counted."""
    gainers = list(dict.fromkeys(note.gainer for note in notes))
    gainer = known_as(gainers[0]) if len(gainers) == 1 else f"{len(gainers)} gangs"
    return RULES[notes[0].rule or EvictionRule.STALE].format(gainer=gainer)


def _nodes(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _together(notes: Iterable[RunNote]) -> list[list[RunNote]]:
    """Notes of one kind about one job within a few minutes."""
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
    """A line that is cut where the terminal ends."""
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
