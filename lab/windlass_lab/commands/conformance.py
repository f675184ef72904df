"""`windlass conformance`: play the test cases of another scheduler on our engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass_lab.conformance.compare import ConformanceVerdict
    from windlass_lab.conformance.schema import ForeignScenario

GROUPS = {
    "full_cycle": "full cycle",
    "single_pass": "single pass",
    "sub_groups_or_topology": "sub-groups or topology",
}


@click.command("conformance")
@click.argument("file", metavar="FILE")
@click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
@click.option("--only", metavar="TEXT", help="Only cases whose id or name contains this.")
@click.pass_context
def command(ctx: click.Context, file: str, json_: bool, only: str | None) -> None:
    """Play the scenarios of another scheduler's tests and compare the outcomes.

    They are an outside opinion: a difference is no failure. Exits with 1 only if something that
    must always hold does not: gangs whole, no device allocated twice, no limit exceeded, no
    eviction without a reason, and no more evictions than a scenario allows.
    """
    from windlass_lab.conformance.schema import read

    scenarios = [each for each in read(_bytes_of(file), file) if _is_meant(each, only)]
    if not scenarios:
        sentence = (
            f'no scenario has "{only}" in its id or name; try less' if only else "it is empty"
        )
        raise InputError(file, None, sentence)
    verdicts = list(_judged(scenarios))
    if json_:
        from windlass.cli.output import as_json

        click.echo(as_json(_as_json(scenarios, verdicts)))
    else:
        click.echo(_as_text(scenarios, verdicts))
    ctx.exit(0 if all(each.invariants_hold for each in verdicts) else 1)


def _is_meant(scenario: ForeignScenario, only: str | None) -> bool:
    return only is None or only in scenario.id or only in scenario.name


def _judged(scenarios: Sequence[ForeignScenario]) -> Iterator[ConformanceVerdict]:
    from rich.console import Console
    from rich.progress import track

    from windlass_lab.conformance.compare import judge

    console = Console(stderr=True)
    watched = track(
        scenarios, "Playing", console=console, transient=True, disable=not sys.stderr.isatty()
    )
    for scenario in watched:
        yield judge(scenario)


def _group_of(scenario: ForeignScenario) -> str:
    """Return the group of a case; one that needs sub-groups or topology counts only there."""
    if {"subgroups", "topology"} & set(scenario.features):
        return "sub_groups_or_topology"
    return scenario.mode.value


def _groups(
    scenarios: Sequence[ForeignScenario], verdicts: Sequence[ConformanceVerdict]
) -> dict[str, list[ConformanceVerdict]]:
    found: dict[str, list[ConformanceVerdict]] = {name: [] for name in GROUPS}
    for scenario, verdict in zip(scenarios, verdicts, strict=True):
        found[_group_of(scenario)].append(verdict)
    return found


def _as_json(
    scenarios: Sequence[ForeignScenario], verdicts: Sequence[ConformanceVerdict]
) -> dict[str, Any]:
    return {
        "total": len(verdicts),
        "agree": sum(each.agree for each in verdicts),
        "groups": {
            name: {"total": len(some), "agree": sum(each.agree for each in some)}
            for name, some in _groups(scenarios, verdicts).items()
        },
        "cases": verdicts,
    }


def _as_text(scenarios: Sequence[ForeignScenario], verdicts: Sequence[ConformanceVerdict]) -> str:
    from windlass.cli.output import table

    head = ("", "cases", "agree", "with nodes", "invariants")
    groups = _groups(scenarios, verdicts).items()
    rows = [_row(GROUPS[name], some) for name, some in groups if some]
    lines = [table(head, [*rows, _row("all", verdicts)])]
    differing = [each for each in verdicts if each.differences]
    if differing:
        lines.append("")
    lines += [f"{each.id}: {'; '.join(each.differences)}" for each in differing]
    return "\n".join(lines)


def _row(name: str, some: Sequence[ConformanceVerdict]) -> tuple[str, ...]:
    counts = (
        len(some),
        sum(each.agree for each in some),
        sum(each.agree_with_nodes for each in some),
        sum(each.invariants_hold for each in some),
    )
    return (name, *map(str, counts))


def _bytes_of(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(file, None, f"it cannot be read ({why}); check its name") from None
