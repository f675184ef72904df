"""`windlass replay`: a recorded time once more, as it was or under another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json
from windlass.cli.times import instant

if TYPE_CHECKING:
    from windlass.history.store import HistoryStore, Stretch
    from windlass.state.snapshot import Snapshot

VARIABLE = "WINDLASS_HISTORY_URL"


@click.command("replay")
@click.argument("record", envvar=VARIABLE)
@click.option("--from", "since", metavar="TIME", help="From the stretch in which this time lies.")
@click.option("--to", "until", metavar="TIME", help="Up to this time.")
@click.option("--with", "change", metavar="FILE", help="Play it under this change, and compare.")
@click.option("--policy", metavar="FILE", help="The same with a Policy and Queues as manifests.")
@click.option("--list", "list_", is_flag=True, help="List what is recorded, and stop.")
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
    """Play a recorded time again.

    RECORD is a file, or the URL of a database; $WINDLASS_HISTORY_URL, if it is not given. TIME is
    written as --list prints it: like 90m, or like 2026-11-16T12:00:00Z where a real cluster was
    recorded (there 90m is counted from the beginning of the record).

    As it is, every recorded cycle is decided again, and the plans must be the same to the letter;
    else the status is 1. With --with, the work is played forward under a change of queues and
    settings, in the words of scenario files (see `windlass plan --with`), and compared with the
    same work without the change: who wins, who loses.
    """
    from windlass.history.store import HistoryStore

    if change and policy:
        raise click.UsageError("give --with or --policy, not both")
    if list_ and (change or policy):
        raise click.UsageError("--list plays nothing; leave out --with and --policy, or --list")
    store = HistoryStore(record, new=False)
    if not store.demand():
        HistoryStore(record).prepare()
    found = _window(store, since, until)
    if list_:
        click.echo(as_json(found.stretches) if json_ else "\n".join(_listed(found.stretches)))
        return
    if change is None and policy is None:
        _again(store, found, json_)
        return
    from windlass.cli.commands.replay_compare import compare

    compare(store, found, lambda start: _changed(start, change, policy), json_)


def _changed(start: Snapshot, change: str | None, policy: str | None) -> Snapshot:
    """The cluster at the start of the record, as the change would have it."""
    if change is not None:
        from windlass.cli.commands.plan_diff import read_change_file

        return read_change_file(change, start)
    from windlass.cli.policy_manifests import read_manifests_file

    return read_manifests_file(policy or "", start)


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """The stretches to look at, and where to stop."""

    stretches: Sequence[Stretch]
    until: int


def _window(store: HistoryStore, since: str | None, until: str | None) -> ReplayWindow:
    from windlass.history.location import HistoryError

    found = store.stretches()
    if not found:
        raise HistoryError(f"{store.where}: nothing is recorded there yet")
    first = found[0].began
    begin = _moment(since, "--from", first) if since else first
    end = _moment(until, "--to", first) if until else max(each.until for each in found)
    if since and until and begin > end:
        raise click.UsageError(f"--from is {instant(begin)}, after --to, which is {instant(end)}")
    inside = [each for each in found if each.until >= begin and each.began <= end]
    if not inside:
        kept = f"{instant(first)} to {instant(max(each.until for each in found))}"
        raise HistoryError(f"{store.where}: nothing is recorded then; it reaches from {kept}")
    return ReplayWindow(inside, end)


def _moment(text: str, option: str, first: int) -> int:
    from windlass.cli.times import is_played, time_option
    from windlass.model.units import parse_timestamp_or_none

    moment = parse_timestamp_or_none(text)
    if moment is not None:
        return moment
    # a played time has a zero of its own, by which everything in it is told
    return time_option(text, option) + (0 if is_played(first) else first)


def _listed(stretches: Sequence[Stretch]) -> Iterator[str]:
    from windlass.cli.output import table

    head = ("from", "to", "cycles", "KiB", "lost before", "writer")
    rows = [
        (
            instant(each.began),
            instant(each.until),
            f"{each.cycles:,}",
            f"{each.bytes / 1024:,.0f}",
            f"{each.lost:,}" if each.lost else "–",
            each.writer,
        )
        for each in stretches
    ]
    yield table(head, rows, left=2)


# -- as it was


def _again(store: HistoryStore, window: ReplayWindow, json_: bool) -> None:
    from windlass.history.replay import again

    cycles = same = end = 0
    first: dict[str, Any] | None = None
    for stretch in window.stretches:
        for each in again(store.start(stretch), store.cycles(stretch)):
            if each.cycle.at > window.until:
                break
            cycles, end = cycles + 1, each.cycle.at
            same += each.is_same
            if not each.is_same and first is None:
                first = {"cycle": each.cycle.number, "at": each.cycle.at}
                first |= {"actions_are_the_same": each.acts_the_same, "release": stretch.release}
    outcome = {"cycles": cycles, "same": same, "first_difference": first}
    if json_:
        click.echo(as_json(outcome))
    else:
        span = f"{instant(window.stretches[0].began)} to {instant(end)}"
        lost = sum(each.lost for each in window.stretches)
        if lost:
            click.echo(f"{lost:,} cycles are missing: they came faster than they were written.")
        click.echo("\n".join(_told_again(span, cycles, same, first)))
    if first is not None:
        raise click.exceptions.Exit(1)


def _told_again(span: str, cycles: int, same: int, first: dict[str, Any] | None) -> Iterator[str]:
    from windlass import __version__

    if first is None:
        yield f"{cycles:,} cycles from {span}: every plan is the same as it was recorded."
        return
    yield f"{cycles - same:,} of {cycles:,} cycles from {span} are decided otherwise than recorded."
    what = "the reasons differ" if first["actions_are_the_same"] else "the actions differ"
    yield f"The first is cycle {first['cycle']} at {instant(first['at'])}: {what}."
    if first["release"] != __version__:
        yield f"It was recorded by Windlass {first['release']}; this is {__version__}."
