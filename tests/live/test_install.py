"""Windlass onto a cluster, to a newer version, and off it again, while work is running."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.live.conftest import FindParts
from tests.live.support.bound_pods import wait_until
from tests.live.support.installation import Installation, helm_for, installed
from tests.live.support.kubectl import Kubectl
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import QUEUE
from windlass.install.chart import NAMESPACE, Release
from windlass.install.helm_program import HelmProgram
from windlass.kube.client.auth import Access
from windlass_lab.api_proxy.proxy import recording
from windlass_lab.control_plane.binaries import NAMES
from windlass_lab.control_plane.plane import Plane

WINDLASS = [sys.executable, "-c", "from windlass.cli import main; main()"]
VOLATILE = ("events", "events.events.k8s.io", "componentstatuses")
OWN: dict[str, str] = {"lease_name": "windlass", "lease_namespace": NAMESPACE}


@pytest.fixture(scope="module")
def own(find_parts: FindParts) -> Iterator[Plane]:
    """A plane whose definitions may come and go."""
    find_parts(NAMES)
    with Plane() as plane:
        yield plane


@pytest.fixture
async def made(own: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(own.api_access(), tmp_path, nodes=2, ours=8, theirs=8) as made:
        yield made
        made.check()


@pytest.fixture
def admin(own: Plane, find_parts: FindParts) -> Kubectl:
    return Kubectl(find_parts(["kubectl"])["kubectl"].path, own.kubeconfig)


def windlass(own: Plane, *words: str) -> str:
    """What the command prints."""
    command = [*WINDLASS, *words, "--kubeconfig", str(own.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def helm(own: Plane, find_parts: FindParts) -> HelmProgram:
    """The Helm that the command uses."""
    return helm_for(own, find_parts)


async def as_scheduler(made: Scene, helm: HelmProgram, own: Plane) -> Access:
    release = Installation(made.api, helm, Release())
    authority = (own.folder / "pki" / "ca.crt").read_bytes()
    return await release.access("scheduler", own.server, authority)


def everything(admin: Kubectl) -> set[str]:
    """All objects of a cluster, but those that come and go by themselves."""
    kinds = admin("api-resources", "--verbs=list", "-o", "name").split()
    wanted = ",".join(kind for kind in kinds if kind not in VOLATILE)
    found = admin("get", wanted, "-A", "-o", "jsonpath=" + PATHS).split("\n")
    return set(filter(None, found))


PATHS = r"{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\n'}{end}"


async def test_uninstalling_leaves_running_pods_and_nothing_of_ours(
    own: Plane, admin: Kubectl, helm: HelmProgram, tmp_path: Path
) -> None:
    before = everything(admin)
    async with scene(own.api_access(), tmp_path, nodes=2, team=16) as made:
        assert "applied Deployment windlass-system/windlass-scheduler" in windlass(
            own, "install", "--apply"
        )
        printed = list(yaml.safe_load_all(windlass(own, "install", "--print")))
        whole = {"apiVersion": "v1", "kind": "List", "items": printed}
        admin("apply", "--server-side", "--force-conflicts", "-f", "-", given=whole)
        await wait_pods(admin, 4)  # the restricted standard of their namespace lets them in
        async with recording(await as_scheduler(made, helm, own)) as proxy:
            daemon = await made.leading(proxy, **OWN)
            uids = await made.gang("a", 2, 8, "team")
            await made.wait_running(("a", 2))
            assert await daemon.stop() == 0
        said = windlass(own, "uninstall", "--yes")
        assert "deleted CustomResourceDefinition queues.windlass.dev" in said

        async def nothing_is_left() -> bool:
            left = everything(admin) - before
            return all(made.key in each for each in left)  # what this test brought along

        await wait_until(nothing_is_left, "nothing of ours is left")
        assert await made.wait_running(("a", 2)) == uids
        made.check()


async def test_an_upgrade_in_the_middle_of_an_eviction_loses_nothing(
    made: Scene, helm: HelmProgram, own: Plane
) -> None:
    windlass(own, "install", "--apply")
    never = {"fake.windlass.dev/terminates-after": "never"}
    async with recording(await as_scheduler(made, helm, own)) as proxy:
        old = await made.leading(proxy, **OWN)
        victims = await made.gang("v", 2, 8, "theirs", preemptible="true", **never)
        await made.wait_running(("v", 2))
        await made.gang("due", 1, 8, "ours")
        await wait_until(lambda: leaving(made), "a victim has been asked to leave")
        assert await old.stop() == 0
    said = windlass(own, "install", "--apply", "--set", "config.cycle.at_most_s=3")
    assert "applied Lease windlass-system/windlass" in said
    async with recording(await as_scheduler(made, helm, own)) as proxy:
        await made.leading(proxy, **OWN)
        await made.gang("greedy", 1, 8, "ours", preemptible="true")  # may not have the place
        await made.wait_reasons("greedy", 1)
        for uid in victims:
            made.kubelet.release(uid)
        await made.wait_running(("due", 1))
        assert [str(call) for call in proxy.calls if call.status == 403] == []
        for each in made.daemons:
            each.signal(signal.SIGTERM)
            await each.ended()
    windlass(own, "uninstall", "--yes", "--keep-queues")
    assert await made.get(QUEUE.path(f"{made.key}-ours"))


async def test_installing_again_removes_what_is_no_longer_wanted(
    made: Scene, helm: HelmProgram
) -> None:
    async with installed(made.api, helm, Release(made.key, made.key)) as release:
        await release.install("crds.install=false", "webhook.enabled=false")
        assert f"deleted MutatingWebhookConfiguration {made.key}" in release.said

        async def is_gone() -> bool:  # its pods go before it does
            found = await made.get(f"/apis/apps/v1/namespaces/{made.key}/deployments")
            names = [each["metadata"]["name"] for each in found["items"]]
            return names == [f"{made.key}-scheduler"]

        await wait_until(is_gone, "the webhook's Deployment is gone")


async def test_a_namespace_that_was_there_before_stays(made: Scene, helm: HelmProgram) -> None:
    async with installed(made.api, helm, Release(made.key, made.key)):
        pass
    found = await made.get(f"/api/v1/namespaces/{made.key}")
    assert found["status"]["phase"] == "Active"
    accounts = await made.get(f"/api/v1/namespaces/{made.key}/serviceaccounts")
    assert [each["metadata"]["name"] for each in accounts["items"]] == ["default"]


async def test_a_refusal_is_told_in_one_sentence(own: Plane, helm: HelmProgram) -> None:
    nobody = own.user_kubeconfig("nobody")
    words = ["install", "--apply", "--kubeconfig", str(nobody)]
    done = subprocess.run([*WINDLASS, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot get resource" in done.stderr
    assert done.stderr.count("\n") == 1


async def wait_pods(admin: Kubectl, count: int) -> None:
    async def are_there() -> bool:
        return len(admin.get("pods", "-n", NAMESPACE)["items"]) == count

    await wait_until(are_there, f"{count} pods were made")


async def leaving(made: Scene) -> bool:
    return any("deletionTimestamp" in each["metadata"] for each in await made.pods("v"))
