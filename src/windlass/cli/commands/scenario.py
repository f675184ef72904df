"""`windlass scenario`: simulates scenario files and checks their expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.output import as_json, write_file

if TYPE_CHECKING:
    from windlass.sim.scenario import Difference, Scenario


def _print_schema(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print the JSON schema and exit, if the option is given."""
    if is_given:
        from windlass.sim.scenario import scenario_schema

        click.echo(as_json(scenario_schema()))
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
@click.option(
    "--snapshot-at", metavar="TIME", help="Write a snapshot of the cluster at this time, like 20m."
)
@click.option("--out", metavar="FILE", help="The file for the snapshot; by default stdout.")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    json_: bool,
    snapshot_at: str | None,
    out: str | None,
) -> None:
    """Simulate scenarios to rest and check their expectations.

    The exit status is 1 if an expectation is not met. All files are read and checked before the
    first is simulated.

    With --snapshot-at, one scenario is simulated to a time, and the cluster is written as it is
    before the engine decides: `windlass plan` shows that decision.
    """
    from windlass.cli.files import read_scenario_file

    if out is not None and snapshot_at is None:
        raise click.UsageError("--out needs --snapshot-at; give the time of the snapshot.")
    scenarios = [read_scenario_file(file) for file in files]
    if snapshot_at is not None:
        _write_snapshot(scenarios, snapshot_at, out)
        return
    failed = _check(scenarios, json_)
    ctx.exit(1 if failed else 0)


def _check(scenarios: list[Scenario], json_: bool) -> int:
    """Simulate all scenarios, print the results, and return how many of them fail."""
    from windlass.sim.scenario import differences

    results: list[dict[str, Any]] = []
    for scenario in scenarios:
        unmet = list(differences(scenario))
        results.append(_result(scenario, unmet))
        if not json_:
            for difference in unmet:
                click.echo(f"{scenario.file}:{difference.line}: {difference}")
    failed = sum(not result["passed"] for result in results)
    if json_:
        passed = len(results) - failed
        click.echo(as_json({"scenarios": results, "passed": passed, "failed": failed}))
    else:
        click.echo(f"{len(results) - failed} passed, {failed} failed")
    return failed


def _result(scenario: Scenario, unmet: list[Difference]) -> dict[str, Any]:
    return {
        "file": scenario.file,
        "name": scenario.name,
        "expectations": len(scenario.expectations),
        "passed": not unmet,
        "differences": [
            {
                "line": difference.line,
                "subject": difference.subject,
                "expected": difference.expected,
                "found": difference.found,
            }
            for difference in unmet
        ],
    }


def _write_snapshot(scenarios: list[Scenario], time: str, out: str | None) -> None:
    """Simulate one scenario to a time and write the snapshot to a file or stdout."""
    from windlass.cli.options import parse_time
    from windlass.sim.scenario import snapshot_at
    from windlass.state.snapshot import to_json

    at = parse_time(time, "--snapshot-at")
    if len(scenarios) != 1:
        raise click.UsageError("--snapshot-at takes one scenario; give one file.")
    data = to_json(snapshot_at(scenarios[0], at))
    if out is None:
        click.echo(data, nl=False)
    else:
        write_file(out, data)
