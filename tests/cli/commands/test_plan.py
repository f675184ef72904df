"""`windlass plan`: evictions before they happen, and the difference that a change would make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from windlass.cli import main
from windlass.model.settings import Settings
from windlass.sim.scenario.schema import SettingsWords

EXAMPLES = ROOT / "examples"

BORROWED = """
name: vision has all eight GPUs, four of them borrowed
nodes: [{name: node, gpus: {model: H100-80GB, count: 8}}]
queues:
  - {name: vision, guarantee: {gpu: 4}}
  - {name: robotics, guarantee: {gpu: 4}}
jobs:
  - {name: sweep, queue: vision, count: 8, gpus: 1, runs: 3h, saves_every: 20m}
  - {name: arm, queue: robotics, at: 1h10m, tasks: 2, gpus: 1, runs: 1h}
  - {name: hand, queue: robotics, at: 1h10m, tasks: 5, gpus: 1, runs: 1h}
"""
SCATTERED = """
name: eight GPUs are free, four on each node
nodes: [{name: node, count: 2, gpus: {model: H100-80GB, count: 8}}]
queues: [{name: q}]
jobs:
  - {name: left, queue: q, gpus: 4, runs: 4h, saves_every: 10m}
  - {name: brief, queue: q, gpus: 4, runs: 30m}
  - {name: right, queue: q, at: 1m, gpus: 4, runs: 6h}
  - {name: large, queue: q, at: 1h, gpus: 8, runs: 1h}
"""

SAVES_FIRST = """
name: training can be asked to save
nodes: [{name: node, gpus: {model: H100-80GB, count: 8}}]
queues: [{name: q}]
jobs:
  - {name: training, queue: q, gpus: 8, runs: 3h, saves_within: 2m}
  - {name: urgent, queue: q, at: 1h, gpus: 8, runs: 1h, priority: 100}
"""

GROWS = """
name: narrow would grow into what wide has grown by
nodes: [{name: node, gpus: {model: H100-80GB, count: 8}}]
queues: [{name: a, limit: {gpu: 1}}, {name: b}]
jobs:
  - {name: wide, queue: b, tasks: 7, minimum: 1, gpus: 1, runs: 5h}
  - {name: narrow, queue: a, at: 1m, tasks: 8, minimum: 1, gpus: 1, runs: 5h}
"""


class Folder:
    """Runs commands on files in a folder of the test."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        self._path, self._capture = path, capture

    def write(self, name: str, text: str) -> str:
        file = self._path / name
        file.write_text(text)
        return str(file)

    def snapshot(self, scenario: str, at: str) -> str:
        file = str(self._path / "now.json")
        played = self.write("scenario.yaml", scenario)
        assert self.run("scenario", played, "--snapshot-at", at, "--out", file)[0] == 0
        return file

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        out, err = self._capture.readouterr()
        return int(left.value.code or 0), out, err

    def output(self, *arguments: str) -> str:
        """Return the output as one line, because sentences may be wrapped anywhere."""
        status, out, err = self.run(*arguments)
        assert (status, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80
        return " ".join(out.split())

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json")[1])


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


# -- the plan itself


def test_a_plan_shows_victim_preemptor_rule_and_cost_of_an_eviction(folder: Folder):
    output = folder.output("plan", folder.snapshot(BORROWED, "1h10m"))
    assert (
        "Makes room now sweep-0 (queue vision): 1 task on node, reclaimed for arm, which is within "
        "its guarantee; 11 GPU-minutes lost."
    ) in output
    assert "Holds arm (queue robotics): 2 places on node, for it alone" in output


def test_a_plan_shows_the_new_nodes_of_moved_tasks(folder: Folder):
    output = folder.output("plan", folder.snapshot(SCATTERED, "1h"))
    assert "left (queue q): 1 task from node-0 to node-1, so that large fits" in output


def test_a_plan_shows_checkpoint_requests_and_their_deadline(folder: Folder):
    output = folder.output("plan", folder.snapshot(SAVES_FIRST, "1h"))
    assert "at most 24 GPU-minutes lost; it saves first, within 2 min." in output


def test_evictions_are_printed_as_json(folder: Folder):
    evictions = folder.json("plan", folder.snapshot(BORROWED, "1h10m"))["evictions"]
    assert [row["gang"] for row in evictions] == ["sweep-0", "sweep-1"]
    assert evictions[0] == {
        "gang": "sweep-0",
        "queue": "vision",
        "rule": "guarantee",
        "gainer": "arm",
        "tasks": [{"task": "sweep-0-0", "node": "node", "moves_to": ""}],
        "stops": True,
        "saves_within_seconds": None,
        "gpu_seconds_lost": 660.0,  # ten minutes since the last checkpoint, and one to restart
    }


def test_a_gang_that_keeps_its_minimum_runs_on(folder: Folder):
    elastic = BORROWED.replace("count: 8, gpus: 1,", "tasks: 8, minimum: 1, gpus: 1,")
    output = folder.output("plan", folder.snapshot(elastic, "1h10m"))
    assert "sweep (queue vision): 2 tasks on node, reclaimed for arm" in output
    assert "2 GPU-minutes lost; it runs on with the others." in output  # two tasks restart


def test_a_plan_without_evictions_has_no_list_of_them(folder: Folder):
    output = folder.output("plan", folder.snapshot(BORROWED, "1h"))
    assert "Makes room" not in output
    assert "Holds" not in output


# -- the preview of a change


def test_the_preview_of_a_guarantee_shows_evictions_and_starts(folder: Folder):
    change = "queues: [{name: vision, guarantee: {gpu: 1}}, {name: robotics, guarantee: {gpu: 7}}]"
    file = folder.write("x.yaml", change)
    output = folder.output("plan", folder.snapshot(BORROWED, "1h10m"), "--with", file)
    assert output.startswith(
        "Changes queue vision (guarantee), queue robotics (guarantee) Would be evicted sweep-"
    )
    assert output.count("reclaimed for hand, which is within its guarantee") == 5
    assert "Would start hand (queue robotics): 5 tasks on node" in output
    assert "vision 4 → 1 4 → 1 6 → 1 none" in output


def test_the_preview_shows_only_the_difference(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h10m")
    change = folder.write("x.yaml", "settings: {dwell: 5m}")
    result = folder.json("plan", snapshot, "--with", change)
    assert result["changed"] == ["setting dwell"]
    assert [row["gang"] for row in result["before"]["started"]] == ["arm"]
    assert len(result["before"]["evicted"]) == len(result["after"]["evicted"]) == 2
    assert result["evicted"] == result["spared"] == result["started"] == result["not_started"] == []


def test_a_change_can_prevent_evictions_and_starts(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h10m")
    result = folder.json(
        "plan", snapshot, "--with", folder.write("x", "settings: {displacing: []}")
    )
    assert [row["gang"] for row in result["spared"]] == ["sweep-0", "sweep-1"]
    assert [row["gang"] for row in result["not_started"]] == ["arm"]


def test_the_preview_shows_changed_reasons_of_waiting_gangs(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h10m")
    limit = "queues: [{name: robotics, guarantee: {gpu: 4}, limit: {gpu: 4}}]"
    change = folder.write("x.yaml", limit)
    output = folder.output("plan", snapshot, "--with", change)
    assert "Would wait for another reason hand (queue robotics) now: it needs room for 5" in output
    assert "then: it needs 5 GPUs and queue robotics may never have more than 4" in output
    (reason,) = folder.json("plan", snapshot, "--with", change)["reasons"]
    assert (reason["gang"], reason["after"]["verdict"]) == ("hand", "Never")


def test_the_preview_carries_out_plans_until_nothing_follows(folder: Folder):
    result = folder.json(
        "plan", folder.snapshot(SCATTERED, "1h"), "--with", folder.write("x", "queues: [{name: q}]")
    )
    assert result["changed"] == []
    assert result["before"] == result["after"]
    assert result["after"]["at_rest"]
    assert [row["gang"] for row in result["after"]["started"]] == ["large"]
    assert [row["tasks"][0]["moves_to"] for row in result["after"]["evicted"]] == ["node-1"]


def test_evictions_of_one_gang_in_several_plans_are_one_row(folder: Folder):
    now = folder.snapshot(GROWS, "20m")
    change = folder.write("change.yaml", "queues: [{name: a, guarantee: {gpu: 4}, limit: {}}]")
    rows = folder.json("plan", now, "--with", change)["evicted"]
    assert [(row["gang"], row["rule"], len(row["tasks"])) for row in rows] == [
        ("wide", "guarantee", 3),
        ("wide", "share", 3),
    ]


def test_a_failed_search_for_victims_ends_the_dry_run(folder: Folder):
    """Both queues have their share, so no gang may be evicted for the waiting ones."""
    snapshot = folder.snapshot((EXAMPLES / "20-reclaim-a-share.yaml").read_text(), "20m")
    result = folder.json("plan", snapshot, "--with", folder.write("x", "settings: {min_run: 1m}"))
    for side in (result["before"], result["after"]):
        assert (side["at_rest"], side["cycles"], side["evicted"]) == (True, 1, [])


def test_a_new_queue_is_added(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h")
    change = folder.write("x.yaml", "queues: [{name: audio, guarantee: {gpu: 1}}]")
    result = folder.json("plan", snapshot, "--with", change)
    assert result["changed"] == ["queue audio (new)"]
    assert {row["queue"] for row in result["after"]["queues"]} == {"audio", "robotics", "vision"}


def test_a_preview_does_not_change_the_snapshot(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h10m")
    before = Path(snapshot).read_bytes()
    folder.run("plan", snapshot, "--with", folder.write("x", "settings: {displacing: []}"))
    assert Path(snapshot).read_bytes() == before


def test_every_setting_can_be_changed():
    names = {name.removesuffix("_s") for name in Settings.__dataclass_fields__}
    assert names == set(SettingsWords.model_fields)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ": it is empty"),
        ("[]", ":1: it changes nothing; give queues, settings or both"),
        ("{}", ":1: it changes nothing; give queues, settings or both"),
        ("]", ":1: this is not YAML"),
        ("settings: {}\njobs: []", ':2: "jobs" cannot be changed; give queues, settings or both'),
        ("queues: [{name: vision, wait: 1}]", ':1: queue "vision": wait: this word is not known'),
        ("settings: {dwel: 5m}", ":1: settings: dwel: this word is not known here; did you mean"),
        ("settings: {dwell: 5}", ":1: settings: dwell: 5 is not understood"),
        ("settings: {half_life: 0}", ":1: the setting half_life_s is 0"),
        ("queues:\n - {name: a}\n - {name: a}", ':3: queue "a" occurs twice'),
        ("queues:\n - {name: a, parent: visio}", ':2: queue "a": its parent "visio" does not'),
        ("queues: [{name: a, parent: a}]", ':1: queue "a": it is above itself'),
        (
            "queues: [{name: vision, guarantee: {gpu: 4}, limit: {gpu: 2}}]",
            ':1: queue "vision": guarantee 4 GPUs is above its limit of 2 GPUs',
        ),
    ],
)
def test_an_invalid_change_gives_one_sentence(folder: Folder, text: str, sentence: str):
    file = folder.write("x.yaml", text)
    status, out, err = folder.run("plan", folder.snapshot(BORROWED, "0"), "--with", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"{file}{sentence}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("file", ["missing.yaml", ".", "a\0b"])
def test_an_unreadable_change_file_gives_one_sentence(folder: Folder, file: str):
    status, out, err = folder.run("plan", folder.snapshot(BORROWED, "0"), "--with", file)
    assert (status, out) == (2, "")
    assert "it cannot be read" in err
    assert len(err.splitlines()) == 1


def test_only_one_file_can_be_stdin(folder: Folder):
    status, _, err = folder.run("plan", "-", "--with", "-")
    assert status == 2
    assert "Only one of SNAPSHOT and --with can be stdin" in err


def test_jobs_whose_queue_gets_children_wait_for_a_queue(folder: Folder):
    snapshot = folder.snapshot(BORROWED, "1h10m")
    change = "queues: [{name: robotics, guarantee: {gpu: 4}}, {name: lab, parent: robotics}]"
    result = folder.json("plan", snapshot, "--with", folder.write("x.yaml", change))
    waits = {row["gang"]: row["reasons"][0]["why"] for row in result["after"]["waiting"]}
    assert waits == {"arm": "UnknownQueue", "hand": "UnknownQueue"}
