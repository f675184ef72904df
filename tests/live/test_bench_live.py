"""What `windlass bench live` does, never how long it takes: a tiny run of everything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.live.conftest import FindParts
from windlass_lab.commands.bench_live import SCENARIOS, command
from windlass_lab.control_plane.binaries import NAMES
from windlass_lab.live_bench import run_all
from windlass_lab.live_bench.figures import drawn_together

TINY = ["--nodes", "20", "--pods", "60"]
THE_REST = "gangs,reclaim,cannot-fit,start"


def _measured(*words: str) -> str:
    done = CliRunner().invoke(command, [*TINY, *words])
    assert done.exception is None, done.output
    return done.stdout


@pytest.fixture(name="filled", scope="module")
def filled_fixture(find_parts: FindParts) -> dict[str, Any]:
    find_parts(NAMES)
    return json.loads(_measured("--only", "fill", "--json"))


def test_windlass_kube_scheduler_and_binding_alone_fill_the_same_cluster(filled: dict[str, Any]):
    named = {"windlass_pods_per_s", "kube_scheduler_pods_per_s", "bind_ceiling_per_s"}
    assert named <= set(filled)
    assert all(filled[name] > 0 for name in named)


def test_every_pod_of_the_backlog_is_bound(filled: dict[str, Any]):
    assert filled["windlass_pods_bound"] == 60


def test_what_the_scheduler_used_is_told(filled: dict[str, Any]):
    assert filled["scheduler_rss_mib"] > 0
    assert filled["scheduler_cpu_ms_per_pod"] > 0


def test_the_other_questions_are_answered_in_a_table(find_parts: FindParts):
    find_parts(NAMES)
    lines = _measured("--only", THE_REST).splitlines()
    told = ["100 gangs of 8, s", "reclaim of 1,000 pods, s", "cannot fit, ms", "first bind after"]
    assert [text for text in told if not any(line.startswith(text) for line in lines)] == []
    assert max(map(len, lines)) <= 80


def test_what_cannot_be_measured_is_named_together_with_what_can():
    done = CliRunner().invoke(command, ["--only", "fill,speed"])
    assert done.exit_code == 2
    assert '"speed" cannot be measured; choose of fill, gang' in " ".join(done.output.split())


def test_the_command_line_knows_every_scenario():
    assert tuple(run_all.SCENARIOS) == SCENARIOS


def test_ratios_are_taken_within_a_round_because_machines_have_slow_minutes():
    rounds = {"windlass_pods_per_s": [100.0, 30.0, 90.0]}
    rounds["kube_scheduler_pods_per_s"] = [50.0, 10.0, 45.0]
    found = drawn_together(rounds)
    assert found["ratio_to_kube_scheduler"] == 2.0
    assert found["windlass_pods_per_s"] == 90
