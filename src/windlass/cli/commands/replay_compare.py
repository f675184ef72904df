"""`windlass replay --with`: the recorded work under another policy, beside the same without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json
from windlass.cli.times import instant
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
    """Play the recorded work twice, and tell who wins and who loses."""
    from windlass.cli.commands.plan_diff import changes_in
    from windlass.cli.commands.simulate import play
    from windlass.cli.render.comparison import versus_in_words
    from windlass.sim.comparison import versus
    from windlass.sim.from_recording import recorded

    stretches = _unbroken(window.stretches)
    start = store.start(stretches[0]).snapshot
    changed = change(start)
    found = recorded(start, _steps(store, replace(window, stretches=stretches)))
    named = {each.name for each in changed.queues if each not in start.queues}
    other = replace(
        found.workload,
        queues=changed.queues,
        settings=changed.settings,
        told=tuple(each for each in found.workload.told if not _is_about(each.event, named)),
    )
    compared = versus(play(found.workload, "without the change"), play(other, "with the change"))
    skipped = len(window.stretches) - len(stretches)
    if json_:
        click.echo(as_json(_as_json(found, compared, skipped)))
        return
    told = ", ".join(changes_in(start, changed)) or "nothing"
    for line in (f"Changes {told}.", *_introduced(found, skipped), *versus_in_words(compared)):
        click.echo(line)


def _unbroken(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The first stretch and all that follow it with nothing missing in between."""
    kept = [stretches[0]]
    for each in stretches[1:]:
        if each.goes_on_from(kept[-1]):
            kept.append(each)
    return kept


def _steps(store: HistoryStore, window: ReplayWindow) -> Iterator[Step]:
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
    match event:
        case QueueSeen(queue):
            return queue.name in queues
        case QueueGone(name):
            return name in queues
        case _:
            return False


def _introduced(found: RecordedWork, skipped: int) -> Iterator[str]:
    from windlass.cli.format import duration

    work, lasts = found.workload, found.workload.until or 0
    span = f"from {instant(found.began)} to {instant(found.began + lasts)}"
    yield (
        f"{duration(lasts)} {span}: {len(work.arrivals):,} gangs on "
        f"{len(work.nodes)} nodes, played without the change and with it"
    )
    yield "Both are played anew, so that they can be compared; the record itself may differ."
    if found.unfinished:
        yield f"{found.unfinished:,} gangs had not ended by then: how long they run is not known,"
        yield "so they run to the end in both."
    if found.settings_changed:
        yield f"The settings changed {found.settings_changed} times meanwhile; both keep the first."
    if skipped:
        yield f"{skipped} stretches after a gap, or of another writer, are left out."


def _as_json(found: RecordedWork, compared: Versus, skipped: int) -> dict[str, Any]:
    def rows(parts: Sequence[GangSubset]) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name,
                "gangs": each.gangs,
                "verdict": each.verdict.value,
                "before": each.before,
                "after": each.after,
            }
            for each in parts
        ]

    return {
        "began": found.began,
        "seconds": found.workload.until,
        "unfinished": found.unfinished,
        "settings_changed": found.settings_changed,
        "stretches_left_out": skipped,
        "all": rows([compared.whole])[0],
        "queues": rows(compared.queues),
        "sizes": rows(compared.sizes),
        "kinds": rows(compared.kinds),
        "gangs": rows(compared.gangs),
    }
