"""A gang that goes whole is suspended through its owner, waits without pods, and comes back."""

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
from windlass.kube.refs import ObjectObserved, Switch
from windlass.kube.writers.suspend import patch_of
from windlass.kube.writes import To, Turn, TurnFailed
from windlass.model.jobs import GangId, TaskState
from windlass.model.reasons import ReasonCode
from windlass.workloads.kinds.suspension import Mark, OwnerState, mark_of, standing
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import CREATOR, PREEMPTIBLE, SEAL, SUSPENDED

LOW = Switch("/apis/batch/v1/namespaces/ml/jobs/low", "low-uid", "spec.suspend")
GANG = GangId("ml/low~low-uid")
LONG_AGO = "1970-01-01T00:01:40Z"
TEAM = queue("team", "ml", guarantee={"gpu": 2})


class Play:
    """Two GPUs, a Job of two pods that has them, and its owner as the API server would keep it."""

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

    def high_comes(self) -> list[Turn | None]:
        """A gang of a higher priority wants both GPUs; how the owner of the others is told."""
        self.stage.see(*crew("high", 2, priority=10, created=LONG_AGO))
        step = self.stage.step()
        return [each.turn for clearing in step.work.clearings for each in clearing.victims]

    def high_goes(self) -> None:
        for each in crew("high", 2):
            self.stage.lose(each)

    def write(self, turn: Turn) -> None:
        """As the API server carries out a patch, and a watch then tells."""
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
        """The Job has made room for the gang, which runs."""
        turn = self.high_comes()[0]
        assert turn is not None
        self.write(turn)
        self.stage.lose(*self.pods("a", on="n1"))
        assert self.stage.step().bound == {"high-0": "n1", "high-1": "n1"}
        return self

    def resumed(self) -> Play:
        """There is room again, and the Job was let go on."""
        self.high_goes()
        (turn,) = self.stage.step().work.turns
        self.write(turn)
        return self

    def successor(self) -> Play:
        """Another leader, who knows only what the API server does."""
        other = Play.__new__(Play)
        other.low = self.low
        other.stage = Stage(node("n1", gpus=2), TEAM, now=self.stage.now)
        other.stage.see(self.low)
        return other

    def states(self) -> list[TaskState]:
        tasks = self.stage.cluster.tasks.values()
        return [each.state for each in tasks if each.gang == GANG]


def low_job(count: int = 2, **fields: Any) -> wire.Owner:
    """A Job of pods with a GPU each."""
    amounts = container("main", **{"nvidia.com/gpu": "1"})
    return job("low", count, template={"spec": {"containers": [amounts]}}, **fields)


# --- it goes --------------------------------------------------------------------------------------


def test_a_job_that_goes_whole_is_suspended_and_told_why_and_for_whom():
    turns = Play().high_comes()
    mark = Mark(at=1000, rule="priority", gainer="ml/high", since=100, by="windlass")
    assert turns == [Turn(GANG, LOW, To.SUSPENDED, mark)] * 2


def test_one_patch_sets_the_field_and_the_mark_on_the_version_that_was_read():
    turn = Turn(GANG, LOW, To.SUSPENDED, Mark(at=7, rule="share", gainer="ml/x"))
    said = '{"at":7,"rule":"share","for":"ml/x"}'
    assert patch_of(turn, low_job(), KEY) == {
        "metadata": {
            "uid": "low-uid",
            "resourceVersion": "",
            "annotations": {SUSPENDED: said, SEAL: KEY.sign("low-uid", SUSPENDED, said)},
        },
        "spec": {"suspend": True},
    }


def test_what_its_user_has_suspended_meanwhile_is_not_marked():
    turn = Turn(GANG, LOW, To.SUSPENDED, Mark(at=7))
    assert patch_of(turn, low_job(suspend=True), KEY) is None


def test_a_job_of_which_others_run_on_is_not_suspended():
    play = Play(pods=1, completionMode="NonIndexed")  # each of its pods stands for itself
    play.stage.see(node("n2", gpus=1), *play.pods("b", 1, "n2"))
    assert play.high_comes() == [None]


def test_a_job_that_somebody_else_directs_is_not_suspended():
    play = Play()
    above = msgspec.convert(made_by("Pipeline", "example.com/v1"), wire.OwnerRef)
    meta = msgspec.structs.replace(play.low.metadata, owner_references=[above])
    play.stage.see(msgspec.structs.replace(play.low, metadata=meta))
    assert play.high_comes() == [None, None]


def test_elastic_members_go_one_by_one():
    play = Play(annotations={"windlass.dev/minimum": "1"})
    play.stage.see(pod("high", 1, priority=10, created=LONG_AGO))
    (clearing,) = play.stage.step().work.clearings
    assert [each.turn for each in clearing.victims] == [None]


# --- it waits -------------------------------------------------------------------------------------


def test_a_suspended_job_waits_on_without_pods_at_its_old_place_in_line():
    play = Play()
    before = play.stage.cluster.gangs[GANG].created_at
    play.suspended()
    assert play.states() == [TaskState.WAITING] * 2
    assert play.stage.cluster.gangs[GANG].created_at == before
    (decision,) = play.stage.step().work.plan.decisions
    assert [reason.why for reason in decision.reasons][-1] == ReasonCode.SUSPENDED_FOR
    assert "to make room for ml/high" in str(decision.reasons[-1])


def test_nothing_is_written_about_pods_that_are_not_there():
    play = Play().suspended()
    step = play.stage.settle()
    assert (step.said, step.events, step.work.promises, step.work.turns) == ({}, [], [], [])


def test_a_new_leader_finds_it_in_line():
    play = Play().suspended().successor()
    play.stage.brain.resume()
    assert play.states() == [TaskState.WAITING] * 2
    assert [turn.to for turn in play.stage.step().work.turns] == [To.RESUMED]


@pytest.mark.parametrize(
    "scope",
    [Scope(namespaces=frozenset({"theirs"}), seal=KEY), Scope(frozenset({"another"}), seal=KEY)],
)
def test_another_scheduler_leaves_it_alone(scope: Scope):
    low = Play().suspended().low
    assert not Stage(node("n1", gpus=2), TEAM, low, scope=scope).cluster.tasks


def test_a_job_that_its_user_suspended_is_not_in_line():
    stage = Stage(node("n1", gpus=2), TEAM, low_job(suspend=True))
    assert not stage.cluster.tasks


@pytest.mark.parametrize("notes", [{SUSPENDED: None}, {SUSPENDED: "not ours"}])
def test_a_job_whose_mark_was_taken_away_is_its_users_again(notes: Json):
    play = Play().suspended()
    play.become({}, notes)
    assert play.states() == []


def test_a_job_that_was_deleted_leaves_the_line():
    play = Play().suspended()
    play.stage.lose(play.low)
    assert play.states() == []


def test_a_job_that_its_user_let_go_on_is_ours_no_more():
    play = Play().suspended()
    play.become({"suspend": False}, {})
    assert play.states() == []
    assert [turn.to for turn in play.stage.step().work.turns] == [To.UNMARKED]


def test_a_template_that_was_changed_meanwhile_counts_as_it_is_now():
    play = Play().suspended()
    play.become({"parallelism": 1}, {})
    assert len(play.states()) == 1


def test_what_has_succeeded_is_not_waited_for():
    succeeded = low_job(
        4, suspend=True, status={"succeeded": 3}, annotations=marked("low-uid", Mark(at=1))
    )
    stage = Stage(node("n1", gpus=2), TEAM, succeeded)
    assert len(stage.cluster.tasks) == 1


def test_an_owner_that_has_failed_does_not_wait():
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    ended = low_job(suspend=True, status=failed, annotations=marked("low-uid", Mark(at=1)))
    assert not Stage(node("n1", gpus=2), TEAM, ended).cluster.tasks


def test_nobody_is_made_older_than_its_owner_or_another_user_by_what_it_writes():
    amounts = container("main", **{"nvidia.com/gpu": "1"})
    template = {"metadata": {"annotations": {CREATOR: "eve"}}, "spec": {"containers": [amounts]}}
    notes = marked("low-uid", Mark(at=1, since=5)) | {CREATOR: "bob"}
    owner = job("low", 1, template=template, suspend=True, annotations=notes)
    meta = msgspec.structs.replace(owner.metadata, creation_timestamp="1970-01-01T00:10:00Z")
    stage = Stage(TEAM, msgspec.structs.replace(owner, metadata=meta))
    (task,) = stage.cluster.tasks
    found = stage.translator.pod(task)
    assert found is not None
    assert found.metadata.creation_timestamp == "1970-01-01T00:10:00Z"
    assert found.metadata.annotations == {CREATOR: "bob"}


# --- it comes back --------------------------------------------------------------------------------


def test_when_there_is_room_its_owner_is_resumed_and_its_places_are_held():
    play = Play().suspended()
    play.high_goes()
    step = play.stage.step()
    (turn,) = step.work.turns
    assert (turn.to, step.bound) == (To.RESUMED, {})
    assert turn.mark is not None
    assert turn.mark.resumed_at == play.stage.now
    assert '"n1"' in turn.mark.promise
    assert [each.why for d in step.work.plan.decisions for each in d.reasons] == [
        ReasonCode.RESUMES
    ]
    play.stage.see(pod("late", 1))
    assert play.stage.step().bound == {}  # though two GPUs are idle
    assert play.stage.step().work.turns == []  # once is enough


def test_it_is_resumed_only_after_its_former_pods_are_gone():
    play = Play()
    turn = play.high_comes()[0]
    assert turn is not None
    play.write(turn)
    play.high_goes()
    assert play.stage.step().work.turns == []
    play.stage.lose(*play.pods("a", on="n1"))
    assert [turn.to for turn in play.stage.step().work.turns] == [To.RESUMED]


def test_a_former_pod_that_is_stuck_is_not_waited_for_beyond_its_grace():
    play = Play()
    turn = play.high_comes()[0]
    assert turn is not None
    play.write(turn)
    play.high_goes()
    ends_at = "1970-01-01T00:17:00Z"
    play.stage.see(node("n2", gpus=2), *play.pods("a", on="n1", deleted=ends_at))
    assert play.stage.step().work.turns == []
    assert [turn.to for turn in play.stage.step(60).work.turns] == [To.RESUMED]


def test_its_pods_are_bound_together_on_the_places_that_were_promised():
    play = Play().suspended().resumed()
    first, second = play.pods("b")
    play.stage.see(first)
    assert play.states() == [TaskState.WAITING] * 2
    assert play.stage.step().bound == {}
    play.stage.see(second)
    step = play.stage.step()
    assert step.bound == {"low-b-0": "n1", "low-b-1": "n1"}
    assert [turn.to for turn in step.work.turns] == [To.UNMARKED]
    play.write(step.work.turns[0])
    assert mark_of(play.low.metadata) is None
    assert play.stage.step().work.turns == []


def test_a_new_leader_holds_the_places_of_pods_that_have_not_come_yet():
    play = Play().suspended().resumed().successor()
    play.stage.see(*play.pods("b", 1))
    play.stage.brain.resume()
    (hold,) = play.stage.cluster.holds.values()
    assert [each.task.split("/")[1] for each in hold.claims] == ["low-b-0", "low-0-1"]
    play.stage.see(pod("late", 1, priority=0))
    assert play.stage.step().bound == {}
    play.stage.see(*play.pods("b"))
    assert set(play.stage.step().bound) == {"low-b-0", "low-b-1"}


def test_pods_that_do_not_come_in_time_are_not_waited_for():
    play = Play().suspended().resumed()
    step = play.stage.step(COME_WITHIN_S)
    (turn,) = step.work.turns
    assert (turn.to, turn.mark and turn.mark.resumed_at) == (To.SUSPENDED_AGAIN, 0)
    assert not play.stage.cluster.holds
    play.write(turn)
    (decision,) = play.stage.step().work.plan.decisions
    assert "did not come within 60 s" in str(decision.reasons[0])
    assert [turn.to for turn in play.stage.step(2).work.turns] == [To.RESUMED]


def test_an_owner_that_cannot_be_resumed_is_tried_again_later():
    play = Play().suspended()
    play.high_goes()
    (turn,) = play.stage.step().work.turns
    play.stage.see(TurnFailed(turn, "quota"))
    assert play.stage.step().work.turns == []
    assert not play.stage.cluster.holds
    assert [turn.to for turn in play.stage.step(2).work.turns] == [To.RESUMED]


def test_a_job_that_its_user_stops_while_it_comes_back_stays_stopped():
    play = Play().suspended().resumed()
    play.become({"suspend": True}, {})
    assert play.states() == []
    assert [turn.to for turn in play.stage.step().work.turns] == [To.UNMARKED]


# --- nodes have to be bought ----------------------------------------------------------------------


def test_a_gang_that_no_node_could_hold_is_resumed_at_once_so_that_autoscalers_see_its_pods():
    play = Play().suspended()
    play.high_goes()
    play.stage.lose(node("n1", gpus=2))
    (turn,) = play.stage.step().work.turns
    assert (turn.to, turn.mark and turn.mark.promise) == (To.RESUMED, "")
    play.write(turn)
    play.stage.see(*play.pods("b"))
    assert [each.to for each in play.stage.step().work.turns] == [To.UNMARKED]
    assert play.stage.settle().said == dict.fromkeys(("low-b-0", "low-b-1"), "Unschedulable")


def test_a_gang_that_waits_for_room_is_resumed_after_a_while():
    play = Play().suspended()
    assert play.stage.step(SHOWN_AFTER_S - 1).work.turns == []
    assert [turn.to for turn in play.stage.step(1).work.turns] == [To.RESUMED]


def test_a_gang_that_its_queue_does_not_admit_stays_suspended():
    play = Play().suspended()
    play.stage.see(queue("team", "ml", guarantee={"gpu": 2}, limit={"gpu": 2}))
    assert play.stage.step(SHOWN_AFTER_S).work.turns == []


def test_if_only_some_of_its_pods_come_and_they_are_enough_it_starts_with_them():
    play = Play(annotations={"windlass.dev/minimum": "1"}).suspended().resumed()
    play.stage.see(*play.pods("b", 1))
    (turn,) = play.stage.step(COME_WITHIN_S).work.turns
    assert turn.to is To.UNMARKED


def test_a_suspended_gang_may_take_its_place_from_others():
    play = Play().suspended()
    runs = {"node": "n1", "phase": "Running", "labels": {PREEMPTIBLE: "true"}}
    play.stage.see(*crew("high", 2, status={"startTime": LONG_AGO}, created=LONG_AGO, **runs))
    template = {"spec": {**play.low.spec["template"]["spec"], "priorityClassName": "top"}}
    play.stage.see(
        ObjectObserved("priorities", wire.PriorityClass(wire.ObjectMeta(name="top"), 20))
    )
    play.become({"template": template}, {})
    (clearing,) = play.stage.step(24 * 3600).work.clearings
    assert {each.pod.task for each in clearing.victims} == {task_id("high-0"), task_id("high-1")}
    assert clearing.gainer is None


def test_mark_and_field_must_agree():
    assert standing(low_job(), "spec.suspend") is None
    for suspend, resumed_at, expected in (
        (True, 0, OwnerState.SUSPENDED),
        (False, 9, OwnerState.RESUMED),
        (False, 0, OwnerState.TAKEN),
        (True, 9, OwnerState.TAKEN),
    ):
        owner = low_job(
            suspend=suspend, annotations=marked("low-uid", Mark(at=1, resumed_at=resumed_at))
        )
        assert standing(owner, "spec.suspend") is expected
