"""Nodes that return to service only after a check Job: occasions, Jobs, outcomes."""

from __future__ import annotations

import pytest

from tests.support.kube_given import EARLY, Stage, job, node, pod, policy, queue
from windlass.controllers.node_checks import CheckOccasion, NodeCheck, NodeCheckRules
from windlass.daemon.decide.step import SchedulerStep
from windlass.kube.writers.node_check import check_job
from windlass.kube.writes import CheckRefused
from windlass.model.units import parse_timestamp

NOW = parse_timestamp(EARLY)
RULES = NodeCheckRules(frozenset(CheckOccasion), 600, "gpu-operator")
TEAM = queue("team", "ml", guarantee={"gpu": 8})
BROKEN = [{"type": "Ready", "status": "True"}, {"type": "GPUMissing", "status": "True"}]


class Checked(Stage):
    """A stage whose scheduler checks nodes."""

    def __init__(self, *things: object, rules: NodeCheckRules = RULES, now: int = NOW) -> None:
        super().__init__(now=now)
        self.brain = SchedulerStep(self.brain._translator.scope, now, node_checks=rules)
        self.see(TEAM, policy(), *things)  # pyright: ignore[reportArgumentType]

    def checks(self, seconds: int = 0) -> list[NodeCheck]:
        return self.step(seconds).work.node_checks

    def end(self, check: NodeCheck, how: str) -> None:
        """Show the check Job as it ended: Complete or Failed."""
        status = {"conditions": [{"type": how, "status": "True"}]}
        self.see(job(check.job, namespace=RULES.namespace, status=status))


def test_a_node_that_was_ill_is_used_again_after_a_check_that_succeeded():
    there = Checked(node("n1", 2))
    assert there.checks() == []
    there.see(node("n1", 2, conditions=BROKEN), pod("a", 1))
    assert there.step(1).bound == {}
    there.see(node("n1", 2, conditions=BROKEN))
    assert there.checks() == []  # not while it is ill
    there.see(node("n1", 2))
    step = there.step(60)
    (check,) = step.work.node_checks
    assert (check.node, step.bound) == ("n1", {})
    there.end(check, "Complete")
    assert there.step(1).bound == {"a": "n1"}


def test_a_failed_check_is_repeated_later():
    there = Checked(node("n1", 2))
    there.step()
    there.see(node("n1", 2, conditions=BROKEN))
    there.step(1)
    there.see(node("n1", 2))
    (first,) = there.checks(1)
    there.end(first, "Failed")
    (mark,) = there.step(1).work.node_marks
    assert mark.quarantine is not None
    assert "its check failed" in mark.quarantine.what
    assert there.checks(RULES.retry_s - 2) == []
    (second,) = there.checks(2)
    assert second.job != first.job


def test_a_new_node_is_checked_and_an_old_one_is_not():
    young = node("young", 2, created=EARLY)
    old = node("old", 2, created="2025-01-01T00:00:00Z")
    there = Checked(young, old, pod("a", 2))
    step = there.step()
    assert step.bound == {"a": "old"}
    assert [check.node for check in step.work.node_checks] == ["young"]


def test_the_check_waits_until_no_task_uses_the_node():
    running = pod("a", 1, node="n1", phase="Running")
    there = Checked(node("n1", 2), running)
    there.step()
    there.see(node("n1", 2, conditions=BROKEN))
    there.step(1)
    there.see(node("n1", 2))
    assert there.checks(1) == []
    there.lose(running)
    assert len(there.checks(1)) == 1


def test_a_check_job_that_does_not_appear_is_asked_for_again():
    there = Checked(node("n1", 2, created=EARLY))
    (first,) = there.checks()
    assert there.checks(1) == []
    assert there.checks(30) == [first]


def test_a_check_that_cannot_start_says_so_on_the_node():
    there = Checked(node("n1", 2, created=EARLY))
    (check,) = there.checks()
    there.see(CheckRefused(check, "CronJob gpu-operator/check: not found"))
    (mark,) = there.step(1).work.node_marks
    assert mark.quarantine is not None
    assert mark.quarantine.what == "its check cannot start: CronJob gpu-operator/check: not found"


def test_without_rules_nothing_is_checked_and_open_checks_end():
    there = Checked(node("n1", 2, created=EARLY), rules=NodeCheckRules())
    step = there.step()
    assert (step.work.node_marks, step.work.node_checks) == ([], [])


@pytest.mark.parametrize("name", ["n1", "a." * 100 + "example"])
def test_the_name_of_a_check_job_is_valid_for_every_node(name: str):
    assert len(NodeCheck(name, NOW).job) <= 63


def test_a_check_job_is_that_of_the_template_bound_to_the_node():
    pods = {"spec": {"containers": [{"name": "dcgmi"}], "restartPolicy": "Never"}}
    made = check_job({"spec": {"template": pods, "suspend": True}}, NodeCheck("n1", 5))
    assert made["metadata"]["annotations"] == {"windlass.dev/checked-node": "n1"}
    assert made["spec"]["suspend"] is False
    assert made["spec"]["template"]["spec"]["nodeName"] == "n1"
    assert made["spec"]["template"]["spec"]["containers"] == [{"name": "dcgmi"}]
