"""Every example is played, keeps its promises, and is valid by the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.checkout import ROOT
from windlass.sim.scenario.expectations import differences
from windlass.sim.scenario.read import Scenario, read_scenario
from windlass.sim.scenario.yaml_lines import read_yaml

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SCHEMA = ROOT / "docs" / "reference" / "scenario.schema.json"

each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def read(file: Path) -> Scenario:
    return read_scenario(file.read_bytes(), f"examples/{file.name}")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 12


@each_example
def test_an_example_comes_out_as_it_says(file: Path) -> None:
    assert [f"{each.line}: {each}" for each in differences(read(file))] == []


@each_example
def test_an_example_teaches_and_expects_something(file: Path) -> None:
    scenario = read(file)
    assert len(scenario.about.split()) >= 15
    assert len(scenario.expectations) >= 3


@each_example
def test_an_example_is_valid_by_the_schema(file: Path) -> None:
    schema: Any = json.loads(SCHEMA.read_text())
    value: Any = read_yaml(file.read_bytes(), file.name).value
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(value)) == []


@each_example
def test_an_example_fits_a_page(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 100
