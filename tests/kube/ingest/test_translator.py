"""The events of observed objects and of our own actions, in any order of arrival."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kube_given import NAMESPACE, Reading, crew, job, made_by, node, pod, task_id
from windlass.crds.read import QueueUsers
from windlass.kube.ingest.device_assignment import Allotments
from windlass.kube.ingest.scope import Scope
from windlass.model.actions import Bind, Evict, EvictionRule
from windlass.model.constraints import Expression, Operator
from windlass.model.gpus import WHOLE, GpuRequest, Slice
from windlass.model.jobs import TaskId, TaskState
from windlass.model.reasons import ReasonCode
from windlass.workloads.kinds.table import Key

A = task_id("a")


def devices(*numbers: int) -> tuple[Slice, ...]:
    return tuple(Slice(number, WHOLE) for number in numbers)


def assumed(*things: Any, on: str = "n1", given: tuple[Slice, ...] = devices(0)) -> Reading:
    """Return a reading in which pod `a`, which requests a GPU, is being bound."""
    there = Reading(node("n1", 2), node("n2", 2), pod("a", 1), *things)
    there.apply(there.translator.assume([Bind(A, on, given)]))
    there.see(pod("a", 1))
    return there


def place(there: Reading, name: str) -> tuple[TaskState, str, tuple[Slice, ...]]:
    found = there.task(name)
    return found.state, found.node, found.devices


# --- assume, confirm, fail


def test_an_older_object_does_not_undo_an_assumption():
    there = assumed()
    assert place(there, "a") == (TaskState.BOUND, "n1", devices(0))


def test_the_watch_confirms_a_bind():
    there = assumed()
    there.see(pod("a", 1, node="n1"))
    assert (len(there.translator.assumed), place(there, "a")[0]) == (0, TaskState.BOUND)
    there.see(pod("a", 1, node="n1", phase="Running"))
    assert place(there, "a") == (TaskState.RUNNING, "n1", devices(0))


def test_a_pod_bound_to_another_node_than_assumed_is_on_that_node():
    there = assumed()
    there.see(pod("a", 1, node="n2"))
    assert place(there, "a") == (TaskState.BOUND, "n2", devices(0))
    there.see(pod("b", 2, node="n1", phase="Running"))
    assert place(there, "b")[2] == devices(0, 1)


def test_after_a_failed_bind_the_pod_waits_and_its_gang_backs_off():
    there = assumed()
    there.apply(there.translator.bind_failed(A, "the webhook said no"))
    assert place(there, "a") == (TaskState.WAITING, "", ())
    assert "the webhook said no" in str(there.gang_of("a").refusal)
    there.apply(there.translator.advance(1))
    assert there.gang_of("a").refusal is None


def test_a_bind_failure_reported_after_the_confirmation_is_ignored():
    there = assumed()
    there.see(pod("a", 1, node="n1"))
    there.apply(there.translator.bind_failed(A, "too late"))
    assert place(there, "a")[0] is TaskState.BOUND
    assert there.gang_of("a").refusal is None


def test_an_older_object_that_comes_after_the_confirmation_does_not_undo_it():
    there = assumed()
    there.see(pod("a", 1, node="n1"), pod("a", 1))
    assert place(there, "a") == (TaskState.BOUND, "n1", devices(0))


def test_a_pod_deleted_during_its_bind_is_forgotten():
    there = assumed()
    there.apply(there.translator.pod_gone(pod("a", 1)))
    assert (there.names, len(there.translator.assumed)) == (set(), 0)


def test_a_pod_that_fails_during_its_bind_is_forgotten():
    there = assumed()
    there.see(pod("a", 1, phase="Failed"))
    assert (there.names, len(there.translator.assumed)) == (set(), 0)


def test_an_assumed_eviction_is_releasing_until_it_is_refused():
    there = Reading(node("n1", 2), pod("a", 1, node="n1", phase="Running"))
    there.apply(there.translator.advance(50))
    there.apply(there.translator.assume([Evict(A, EvictionRule.SHARE)]))
    there.see(pod("a", 1, node="n1", phase="Running"))
    assert (there.task("a").state, there.task("a").releasing_since) == (TaskState.RELEASING, 50)
    there.apply(there.translator.evict_failed(A))
    assert there.task("a").state is TaskState.RUNNING


# --- nodes that come and go


def test_a_pod_on_an_unknown_node_counts_once_the_node_is_observed():
    there = Reading(pod("a", 1, node="late", phase="Running"))
    assert there.names == set()
    there.see(node("late", 2))
    assert place(there, "a") == (TaskState.RUNNING, "late", devices(0))


def test_pods_of_a_deleted_node_are_lost_and_come_back_with_the_node():
    there = Reading(node("n1", 2), pod("a", 1, node="n1", phase="Running"))
    there.apply(there.translator.node_gone("n1"))
    assert (there.names, "n1" in there.cluster.nodes) == (set(), False)
    there.see(node("n1", 2))
    assert place(there, "a") == (TaskState.RUNNING, "n1", devices(0))


def test_a_pod_deleted_while_its_node_is_gone_does_not_come_back():
    there = Reading(node("n1", 2), pod("a", 1, node="n1"))
    there.apply(there.translator.node_gone("n1"))
    there.apply(there.translator.pod_gone(pod("a", 1, node="n1")))
    there.see(node("n1", 2))
    assert there.names == set()


def test_a_pod_waits_after_its_bind_to_a_deleted_node_failed():
    there = assumed()
    there.apply(there.translator.node_gone("n1"))
    assert there.names == set()
    there.apply(there.translator.bind_failed(A, "the node is gone"))
    assert place(there, "a")[0] is TaskState.WAITING


def test_a_pod_bound_elsewhere_while_its_assumed_node_was_gone_stays_there():
    there = assumed()
    there.apply(there.translator.node_gone("n1"))
    there.see(pod("a", 1, node="n2"))
    there.see(node("n1", 2))
    assert place(there, "a")[:2] == (TaskState.BOUND, "n2")


def test_nodes_outside_the_scope_are_ignored():
    scope = Scope(nodes={"pool": "gpu"})
    there = Reading(node("n1", labels={"pool": "gpu"}), node("n2"), scope=scope)
    assert set(there.cluster.nodes) == {"n1"}
    there.see(node("n1", labels={"pool": "web"}))
    assert set(there.cluster.nodes) == set()


# --- whose pods count


@pytest.mark.parametrize(
    "fields",
    [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "", "owner": made_by("DaemonSet")},
        {"owner": made_by("Node", "v1", "n1"), "schedulerName": ""},
    ],
)
def test_foreign_pods_count_on_their_node_and_are_never_victims(fields: dict[str, Any]):
    there = Reading(node("n1", 2), pod("a", 1, node="n1", phase="Running", **fields))
    found = there.gang_of("a")
    assert place(there, "a") == (TaskState.RUNNING, "n1", devices(0))
    assert (found.preemptible, found.stale_after_s, found.refusal) == (False, -1, None)


def test_waiting_foreign_pods_are_ignored():
    assert Reading(pod("a", 1, schedulerName="default-scheduler")).names == set()


def test_the_nominated_node_of_a_foreign_pod_counts_as_taken():
    nominated = {"nominatedNodeName": "n1"}
    theirs = pod("a", 1, schedulerName="default-scheduler", status=nominated)
    there = Reading(node("n1", 2), theirs, pod("b", 1, status=nominated))
    assert place(there, "a") == (TaskState.BOUND, "n1", devices(0))
    assert there.task("b").state is TaskState.WAITING
    there.see(pod("a", 1, schedulerName="default-scheduler"))
    assert there.names == {"b"}


def test_gpus_of_foreign_pods_are_charged_to_the_queue_of_their_namespace():
    fields: dict[str, Any] = {"schedulerName": "default-scheduler", "node": "n1"}
    there = Reading(node("n1", 2), pod("a", 1, **fields), pod("b", **fields))
    assert (there.gang_of("a").queue, there.gang_of("b").queue) == ("team", "")


@pytest.mark.parametrize(
    "resource",
    ["amd.com/gpu", "gpu.intel.com/xe", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"],
)
def test_gpus_of_foreign_pods_are_charged_under_every_resource_name(resource: str):
    theirs: dict[str, Any] = {"schedulerName": "default-scheduler", "node": "n1"}
    there = Reading(
        node("n1", offers={resource: "2"}), pod("a", requests={resource: "1"}, **theirs)
    )
    assert there.gang_of("a").queue == "team"


def test_pods_of_namespaces_outside_the_scope_are_foreign():
    scope = Scope(namespaces=frozenset({"elsewhere"}))
    there = Reading(node("n1", 2), pod("a", 1), pod("b", 1, node="n1"), scope=scope)
    assert there.names == {"b"}
    assert not there.gang_of("b").preemptible


def test_several_scheduler_names_can_be_ours():
    scope = Scope(schedulers=frozenset({"windlass", "old-name"}))
    assert Reading(pod("a", schedulerName="old-name"), scope=scope).names == {"a"}


# --- stages of a pod's life


def test_a_gated_pod_is_a_task_once_its_gates_are_removed():
    there = Reading(pod("a", 1, schedulingGates=[{"name": "x"}]))
    assert there.names == set()
    there.see(pod("a", 1))
    assert place(there, "a")[0] is TaskState.WAITING


def test_a_waiting_pod_that_is_deleted_is_forgotten_at_once():
    there = Reading(pod("a", 1))
    there.see(pod("a", 1, deleted="2026-01-01T00:00:30Z"))
    assert there.names == set()


def test_a_terminating_pod_keeps_its_place_until_it_is_gone():
    there = Reading(node("n1", 2))
    there.see(pod("a", 1, node="n1", phase="Running", deleted="2026-01-01T00:00:30Z"))
    assert place(there, "a") == (TaskState.RELEASING, "n1", devices(0))


def test_a_finished_pod_frees_its_devices_at_once():
    there = Reading(node("n1", 2), pod("a", 2, node="n1", phase="Running"))
    there.see(pod("a", 2, node="n1", phase="Failed"), pod("b", 1, node="n1", phase="Running"))
    assert (there.names, place(there, "b")[2]) == ({"b"}, devices(0))


def test_members_that_succeeded_count_and_those_that_failed_do_not():
    there = Reading(node("n1", 4))
    states = ["Succeeded", "Failed", "Running"]
    there.see(
        *(pod(n, 1, gang=("t", 3), node="n1", phase=p) for n, p in zip("abc", states, strict=True))
    )
    found = {name: there.task(name).state for name in there.names}
    assert found == {"a": TaskState.SUCCEEDED, "c": TaskState.RUNNING}


def test_a_member_that_succeeded_still_counts_after_its_node_is_gone():
    there = Reading(node("n1", 1), node("n2", 1))
    there.see(pod("a", 1, gang=("t", 2), node="n1", phase="Succeeded"))
    there.see(pod("b", 1, gang=("t", 2), node="n2", phase="Running"))
    there.apply(there.translator.node_gone("n1"))
    assert there.task("a").state is TaskState.SUCCEEDED
    assert not there.cluster.broken


def test_a_single_pod_that_succeeded_is_forgotten():
    there = Reading(node("n1", 2), pod("a", 1, node="n1", phase="Succeeded"))
    assert there.names == set()


def test_an_infeasible_resize_counts_with_the_allocated_resources():
    there = Reading(node("n1"))
    given = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    grows: dict[str, Any] = {"requests": {"cpu": "8"}, "node": "n1", "phase": "Running"}
    there.see(pod("a", **grows, status=given))
    assert there.task("a").shape.request.cpu_milli == 8000
    hopeless = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    there.see(pod("a", **grows, status=given | {"conditions": [hopeless]}))
    assert there.task("a").shape.request.cpu_milli == 1000


# --- queues


def test_a_queue_observed_later_is_assigned_to_the_gangs_that_name_it():
    there = Reading(pod("a", queue="late"))
    found = there.gang_of("a").refusal
    assert found is not None
    assert 'queue "late" does not exist' in str(found)
    there.queue("late", QueueUsers(frozenset({NAMESPACE})))
    assert (there.gang_of("a").queue, there.gang_of("a").refusal) == ("late", None)


def test_gangs_of_a_deleted_queue_are_refused():
    there = Reading(pod("a"))
    assert there.gang_of("a").queue == "team"
    there.apply(there.translator.gangs.queue_gone("team"))
    found = there.gang_of("a").refusal
    assert found is not None
    assert found.why is ReasonCode.NO_QUEUE


def test_a_gang_that_names_a_closed_queue_is_refused():
    there = Reading()
    there.queue("closed", QueueUsers(frozenset({"other"})))
    there.see(pod("a", queue="closed"))
    assert f'namespace "{NAMESPACE}" may not use queue "closed"' in str(there.gang_of("a").refusal)


def test_a_namespace_selected_by_label_gets_its_queue():
    there = Reading()
    there.apply(there.translator.gangs.queue_gone("team"))
    there.queue("picked", QueueUsers(term=(Expression("team", Operator.IN, ("x",)),)))
    there.see(pod("a"))
    assert there.gang_of("a").queue == ""
    there.apply(there.translator.namespace_seen(NAMESPACE, {"team": "x"}))
    assert there.gang_of("a").queue == "picked"


def test_a_namespace_selector_is_evaluated_again_when_labels_change():
    chosen = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [chosen]}}
    there = Reading(node("n1"), pod("a", affinity=affinity))

    def looked_at() -> tuple[str, ...]:
        return there.task("a").shape.constraints.apart[0].namespaces

    assert looked_at() == ("",)
    there.apply(there.translator.namespace_seen("web", {"team": "x"}))
    assert looked_at() == ("web",)
    there.apply(there.translator.namespace_gone("web"))
    assert looked_at() == ("",)


def test_members_are_returned_in_the_order_in_which_they_are_placed():
    there = Reading(*crew("w", 12))
    names = [each.split("/")[1] for each in there.translator.gangs.members(there.gang_of("w-0").id)]
    assert names == [f"w-{i}" for i in range(12)]


def test_pods_of_a_deleted_job_keep_their_places():
    owner = job("train", 2)
    there = Reading(node("n1", 2), owner, pod("a", 1, owner=owner, node="n1", phase="Running"))
    there.apply(there.translator.owner_gone(Key("Job", "batch"), owner))
    there.see(pod("a", 1, owner=owner, node="n1", phase="Running"))
    assert place(there, "a") == (TaskState.RUNNING, "n1", devices(0))


# --- devices


def test_pods_get_the_lowest_devices_that_are_free():
    there = Reading(node("n1", 4))
    there.see(*(pod(name, 1, node="n1", phase="Running") for name in "abc"))
    there.apply(there.translator.pod_gone(pod("b", 1, node="n1")))
    there.see(pod("d", 2, node="n1", phase="Running"))
    assert place(there, "d")[2] == devices(1, 3)


def test_a_pod_keeps_the_devices_the_plan_gave_it():
    there = assumed(given=devices(1))
    there.see(pod("a", 1, node="n1", phase="Running"))
    assert place(there, "a")[2] == devices(1)


def test_after_a_gpu_failed_no_device_is_free_until_enough_pods_have_ended():
    there = Reading(node("n1", 2), *(pod(n, 1, node="n1", phase="Running") for n in "ab"))
    there.see(node("n1", 1))
    there.apply(there.translator.pod_gone(pod("a", 1, node="n1")))
    # what is left stands for the one device that is left
    assert place(there, "b")[2] == devices(0)


class Books:
    """A random sequence of device assignments on one node with so many devices."""

    def __init__(self) -> None:
        self.book, self.count, self.asked = Allotments(), 4, dict[TaskId, int]()
        self.book.see_node("n", 4)

    def play(self, name: int, gpus: int, resize: bool) -> None:
        task = TaskId(str(name))
        if resize:
            self.count = gpus * 2
            self.book.see_node("n", self.count)
        elif task in self.asked:
            del self.asked[task]
            self.book.take_back(task, "n")
            self.book.mend("n")
        else:
            self.asked[task] = gpus
            self.book.give(task, "n", GpuRequest(gpus))

    def given(self) -> list[int]:
        gives = (self.book.give(task, "n", GpuRequest(n)) for task, n in self.asked.items())
        return [each.device for given in gives for each in given]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3), st.booleans()), max_size=30))
def test_no_device_is_assigned_twice_while_there_are_enough(moves: list[tuple[int, int, bool]]):
    there = Books()
    for name, gpus, resize in moves:
        there.play(name, gpus, resize and gpus != 2)
        given, asked = there.given(), sum(there.asked.values())
        present = [each for each in given if each < there.count]
        assert len(given) == asked
        assert len(set(present)) == len(present)
        assert len(present) == min(asked, there.count)
