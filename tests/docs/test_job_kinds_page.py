"""The page about job kinds agrees with the table of job kinds."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.checkout import ROOT
from windlass.config import read_config
from windlass.config.job_kinds import OwnKind
from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.table import KINDS, JobKind, Key

PAGE = (ROOT / "docs/reference/job-kinds.md").read_text()


def test_the_page_has_every_row_of_the_table():
    assert table() in PAGE


def test_the_page_has_every_key_of_a_configured_kind():
    assert keys() in PAGE


def test_the_example_of_the_page_is_valid(tmp_path: Path):
    example = PAGE.split("```yaml\n")[1].split("```")[0]
    assert set(yaml.safe_load(example)["kinds"][0]) < set(OwnKind.model_fields)
    file = tmp_path / "windlass.yaml"
    file.write_text(example)
    assert read_config(str(file), {}, {}).kinds[0].survives is Survives.RECREATED


def table() -> str:
    """Return the table of job kinds as Markdown."""
    head = "| kind | starts together | after an eviction | its PriorityClass | suspended by |"
    rows = [_row(key, row) for key, row in KINDS.items()]
    return "\n".join([head, "|---|---|---|---|---|", *rows]) + "\n"


def _row(key: Key, row: JobKind) -> str:
    name = f"{key.kind} ({key.group})" if key.group else key.kind
    name += f", below {' or '.join(row.above)}" if row.above else ""
    cells = [_summary(function) for function in (row.gang, row.survives, row.priority)]
    field = f"`{row.suspend}`" if row.suspend else ""
    return f"| {' | '.join([name, *cells, field])} |"


def _summary(function: object) -> str:
    """Return the first paragraph of a docstring without its full stop."""
    return " ".join((function.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


def keys() -> str:
    """Return the keys of a configured kind as Markdown."""
    rows = [
        f"| `{name}` | {' '.join((field.description or '').split())} |"
        for name, field in OwnKind.model_fields.items()
    ]
    return "\n".join(["| key | meaning |", "|---|---|", *rows]) + "\n"
