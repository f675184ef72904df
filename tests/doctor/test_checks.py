"""`windlass doctor`: each check, on hand-made evidence."""

from __future__ import annotations

import copy
import json
from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest

from tests.support.checkout import ROOT
from tests.support.kube_given import node, pod
from windlass import __version__
from windlass.crds.definitions import GROUP, KINDS
from windlass.crds.manifest import definition
from windlass.daemon.loop.watches import NEEDED, OWNERS
from windlass.doctor import cluster_checks, gpu_checks, windlass_checks
from windlass.doctor.catalog import CHECKS, examine
from windlass.doctor.evidence import Check, DoctorFinding, Evidence, Severity
from windlass.doctor.required_rights import needed
from windlass.model.viewers import Right
from windlass.workloads.objects import wire

NOW = 1_800_000_000
LONG_AGO = "2026-01-01T00:00:00Z"


def thing(name: str, image: str = "", namespace: str = "gpu-operator", **status: Any) -> wire.Owner:
    """Return a DaemonSet, a Deployment or a ClusterPolicy."""
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    written = {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}
    return msgspec.json.decode(json.dumps(written), type=wire.Owner)


def daemon(name: str, ready: int, wanted: int, image: str = "") -> wire.Owner:
    return thing(name, image, numberReady=ready, desiredNumberScheduled=wanted)


def installed() -> dict[str, Any]:
    """Return our definitions as the API server returns them."""
    served = {"conditions": [{"type": "Established", "status": "True"}]}
    return {
        f"{kind.plural}.{GROUP}": definition(kind) | {"status": served} for kind in KINDS.values()
    }


def queue(name: str, ready: str = "True", message: str = "") -> wire.Owner:
    return thing(name, conditions=[{"type": "Ready", "status": ready, "message": message}])


HEALTHY = Evidence(
    now=NOW,
    version="v1.36.4",
    definitions=installed(),
    rights={Right("create", "pods/binding"): True},
    leader="windlass-0",
    queues=[queue("research")],
    nodes=[node("n1", 8), node("n2", 8)],
    daemons=[
        daemon("nvidia-device-plugin-daemonset", 2, 2),
        daemon("nvidia-dcgm-exporter", 2, 2),
    ],
    policies=[thing("cluster-policy", state="ready")],
)


def only(check: Check, evidence: Evidence, level: Severity) -> DoctorFinding:
    """Return the only finding of that level."""
    (finding,) = [result for result in check(evidence) if result.level is level]
    return finding


def test_a_healthy_cluster_has_only_ok_findings():
    assert {finding.level for _, finding in examine(HEALTHY)} == {Severity.OK}


def test_every_warning_and_failure_has_advice():
    sick = Evidence(now=NOW, leader="", hidden={"nodes": "no"}, policies=[thing("cluster-policy")])
    findings = [finding for _, finding in examine(sick)]
    assert {finding.level for finding in findings} == set(Severity)
    assert all(bool(finding.do) == (finding.level is not Severity.OK) for finding in findings)


def test_every_check_has_a_unique_name_and_works_on_an_empty_cluster():
    assert len({row.check for row in CHECKS.values()}) == len(CHECKS)
    assert [name for name, _ in examine(Evidence())] != []


def test_checks_without_their_evidence_are_skipped():
    parts = {part for row in CHECKS.values() for part in row.needs}
    assert parts <= {field.name for field in fields(Evidence)}
    findings = list(examine(Evidence(hidden=dict.fromkeys(parts, "forbidden"))))
    assert {name for name, _ in findings} == {"doctor"}
    assert len(findings) == len(parts)


def test_every_check_has_its_row_in_the_documentation():
    page = (ROOT / "docs/reference/doctor.md").read_text()
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line[:2] == "| "
    ]
    assert rows[1:] == list(CHECKS)


# --- the cluster around Windlass


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("v1.36.4", Severity.OK),
        ("v1.31.0-gke.1", Severity.OK),
        ("v1.30.9", Severity.WARN),
        ("v1.28.3", Severity.FAIL),
        ("", Severity.WARN),
    ],
)
def test_an_old_api_server_is_reported(version: str, level: Severity):
    assert [each.level for each in cluster_checks.server(replace(HEALTHY, version=version))] == [
        level
    ]


def test_an_autoscaler_without_a_ready_pod_is_a_warning():
    found = replace(HEALTHY, deployments=[thing("karpenter", namespace="kube-system")])
    assert "kube-system/karpenter" in only(cluster_checks.autoscaler, found, Severity.WARN).said
    found = replace(
        HEALTHY, deployments=[thing("x", "registry/cluster-autoscaler:1", readyReplicas=1)]
    )
    assert "gpu-operator/x adds nodes" in only(cluster_checks.autoscaler, found, Severity.OK).said


# --- Windlass itself


def test_a_missing_definition_fails_and_one_of_another_version_warns():
    there = installed()
    there["gangs.windlass.dev"] = None
    queues = there["queues.windlass.dev"] = copy.deepcopy(there["queues.windlass.dev"])
    schema = queues["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["weight"]
    found = replace(HEALTHY, definitions=there)
    assert only(windlass_checks.definitions, found, Severity.FAIL).said.endswith(
        "missing: gangs.windlass.dev"
    )
    assert only(windlass_checks.definitions, found, Severity.WARN).said.endswith(
        "Windlass: queues.windlass.dev"
    )


def test_a_definition_that_is_not_served_yet_fails():
    there = installed()
    there["queues.windlass.dev"] = there["queues.windlass.dev"] | {"status": {}}
    found = replace(HEALTHY, definitions=there)
    assert (
        "are not served: queues.windlass.dev"
        in only(windlass_checks.definitions, found, Severity.FAIL).said
    )


def test_missing_rights_are_reported_together_for_each_resource():
    patch = Right("patch", "queues/status", "windlass.dev")
    get, update = (Right(verb, "leases", "x", "ns", "me") for verb in ("get", "update"))
    found = replace(HEALTHY, rights={patch: True, get: False, update: False})
    lacking = only(windlass_checks.rights, found, Severity.FAIL)
    assert lacking.said == "no right to get, update leases.x me in namespace ns"


def test_the_required_rights_are_those_of_the_chart_and_cover_all_watches():
    rights = set(needed("kube-system", "windlass"))
    assert Right("create", "pods/binding") in rights
    assert Right("update", "leases", "coordination.k8s.io", "kube-system", "windlass") in rights
    paths = [path for path, _ in NEEDED.values()] + list(OWNERS.values())
    for path in paths:
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        assert {Right(verb, parts[-1], group) for verb in ("list", "watch")} <= rights, path


@pytest.mark.parametrize(
    ("tag", "levels"),
    [(__version__, [Severity.OK]), ("v99.0.0", [Severity.WARN]), ("nightly", []), ("", [])],
)
def test_an_installed_scheduler_of_another_version_is_reported(tag: str, levels: list[Severity]):
    scheduler = thing("windlass-scheduler", f"registry:5000/windlass:{tag}")
    scheduler = msgspec.structs.replace(
        scheduler, metadata=wire.ObjectMeta(labels={"app.kubernetes.io/name": "windlass"})
    )
    found = replace(HEALTHY, deployments=[scheduler, thing("web", "web:1.0")])
    assert [each.level for each in windlass_checks.version(found)] == levels


def test_a_missing_leader_is_a_failure_if_pods_wait():
    assert (
        "nobody leads"
        in only(windlass_checks.leader, replace(HEALTHY, leader=""), Severity.WARN).said
    )
    found = replace(HEALTHY, leader="", pods=[pod("a", 1)])
    assert (
        only(windlass_checks.leader, found, Severity.FAIL).said == "nobody leads, and pods wait: 1"
    )


def test_paused_evictions_are_reported():
    found = replace(HEALTHY, paused=True)
    assert only(windlass_checks.leader, found, Severity.WARN).do == "run `windlass resume`"


def test_a_queue_that_is_not_ready_is_reported_with_its_condition():
    found = replace(HEALTHY, queues=[queue("a"), queue("b", "False", "there is no such parent")])
    assert only(windlass_checks.queues, found, Severity.WARN).said.endswith(
        "there is no such parent"
    )


def test_a_pending_pod_without_a_condition_is_a_failure():
    silent = pod("silent", 1, created=LONG_AGO)
    said = {"type": "PodScheduled", "status": "False", "reason": "QueueFull"}
    told = pod("told", 1, created=LONG_AGO, status={"conditions": [said]})
    others = pod("others", 1, created=LONG_AGO, schedulerName="default-scheduler")
    gated = pod("gated", 1, created=LONG_AGO, schedulingGates=[{"name": "x"}])
    found = replace(HEALTHY, pods=[silent, told, others, gated])
    assert (
        "of 2 pods that wait, the scheduler has not looked at 1"
        in only(windlass_checks.pods, found, Severity.FAIL).said
    )
    assert "ml/silent" in only(windlass_checks.pods, found, Severity.FAIL).said
    assert (
        "everybody who waits was told why"
        in only(windlass_checks.pods, replace(HEALTHY, pods=[told]), Severity.OK).said
    )


def test_gpu_pods_of_other_schedulers_are_reported():
    past = [pod(f"p{i}", 1, node="n1", schedulerName="default-scheduler") for i in range(2)]
    web = pod("web", 0, node="n1", schedulerName="default-scheduler")
    warned = only(windlass_checks.pods, replace(HEALTHY, pods=[*past, web]), Severity.WARN)
    assert warned.said.startswith("GPU pods were placed by default-scheduler, 2 of them")


# --- GPUs


def test_a_node_with_gpus_that_offers_none_is_a_failure():
    mute = node("mute", 0, labels={"nvidia.com/gpu.present": "true"})
    failed = only(gpu_checks.nodes, replace(HEALTHY, nodes=[*HEALTHY.nodes, mute]), Severity.FAIL)
    assert failed.said == "GPUs are there but not offered: node mute"


def test_a_node_that_offers_fewer_gpus_than_it_has_is_reported():
    lame = node("lame", 7, labels={"nvidia.com/gpu.count": "8"})
    assert "node lame" in only(gpu_checks.nodes, replace(HEALTHY, nodes=[lame]), Severity.WARN).said


def test_a_node_with_mig_slices_does_not_count_as_offering_too_few_gpus():
    labels = {"nvidia.com/gpu.count": "8", "nvidia.com/mig.config": "all-1g.10gb"}
    cut = node("cut", 0, labels=labels, offers={"nvidia.com/mig-1g.10gb": "56"})
    assert {
        each.level for each in gpu_checks.nodes(replace(HEALTHY, nodes=[*HEALTHY.nodes, cut]))
    } == {Severity.OK}


@pytest.mark.parametrize(
    ("policies", "level"),
    [
        (None, Severity.WARN),
        ([], Severity.WARN),
        ([thing("p", state="notReady")], Severity.FAIL),
        ([thing("p", state="ready")], Severity.OK),
    ],
)
def test_the_state_of_the_gpu_operator_is_reported(policies: Any, level: Severity):
    found = replace(HEALTHY, policies=policies)
    assert [each.level for each in gpu_checks.operator(found)] == [level]


def test_drivers_of_several_major_versions_are_reported():
    label = "nvidia.com/cuda.driver-version.full"
    old, new, newer = (
        node(driver, 8, labels={label: driver}) for driver in ("535.1", "580.2", "580.3")
    )
    assert only(gpu_checks.drivers, replace(HEALTHY, nodes=[old, new]), Severity.WARN)
    assert only(gpu_checks.drivers, replace(HEALTHY, nodes=[new, newer]), Severity.OK)


def test_a_device_plugin_that_is_not_ready_everywhere_is_a_failure():
    found = replace(HEALTHY, daemons=[daemon("plugin", 1, 2, "nvcr/nvidia/k8s-device-plugin:v1")])
    assert "ready on 1 of 2 nodes" in only(gpu_checks.device_plugin, found, Severity.FAIL).said
    assert only(gpu_checks.device_plugin, replace(HEALTHY, daemons=[]), Severity.OK)
    assert only(gpu_checks.device_plugin, replace(HEALTHY, daemons=[], nodes=[]), Severity.WARN)


def test_gpus_under_other_resource_names_are_reported():
    radeon = node("n1", 0, offers={"amd.com/gpu": "8", "rdma/hca": "1"})
    said = only(gpu_checks.nodes, replace(HEALTHY, nodes=[radeon]), Severity.OK).said
    assert said == "GPUs are offered under other names, and charged to queues: amd.com/gpu"


def test_nodes_without_the_labels_of_feature_discovery_are_reported():
    bare = node("bare", 8, labels={"nvidia.com/gpu.product": "H100"})
    assert bare.metadata.labels
    del bare.metadata.labels["nvidia.com/gpu.memory"]
    found = replace(HEALTHY, nodes=[bare])
    assert only(gpu_checks.discovery, found, Severity.WARN).said.endswith("per model: node bare")


def test_shared_gpus_and_mixed_mig_layouts_are_reported():
    shared = node("shared", 32, labels={"nvidia.com/gpu.replicas": "4"})
    said = only(gpu_checks.discovery, replace(HEALTHY, nodes=[shared]), Severity.OK).said
    assert said.endswith("queues are charged for the part: node shared")
    mixed = node("mixed", 0, labels={"nvidia.com/gpu.product": "NVIDIA-H100-MIG-INVALID"})
    assert only(gpu_checks.discovery, replace(HEALTHY, nodes=[mixed]), Severity.FAIL)


def test_a_cluster_without_a_dcgm_exporter_is_reported():
    assert only(gpu_checks.metrics, replace(HEALTHY, daemons=[]), Severity.WARN)


def test_a_failed_or_unmanaged_mig_layout_is_reported():
    wish = {"nvidia.com/mig.config": "all-1g.10gb"}
    failed = node("n1", 8, labels=wish | {"nvidia.com/mig.config.state": "failed"})
    pending = node("n2", 8, labels=wish | {"nvidia.com/mig.config.state": "pending"})
    found = replace(HEALTHY, nodes=[failed], daemons=[daemon("nvidia-mig-manager", 1, 1)])
    assert "node n1 could not be cut" in only(gpu_checks.mig, found, Severity.FAIL).said
    assert "no MIG manager" in only(gpu_checks.mig, replace(found, daemons=[]), Severity.WARN).said
    assert (
        "are being changed"
        in only(gpu_checks.mig, replace(found, nodes=[pending]), Severity.WARN).said
    )
