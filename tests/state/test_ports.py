"""Host ports: of tasks with the same port and address, at most one runs on a node."""

from dataclasses import replace
from typing import Any

import pytest

from tests.given import ask, cluster, job, node, outcome_of, schedule, snapshot
from tests.support.kube_given import Stage, container, pod, queue
from tests.support.kube_given import node as machine
from windlass.model.actions import EvictionRule
from windlass.model.events import GangSeen, TaskGone, TaskSeen
from windlass.model.jobs import TaskId
from windlass.model.reasons import ReasonCode
from windlass.model.resources import Port, Request
from windlass.state.snapshot import from_json, to_json
from windlass.workloads.pods.requests import request_of

WEB = Port(80)


def listening(*ports: Port) -> Request:
    return replace(ask(), ports=ports)


def test_two_tasks_with_one_host_port_go_to_two_nodes():
    found = schedule(node("n1"), node("n2"), job("a", 2, listening(WEB)))
    assert sorted(found.places.values()) == ["n1", "n2"]


def test_a_task_whose_host_port_is_taken_everywhere_waits_with_a_reason():
    old = job("old", 1, listening(WEB)).runs(0, on="n1")
    found = schedule(node("n1"), old, job("a", 1, listening(WEB)))
    assert found.nothing_of("a")
    assert "its TCP port 80 is taken" in str(found.reason("a", ReasonCode.REFUSED_BY))


@pytest.mark.parametrize(
    ("theirs", "ours", "fits"),
    [
        (Port(80), Port(81), True),
        (Port(80), Port(80, "UDP"), True),
        (Port(80), Port(80, address="10.0.0.1"), False),
        (Port(80, address="10.0.0.1"), Port(80), False),
        (Port(80, address="10.0.0.1"), Port(80, address="10.0.0.2"), True),
        (Port(80, address="10.0.0.1"), Port(80, address="10.0.0.1"), False),
    ],
)
def test_ports_conflict_by_protocol_number_and_address(theirs: Port, ours: Port, fits: bool):
    old = job("old", 1, listening(theirs)).runs(0, on="n1")
    assert bool(schedule(node("n1"), old, job("a", 1, listening(ours))).places) == fits


def test_a_port_is_free_again_when_its_task_is_gone():
    two = job("old", 1, listening(WEB)), job("a", 1, listening(WEB), created_at=9)
    there = schedule(node("n1"), *two).carried_out()
    assert outcome_of(there).places == {}
    there.apply(TaskGone(TaskId("old-0")))
    assert outcome_of(there).places == {"a-0": "n1"}


def test_a_task_of_lower_priority_is_preempted_for_its_host_port():
    old = job("old", 1, listening(WEB), priority=0).runs(0, on="n1")
    found = schedule(node("n1"), old, job("a", 1, listening(WEB), priority=9))
    assert found.evicted == {"old-0": EvictionRule.PRIORITY}


def test_a_port_of_one_task_has_no_row_until_a_second_task_asks_for_it():
    there = cluster(node("n1"), job("old", 1, listening(WEB)).runs(0, on="n1"))
    assert len(there.columns.ports) == 0
    late = job("a", 1, listening(WEB))
    there.apply(GangSeen(late.gang))
    there.apply(TaskSeen(late.tasks[0]))
    assert outcome_of(there).places == {}


def test_ports_survive_a_snapshot():
    seen = snapshot(node("n1"), job("a", 1, listening(Port(80, "UDP", "10.0.0.1"))))
    assert from_json(to_json(seen)) == seen


# --- as pods write them


def ports_of(*written: dict[str, object], **fields: Any) -> tuple[Port, ...]:
    return request_of(pod("p", containers=[container() | {"ports": list(written)}], **fields)).ports


def test_ports_are_read_from_containers_that_keep_running():
    other = container("s", sidecar=True) | {"ports": [{"hostPort": 90}]}
    brief = container("i") | {"ports": [{"hostPort": 91}]}
    found = ports_of({"hostPort": 80}, {"containerPort": 70}, initContainers=[other, brief])
    assert found == (Port(80), Port(90))


def test_a_port_at_all_addresses_conflicts_with_each_address():
    both = {"hostPort": 80, "hostIP": "0.0.0.0"}, {"hostPort": 80, "hostIP": "10.0.0.1"}
    assert ports_of(*both) == (Port(80),)


def test_pods_with_one_host_port_are_bound_to_different_nodes():
    web = [container() | {"ports": [{"hostPort": 80}]}]
    theirs = pod("old", containers=web, node="n1", schedulerName="default-scheduler")
    there = Stage(queue("team", "ml"), machine("n1"), machine("n2"), theirs)
    there.see(pod("a", containers=web), pod("b", containers=web))
    assert sorted(there.step().bound.values()) == ["n2"]
