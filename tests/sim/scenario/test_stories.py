"""Small scenarios that once came out otherwise, each with what has to come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from windlass.sim.scenario.expectations import differences
from windlass.sim.scenario.read import read_scenario

STORIES = sorted((ROOT / "tests" / "stories").glob("*.yaml"))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_story_comes_out_as_it_says(file: Path) -> None:
    scenario = read_scenario(file.read_bytes(), file.name)
    assert scenario.expectations
    assert [f"{each.line}: {each}" for each in differences(scenario)] == []
