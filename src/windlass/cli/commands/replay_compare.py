"""`windlass replay --with`: recorded work simulated without and with a change of policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import format_time
from windlass.cli.output import as_json
from windlass.model.events import Event, QueueGone, QueueSeen

if TYPE_CHECKING:
    from windlass.cli.commands.replay import ReplayWindow
    from windlass.history.store import HistoryStore, Stretch
    from windlass.sim.comparison import GangSubset, Versus
    from windlass.sim.from_recording import RecordedWork, Step
    from windlass.state.snapshot import Snapshot


def compare(
    store: HistoryStore, window: ReplayWindow, change: Callable[[Snapshot], Snapshot], json_: bool
) -> None:
    """Simulate the recorded work without and with the change, and print the differences."""
    from windlass.cli.commands.plan_diff import changes_in
    from windlass.cli.commands.simulate import play
    from windlass.cli.render.comparison import comparison_lines
    from windlass.sim.comparison import versus
    from windlass.sim.from_recording import recorded

    stretches = _unbroken(window.stretches)
    start = store.start(stretches[0]).snapshot
    changed = change(start)
    work = recorded(start, _steps(store, replace(window, stretches=stretches)))
    # Recorded changes of a queue that the change replaces would undo it, so they are dropped.
    replaced = {queue.name for queue in changed.queues if queue not in start.queues}
    changed_workload = replace(
        work.workload,
        queues=changed.queues,
        settings=changed.settings,
        told=tuple(
            input_ for input_ in work.workload.told if not _is_about(input_.event, replaced)
        ),
    )
    comparison = versus(
        play(work.workload, "without the change"), play(changed_workload, "with the change")
    )
    skipped = len(window.stretches) - len(stretches)
    if json_:
        click.echo(as_json(_as_json(work, comparison, skipped)))
        return
    changes = ", ".join(changes_in(start, changed)) or "nothing"
    click.echo(f"Changes {changes}.")
    for line in (*_introduction(work, skipped), *comparison_lines(comparison)):
        click.echo(line)


def _unbroken(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the first stretch and all that follow it with nothing missing in between."""
    kept = [stretches[0]]
    for stretch in stretches[1:]:
        if stretch.goes_on_from(kept[-1]):
            kept.append(stretch)
    return kept


def _steps(store: HistoryStore, window: ReplayWindow) -> Iterator[Step]:
    """Yield the events and the actions of the recorded cycles.

    The events of the first cycle are left out: the snapshot at the start contains them.
    """
    is_first = True
    for stretch in window.stretches:
        for cycle in store.cycles(stretch):
            if cycle.at > window.until:
                return
            if not is_first:
                yield from cycle.heard
            is_first = False
            yield cycle.actions


def _is_about(event: Event, queues: set[str]) -> bool:
    """Return whether an event changes or removes one of the queues."""
    match event:
        case QueueSeen(queue):
            return queue.name in queues
        case QueueGone(name):
            return name in queues
        case _:
            return False


def _introduction(work: RecordedWork, skipped: int) -> Iterator[str]:
    """Yield the recorded time and work, and the limits of the comparison."""
    from windlass.cli.format import counted, duration

    lasts = work.workload.until or 0
    span = f"from {format_time(work.began)} to {format_time(work.began + lasts)}"
    gangs = counted(len(work.workload.arrivals), "gang")
    nodes = counted(len(work.workload.nodes), "node")
    yield f"{duration(lasts)} {span}: {gangs} on {nodes}, simulated without the change and with it."
    yield "Both are simulated, so that they can be compared; the record itself may differ."
    if work.unfinished:
        they = "its run time is" if work.unfinished == 1 else "their run times are"
        yield f"{counted(work.unfinished, 'gang')} had not ended by then: {they} not known,"
        yield f"so {'it runs' if work.unfinished == 1 else 'they run'} to the end in both."
    if work.settings_changed:
        times = counted(work.settings_changed, "time")
        yield f"The settings changed {times} meanwhile; both keep the first."
    if skipped:
        verb = "is" if skipped == 1 else "are"
        noun = "stretch" if skipped == 1 else "stretches"
        yield f"{skipped} {noun} after a gap, or of another writer, {verb} left out."


def _as_json(work: RecordedWork, comparison: Versus, skipped: int) -> dict[str, Any]:
    def rows(subsets: Sequence[GangSubset]) -> list[dict[str, Any]]:
        return [
            {
                "name": subset.name,
                "gangs": subset.gangs,
                "verdict": subset.verdict.value,
                "before": subset.before,
                "after": subset.after,
            }
            for subset in subsets
        ]

    return {
        "began": work.began,
        "seconds": work.workload.until,
        "unfinished": work.unfinished,
        "settings_changed": work.settings_changed,
        "stretches_left_out": skipped,
        "all": rows([comparison.whole])[0],
        "queues": rows(comparison.queues),
        "sizes": rows(comparison.sizes),
        "kinds": rows(comparison.kinds),
        "gangs": rows(comparison.gangs),
    }
