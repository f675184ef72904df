"""The real API server asks the webhook, which runs under the chart's account and rights.

One installation for all: first without the webhook, then with it, in the order of this file.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.live.conftest import FindParts
from tests.live.support.bound_pods import wait_until
from tests.live.support.installation import Installation, helm_for, installed
from tests.live.support.kubectl import Kubectl
from tests.live.support.scene import Scene, scene
from windlass.admission import certificates as papers
from windlass.admission.certificates import WebhookCertificates
from windlass.certificates import Authority
from windlass.crds.definitions import QUEUE as QUEUES
from windlass.daemon.serving.webhook import CONFIGURATIONS, HOOK
from windlass.install.chart import Release
from windlass.install.values import CONTROLLERS
from windlass.kube.client.client import Patch
from windlass.kube.client.errors import Forbidden
from windlass.workloads.objects.annotations import CREATOR, MANAGED, QUEUE
from windlass_lab.api_proxy.proxy import recording
from windlass_lab.control_plane.plane import Plane
from windlass_lab.control_plane.ports import PortPool
from windlass_lab.control_plane.process import Keeper

pytestmark = pytest.mark.asyncio(loop_scope="module")
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WINDLASS = [sys.executable, "-c", "from windlass.cli import main; main()"]


@dataclass(slots=True)
class Town:
    """A managed namespace with a queue, a webhook for it, and users with rights in it."""

    scene: Scene
    plane: Plane
    kubectl: Kubectl
    release: Installation
    folder: Path
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def secret(self) -> str:
        """Where the webhook keeps its papers."""
        place = self.release.release
        return f"/api/v1/namespaces/{place.namespace}/secrets/{place.name}-webhook"

    def ann(self, *words: str, given: object = None) -> str:
        """What kubectl prints for Ann, who may do everything in the namespace and nothing else."""
        return self._as("ann")(*words, "-n", self.scene.key, given=given)

    def refuses_ann(self, *words: str, given: object = None) -> str:
        return self._as("ann").refuses(*words, "-n", self.scene.key, given=given)

    def _as(self, user: str) -> Kubectl:
        return self.kubectl.with_access(self.plane.user_kubeconfig(user))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the webhook meanwhile; the API server asks it."""
        keeper = Keeper(None)
        try:
            await self._start(keeper)
            yield
        finally:
            if self.process is not None and self.process.poll() is None:
                self.stop()
            keeper.close()

    async def _start(self, keeper: Keeper) -> None:
        authority = (self.plane.folder / "pki" / "ca.crt").read_bytes()
        kubeconfig = await self.release.kubeconfig(
            "webhook", self.plane.server, authority, self.folder / "webhook.kubeconfig"
        )
        name, place = self.release.release.name, self.release.release.namespace
        words = [
            *("--name", name, "--secret", f"{place}/{name}-webhook", "--host", "127.0.0.1"),
            *("--address", "127.0.0.1", "--port", str(self.port), "--drain-s", "0"),
            *("--look-again-s", "0.5"),
            *("--controllers", ",".join(CONTROLLERS), "--kubeconfig", str(kubeconfig)),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*WINDLASS, "webhook", *words], stderr=log, stdout=log)
        keeper.add(self.process.pid)
        await self.point_at_it()
        await self.wait_asked()

    async def point_at_it(self, *, by_address: bool = True) -> None:
        """There is no Service here: the API server is told the address itself."""
        config = "/webhooks/0/clientConfig"
        name = self.release.release.name
        service = {"name": name, "namespace": self.scene.key, "path": "/mutate"}
        url = f"https://127.0.0.1:{self.port}/mutate"
        body = [
            {"op": "add", "path": f"{config}/service", "value": None if by_address else service},
            {"op": "add", "path": f"{config}/url", "value": url if by_address else None},
        ]
        await self.scene.api.patch(f"{CONFIGURATIONS}/{name}", body, kind=Patch.JSON)

    async def wait_asked(self) -> None:
        async def asked() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            made = await self.create("probe-", dry_run=True, queue="")
            return QUEUE in (made["metadata"].get("labels") or {})

        await wait_until(asked, f"the webhook is asked\n{self.log.read_text()}")

    async def create(self, prefix: str, *, dry_run: bool = False, **more: Any) -> dict[str, Any]:
        """A pod that the administrator makes."""
        params = {"dryRun": "All"} if dry_run else None
        body = pod(prefix, **more)
        return json.loads(await self.scene.api.post(self.scene.path(), body, params=params))

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quiet(
    plane: Plane,
    kubectl: Kubectl,
    find_parts: FindParts,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Town]:
    """The webhook is installed, but does not run."""
    tmp_path = tmp_path_factory.mktemp("town")
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(scene(plane.api_access(), tmp_path, nodes=1, team=8))
        namespace = f"/api/v1/namespaces/{made.key}"
        await made.api.patch(namespace, {"metadata": {"labels": {MANAGED: "true"}}})
        place = f"{made.key}-system"
        helm = helm_for(plane, find_parts)
        release = await stack.enter_async_context(
            installed(made.api, helm, Release(made.key, place))
        )
        for user in ("ann", "bob"):
            kubectl(
                *("create", "rolebinding", user, "-n", made.key),
                *("--clusterrole=admin", f"--user={user}"),
            )
        ports = PortPool()
        stack.callback(ports.give_back)
        log = tmp_path / "webhook.log"
        log.touch()
        yield Town(made, plane, kubectl, release, tmp_path, ports.claim(), log)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(quiet: Town) -> AsyncIterator[Town]:
    """The webhook runs."""
    async with quiet.running():
        yield quiet


def pod(name: str, *, gpus: int = 0, queue: str = "", creator: str = "", **spec: Any) -> Any:
    container = {"name": "main", "image": "none", "resources": {}}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    meta: dict[str, Any] = {"generateName" if name.endswith("-") else "name": name}
    if queue:
        meta["labels"] = {QUEUE: queue}
    if creator:
        meta["annotations"] = {CREATOR: creator}
    spec = {"containers": [container], "restartPolicy": "Never", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def job(name: str, *, creator: str = "", **more: Any) -> dict[str, Any]:
    template = pod("unused", **more)
    notes = {CREATOR: creator} if creator else {}
    template["metadata"] = {"annotations": notes}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }


# --- the policies, which hold while the webhook is down ---


async def wait_enforced(town: Town) -> None:
    """The API server takes up a new policy after a moment."""

    async def are_refused() -> bool:
        for forbidden in ({"gpus": 1}, {"creator": "boss"}):
            try:
                await town.create("probe-", dry_run=True, **forbidden)
            except Forbidden:
                continue
            return False
        return True

    await wait_until(are_refused, "the policies are enforced")


async def test_the_policies_are_sound(quiet: Town) -> None:
    """The API server checks their types, and would warn."""

    async def is_checked() -> bool:
        found = await quiet.scene.get(POLICIES)
        mine = [e for e in found["items"] if e["metadata"]["name"].startswith(quiet.scene.key)]
        assert len(mine) == 2
        checks = [each.get("status", {}).get("typeChecking") for each in mine]
        assert [each for each in checks if each] == []
        return all(each is not None for each in checks)

    await wait_until(is_checked, "the policies have been checked")


async def test_a_gpu_pod_cannot_slip_past(quiet: Town) -> None:
    await wait_enforced(quiet)
    said = quiet.refuses_ann("create", "-f", "-", given=pod("past", gpus=1))
    assert 'the pod asks for nvidia.com/gpu but its schedulerName is "default-scheduler"' in said
    assert "GPU pods need schedulerName windlass" in said
    sidecar = {"name": "s", "image": "none", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}
    said = quiet.refuses_ann("create", "-f", "-", given=pod("past", initContainers=[sidecar]))
    assert "the pod asks for nvidia.com/mig-1g.5gb" in said
    bound = pod("past", gpus=1, schedulerName="windlass", nodeName="n1")
    said = quiet.refuses_ann("create", "-f", "-", given=bound)
    assert "names its node itself" in said
    quiet.ann("create", "-f", "-", given=pod("ours", gpus=1, schedulerName="windlass"))
    quiet.ann("create", "-f", "-", given=pod("cpu"))


async def test_a_forged_creator_is_refused_with_a_reason(quiet: Town) -> None:
    await wait_enforced(quiet)
    said = quiet.refuses_ann("create", "-f", "-", given=pod("forged", creator="boss"))
    assert 'windlass.dev/creator is "boss" but the request comes from "ann"' in said
    said = quiet.refuses_ann("create", "-f", "-", given=job("forged", creator="boss"))
    assert "stands in the template of the pods" in said
    cron = {"schedule": "@daily", "jobTemplate": {"spec": job("x", creator="boss")["spec"]}}
    given = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "f"}, "spec": cron}
    said = quiet.refuses_ann("create", "-f", "-", given=given)
    assert "stands in the template of the pods" in said
    quiet.ann("create", "-f", "-", given=pod("honest", creator="ann"))
    said = quiet.refuses_ann("annotate", "pod", "honest", "--overwrite", f"{CREATOR}=boss")
    assert "leave it out: Windlass writes it" in said


# --- its certificates ---


async def test_old_papers_are_renewed_and_the_api_server_believes_the_new_ones(
    quiet: Town,
) -> None:
    authority = Authority.make("old", timedelta(days=30))
    old = WebhookCertificates(authority.own, authority.serving(["127.0.0.1"]))
    await quiet.scene.api.patch(quiet.secret, {"data": papers.written(old)})
    async with quiet.running():
        new = papers.read((await quiet.scene.get(quiet.secret))["data"])
    assert new is not None
    assert new.authority != old.authority
    config = await quiet.scene.get(f"{CONFIGURATIONS}/{quiet.release.release.name}")
    told = next(each["clientConfig"] for each in config["webhooks"] if each["name"] == HOOK)
    assert b64decode(told["caBundle"]) == new.authority.certificate + old.authority.certificate


async def test_two_webhooks_that_start_together_agree_on_their_papers(quiet: Town) -> None:
    await quiet.scene.api.patch(quiet.secret, {"data": None})
    ports = PortPool()
    both = [
        replace(quiet, port=ports.claim(), log=quiet.folder / f"webhook-{number}.log")
        for number in range(2)
    ]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(each.running()) for each in both))

        async def agree() -> bool:  # one that takes up the other's papers begins to serve anew
            try:
                found = {ssl.get_server_certificate(("127.0.0.1", each.port)) for each in both}
            except OSError:
                return False
            return len(found) == 1

        try:
            await wait_until(agree, "both serve the same certificate")
        finally:
            ports.give_back()
    assert sum(each.log.read_text().count('"new papers"') for each in both) == 1


# --- the webhook ---


async def test_a_pod_of_a_managed_namespace_gets_scheduler_queue_and_creator(town: Town) -> None:
    town.ann("create", "-f", "-", given=pod("mine", gpus=1))
    found = await town.scene.get(town.scene.path("mine"))
    assert found["spec"]["schedulerName"] == "windlass"
    assert found["metadata"]["labels"][QUEUE] == f"{town.scene.key}-team"
    assert found["metadata"]["annotations"][CREATOR] == "ann"


async def test_the_pods_of_a_job_belong_to_whoever_made_the_job(town: Town) -> None:
    town.ann("create", "-f", "-", given=job("train", gpus=1))
    await town.scene.wait_there("train-", 1)
    (found,) = await town.scene.pods("train-")
    assert found["metadata"]["annotations"][CREATOR] == "ann"
    assert found["spec"]["schedulerName"] == "windlass"


async def test_a_creator_cannot_be_forged_or_changed(town: Town) -> None:
    town.ann("create", "-f", "-", given=pod("forged", creator="boss"))
    town.ann("annotate", "pod", "forged", "--overwrite", f"{CREATOR}=boss")
    town.ann("annotate", "pod", "forged", f"{CREATOR}-")
    found = await town.scene.get(town.scene.path("forged"))
    assert found["metadata"]["annotations"][CREATOR] == "ann"


async def test_a_user_is_warned_about_a_queue_that_the_namespace_may_not_use(town: Town) -> None:
    kubeconfig = town.plane.user_kubeconfig("ann")
    words = [town.kubectl.path, "--kubeconfig", kubeconfig, "-n", town.scene.key]
    said = subprocess.run(
        [*words, "create", "-f", "-"],
        input=json.dumps(pod("astray", queue="nowhere")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'queue "nowhere" does not exist' in said.stderr


async def test_other_namespaces_are_left_alone(town: Town, namespace: str) -> None:
    town.kubectl("create", "-n", namespace, "-f", "-", given=pod("free", gpus=1))
    found = town.kubectl.get("pod", "free", "-n", namespace)
    assert found["spec"]["schedulerName"] == "default-scheduler"
    assert CREATOR not in found["metadata"].get("annotations", {})


async def test_a_webhook_changes_over_to_new_papers_while_it_runs(town: Town) -> None:
    before = ssl.get_server_certificate(("127.0.0.1", town.port))
    authority = Authority.make("short", timedelta(days=30))
    short = WebhookCertificates(authority.own, authority.serving(["127.0.0.1"]))
    await town.scene.api.patch(town.secret, {"data": papers.written(short)})

    async def has_changed() -> bool:
        kept = papers.read((await town.scene.get(town.secret))["data"])
        served = ssl.get_server_certificate(("127.0.0.1", town.port))
        assert kept is not None
        return served != before and served == kept.serving.certificate.decode()

    await wait_until(has_changed, "the new certificate is served")
    await town.wait_asked()


async def test_with_both_programs_a_plain_job_runs_and_is_charged_to_its_user(town: Town) -> None:
    """A label on the namespace was all that it took."""
    place = town.release.release
    authority = (town.plane.folder / "pki" / "ca.crt").read_bytes()
    access = await town.release.access("scheduler", town.plane.server, authority)
    async with recording(access) as proxy:
        lease = {"lease_name": place.name, "lease_namespace": place.namespace}
        daemon = await town.scene.leading(proxy, **lease)
        town.ann("create", "-f", "-", given=job("plain", gpus=2))
        await town.scene.wait_running(("plain-", 1))

        async def is_charged() -> bool:
            status = (await town.scene.get(QUEUES.path(f"{town.scene.key}-team")))["status"]
            entries = status.get("ledger", {}).get("entries", ())
            return any(each["user"] == "ann" for each in entries)

        await wait_until(is_charged, "the ledger of the queue names the user")
        assert await daemon.stop() == 0


async def test_an_upgrade_keeps_the_papers_and_the_authority(town: Town) -> None:
    paths = (town.secret, f"{CONFIGURATIONS}/{town.release.release.name}")
    before = [await town.scene.get(path) for path in paths]
    await town.point_at_it(by_address=False)  # as it is on a cluster
    await town.release.install("crds.install=false", "webhook.timeoutSeconds=7")
    secret, config = [await town.scene.get(path) for path in paths]
    assert secret["data"] == before[0]["data"]
    (old,), (new,) = before[1]["webhooks"], config["webhooks"]
    assert new["timeoutSeconds"] == 7
    assert new["clientConfig"]["caBundle"] == old["clientConfig"]["caBundle"]


async def test_without_the_webhook_pods_are_created_as_ever(town: Town) -> None:
    await town.point_at_it()
    assert town.stop() == 0
    town.ann("create", "-f", "-", given=pod("plain"))
    found = await town.scene.get(town.scene.path("plain"))
    assert found["spec"]["schedulerName"] == "default-scheduler"
    assert QUEUE not in found["metadata"].get("labels", {})
