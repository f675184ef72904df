"""Readings of DCGM exporters: which are trusted, and what follows for their nodes."""

from __future__ import annotations

from typing import Any

from tests.support.kube_given import Stage, namespace, node, pod, queue
from windlass.daemon.decide.gpu_health import KEPT_S, LOOK_EVERY_S, GpuHealth
from windlass.kube.writes import GpuReadings
from windlass.model.nodes import NodeStanding
from windlass.workloads.nodes.dcgm import Reading, exporter_of
from windlass.workloads.objects import wire

TEAM = queue("team", "ml", guarantee={"gpu": 8})
LEAVES = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
FELL_OFF = "ill: GPU 1 reports XID 79 (fell off the bus)"


def exporter(name: str = "dcgm", on: str = "n1", **fields: Any) -> wire.Pod:
    given: dict[str, Any] = {
        "labels": {"app": "nvidia-dcgm-exporter"},
        "namespace": "gpu-operator",
        "schedulerName": "default-scheduler",
        "phase": "Running",
        "status": {"podIP": "10.0.0.1"},
    }
    return pod(name, node=on, **given | fields)


def tell(there: Stage, by: wire.Pod, *xids: int, used: tuple[int, ...] = ()) -> None:
    found = exporter_of(by)
    assert found is not None
    there.see(GpuReadings(((found, Reading(used, tuple(enumerate(xids)))),)))


def stage(*things: Any) -> Stage:
    there = Stage(TEAM, node("n1", 2), *things)
    there.brain.gpu_health.due()
    return there


def ailment(there: Stage) -> str:
    return there.cluster.nodes["n1"].ailment


def asked(there: Stage) -> list[str]:
    """Return the exporters to scrape."""
    return [each.process[0].removeprefix("uid-of-") for each in there.brain.gpu_health.due() or ()]


# --- what follows


def test_a_job_waits_while_the_gpu_is_broken():
    there = stage(exporter())
    tell(there, exporter(), 0, 79)
    there.see(pod("a", 2))
    assert there.step().bound == {}
    assert FELL_OFF in there.settle().texts["a"]
    tell(there, exporter(), 0, 0)
    assert there.step().bound == {"a": "n1"}


def test_a_broken_gpu_evicts_nothing():
    there = stage(exporter(), pod("a", 1, node="n1", phase="Running"))
    tell(there, exporter(), 0, 79)
    assert there.cluster.nodes["n1"].trouble is not None
    assert there.step(3600).work.plan.evictions == ()


def test_worse_trouble_of_the_node_object_wins_while_it_lasts():
    there = stage(exporter())
    tell(there, exporter(), 0, 79)
    there.see(node("n1", 2, taints=[LEAVES]))
    trouble = there.cluster.nodes["n1"].trouble
    assert trouble is not None
    assert trouble.stand is NodeStanding.LEAVES
    there.see(node("n1", 2))
    assert ailment(there) == FELL_OFF


def test_an_equal_reading_changes_nothing():
    there = stage(exporter())
    tell(there, exporter(), 0, 79)
    before = there.cluster.nodes["n1"]
    there.step(30)
    tell(there, exporter(), 0, 79, used=(10, 20))
    assert there.cluster.nodes["n1"] is before


def test_the_last_reading_of_a_silent_exporter_counts_for_a_while():
    there = stage(exporter())
    tell(there, exporter(), 0, 79, used=(10, 20))
    there.step(KEPT_S - 1)
    assert (ailment(there), there.brain.gpu_health.utilisation) == (FELL_OFF, {"n1": (10, 20)})
    there.step(LOOK_EVERY_S)
    assert (ailment(there), there.brain.gpu_health.utilisation) == ("", {})


def test_an_application_error_does_not_hide_a_hardware_error_until_the_exporter_restarts():
    there = stage(exporter())
    tell(there, exporter(), 0, 79)
    tell(there, exporter(), 0, 13)
    assert ailment(there) == FELL_OFF
    again = exporter(status={"podIP": "10.0.0.1", "containerStatuses": [{"restartCount": 1}]})
    there.see(again)
    there.brain.gpu_health.due()
    tell(there, again, 0, 13)
    assert ailment(there) == ""


# --- who is asked


def test_without_exporters_nothing_is_scraped():
    there = Stage(TEAM, node("n1", 2), pod("a", 1))
    assert there.brain.gpu_health.due() is None


def test_one_exporter_is_scraped_for_each_node_in_scope():
    there = Stage(TEAM, node("n1", 2), exporter("x"), exporter("y", on="n2"))
    assert asked(there) == ["x"]
    assert there.brain.gpu_health.due() is None
    there.see(node("n2", 2))
    assert sorted(asked(there)) == ["x", "y"]
    there.lose(exporter("x"))
    assert asked(there) == ["y"]


def test_an_exporter_in_a_namespace_with_a_queue_is_not_trusted():
    fake = exporter("fake", namespace="ml", created="2020-01-01T00:00:00Z")
    there = Stage(TEAM, node("n1", 2), fake)
    assert asked(there) == []
    there.see(exporter("real"))
    assert asked(there) == ["real"]
    tell(there, fake, 0, 79)
    assert ailment(there) == ""
    there.see(namespace("gpu-operator", team="a"))
    there.see(queue("all", namespaceSelector={"matchLabels": {"team": "a"}}))
    assert there.brain.gpu_health.due() == []


def test_only_exporters_of_configured_namespaces_are_trusted():
    there = Stage(TEAM, node("n1", 2))
    measures = GpuHealth(there.translator, there.apply, ["ml"])
    far, near = exporter("far"), exporter("near", namespace="ml")
    measures.see(far)
    measures.see(near)
    assert measures.due() == [exporter_of(near)]


def test_the_oldest_exporter_of_a_node_is_scraped():
    late = exporter("a-late", created="2026-02-01T00:00:00Z")
    assert asked(Stage(TEAM, node("n1", 2), late, exporter("z-early"))) == ["z-early"]
