"""`windlass replay`: recorded cycles decided again, as they were or under another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import counted
from windlass.cli.options import format_time, is_scenario_time, parse_time
from windlass.cli.output import as_json

if TYPE_CHECKING:
    from windlass.history.store import HistoryStore, Stretch
    from windlass.state.snapshot import Snapshot

VARIABLE = "WINDLASS_HISTORY_URL"


@click.command("replay")
@click.argument("record", envvar=VARIABLE)
@click.option(
    "--from", "since", metavar="TIME", help="Begin with the stretch that contains this time."
)
@click.option("--to", "until", metavar="TIME", help="Stop at this time.")
@click.option(
    "--with", "change", metavar="FILE", help="Simulate the work under this change, and compare."
)
@click.option("--policy", metavar="FILE", help="Like --with, for manifests of a Policy and Queues.")
@click.option("--list", "list_", is_flag=True, help="List the recorded stretches, and stop.")
@click.option("--json", "json_", is_flag=True, help="Print the outcome as JSON.")
def command(
    *,
    record: str,
    since: str | None,
    until: str | None,
    change: str | None,
    policy: str | None,
    list_: bool,
    json_: bool,
) -> None:
    """Decide recorded cycles again, or simulate recorded work under a change.

    RECORD is a file, or the URL of a database; by default $WINDLASS_HISTORY_URL. TIME is written as
    --list prints it: like 90m, or like 2026-11-16T12:00:00Z for the record of a real cluster (where
    90m counts from the beginning of the record).

    Without --with, every recorded cycle is decided again. All plans must be exactly the same; if
    one is not, the exit status is 1. With --with, the recorded work is simulated under a change of
    queues and settings, in the format of scenario files (see `windlass plan --with`), and compared
    with the same work without the change.
    """
    from windlass.history.store import HistoryStore

    if change and policy:
        raise click.UsageError("Give --with or --policy, not both.")
    if list_ and (change or policy):
        raise click.UsageError("--list only lists; leave out --with and --policy, or --list.")
    store = HistoryStore(record, new=False)
    if not store.demand():
        HistoryStore(record).prepare()
    window = _window(store, since, until)
    if list_:
        click.echo(as_json(window.stretches) if json_ else _stretch_table(window.stretches))
        return
    if change is None and policy is None:
        _decide_again(store, window, json_)
        return
    from windlass.cli.commands.replay_compare import compare

    compare(store, window, lambda start: _changed(start, change, policy), json_)


def _changed(start: Snapshot, change: str | None, policy: str | None) -> Snapshot:
    """Return the cluster at the start of the record with the change applied."""
    if change is not None:
        from windlass.cli.commands.plan_diff import read_change_file

        return read_change_file(change, start)
    from windlass.cli.policy_manifests import read_manifests_file

    return read_manifests_file(policy or "", start)


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """The part of a record that is replayed."""

    stretches: Sequence[Stretch]
    until: int
    """The time of the last cycle that is replayed."""


def _window(store: HistoryStore, since: str | None, until: str | None) -> ReplayWindow:
    """Return the stretches between two times; refuse times at which nothing is recorded."""
    from windlass.history.location import HistoryError

    stretches = store.stretches()
    if not stretches:
        raise HistoryError(f"{store.where}: nothing is recorded there yet")
    first, last = stretches[0].began, max(stretch.until for stretch in stretches)
    begin = _parse_moment(since, "--from", first) if since else first
    end = _parse_moment(until, "--to", first) if until else last
    if since and until and begin > end:
        raise click.UsageError(
            f"--from is {format_time(begin)}, after --to, which is {format_time(end)}."
        )
    inside = [stretch for stretch in stretches if stretch.until >= begin and stretch.began <= end]
    if not inside:
        span = f"{format_time(first)} to {format_time(last)}"
        raise HistoryError(f"{store.where}: nothing is recorded then; it reaches from {span}")
    return ReplayWindow(inside, end)


def _parse_moment(text: str, option: str, first: int) -> int:
    """Return a time that is written as a date, or relative to the beginning of the record."""
    from windlass.model.units import parse_timestamp_or_none

    moment = parse_timestamp_or_none(text)
    if moment is not None:
        return moment
    # The times of a simulation count from its own start, and --list prints them so.
    return parse_time(text, option) + (0 if is_scenario_time(first) else first)


def _stretch_table(stretches: Sequence[Stretch]) -> str:
    from windlass.cli.output import table

    head = ("from", "to", "cycles", "KiB", "lost before", "writer")
    rows = [
        (
            format_time(stretch.began),
            format_time(stretch.until),
            f"{stretch.cycles:,}",
            f"{stretch.bytes / 1024:,.0f}",
            f"{stretch.lost:,}" if stretch.lost else "–",
            stretch.writer,
        )
        for stretch in stretches
    ]
    return table(head, rows, left=2)


# -- decided again


def _decide_again(store: HistoryStore, window: ReplayWindow, json_: bool) -> None:
    """Decide the cycles of a window again and print the outcome; exit with 1 if a plan differs."""
    from windlass.history.replay import replay_stretch

    cycles = same = end = 0
    first: dict[str, Any] | None = None
    for stretch in window.stretches:
        for replayed in replay_stretch(store.start(stretch), store.cycles(stretch)):
            cycle = replayed.cycle
            if cycle.at > window.until:
                break
            cycles, end = cycles + 1, cycle.at
            same += replayed.is_same
            if not replayed.is_same and first is None:
                first = {
                    "cycle": cycle.number,
                    "at": cycle.at,
                    "actions_are_the_same": replayed.acts_the_same,
                    "release": stretch.release,
                }
    outcome = {"cycles": cycles, "same": same, "first_difference": first}
    if json_:
        click.echo(as_json(outcome))
    else:
        span = f"{format_time(window.stretches[0].began)} to {format_time(end)}"
        lost = sum(stretch.lost for stretch in window.stretches)
        if lost:
            verb = "is" if lost == 1 else "are"
            missing = f"{counted(lost, 'cycle')} {verb} missing"
            click.echo(f"{missing}: the recorder could not write fast enough.")
        click.echo("\n".join(_outcome_lines(span, cycles, same, first)))
    if first is not None:
        raise click.exceptions.Exit(1)


def _outcome_lines(
    span: str, cycles: int, same: int, first: dict[str, Any] | None
) -> Iterator[str]:
    """Yield whether all plans are the same, and the first cycle that differs."""
    from windlass import __version__

    if first is None:
        yield f"{counted(cycles, 'cycle')} from {span}: every plan is the same as recorded."
        return
    different = f"{cycles - same:,} of {counted(cycles, 'cycle')} from {span}"
    verb = "has" if cycles - same == 1 else "have"
    yield f"{different} {verb} another plan than recorded."
    what = "the reasons differ" if first["actions_are_the_same"] else "the actions differ"
    yield f"The first is cycle {first['cycle']} at {format_time(first['at'])}: {what}."
    if first["release"] != __version__:
        yield f"It was recorded by Windlass {first['release']}; this is {__version__}."
