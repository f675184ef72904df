"""`windlass explain`: evictions, places that are freed, and previews of preemption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.given import job, node
from tests.support.checkout import ROOT
from tests.support.preemption_given import TWO, late, runs
from windlass.cli import main
from windlass.cli.render.evictions import eviction_cause
from windlass.engine.suggestions.catalog import ChangeKind, SuggestedChange
from windlass.engine.suggestions.suggest import SuggestedStart, Suggestion
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
        """Return the output as one line, because sentences may be wrapped anywhere."""
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


# -- evictions


def test_a_terminating_gang_shows_its_preemptor_and_the_rule(explain: Explain):
    answer = explain("sweep-0", "--scenario", RECLAIM, "--at", "1h10m5s")
    assert answer.startswith("sweep-0 was displaced and waits again once its tasks are gone")
    assert "- At 1h10m: 1 task evicted, reclaimed for arm, which is within its guarantee." in answer
    assert "sweep-0-0 is on its way out on node, GPU 0" in answer


def test_past_evictions_are_shown_while_the_gang_waits_and_after_its_end(explain: Explain):
    for time in (["--at", "2h"], []):
        answer = explain("short", "--scenario", PRIORITY, *time)
        assert "- At 1h: 1 task evicted, preempted by urgent, which has a higher" in answer


def test_a_moved_gang_shows_its_new_node(explain: Explain):
    answer = explain("left", "--scenario", MOVE, "--at", "2h")
    assert answer.startswith("left runs;")
    assert "- At 1h: 1 task moved to node-1, so that large fits." in answer
    (loss,) = explain.json("left", "--scenario", MOVE)["displaced"]
    assert (loss["rule"], loss["gainer"], loss["moves_to"]) == ("consolidate", "large", ["node-1"])


def test_in_a_snapshot_evictions_of_the_present_plan_are_shown(explain: Explain, tmp_path: Path):
    now = explain.snapshot(RECLAIM, "1h10m", tmp_path)
    answer = explain("sweep-0", "--snapshot", now)
    assert answer.startswith("sweep-0 is displaced now; it needs 1 task")
    assert "arm, whose queue is within its guarantee while this one is above its own" in answer
    assert "- sweep-0-0 is evicted now from node, GPU 0" in explain("arm", "--snapshot", now)


def test_in_a_snapshot_holds_show_the_preemptor_of_a_terminating_gang(
    explain: Explain, tmp_path: Path
):
    now = explain.snapshot(RECLAIM, "1h10m5s", tmp_path)
    assert "- The places it leaves are held for arm." in explain("sweep-0", "--snapshot", now)


# -- places that are freed


def test_a_gang_with_a_hold_shows_the_tasks_that_leave_it(explain: Explain):
    answer = explain("arm", "--scenario", RECLAIM, "--at", "1h10m5s")
    assert "- sweep-0-0 is on its way out of node, GPU 0, for 5 s so far." in answer
    freed = explain.json("arm", "--scenario", RECLAIM, "--at", "1h10m5s")["freed"]
    assert [task["task"] for task in freed] == ["sweep-0-0", "sweep-1-0"]
    assert not any(task["stuck"] for task in freed)


def test_a_stuck_task_is_marked(explain: Explain, tmp_path: Path):
    now = Path(explain.snapshot(RECLAIM, "1h10m5s", tmp_path))
    late = json.loads(now.read_text())
    late["settings"]["stuck_after_s"] = 4
    for hold in late["holds"]:  # as if it were new
        hold["starts_at"] = late["now"]
    now.write_text(json.dumps(late))
    answer = explain("arm", "--snapshot", str(now))
    assert "- sweep-0-0 is on its way out of node, GPU 0, for 5 s so far; it seems to be" in answer


# -- previews of preemption


def test_a_queue_above_its_entitlement_may_not_reclaim(explain: Explain):
    answer = explain("second-3", "--scenario", SHARES, "--at", "20m")
    assert "- It needs 2 GPUs: none is free, and others may lose none." in answer
    too_much = "queue late would have 6 with a guarantee of 0 and a share of 4, too much to take"
    assert f"- Queue early has 4 GPUs and loses none: {too_much} from others." in answer
    assert "- Queue late has 4 GPUs and loses none: nothing in it has a lower priority." in answer


def test_the_end_of_protection_of_victims_is_shown(explain: Explain):
    answer = explain("second-0", "--scenario", SHARES, "--at", "6m")
    assert "Queue early has 8 GPUs and loses none: it has not run for long enough" in answer
    assert "the first may go in 4 min" in answer


def test_a_gang_that_never_preempts_shows_its_possible_victims(explain: Explain):
    answer = explain("patient", "--scenario", PRIORITY, "--at", "55m")
    assert "- Queue research has 16 GPUs and may lose 16, of lower priority." in answer
    setting = "- Its own setting says that no gang is to be evicted for it."
    assert f"{setting} - Otherwise it would evict" in answer


def test_the_preview_of_preemption_is_printed_as_json(explain: Explain):
    would = explain.json("second-3", "--scenario", SHARES, "--at", "20m")["would"]
    assert (would["need_gpus"], would["free_gpus"], would["may_take_gpus"]) == (2, 0, 0)
    assert would["queue"] == {
        "queue": "late",
        "has_gpus": 4,
        "guarantee_gpus": 0,
        "share_gpus": 4,
    }
    assert {side["queue"]: side["bar"] for side in would["others"]} == {
        "early": "gainer",
        "late": "rank",
    }


def test_a_running_gang_has_no_preview_of_preemption(explain: Explain):
    story = explain.json("first-3", "--scenario", SHARES, "--at", "1m")
    assert (story["state"], story["displaced"]) == ("Running", [])
    assert not {"would", "freed"} & story.keys()


# -- numbers before and after the plan


BOTH = """
name: one starts, and so its queue is full for the other
nodes: [{name: n, cpu: 64, memory: 512Gi, gpus: {model: A100-80GB, count: 8}}]
queues: [{name: team, limit: {gpu: 4}}]
jobs: [{name: first, queue: team, gpus: 2, at: 1m}, {name: second, queue: team, gpus: 4, at: 1m}]
"""


def test_the_present_allocation_and_that_after_the_plan_are_both_shown(
    explain: Explain, tmp_path: Path
):
    (tmp_path / "both.yaml").write_text(BOTH)
    now = explain.snapshot(str(tmp_path / "both.yaml"), "1m", tmp_path)
    answer = explain("second", "--snapshot", now)
    assert "- Queue team has 2 of at most 4 GPUs; this needs 4 more." in answer
    assert "Queue team has 0 GPUs now and 2 with what starts now: its guarantee is 0" in answer


def test_the_allocation_of_a_queue_after_evictions_is_shown_as_such(
    explain: Explain, tmp_path: Path
):
    late = "jobs:\n  - {name: late, queue: vision, at: 1h10m2s, gpus: 1}"
    (tmp_path / "late.yaml").write_text(Path(RECLAIM).read_text().replace("jobs:", late, 1))
    answer = explain("late", "--scenario", str(tmp_path / "late.yaml"), "--at", "1h10m5s")
    assert "- Queue vision will have 6 GPUs and loses none: nothing in it has a lower" in answer
    assert "Queue vision has 8 GPUs: its guarantee is 4" in answer


def test_gangs_are_named_without_their_uid():
    reason = Reason(ReasonCode.RESERVED, {"nodes": 1, "gang": "ml/x~0123abcd", "wait": "5 s"})
    assert "places are reserved for ml/x in 5 s" in str(reason)
    cause = eviction_cause(EvictionRule.PRIORITY, "ml/x~0123abcd")
    assert cause.startswith("preempted by ml/x, which")
    start = SuggestedStart(
        (GangId("ml/a~0123abcd"),), 1, 1000, at_once=False, later=(GangId("ml/b~45"),)
    )
    answer = str(Suggestion(SuggestedChange(ChangeKind.HASTE, "if so", {}, ()), start))
    assert answer.endswith("once 1 task of ml/a has gone; ml/b would then start later")


# -- pending checkpoints


def test_a_pending_checkpoint_shows_its_progress_to_victim_and_preemptor(
    explain: Explain, tmp_path: Path
):
    low = runs("low", 0, 1, tasks=2, saves_within_s=120)
    there = late(node("n1", gpus=2), low, job("high", 1, TWO, priority=5)).carried_out()
    there.apply(Answered(TaskId("low-0"), there.partings.now()[0].id))
    there.advance(there.now + 30)
    file = tmp_path / "now.json"
    file.write_bytes(to_json(there.snapshot()))
    victim = explain("low", "--snapshot", str(file))
    headline = "low still runs, and is to save its work before it is evicted; it needs 2 tasks"
    assert victim.startswith(headline)
    assert "- It was asked at 16m40s to save its work by 18m40s at the latest" in victim
    assert "high" in victim
    assert "1 of 2 tasks has done so." in victim
    preemptor = explain("high", "--snapshot", str(file))
    assert "- low is asked to save its work first and goes in 90 s at the latest" in preemptor
    assert "1 of 2 tasks have" in preemptor
