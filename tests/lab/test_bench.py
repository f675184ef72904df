"""What the benchmarks count, never how long it takes: the same work is done on every machine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from windlass.cli import windlass
from windlass_lab.commands.bench import measure_displacing

NODES = 20
GPUS = NODES * 8


@pytest.fixture(name="figures", scope="module")
def figures_fixture() -> dict[str, Any]:
    return measure_displacing(NODES)


def test_all_that_is_guaranteed_is_taken_back_job_by_job(figures: dict[str, Any]):
    case = figures["cases"]["reclaim_4000"]
    assert (case["served"], case["lost"], case["moved"]) == (GPUS, GPUS, 0)


def test_a_gang_within_its_guarantee_takes_back_its_gpus_and_no_more(figures: dict[str, Any]):
    case = figures["cases"]["reclaim_gang"]
    assert (case["served"], case["lost"], case["moved"]) == (NODES // 2, GPUS // 2, 0)


def test_gangs_get_whole_nodes_by_moves_and_nobody_is_lost(figures: dict[str, Any]):
    case = figures["cases"]["consolidate_41"]
    assert (case["served"], case["lost"], case["moved"]) == (10, 0, 10)


def test_losses_and_moves_are_summed_over_the_cases(figures: dict[str, Any]):
    assert (figures["evictions"], figures["moved"]) == (GPUS + GPUS // 2, 10)


def test_a_pod_that_fits_does_not_wait_for_a_search():
    assert measure_displacing(40)["passer_cycles"] == 1


def test_the_figures_for_programs_have_their_names():
    done = CliRunner().invoke(windlass, ["bench", "displace", "--nodes", "20", "--json"])
    named = {"reclaim_4000_s", "reclaim_gang_s", "consolidate_41_s", "cannot_fit_ms"}
    assert named | {"evictions", "moved"} <= set(json.loads(done.output))


def test_the_figures_for_people_fit_into_80_columns_and_name_their_bars():
    done = CliRunner().invoke(windlass, ["bench", "displace", "--nodes", "20"])
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [bar for bar in ("1.5 s", "0.2 s", "2 s", "1 ms") if bar not in done.output] == []
