"""The admission webhook: patches and warnings for pods and jobs, and its certificates."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.kube_given import NAMESPACE, Reading
from tests.support.kube_given import pod as given_pod
from windlass.admission import certificates
from windlass.admission.creators import path_of
from windlass.admission.review import Rules
from windlass.admission.server import AdmissionHandler
from windlass.certificates import Authority
from windlass.crds.queue_access import QueueChoice
from windlass.workloads.objects.wire import ObjectMeta, OwnerRef

RULES = Rules("windlass", ("system:serviceaccount:kube-system:*", "kube-controller-manager"))
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
SCHEDULER, QUEUE = "/spec/schedulerName", "/metadata/labels/windlass.dev~1queue"
CREATOR = "/metadata/annotations/windlass.dev~1creator"
TEAM = QueueChoice("team-a")
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}


def review(user: str, made: dict[str, Any], resource: str = "pods", **more: Any) -> bytes:
    request = {
        "uid": "7",
        "operation": "CREATE",
        "namespace": "team-a",
        "resource": {"group": "batch" if resource == "jobs" else "", "resource": resource},
        "userInfo": {"username": user},
        "object": made,
        "oldObject": None,
        **more,
    }
    return json.dumps({"kind": "AdmissionReview", "request": request}).encode()


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"schedulerName": "default-scheduler", **spec}}


class World:
    """A handler, the objects that it can read, and a record of what it requested."""

    def __init__(self, choice: QueueChoice | None = TEAM, **creators: str) -> None:
        self.queues_named: list[str] = []
        self.paths_read: list[str] = []
        self._choice = choice
        self._objects = {
            f"/apis/batch/v1/namespaces/team-a/jobs/{name}": ObjectMeta(
                name, uid="1", annotations={"windlass.dev/creator": creator}
            )
            for name, creator in creators.items()
        }
        self._handler = AdmissionHandler(RULES, self._choose, self._find)

    def _choose(self, queue: str, _namespace: str) -> QueueChoice | None:
        self.queues_named.append(queue)
        return self._choice

    async def _find(self, path: str) -> ObjectMeta | None:
        self.paths_read.append(path)
        return self._objects.get(path)

    async def answer(self, body: bytes) -> dict[str, Any]:
        return json.loads(await self._handler.answer(body))["response"]

    async def patch(self, body: bytes) -> dict[str, Any]:
        response = await self.answer(body)
        assert response["allowed"] is True
        steps = json.loads(b64decode(response["patch"])) if "patch" in response else []
        return {operation["path"]: operation.get("value") for operation in steps}


async def test_a_new_pod_gets_scheduler_name_queue_and_creator():
    patch = await World().patch(review("ann", pod()))
    assert patch[SCHEDULER] == "windlass"
    assert patch[QUEUE] == "team-a"
    assert patch[CREATOR] == "ann"


async def test_a_pod_keeps_the_queue_that_it_names():
    named = pod() | {"metadata": {"labels": {"windlass.dev/queue": "mine"}}}
    world = World(QueueChoice("mine"))
    assert QUEUE not in await world.patch(review("ann", named))
    assert world.queues_named == ["mine"]


@pytest.mark.parametrize(
    "left",
    [
        pod(schedulerName="somebody-else"),
        pod(nodeName="n1"),
        pod() | {"metadata": {"ownerReferences": [JOB | {"kind": "DaemonSet"}]}},
    ],
    ids=["another scheduler", "a node of its own", "a DaemonSet"],
)
async def test_a_pod_that_is_not_ours_to_place_is_not_changed(left: dict[str, Any]):
    patch = await World().patch(review("ann", left))
    assert list(patch) in ([CREATOR], ["/metadata/annotations", CREATOR])


async def test_a_pod_without_a_usable_queue_causes_a_warning():
    response = await World(QueueChoice(sentence="no queue names it")).answer(review("ann", pod()))
    assert response["warnings"] == ["it will wait: no queue names it"]


async def test_before_queues_are_read_a_pod_gets_no_queue_and_no_warning():
    world = World(None)
    assert QUEUE not in await world.patch(review("ann", pod()))
    assert "warnings" not in await world.answer(review("ann", pod()))


async def test_a_forged_creator_is_replaced():
    forged = pod() | {"metadata": {"annotations": {"windlass.dev/creator": "boss"}}}
    assert (await World().patch(review("ann", forged)))[CREATOR] == "ann"


async def test_a_pod_of_a_controller_gets_the_creator_of_its_owner():
    made = pod() | {"metadata": {"ownerReferences": [JOB]}}
    world = World(train="ann")
    assert (await world.patch(review(CONTROLLER, made)))[CREATOR] == "ann"
    assert (await world.patch(review(CONTROLLER, made)))[CREATOR] == "ann"
    assert len(world.paths_read) == 1  # the owner of a thousand pods is read once


async def test_a_user_who_sets_an_owner_reference_is_still_the_creator():
    made = pod() | {"metadata": {"ownerReferences": [JOB]}}
    assert (await World(train="boss").patch(review("ann", made)))[CREATOR] == "ann"


async def test_a_later_owner_of_the_same_name_is_not_used():
    made = pod() | {"metadata": {"ownerReferences": [JOB | {"uid": "2"}]}}
    assert CREATOR not in await World(train="ann").patch(review(CONTROLLER, made))


async def test_a_forged_creator_in_a_template_does_not_reach_the_pods():
    forged = {"ownerReferences": [JOB], "annotations": {"windlass.dev/creator": "boss"}}
    patch = await World().patch(review(CONTROLLER, pod() | {"metadata": forged}))
    assert patch[CREATOR] is None  # removed: the owner has no creator
    assert CREATOR in patch


async def test_a_job_gets_its_creator_and_nothing_else():
    patch = await World().patch(review("ann", {"metadata": {}, "spec": {}}, "jobs"))
    assert set(patch) == {"/metadata/annotations", CREATOR}


async def test_an_update_leaves_the_creator_as_it_was():
    old = {"metadata": {"annotations": {"windlass.dev/creator": "ann"}}}
    for new in ({"metadata": {}}, {"metadata": {"annotations": {"windlass.dev/creator": "bob"}}}):
        body = review("bob", new, "jobs", operation="UPDATE", oldObject=old)
        assert (await World().patch(body))[CREATOR] == "ann"


async def test_an_update_of_a_pod_does_not_touch_its_scheduler_or_queue():
    body = review("ann", pod(), operation="UPDATE", oldObject=pod())
    assert await World().patch(body) == {}


async def test_a_malformed_review_is_refused():
    with pytest.raises(msgspec.DecodeError):
        await World().answer(b"{}")


def test_owners_are_read_in_their_own_group_and_version():
    core = OwnerRef("Pod", "leader", "1", "v1")
    custom = OwnerRef("JobSet", "js", "1", "jobset.x-k8s.io/v1alpha2")
    assert path_of(core, "a") == "/api/v1/namespaces/a/pods/leader"
    assert path_of(custom, "a") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/a/jobsets/js"
    assert path_of(OwnerRef("Notebook", "n", "1", "kubeflow.org/v1"), "a") is None


# --- certificates ---

HOSTS = ("windlass-webhook.windlass-system.svc",)
NOW = datetime.now(UTC)


def test_certificates_survive_a_round_trip_through_a_secret():
    papers = certificates.make(HOSTS)
    assert certificates.read(certificates.written(papers)) == papers


@pytest.mark.parametrize("data", [{}, {"ca.crt": "!"}, {"ca.crt": "", "ca.key": ""}], ids=str)
def test_unreadable_certificates_are_none(data: dict[str, str]):
    assert certificates.read(data) is None


def test_valid_certificates_are_not_renewed():
    assert certificates.renewed(certificates.make(HOSTS), HOSTS, NOW) is None


def test_a_certificate_is_renewed_a_month_before_it_expires_by_the_same_authority():
    old = certificates.make(HOSTS)
    late = old.serving.ends_at - timedelta(days=29)
    new = certificates.renewed(old, HOSTS, late)
    assert new is not None
    assert new.authority == old.authority
    assert new.serving != old.serving


def test_a_new_host_name_causes_a_new_certificate():
    new = certificates.renewed(certificates.make(HOSTS), ("other.svc", "127.0.0.1"), NOW)
    assert new is not None
    assert new.serving.hosts == {"other.svc", "127.0.0.1"}


def test_the_bundle_keeps_the_former_authority():
    old = certificates.make(HOSTS)
    new = certificates.renewed(old, HOSTS, old.authority.ends_at - timedelta(days=364))
    assert new is not None
    assert new.authority != old.authority
    assert new.bundle == new.authority.certificate + old.authority.certificate


def test_a_stored_authority_can_sign():
    first = Authority.make("test")
    assert Authority(first.own).serving(["a.svc"]).hosts == {"a.svc"}


# --- the scheduler reads the creator ---


def test_the_creator_of_a_pod_is_trusted_only_in_a_managed_namespace():
    reading = Reading(given_pod("a", annotations={"windlass.dev/creator": "ann"}))
    assert reading.gang_of("a").user == ""
    reading.apply(reading.translator.namespace_seen(NAMESPACE, {"windlass.dev/managed": "true"}))
    assert reading.gang_of("a").user == "ann"
    reading.apply(reading.translator.namespace_seen(NAMESPACE, {}))
    assert reading.gang_of("a").user == ""
