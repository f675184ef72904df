"""The documentation is complete: reasons, settings, commands and metrics are described."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from windlass.cli import COMMANDS
from windlass.engine.suggestions.catalog import ChangeKind
from windlass.kube.writers.conditions import ConditionReason
from windlass.metrics import Metrics
from windlass.model.reasons import SENTENCES, ReasonCode
from windlass.model.settings import Settings

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TEXT = "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("why", ReasonCode, ids=str)
def test_every_reason_has_a_sentence_and_a_row_in_the_concepts(why: ReasonCode):
    assert why in SENTENCES
    assert f"| `{why.value}` |" in (ROOT / "docs/concepts.md").read_text()


@pytest.mark.parametrize("kind", ChangeKind, ids=str)
def test_every_kind_of_suggestion_has_a_row_in_the_reference_of_explain(kind: ChangeKind):
    assert f"| `{kind.value}` |" in (ROOT / "docs/reference/explain.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str):
    assert f"windlass {command}" in TEXT


@pytest.mark.parametrize("field", dataclasses.fields(Settings), ids=lambda field: field.name)
def test_every_setting_is_documented(field: dataclasses.Field[object]):
    assert f"`{field.name.removesuffix('_s')}" in TEXT


def test_every_metric_is_documented():
    page = (ROOT / "docs/reference/metrics.md").read_text()
    lines = Metrics().text().decode().splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    names = {name for name in names if not name.endswith("_created")}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("reason", ConditionReason, ids=str)
def test_every_reason_of_a_pod_condition_is_documented(reason: ConditionReason):
    assert f"| `{reason.value}` |" in (ROOT / "docs/guides/live.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_has_a_target(page: Path):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_module_named_in_the_architecture_exists():
    text = (ROOT / "docs/architecture.md").read_text()
    names = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    folders = [ROOT / "src/windlass", ROOT / "lab"]
    assert [name for name in names if not any((top / name).exists() for top in folders)] == []


def test_path_of_a_pod_names_at_most_twenty_files_once_each():
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.split("## The path of a pod")[1].split("\nThe simulator")[0]
    files = re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)
    assert 10 < len(files) <= 20
    assert len(set(files)) == len(files)
    assert [file for file in files if not (ROOT / "src/windlass" / file).exists()] == []
