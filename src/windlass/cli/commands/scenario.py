"""`windlass scenario`: play scenario files and compare them with what they expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json, write_file

if TYPE_CHECKING:
    from windlass.sim.scenario.expectations import Difference
    from windlass.sim.scenario.read import Scenario


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from windlass.sim.scenario.read import schema

        click.echo(as_json(schema()))
        ctx.exit()


@click.command("scenario")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON schema of scenario files, for editors.",
)
@click.option("--snapshot-at", metavar="TIME", help="Write the cluster at this time, like 20m.")
@click.option("--out", metavar="FILE", help="Where to write the snapshot; stdout if not given.")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    json_: bool,
    snapshot_at: str | None,
    out: str | None,
) -> None:
    """Play scenarios to rest and compare them with what they expect.

    Exits with 1 if anything differs. All files are read and checked before the first is played.

    With --snapshot-at, one scenario is played to a time and the cluster is written as the engine
    saw it then, before it decided: `windlass plan` shows that decision.
    """
    from windlass.cli.files import read_scenario_file

    if out is not None and snapshot_at is None:
        raise click.UsageError("--out goes with --snapshot-at; give the time of the snapshot")
    scenarios = [read_scenario_file(file) for file in files]
    if snapshot_at is not None:
        _write_snapshot(scenarios, snapshot_at, out)
        return
    failed = _play(scenarios, json_)
    ctx.exit(1 if failed else 0)


def _play(scenarios: list[Scenario], json_: bool) -> int:
    """Play all; the number of scenarios that differ."""
    from windlass.sim.scenario.expectations import differences

    results: list[dict[str, Any]] = []
    for scenario in scenarios:
        found = differences(scenario)
        results.append(_result(scenario, found))
        if not json_:
            for each in found:
                click.echo(f"{scenario.file}:{each.line}: {each}")
    failed = sum(not result["passed"] for result in results)
    if json_:
        passed = len(results) - failed
        click.echo(as_json({"scenarios": results, "passed": passed, "failed": failed}))
    else:
        click.echo(f"{len(results) - failed} passed, {failed} failed")
    return failed


def _result(scenario: Scenario, found: list[Difference]) -> dict[str, Any]:
    return {
        "file": scenario.file,
        "name": scenario.name,
        "expectations": len(scenario.expectations),
        "passed": not found,
        "differences": [
            {
                "line": each.line,
                "subject": each.subject,
                "expected": each.expected,
                "found": each.found,
            }
            for each in found
        ],
    }


def _write_snapshot(scenarios: list[Scenario], time: str, out: str | None) -> None:
    from windlass.cli.times import time_option
    from windlass.sim.scenario.expectations import snapshot_at
    from windlass.state.snapshot import to_json

    at = time_option(time, "--snapshot-at")
    if len(scenarios) != 1:
        raise click.UsageError("--snapshot-at takes one scenario; give one file")
    data = to_json(snapshot_at(scenarios[0], at))
    if out is None:
        click.echo(data, nl=False)
    else:
        write_file(out, data)
