"""The control plane that the live tests stand on is a real one, and can be broken at will."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.support.kubectl import Kubectl
from tests.live.support.waiting import wait_until
from windlass_lab.control_plane.binaries import ProgramBinary
from windlass_lab.control_plane.errors import PlaneFailed
from windlass_lab.control_plane.plane import Options, Plane

API = "kube-apiserver"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "pair"},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.invalid/none"}],
            }
        },
    },
}

OWNER = """
import asyncio
from windlass_lab.control_plane.plane import Options, Plane

async def own():
    async with Plane(Options(controllers=False)) as plane:
        print(plane.pid("etcd"), plane.pid("kube-apiserver"), plane.folder, flush=True)
        await asyncio.Event().wait()

asyncio.run(own())
"""


def test_a_plane_runs_the_version_of_its_parts(plane: Plane, kubectl: Kubectl):
    assert f"v{plane.parts[API].version_text}" in kubectl("get", "--raw", "/version")


def test_who_is_unknown_may_not_list_pods_until_a_role_says_so(
    plane: Plane, kubectl: Kubectl, namespace: str
):
    stranger = kubectl.with_access(plane.user_kubeconfig("stranger", ["visitors"]))
    assert "forbidden" in stranger.refuses("get", "pods", "-n", namespace)
    view = ["rolebinding", "visitors", "--clusterrole=view", "--group=visitors"]
    kubectl("create", *view, "-n", namespace)
    wait_until(lambda: stranger("auth", "can-i", "list", "pods", "-n", namespace) == "yes\n")
    assert stranger.get("pods", "-n", namespace)["items"] == []


def test_the_controllers_make_the_pods_of_a_job(kubectl: Kubectl, namespace: str):
    kubectl("create", "-n", namespace, "-f", "-", given=JOB)
    kubectl("wait", "job/pair", "-n", namespace, "--for=jsonpath={.status.active}=2")
    assert len(kubectl.get("pods", "-n", namespace, "-l", "job-name=pair")["items"]) == 2


@pytest.mark.parametrize("at_once", [False, True], ids=["stopped", "killed"])
def test_an_api_server_that_went_away_comes_back_with_its_data(
    fresh_plane: Plane, kubectl: Kubectl, at_once: bool
):
    admin = kubectl.with_access(fresh_plane.kubeconfig)
    admin("create", "configmap", "kept", "--from-literal=a=b")
    fresh_plane.stop(API, at_once=at_once)
    assert "refused" in admin.refuses("get", "configmap", "kept")
    fresh_plane.start(API)
    assert admin.get("configmap", "kept")["data"] == {"a": "b"}


def test_a_paused_api_server_answers_after_its_pause(fresh_plane: Plane, kubectl: Kubectl):
    admin = kubectl.with_access(fresh_plane.kubeconfig)
    fresh_plane.pause(API)
    assert "imeout" in admin.refuses("get", "namespaces", "--request-timeout=1s")
    fresh_plane.resume(API)
    assert admin.get("namespaces")["items"]


def test_two_planes_side_by_side_do_not_disturb_each_other(
    plane: Plane, fresh_plane: Plane, kubectl: Kubectl, namespace: str
):
    other = kubectl.with_access(fresh_plane.kubeconfig)
    assert "not found" in other.refuses("get", "namespace", namespace)
    assert set(plane.layout.ports.values()).isdisjoint(fresh_plane.layout.ports.values())
    fresh_plane.close()
    assert kubectl.get("namespace", namespace)["status"]["phase"] == "Active"


def test_nobody_comes_in_with_a_certificate_of_another_plane(
    plane: Plane, fresh_plane: Plane, kubectl: Kubectl, tmp_path: Path
):
    stray = tmp_path / "kubeconfig"
    stray.write_text(fresh_plane.kubeconfig.read_text().replace(fresh_plane.server, plane.server))
    crossed = kubectl.with_access(stray)
    assert "certificate" in crossed.refuses("get", "namespaces")
    assert "logged in" in crossed.refuses("get", "namespaces", "--insecure-skip-tls-verify=true")


def test_what_came_before_a_compaction_cannot_be_watched_after_a_restart(
    fresh_plane: Plane, kubectl: Kubectl
):
    admin = kubectl.with_access(fresh_plane.kubeconfig)
    admin("create", "configmap", "first")
    before = admin.get("configmap", "first")["metadata"]["resourceVersion"]
    admin("create", "configmap", "second")
    assert fresh_plane.compact() > int(before)
    fresh_plane.stop(API)
    fresh_plane.start(API)
    path = f"/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion={before}"
    assert "too old resource version" in admin("get", "--raw", path)


@pytest.mark.parametrize(
    "fresh_plane", [Options(scheduler=True, controllers=False, audit=True)], indirect=True
)
def test_a_plane_has_what_its_options_ask_for(fresh_plane: Plane, kubectl: Kubectl):
    assert fresh_plane.pid("kube-scheduler")
    with pytest.raises(PlaneFailed, match="has no kube-controller-manager"):
        fresh_plane.pid("kube-controller-manager")
    kubectl.with_access(fresh_plane.kubeconfig)("create", "configmap", "noticed")
    audit = fresh_plane.folder / "audit.log"
    wait_until(lambda: '"name":"noticed"' in audit.read_text())


def test_a_program_that_does_not_start_is_told_with_the_end_of_its_log(
    parts: dict[str, ProgramBinary],
):
    options = Options(controllers=False, flags={API: ["--no-such-flag"]})
    with pytest.raises(PlaneFailed, match=f"(?s){API} ended.*unknown flag: --no-such-flag"):
        Plane(options).__enter__()


def test_no_process_and_no_folder_outlives_a_killed_owner(parts: dict[str, ProgramBinary]):
    words, pipe = [sys.executable, "-c", OWNER], subprocess.PIPE
    with subprocess.Popen(words, text=True, stdout=pipe) as owner:
        assert owner.stdout
        etcd, api, folder = owner.stdout.readline().split()
        assert is_running(int(etcd))
        assert is_running(int(api))
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(int(etcd)) and not is_running(int(api)))
    wait_until(lambda: not Path(folder).exists())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
