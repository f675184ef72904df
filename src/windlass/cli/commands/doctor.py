"""`windlass doctor`: the problems of a cluster, and what to do about them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from windlass.cli.options import cluster_options, load_config
from windlass.model.errors import one_line

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.doctor.evidence import DoctorFinding, Evidence
    from windlass.doctor.required_rights import Account

MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
INDENT = " " * 6
HEALTHY, FAILING = 0, 1
"""The exit status."""


@click.command("doctor")
@click.option(
    "--account",
    metavar="NAMESPACE/NAME",
    help="The account whose rights are checked; by default the installed scheduler's, or yours.",
)
@click.option("--json", "json_", is_flag=True, help="Print the findings as JSON.")
@cluster_options
def command(account: str | None, json_: bool, **cluster: str | None) -> int:
    """Check a cluster: definitions, rights, queues, GPUs, and the components around them.

    It only reads. Each finding says what to do. The exit status is 1 if a check fails.
    """
    from windlass.doctor.catalog import examine
    from windlass.doctor.evidence import Severity

    evidence = asyncio.run(_collect(load_config(**cluster), _account(account)))
    findings = list(examine(evidence))
    click.echo(_as_json(findings) if json_ else "\n".join(_lines(findings)))
    is_failing = any(finding.level is Severity.FAIL for _, finding in findings)
    return FAILING if is_failing else HEALTHY


def _account(text: str | None) -> Account | None:
    """Return the account that NAMESPACE/NAME names; None if none was given."""
    from windlass.doctor.required_rights import Account

    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise click.UsageError(f'--account: expected NAMESPACE/NAME, found "{text}".')
    return Account(namespace, name)


async def _collect(config: Config, account: Account | None) -> Evidence:
    from windlass.daemon.loop import open_api
    from windlass.doctor.collect import read

    async with open_api(config) as api:
        return await read(api, config, account)


def _lines(findings: list[tuple[str, DoctorFinding]]) -> Iterator[str]:
    """Yield the findings as wrapped lines, and last the number of each level."""
    for check, finding in findings:
        mark = click.style(MARKS[finding.level], fg=COLOURS[finding.level])
        first, *more = _wrapped(one_line(f"{check}: {finding.said}"), "")
        yield f"{mark}  {first}"
        yield from (f"{INDENT}{line}" for line in more)
        if finding.do:
            yield from (f"{INDENT}{line}" for line in _wrapped(f"-> {finding.do}", "   "))
    counts = Counter(finding.level.value for _, finding in findings)
    yield ", ".join(f"{counts[level]} {level}" for level in MARKS)


def _wrapped(text: str, indent: str) -> list[str]:
    """Wrap a text without breaking names and commands, so that they can be copied."""
    width = 79 - len(INDENT)
    return wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _as_json(findings: list[tuple[str, DoctorFinding]]) -> str:
    from windlass.cli.output import as_json

    return as_json(
        [
            {
                "check": check,
                "level": finding.level,
                "said": finding.said,
                "do": finding.do or None,
            }
            for check, finding in findings
        ]
    )
