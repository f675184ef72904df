"""Rules of kube-scheduler that no other file covers, from the pod to the decision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import EARLY, Stage, container, node, pod, queue

CPU = {"cpu": "64"}
TEAM = queue("team", "ml")
LATER = 1_800_000_000
"""A time long after all pods were created."""


def preempting(name: str, priority: int, **fields: Any) -> Any:
    labels = {"windlass.dev/preemptible": "true"}
    return pod(name, requests=CPU, priority=priority, labels=labels, **fields)


@pytest.mark.parametrize(("policy", "evicted"), [("PreemptLowerPriority", 1), ("Never", 0)])
def test_a_pod_with_preemption_policy_never_preempts_nothing(policy: str, evicted: int):
    old = preempting("old", 0, node="n1", phase="Running", status={"startTime": EARLY})
    new = preempting("a", 9, preemptionPolicy=policy)
    there = Stage(TEAM, node("n1"), old, new, now=LATER)
    assert len(there.step().work.plan.evictions) == evicted


def test_the_overhead_of_a_runtime_counts_on_the_node():
    small = pod("a", requests={"cpu": "63"}, overhead={"cpu": "2"})
    assert Stage(TEAM, node("n1"), small).step().bound == {}
    assert Stage(TEAM, node("n1"), pod("a", requests={"cpu": "63"})).step().bound == {"a": "n1"}


def test_a_gated_pod_is_not_placed():
    gated = pod("a", schedulingGates=[{"name": "wait"}])
    there = Stage(TEAM, node("n1"), gated)
    assert there.step().bound == {}
    there.see(pod("a"))
    assert there.step().bound == {"a": "n1"}


def test_a_cordoned_node_admits_pods_that_tolerate_it():
    tolerant = pod("a", tolerations=[{"operator": "Exists"}])
    there = Stage(TEAM, node("n1", unschedulable=True), tolerant, pod("b"))
    assert there.step().bound == {"a": "n1"}


def test_every_pod_takes_one_pod_slot():
    there = Stage(TEAM, node("n1", offers={"pods": "1"}), pod("a"), pod("b"))
    assert len(there.step().bound) == 1


def test_pod_affinity_with_namespaces_matches_pods_there():
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    near |= {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    wants = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    nodes = [node(name, labels={"zone": name}) for name in ("n1", "n2")]
    db = pod("db", namespace="other", node="n2", labels={"app": "db"}, containers=[container()])
    there = Stage(TEAM, *nodes, db, pod("a", affinity=wants))
    assert there.step().bound == {}
    there.apply(there.translator.namespace_seen("other", {"team": "x"}))
    assert there.step().bound == {"a": "n2"}
