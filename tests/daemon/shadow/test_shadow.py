"""Shadow mode: what is found by watching another scheduler, and that nothing is done meanwhile."""

from __future__ import annotations

from typing import Any

from tests.support.kube_given import Thing, crew, job, namespace, node, pod, queue
from tests.support.kube_given import _piece as piece
from windlass.daemon.decide.step import SchedulerStep
from windlass.daemon.shadow.compare import Shadow
from windlass.daemon.shadow.report import report_of
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import Lost
from windlass.workloads.objects import wire

THEIRS: dict[str, Any] = {"schedulerName": "default-scheduler"}
SCOPE = Scope(schedulers=frozenset({"windlass", "default-scheduler"}))


class Watched:
    """A cluster that another scheduler drives, and its shadow."""

    def __init__(self, *things: Thing) -> None:
        self.now = 1000
        self.brain = SchedulerStep(SCOPE, self.now, shadow=True)
        self.shadow = Shadow(self.now)
        self.see(queue("team", "ml", guarantee={"gpu": 8}), namespace("ml"), *things)

    def see(self, *things: Thing, after: int = 0) -> None:
        self.now += after
        work = self.shadow.think(self.brain, [piece(each) for each in things], self.now)
        assert (work.starts, work.clearings, work.promises, work.pages) == ([], [], [], [])
        assert work.statuses == []

    def found(self, kind: str) -> list[str]:
        findings = report_of(self.shadow)["findings"]
        return [each["sentence"] for each in findings if each["kind"] == kind]


def gang(count: int, **fields: Any) -> list[wire.Pod]:
    return crew("g", count, 1, **THEIRS, **fields)


def on(each: wire.Pod, name: str) -> wire.Pod:
    return pod(
        each.metadata.name,
        1,
        labels=each.metadata.labels,
        node=name,
        phase="Running",
        **THEIRS,
    )


def test_a_gang_that_was_started_by_half_would_have_waited_whole():
    there = Watched(node("n1", 2))
    first, second, third = gang(3)
    there.see(first, second, third)
    there.see(on(first, "n1"), on(second, "n1"), after=1)
    there.see(after=30)
    assert there.found("HalfStarted") == [
        "2 of the 3 tasks it starts with were placed, and hold 2 GPUs without being able to work "
        "(60 GPU-seconds lost); Windlass would have let it wait whole: it needs 3 tasks of 1 GPU "
        "at once and the empty cluster holds 2"
    ]


def test_a_gang_that_got_its_last_task_late_has_lost_time_until_then():
    there = Watched(node("n1", 2))
    first, second = gang(2)
    there.see(first, second)
    there.see(on(first, "n1"))
    there.see(on(second, "n1"), after=10)
    there.see(after=60)
    (found,) = there.found("HalfStarted")
    assert found.startswith("its 2 tasks were placed one after the other within 10 s (10 GPU-")


def test_a_gang_that_started_at_once_is_no_finding():
    there = Watched(node("n1", 2))
    first, second = gang(2)
    there.see(first, second)
    there.see(on(first, "n1"), on(second, "n1"))
    there.see(after=60)
    assert report_of(there.shadow)["findings"] == []
    assert report_of(there.shadow)["placementsCompared"] == 1


def test_a_pod_that_is_new_and_bound_in_one_breath_is_compared_too():
    there = Watched(node("n1", 2), node("n2", 2), pod("old", 1, node="n1", phase="Running"))
    new = pod("new", 1, **THEIRS)
    there.see(new, on(new, "n2"))
    assert there.found("PlacedElsewhere") == [
        "it runs on n2; Windlass would have used n1, and left n2 empty"
    ]


def test_a_pod_that_is_bound_before_its_owner_is_seen_is_compared_too():
    there = Watched(node("n1", 2), node("n2", 2), pod("old", 1, node="n1", phase="Running"))
    owner = job("train", 1)
    new = pod("new", 1, owner=owner, **THEIRS)
    there.see(new, pod("new", 1, owner=owner, node="n2", phase="Running", **THEIRS))
    there.see(owner, after=1)
    assert there.found("PlacedElsewhere") == [
        "it runs on n2; Windlass would have used n1, and left n2 empty"
    ]


def test_an_owner_that_is_never_seen_is_not_waited_for_for_ever():
    there = Watched(node("n1", 2))
    new = pod("new", 1, owner=job("train", 1), **THEIRS)
    bound = pod("new", 1, owner=job("train", 1), node="n1", phase="Running", **THEIRS)
    there.see(new, bound)
    there.see(after=2)
    assert [each.node for each in there.brain.cluster.tasks.values()] == ["n1"]


def test_a_gang_whose_pods_come_one_by_one_is_not_started_too_early():
    there = Watched(node("n1", 2))
    first, second = gang(2)
    there.see(first)
    there.see(on(first, "n1"), second, on(second, "n1"))
    there.see(after=60)
    assert there.found("StartedTooEarly") == []


def test_a_pod_that_came_was_bound_and_went_in_one_breath_is_gone():
    there = Watched(node("n1", 2))
    new = pod("new", 1, **THEIRS)
    there.see(new, on(new, "n1"), Lost("pods", on(new, "n1")))
    assert there.brain.cluster.tasks == {}
    assert report_of(there.shadow)["gangs"] == 1


def test_a_gang_that_was_started_though_its_queue_was_full_is_told():
    there = Watched(node("n1", 2), queue("team", "ml", limit={"gpu": 0}))
    new = pod("new", 1, **THEIRS)
    there.see(new)
    there.see(on(new, "n1"))
    (found,) = there.found("StartedTooEarly")
    assert found.startswith("it was started; Windlass would have let it wait: it needs 1 GPU")


def test_a_gang_that_waits_though_there_is_room_is_told():
    there = Watched(node("n1", 2))
    there.see(*gang(2))
    there.see(after=60)
    assert there.found("WaitsThough") == ["it waits; Windlass would have started it on n1"]


def test_a_queue_above_its_share_is_told_while_others_wait():
    there = Watched(node("n1", 2), queue("other", "rest", guarantee={"gpu": 2}), namespace("rest"))
    mine = gang(2)
    there.see(*mine)
    there.see(*(on(each, "n1") for each in mine))
    assert there.found("AboveShare") == []
    there.see(pod("x", 1, namespace="rest", **THEIRS))
    (found,) = there.found("AboveShare")
    assert found.startswith("it has 2 GPUs while others wait; its share is ")


def test_what_ran_before_is_nobodys_difference():
    first, second = gang(2)
    there = Watched(node("n1", 2), on(first, "n1"))
    there.see(second)
    there.see(after=60)
    assert report_of(there.shadow)["gangs"] == 0


def test_a_gang_that_is_given_up_holds_nothing_any_more():
    there = Watched(node("n1", 1))
    first, second = gang(2)
    there.see(first, second)
    there.see(on(first, "n1"))
    there.see(after=5)
    for each in (first, second):
        there.brain.take([Lost("pods", each)])
    there.see(after=60)
    (found,) = there.found("HalfStarted")
    assert "and held GPUs until it was given up (5 GPU-seconds lost)" in found
