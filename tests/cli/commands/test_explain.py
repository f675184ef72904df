"""`windlass explain` tells who had to go for whom, what is being freed, and why no more may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.given import job, node
from tests.support.checkout import ROOT
from tests.support.preemption_given import TWO, late, runs
from windlass.cli import main
from windlass.cli.render.evictions import for_whom
from windlass.engine.explain.suggest import SuggestedStart, Suggestion
from windlass.engine.explain.suggestions.catalog import ChangeKind, SuggestedChange
from windlass.model.actions import EvictionRule
from windlass.model.events import Answered
from windlass.model.jobs import GangId, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.state.snapshot import to_json

EXAMPLES = ROOT / "examples"
RECLAIM = str(EXAMPLES / "19-reclaim-a-guarantee.yaml")
SHARES = str(EXAMPLES / "20-reclaim-a-share.yaml")
PRIORITY = str(EXAMPLES / "21-preempt-by-priority.yaml")
MOVE = str(EXAMPLES / "23-consolidation.yaml")


class Explain:
    """Runs the command in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> str:
        """What is printed, as one line, for sentences that may be wrapped anywhere."""
        out = self.run("explain", *arguments)
        assert max(map(len, out.splitlines())) <= 80
        return " ".join(out.split())

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run("explain", *arguments, "--json"))["gangs"][0]

    def run(self, *arguments: str) -> str:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        out, err = self._capture.readouterr()
        assert (left.value.code or 0, err) == (0, "")
        return out

    def snapshot(self, scenario: str, at: str, folder: Path) -> str:
        file = str(folder / "now.json")
        self.run("scenario", scenario, "--snapshot-at", at, "--out", file)
        return file


@pytest.fixture(name="explain")
def explain_fixture(capsys: pytest.CaptureFixture[str]) -> Explain:
    return Explain(capsys)


# -- who had to go


def test_a_gang_on_its_way_out_is_told_for_whom_and_by_which_rule(explain: Explain):
    told = explain("sweep-0", "--scenario", RECLAIM, "--at", "1h10m5s")
    assert told.startswith("sweep-0 was displaced and waits again once its tasks are gone")
    assert "- at 1h10m: 1 task evicted, reclaimed for arm, which is within its guarantee" in told
    assert "sweep-0-0 is on its way out on node, GPU 0" in told


def test_a_gang_remembers_for_whom_it_went_while_it_waits_and_after_its_end(explain: Explain):
    for time in (["--at", "2h"], []):
        told = explain("short", "--scenario", PRIORITY, *time)
        assert "- at 1h: 1 task evicted, preempted by urgent, which has a higher" in told


def test_a_gang_that_moved_is_told_where_to(explain: Explain):
    told = explain("left", "--scenario", MOVE, "--at", "2h")
    assert told.startswith("left runs;")
    assert "- at 1h: 1 task moved to node-1, so that large fits" in told
    (loss,) = explain.json("left", "--scenario", MOVE)["displaced"]
    assert (loss["rule"], loss["gainer"], loss["moves_to"]) == ("consolidate", "large", ["node-1"])


def test_in_a_snapshot_the_coming_decision_is_told(explain: Explain, tmp_path: Path):
    now = explain.snapshot(RECLAIM, "1h10m", tmp_path)
    told = explain("sweep-0", "--snapshot", now)
    assert told.startswith("sweep-0 is displaced now; it needs 1 task")
    assert "arm, whose queue is within its guarantee while this one is above its own" in told
    assert "- sweep-0-0 is evicted now from node, GPU 0" in explain("arm", "--snapshot", now)


def test_in_a_snapshot_held_places_tell_for_whom_a_gang_leaves(explain: Explain, tmp_path: Path):
    now = explain.snapshot(RECLAIM, "1h10m5s", tmp_path)
    assert "- the places it leaves are held for arm" in explain("sweep-0", "--snapshot", now)


# -- what is being freed


def test_a_gang_with_held_places_is_told_what_leaves_them(explain: Explain):
    told = explain("arm", "--scenario", RECLAIM, "--at", "1h10m5s")
    assert "- sweep-0-0 is on its way out of node, GPU 0, for 5 s so far" in told
    freed = explain.json("arm", "--scenario", RECLAIM, "--at", "1h10m5s")["freed"]
    assert [each["task"] for each in freed] == ["sweep-0-0", "sweep-1-0"]
    assert not any(each["stuck"] for each in freed)


def test_what_is_stuck_is_called_so(explain: Explain, tmp_path: Path):
    now = Path(explain.snapshot(RECLAIM, "1h10m5s", tmp_path))
    late = json.loads(now.read_text())
    late["settings"]["stuck_after_s"] = 4
    for hold in late["holds"]:  # as if it had been made just now
        hold["starts_at"] = late["now"]
    now.write_text(json.dumps(late))
    told = explain("arm", "--snapshot", str(now))
    assert "- sweep-0-0 is on its way out of node, GPU 0, for 5 s so far; it seems to be" in told


# -- what it would take


def test_a_gang_is_told_that_its_queue_may_not_take_more(explain: Explain):
    told = explain("second-3", "--scenario", SHARES, "--at", "20m")
    assert "- it needs 2 GPUs: none is free, and others may lose none" in told
    too_much = "queue late would have 6 with a guarantee of 0 and a share of 4, too much to take"
    assert f"- queue early has 4 GPUs and loses none: {too_much} from others" in told
    assert "- queue late has 4 GPUs and loses none: nothing in it has a lower priority" in told


def test_a_gang_is_told_how_long_others_are_protected(explain: Explain):
    told = explain("second-0", "--scenario", SHARES, "--at", "6m")
    assert "queue early has 8 GPUs and loses none: it has not run for long enough" in told
    assert "the first may go in 4 min" in told


def test_a_gang_that_displaces_nobody_is_told_whom_it_spares(explain: Explain):
    told = explain("patient", "--scenario", PRIORITY, "--at", "55m")
    assert "- queue research has 16 GPUs and may lose 16, of lower priority" in told
    assert "- it says itself that nobody is to be displaced for it - else it would displace" in told


def test_what_it_would_take_is_there_for_programs(explain: Explain):
    would = explain.json("second-3", "--scenario", SHARES, "--at", "20m")["would"]
    assert (would["need_gpus"], would["free_gpus"], would["may_take_gpus"]) == (2, 0, 0)
    assert would["queue"] == {
        "queue": "late",
        "has_gpus": 4,
        "guarantee_gpus": 0,
        "share_gpus": 4,
    }
    assert {each["queue"]: each["bar"] for each in would["others"]} == {
        "early": "gainer",
        "late": "rank",
    }


def test_a_gang_that_runs_is_told_nothing_of_all_this(explain: Explain):
    story = explain.json("first-3", "--scenario", SHARES, "--at", "1m")
    assert (story["state"], story["displaced"]) == ("Running", [])
    assert not {"would", "freed"} & story.keys()


# -- one number, one name


BOTH = """
name: one starts, and so its queue is full for the other
nodes: [{name: n, cpu: 64, memory: 512Gi, gpus: {model: A100-80GB, count: 8}}]
queues: [{name: team, limit: {gpu: 4}}]
jobs: [{name: first, queue: team, gpus: 2, at: 1m}, {name: second, queue: team, gpus: 4, at: 1m}]
"""


def test_what_a_queue_has_now_and_with_what_starts_now_are_told_apart(
    explain: Explain, tmp_path: Path
):
    (tmp_path / "both.yaml").write_text(BOTH)
    now = explain.snapshot(str(tmp_path / "both.yaml"), "1m", tmp_path)
    told = explain("second", "--snapshot", now)
    assert "- queue team has 2 of at most 4 GPUs; this needs 4 more" in told
    assert "queue team has 0 GPUs now and 2 with what starts now: its guarantee is 0" in told


def test_what_a_queue_will_have_once_others_have_left_is_told_as_such(
    explain: Explain, tmp_path: Path
):
    late = "jobs:\n  - {name: late, queue: vision, at: 1h10m2s, gpus: 1}"
    (tmp_path / "late.yaml").write_text(Path(RECLAIM).read_text().replace("jobs:", late, 1))
    told = explain("late", "--scenario", str(tmp_path / "late.yaml"), "--at", "1h10m5s")
    assert "- queue vision will have 6 GPUs and loses none: nothing in it has a lower" in told
    assert "queue vision has 8 GPUs: its guarantee is 4" in told


def test_gangs_are_named_as_their_users_know_them():
    reason = Reason(ReasonCode.RESERVED, {"nodes": 1, "gang": "ml/x~0123abcd", "wait": "5 s"})
    assert "places are reserved for ml/x in 5 s" in str(reason)
    assert for_whom(EvictionRule.PRIORITY, "ml/x~0123abcd").startswith("preempted by ml/x, which")
    start = SuggestedStart(
        (GangId("ml/a~0123abcd"),), 1, 1000, at_once=False, later=(GangId("ml/b~45"),)
    )
    told = str(Suggestion(SuggestedChange(ChangeKind.HASTE, "if so", {}, ()), start))
    assert told.endswith("once 1 task of ml/a has gone; ml/b would then start later")


# -- who saves first


def test_who_is_asked_to_save_and_who_waits_for_it_are_told_how_far_it_is(
    explain: Explain, tmp_path: Path
):
    low = runs("low", 0, 1, tasks=2, saves_within_s=120)
    there = late(node("n1", gpus=2), low, job("high", 1, TWO, priority=5)).carried_out()
    there.apply(Answered(TaskId("low-0"), there.partings.now()[0].id))
    there.advance(there.now + 30)
    file = tmp_path / "now.json"
    file.write_bytes(to_json(there.snapshot()))
    asked = explain("low", "--snapshot", str(file))
    assert asked.startswith("low still runs, and is to save before it makes room; it needs 2 tasks")
    assert "asked at 16m40s to save by 18m40s at the latest" in asked
    assert "high" in asked
    assert "1 of 2 tasks have" in asked
    waits = explain("high", "--snapshot", str(file))
    assert "low is asked to save its work first and goes in 90 s at the latest" in waits
    assert "1 of 2 tasks have" in waits
