"""Gangs that are evicted whole: suspended through their owner, waiting without pods, resumed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import (
    KEY,
    Json,
    Stage,
    Thing,
    container,
    crew,
    job,
    made_by,
    marked,
    node,
    pod,
    queue,
    task_id,
)
from windlass.daemon.decide.suspended_gangs import SHOWN_AFTER_S
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.suspended_gangs import COME_WITHIN_S
from windlass.kube.refs import ObjectObserved, OwnerSwitch
from windlass.kube.writers.suspend import patch_of
from windlass.kube.writes import OwnerChange, OwnerWrite, OwnerWriteFailed
from windlass.model.jobs import GangId, TaskState
from windlass.model.reasons import ReasonCode
from windlass.workloads.kinds.suspension import OwnerState, SuspensionMark, mark_of, owner_state
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import CREATOR, PREEMPTIBLE, SEAL, SUSPENDED

LOW = OwnerSwitch("/apis/batch/v1/namespaces/ml/jobs/low", "low-uid", "spec.suspend")
GANG = GangId("ml/low~low-uid")
LONG_AGO = "1970-01-01T00:01:40Z"
TEAM = queue("team", "ml", guarantee={"gpu": 2})


class Play:
    """Two GPUs, a Job of two pods that uses them, and its owner as the API server keeps it."""

    def __init__(self, *things: Thing, pods: int = 2, **fields: Any) -> None:
        self.low = low_job(pods, **fields)
        self.stage = Stage(node("n1", gpus=2), TEAM, *things)
        self.stage.see(self.low, *self.pods("a", pods, "n1"))
        self.stage.step()

    def pods(self, name: str, count: int = 2, on: str = "", **fields: Any) -> list[wire.Pod]:
        phase = "Running" if on else "Pending"
        made = {"owner": self.low, "phase": phase, "node": on, "created": LONG_AGO} | fields
        made["status"] = {"startTime": LONG_AGO}
        return [pod(f"low-{name}-{number}", 1, **made) for number in range(count)]

    def high_comes(self) -> list[OwnerWrite | None]:
        """Add a gang of a higher priority for both GPUs; return how each victim is stopped."""
        self.stage.see(*crew("high", 2, priority=10, created=LONG_AGO))
        step = self.stage.step()
        return [each.turn for clearing in step.work.evictions for each in clearing.victims]

    def high_goes(self) -> None:
        for each in crew("high", 2):
            self.stage.lose(each)

    def write(self, turn: OwnerWrite) -> None:
        """Apply a patch as the API server does, and observe the result."""
        if (body := patch_of(turn, self.low, KEY)) is not None:
            self.become(body.get("spec", {}), body["metadata"]["annotations"])

    def become(self, spec: Json, notes: Json) -> None:
        meta = self.low.metadata
        kept = {**(meta.annotations or {}), **notes}
        kept = {key: value for key, value in kept.items() if value is not None}
        self.low = wire.Owner(
            msgspec.structs.replace(meta, annotations=kept), {**self.low.spec, **spec}
        )
        self.stage.see(self.low)

    def suspended(self) -> Play:
        """Suspend the Job for the gang, and let the gang run."""
        turn = self.high_comes()[0]
        assert turn is not None
        self.write(turn)
        self.stage.lose(*self.pods("a", on="n1"))
        assert self.stage.step().bound == {"high-0": "n1", "high-1": "n1"}
        return self

    def resumed(self) -> Play:
        """Let the gang end, and resume the Job."""
        self.high_goes()
        (turn,) = self.stage.step().work.owner_writes
        self.write(turn)
        return self

    def successor(self) -> Play:
        """Return a new leader, which knows only the objects of the API server."""
        other = Play.__new__(Play)
        other.low = self.low
        other.stage = Stage(node("n1", gpus=2), TEAM, now=self.stage.now)
        other.stage.see(self.low)
        return other

    def states(self) -> list[TaskState]:
        tasks = self.stage.cluster.tasks.values()
        return [each.state for each in tasks if each.gang == GANG]


def low_job(count: int = 2, **fields: Any) -> wire.Owner:
    """Return a Job of pods with a GPU each."""
    amounts = container("main", **{"nvidia.com/gpu": "1"})
    return job("low", count, template={"spec": {"containers": [amounts]}}, **fields)


# --- it goes --------------------------------------------------------------------------------------


def test_a_job_that_is_evicted_whole_is_suspended_with_a_mark():
    turns = Play().high_comes()
    mark = SuspensionMark(at=1000, rule="priority", gainer="ml/high", since=100, by="windlass")
    assert turns == [OwnerWrite(GANG, LOW, OwnerChange.SUSPENDED, mark)] * 2


def test_one_patch_sets_the_field_and_the_mark_on_the_version_that_was_read():
    turn = OwnerWrite(
        GANG, LOW, OwnerChange.SUSPENDED, SuspensionMark(at=7, rule="share", gainer="ml/x")
    )
    said = '{"at":7,"rule":"share","for":"ml/x"}'
    assert patch_of(turn, low_job(), KEY) == {
        "metadata": {
            "uid": "low-uid",
            "resourceVersion": "",
            "annotations": {SUSPENDED: said, SEAL: KEY.sign("low-uid", SUSPENDED, said)},
        },
        "spec": {"suspend": True},
    }


def test_a_job_that_its_user_has_suspended_is_not_marked():
    turn = OwnerWrite(GANG, LOW, OwnerChange.SUSPENDED, SuspensionMark(at=7))
    assert patch_of(turn, low_job(suspend=True), KEY) is None


def test_a_job_with_other_running_gangs_is_not_suspended():
    play = Play(pods=1, completionMode="NonIndexed")  # each of its pods stands for itself
    play.stage.see(node("n2", gpus=1), *play.pods("b", 1, "n2"))
    assert play.high_comes() == [None]


def test_a_job_controlled_by_an_unknown_owner_is_not_suspended():
    play = Play()
    above = msgspec.convert(made_by("Pipeline", "example.com/v1"), wire.OwnerRef)
    meta = msgspec.structs.replace(play.low.metadata, owner_references=[above])
    play.stage.see(msgspec.structs.replace(play.low, metadata=meta))
    assert play.high_comes() == [None, None]


def test_elastic_members_are_evicted_pod_by_pod():
    play = Play(annotations={"windlass.dev/minimum": "1"})
    play.stage.see(pod("high", 1, priority=10, created=LONG_AGO))
    (clearing,) = play.stage.step().work.evictions
    assert [each.turn for each in clearing.victims] == [None]


# --- it waits -------------------------------------------------------------------------------------


def test_a_suspended_job_keeps_its_position_in_the_queue():
    play = Play()
    before = play.stage.cluster.gangs[GANG].created_at
    play.suspended()
    assert play.states() == [TaskState.WAITING] * 2
    assert play.stage.cluster.gangs[GANG].created_at == before
    (decision,) = play.stage.step().work.plan.decisions
    assert [reason.why for reason in decision.reasons][-1] == ReasonCode.SUSPENDED_FOR
    assert "to make room for ml/high" in str(decision.reasons[-1])


def test_no_condition_is_written_for_placeholders():
    play = Play().suspended()
    step = play.stage.settle()
    assert (step.said, step.events, step.work.promises, step.work.owner_writes) == ({}, [], [], [])


def test_a_new_leader_finds_the_suspended_gang_in_its_queue():
    play = Play().suspended().successor()
    play.stage.brain.resume()
    assert play.states() == [TaskState.WAITING] * 2
    assert [turn.to for turn in play.stage.step().work.owner_writes] == [OwnerChange.RESUMED]


@pytest.mark.parametrize(
    "scope",
    [Scope(namespaces=frozenset({"theirs"}), seal=KEY), Scope(frozenset({"another"}), seal=KEY)],
)
def test_another_scheduler_ignores_the_suspended_gang(scope: Scope):
    low = Play().suspended().low
    assert not Stage(node("n1", gpus=2), TEAM, low, scope=scope).cluster.tasks


def test_a_job_suspended_by_its_user_is_not_in_the_queue():
    stage = Stage(node("n1", gpus=2), TEAM, low_job(suspend=True))
    assert not stage.cluster.tasks


@pytest.mark.parametrize("notes", [{SUSPENDED: None}, {SUSPENDED: "not ours"}])
def test_a_suspended_job_without_a_valid_mark_is_not_in_the_queue(notes: Json):
    play = Play().suspended()
    play.become({}, notes)
    assert play.states() == []


def test_a_deleted_job_leaves_the_queue():
    play = Play().suspended()
    play.stage.lose(play.low)
    assert play.states() == []


def test_a_job_resumed_by_its_user_is_unmarked():
    play = Play().suspended()
    play.become({"suspend": False}, {})
    assert play.states() == []
    assert [turn.to for turn in play.stage.step().work.owner_writes] == [OwnerChange.UNMARKED]


def test_placeholders_follow_a_changed_template():
    play = Play().suspended()
    play.become({"parallelism": 1}, {})
    assert len(play.states()) == 1


def test_succeeded_pods_have_no_placeholders():
    succeeded = low_job(
        4,
        suspend=True,
        status={"succeeded": 3},
        annotations=marked("low-uid", SuspensionMark(at=1)),
    )
    stage = Stage(node("n1", gpus=2), TEAM, succeeded)
    assert len(stage.cluster.tasks) == 1


def test_a_failed_owner_has_no_placeholders():
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    ended = low_job(
        suspend=True, status=failed, annotations=marked("low-uid", SuspensionMark(at=1))
    )
    assert not Stage(node("n1", gpus=2), TEAM, ended).cluster.tasks


def test_placeholders_are_no_older_than_their_owner_and_keep_its_creator():
    amounts = container("main", **{"nvidia.com/gpu": "1"})
    template = {"metadata": {"annotations": {CREATOR: "eve"}}, "spec": {"containers": [amounts]}}
    notes = marked("low-uid", SuspensionMark(at=1, since=5)) | {CREATOR: "bob"}
    owner = job("low", 1, template=template, suspend=True, annotations=notes)
    meta = msgspec.structs.replace(owner.metadata, creation_timestamp="1970-01-01T00:10:00Z")
    stage = Stage(TEAM, msgspec.structs.replace(owner, metadata=meta))
    (task,) = stage.cluster.tasks
    found = stage.translator.pod(task)
    assert found is not None
    assert found.metadata.creation_timestamp == "1970-01-01T00:10:00Z"
    assert found.metadata.annotations == {CREATOR: "bob"}


# --- it comes back --------------------------------------------------------------------------------


def test_the_owner_is_resumed_and_places_are_held_when_there_is_room():
    play = Play().suspended()
    play.high_goes()
    step = play.stage.step()
    (turn,) = step.work.owner_writes
    assert (turn.to, step.bound) == (OwnerChange.RESUMED, {})
    assert turn.mark is not None
    assert turn.mark.resumed_at == play.stage.now
    assert '"n1"' in turn.mark.promise
    assert [each.why for d in step.work.plan.decisions for each in d.reasons] == [
        ReasonCode.RESUMES
    ]
    play.stage.see(pod("late", 1))
    assert play.stage.step().bound == {}  # though two GPUs are idle
    assert play.stage.step().work.owner_writes == []  # once is enough


def test_the_owner_is_resumed_only_after_its_former_pods_are_gone():
    play = Play()
    turn = play.high_comes()[0]
    assert turn is not None
    play.write(turn)
    play.high_goes()
    assert play.stage.step().work.owner_writes == []
    play.stage.lose(*play.pods("a", on="n1"))
    assert [turn.to for turn in play.stage.step().work.owner_writes] == [OwnerChange.RESUMED]


def test_a_stuck_former_pod_delays_the_resume_only_until_its_grace_ends():
    play = Play()
    turn = play.high_comes()[0]
    assert turn is not None
    play.write(turn)
    play.high_goes()
    ends_at = "1970-01-01T00:17:00Z"
    play.stage.see(node("n2", gpus=2), *play.pods("a", on="n1", deleted=ends_at))
    assert play.stage.step().work.owner_writes == []
    assert [turn.to for turn in play.stage.step(60).work.owner_writes] == [OwnerChange.RESUMED]


def test_the_pods_of_a_resumed_gang_are_bound_at_the_promised_places():
    play = Play().suspended().resumed()
    first, second = play.pods("b")
    play.stage.see(first)
    assert play.states() == [TaskState.WAITING] * 2
    assert play.stage.step().bound == {}
    play.stage.see(second)
    step = play.stage.step()
    assert step.bound == {"low-b-0": "n1", "low-b-1": "n1"}
    assert [turn.to for turn in step.work.owner_writes] == [OwnerChange.UNMARKED]
    play.write(step.work.owner_writes[0])
    assert mark_of(play.low.metadata) is None
    assert play.stage.step().work.owner_writes == []


def test_a_new_leader_holds_the_places_of_missing_pods():
    play = Play().suspended().resumed().successor()
    play.stage.see(*play.pods("b", 1))
    play.stage.brain.resume()
    (hold,) = play.stage.cluster.holds.values()
    assert [each.task.split("/")[1] for each in hold.claims] == ["low-b-0", "low-0-1"]
    play.stage.see(pod("late", 1, priority=0))
    assert play.stage.step().bound == {}
    play.stage.see(*play.pods("b"))
    assert set(play.stage.step().bound) == {"low-b-0", "low-b-1"}


def test_a_gang_is_suspended_again_when_its_pods_do_not_come_in_time():
    play = Play().suspended().resumed()
    step = play.stage.step(COME_WITHIN_S)
    (turn,) = step.work.owner_writes
    assert (turn.to, turn.mark and turn.mark.resumed_at) == (OwnerChange.SUSPENDED_AGAIN, 0)
    assert not play.stage.cluster.holds
    play.write(turn)
    (decision,) = play.stage.step().work.plan.decisions
    assert "did not come within 60 s" in str(decision.reasons[0])
    assert [turn.to for turn in play.stage.step(2).work.owner_writes] == [OwnerChange.RESUMED]


def test_a_failed_resume_is_retried_after_a_backoff():
    play = Play().suspended()
    play.high_goes()
    (turn,) = play.stage.step().work.owner_writes
    play.stage.see(OwnerWriteFailed(turn, "quota"))
    assert play.stage.step().work.owner_writes == []
    assert not play.stage.cluster.holds
    assert [turn.to for turn in play.stage.step(2).work.owner_writes] == [OwnerChange.RESUMED]


def test_a_job_suspended_by_its_user_while_it_is_resumed_stays_suspended():
    play = Play().suspended().resumed()
    play.become({"suspend": True}, {})
    assert play.states() == []
    assert [turn.to for turn in play.stage.step().work.owner_writes] == [OwnerChange.UNMARKED]


# --- nodes have to be bought ----------------------------------------------------------------------


def test_a_gang_that_no_node_could_hold_is_resumed_at_once_for_autoscalers():
    play = Play().suspended()
    play.high_goes()
    play.stage.lose(node("n1", gpus=2))
    (turn,) = play.stage.step().work.owner_writes
    assert (turn.to, turn.mark and turn.mark.promise) == (OwnerChange.RESUMED, "")
    play.write(turn)
    play.stage.see(*play.pods("b"))
    assert [each.to for each in play.stage.step().work.owner_writes] == [OwnerChange.UNMARKED]
    assert play.stage.settle().said == dict.fromkeys(("low-b-0", "low-b-1"), "Unschedulable")


def test_a_gang_that_lacks_nodes_is_resumed_after_a_while_for_autoscalers():
    play = Play().suspended()
    assert play.stage.step(SHOWN_AFTER_S - 1).work.owner_writes == []
    assert [turn.to for turn in play.stage.step(1).work.owner_writes] == [OwnerChange.RESUMED]


def test_a_gang_that_its_queue_does_not_admit_stays_suspended():
    play = Play().suspended()
    play.stage.see(queue("team", "ml", guarantee={"gpu": 2}, limit={"gpu": 2}))
    assert play.stage.step(SHOWN_AFTER_S).work.owner_writes == []


def test_a_resumed_gang_starts_when_its_minimum_of_pods_has_come():
    play = Play(annotations={"windlass.dev/minimum": "1"}).suspended().resumed()
    play.stage.see(*play.pods("b", 1))
    (turn,) = play.stage.step(COME_WITHIN_S).work.owner_writes
    assert turn.to is OwnerChange.UNMARKED


def test_a_suspended_gang_may_be_a_preemptor():
    play = Play().suspended()
    runs = {"node": "n1", "phase": "Running", "labels": {PREEMPTIBLE: "true"}}
    play.stage.see(*crew("high", 2, status={"startTime": LONG_AGO}, created=LONG_AGO, **runs))
    template = {"spec": {**play.low.spec["template"]["spec"], "priorityClassName": "top"}}
    play.stage.see(
        ObjectObserved("priorities", wire.PriorityClass(wire.ObjectMeta(name="top"), 20))
    )
    play.become({"template": template}, {})
    (clearing,) = play.stage.step(24 * 3600).work.evictions
    assert {each.pod.task for each in clearing.victims} == {task_id("high-0"), task_id("high-1")}
    assert clearing.gainer is None


def test_mark_and_field_must_agree():
    assert owner_state(low_job(), "spec.suspend") is None
    for suspend, resumed_at, expected in (
        (True, 0, OwnerState.SUSPENDED),
        (False, 9, OwnerState.RESUMED),
        (False, 0, OwnerState.TAKEN),
        (True, 9, OwnerState.TAKEN),
    ):
        owner = low_job(
            suspend=suspend,
            annotations=marked("low-uid", SuspensionMark(at=1, resumed_at=resumed_at)),
        )
        assert owner_state(owner, "spec.suspend") is expected
