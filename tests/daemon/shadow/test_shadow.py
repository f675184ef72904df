"""Shadow mode: differences from another scheduler are found, and nothing is written."""

from __future__ import annotations

from typing import Any

from tests.support.kube_given import Thing, crew, job, namespace, node, pod, queue
from tests.support.kube_given import _piece as piece
from windlass.daemon.decide.step import SchedulerStep
from windlass.daemon.shadow.compare import Shadow
from windlass.daemon.shadow.report import report_of
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import ObjectLost
from windlass.workloads.objects import wire

THEIRS: dict[str, Any] = {"schedulerName": "default-scheduler"}
SCOPE = Scope(schedulers=frozenset({"windlass", "default-scheduler"}))


class Watched:
    """A cluster with another scheduler, and its shadow."""

    def __init__(self, *things: Thing) -> None:
        self.now = 1000
        self.brain = SchedulerStep(SCOPE, self.now, shadow=True)
        self.shadow = Shadow(self.now)
        self.see(queue("team", "ml", guarantee={"gpu": 8}), namespace("ml"), *things)

    def see(self, *things: Thing, after: int = 0) -> None:
        self.now += after
        work = self.shadow.think(self.brain, [piece(each) for each in things], self.now)
        assert (work.starts, work.evictions, work.promises, work.messages) == ([], [], [], [])
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


def test_a_partly_started_gang_is_a_finding_with_its_idle_gpus():
    watched = Watched(node("n1", 2))
    first, second, third = gang(3)
    watched.see(first, second, third)
    watched.see(on(first, "n1"), on(second, "n1"), after=1)
    watched.see(after=30)
    assert watched.found("HalfStarted") == [
        "2 of the 3 tasks it starts with were placed, and hold 2 GPUs without being able to work "
        "(60 GPU-seconds lost); Windlass would have let it wait whole: it needs 3 tasks of 1 GPU "
        "at once and the empty cluster holds 2"
    ]


def test_a_gang_that_was_completed_late_has_lost_gpu_time_until_then():
    watched = Watched(node("n1", 2))
    first, second = gang(2)
    watched.see(first, second)
    watched.see(on(first, "n1"))
    watched.see(on(second, "n1"), after=10)
    watched.see(after=60)
    (found,) = watched.found("HalfStarted")
    assert found.startswith("its 2 tasks were placed one after the other within 10 s (10 GPU-")


def test_a_gang_that_started_at_once_is_no_finding():
    watched = Watched(node("n1", 2))
    first, second = gang(2)
    watched.see(first, second)
    watched.see(on(first, "n1"), on(second, "n1"))
    watched.see(after=60)
    assert report_of(watched.shadow)["findings"] == []
    assert report_of(watched.shadow)["placementsCompared"] == 1


def test_a_pod_that_is_created_and_bound_between_two_steps_is_compared():
    watched = Watched(node("n1", 2), node("n2", 2), pod("old", 1, node="n1", phase="Running"))
    new = pod("new", 1, **THEIRS)
    watched.see(new, on(new, "n2"))
    assert watched.found("PlacedElsewhere") == [
        "it runs on n2; Windlass would have used n1, and left n2 empty"
    ]


def test_a_pod_that_is_bound_before_its_owner_is_observed_is_compared():
    watched = Watched(node("n1", 2), node("n2", 2), pod("old", 1, node="n1", phase="Running"))
    owner = job("train", 1)
    new = pod("new", 1, owner=owner, **THEIRS)
    watched.see(new, pod("new", 1, owner=owner, node="n2", phase="Running", **THEIRS))
    watched.see(owner, after=1)
    assert watched.found("PlacedElsewhere") == [
        "it runs on n2; Windlass would have used n1, and left n2 empty"
    ]


def test_an_owner_that_is_never_observed_is_waited_for_only_briefly():
    watched = Watched(node("n1", 2))
    new = pod("new", 1, owner=job("train", 1), **THEIRS)
    bound = pod("new", 1, owner=job("train", 1), node="n1", phase="Running", **THEIRS)
    watched.see(new, bound)
    watched.see(after=2)
    assert [each.node for each in watched.brain.cluster.tasks.values()] == ["n1"]


def test_a_gang_whose_pods_come_one_by_one_is_not_started_too_early():
    watched = Watched(node("n1", 2))
    first, second = gang(2)
    watched.see(first)
    watched.see(on(first, "n1"), second, on(second, "n1"))
    watched.see(after=60)
    assert watched.found("StartedTooEarly") == []


def test_a_pod_that_is_created_bound_and_deleted_between_two_steps_is_gone():
    watched = Watched(node("n1", 2))
    new = pod("new", 1, **THEIRS)
    watched.see(new, on(new, "n1"), ObjectLost("pods", on(new, "n1")))
    assert watched.brain.cluster.tasks == {}
    assert report_of(watched.shadow)["gangs"] == 1


def test_a_gang_that_was_started_although_its_queue_is_full_is_a_finding():
    watched = Watched(node("n1", 2), queue("team", "ml", limit={"gpu": 0}))
    new = pod("new", 1, **THEIRS)
    watched.see(new)
    watched.see(on(new, "n1"))
    (found,) = watched.found("StartedTooEarly")
    assert found.startswith("it was started; Windlass would have let it wait: it needs 1 GPU")


def test_a_gang_that_waits_although_there_is_room_is_a_finding():
    watched = Watched(node("n1", 2))
    watched.see(*gang(2))
    watched.see(after=60)
    assert watched.found("WaitsThough") == ["it waits; Windlass would have started it on n1"]


def test_a_queue_above_its_share_is_a_finding_while_others_wait():
    watched = Watched(
        node("n1", 2), queue("other", "rest", guarantee={"gpu": 2}), namespace("rest")
    )
    members = gang(2)
    watched.see(*members)
    watched.see(*(on(each, "n1") for each in members))
    assert watched.found("AboveShare") == []
    watched.see(pod("x", 1, namespace="rest", **THEIRS))
    (found,) = watched.found("AboveShare")
    assert found.startswith("it has 2 GPUs while others wait; its share is ")


def test_gangs_that_ran_before_the_start_are_not_compared():
    first, second = gang(2)
    watched = Watched(node("n1", 2), on(first, "n1"))
    watched.see(second)
    watched.see(after=60)
    assert report_of(watched.shadow)["gangs"] == 0


def test_a_deleted_partial_gang_holds_no_gpus_any_more():
    watched = Watched(node("n1", 1))
    first, second = gang(2)
    watched.see(first, second)
    watched.see(on(first, "n1"))
    watched.see(after=5)
    for each in (first, second):
        watched.brain.take([ObjectLost("pods", each)])
    watched.see(after=60)
    (found,) = watched.found("HalfStarted")
    assert "and held GPUs until it was given up (5 GPU-seconds lost)" in found
