"""`windlass doctor`: what is wrong with a cluster, and what to do about it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from windlass.cli.options import reaching, settings
from windlass.model.errors import one_line

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.doctor.evidence import DoctorFinding, Evidence
    from windlass.doctor.required_rights import Account

MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
INDENT = " " * 6
SOUND, UNWELL = 0, 1


@click.command("doctor")
@click.option(
    "--account",
    metavar="NAMESPACE/NAME",
    help="Whose rights to check; else those of the installed scheduler, or your own.",
)
@click.option("--json", "json_", is_flag=True, help="Print the findings as JSON.")
@reaching
def command(account: str | None, json_: bool, **reach: str | None) -> int:
    """Check a cluster: definitions, rights, queues, GPUs, and what stands around them.

    It only reads. Each finding says what to do. Exit status 1: something fails.
    """
    from windlass.doctor.catalog import examine
    from windlass.doctor.evidence import Severity

    found = asyncio.run(_read(settings(**reach), _account(account)))
    findings = list(examine(found))
    click.echo(_as_json(findings) if json_ else "\n".join(_told(findings)))
    return UNWELL if any(each.level is Severity.FAIL for _, each in findings) else SOUND


def _account(text: str | None) -> Account | None:
    from windlass.doctor.required_rights import Account

    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise click.UsageError(f'--account: expected NAMESPACE/NAME, found "{text}"')
    return Account(namespace, name)


async def _read(config: Config, account: Account | None) -> Evidence:
    from windlass.daemon.loop.read_cluster import opened
    from windlass.doctor.collect import read

    async with opened(config) as api:
        return await read(api, config, account)


def _told(findings: list[tuple[str, DoctorFinding]]) -> Iterator[str]:
    for check, each in findings:
        mark = click.style(MARKS[each.level], fg=COLOURS[each.level])
        first, *more = _wrapped(one_line(f"{check}: {each.said}"), "")
        yield f"{mark}  {first}"
        yield from (f"{INDENT}{line}" for line in more)
        if each.do:
            yield from (f"{INDENT}{line}" for line in _wrapped(f"-> {each.do}", "   "))
    counts = Counter(each.level.value for _, each in findings)
    yield ", ".join(f"{counts[level]} {level}" for level in MARKS)


def _wrapped(text: str, then: str) -> list[str]:
    """Names and commands are not broken: they are there to be copied."""
    width = 79 - len(INDENT)
    return wrap(text, width, subsequent_indent=then, break_on_hyphens=False, break_long_words=False)


def _as_json(findings: list[tuple[str, DoctorFinding]]) -> str:
    from windlass.cli.output import as_json

    return as_json(
        [
            {"check": check, "level": each.level, "said": each.said, "do": each.do or None}
            for check, each in findings
        ]
    )
