"""The scheduler works under exactly the rights that the chart gives it, and has no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import FindParts
from tests.live.support.bound_pods import wait_until
from tests.live.support.installation import Installation, helm_for, installed, may
from tests.live.support.scene import Scene, scene
from tests.live.support.viewers import person
from tests.live.test_dashboard import Cast
from tests.support.rendered_chart import render
from windlass.checkpoint.protocol import BUDGET, MODE, REQUEST
from windlass.install.chart import Release
from windlass.kube.client.auth import Access
from windlass.kube.client.client import connect
from windlass.workloads.kinds.table import KINDS
from windlass_lab.api_proxy.proxy import Proxy, recording
from windlass_lab.control_plane.plane import Plane

NAMED = {"windlass.dev/gang": "named", "windlass.dev/minimum": "1"}
"""Whose pods name their gang is evicted, not suspended."""
PLAIN: dict[str, Any] = {"namespaces": None, "node_selector": None}

USELESS = [
    ("get", "", "secrets"),
    ("list", "", "secrets"),
    ("create", "", "secrets"),
    ("patch", "", "secrets"),  # but for its own key
    ("delete", "", "nodes"),
    ("patch", "", "nodes"),
    ("create", "", "pods"),
    ("patch", "", "pods"),
    ("create", "", "pods/exec"),
    ("create", "coordination.k8s.io", "leases"),
    ("update", "coordination.k8s.io", "leases"),  # those of others
    ("update", "windlass.dev", "queues"),
    ("create", "", "serviceaccounts/token"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("impersonate", "", "users"),
]


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=3, ours=8, theirs=16) as made:
        yield made
        made.check()


@pytest.fixture
async def release(made: Scene, plane: Plane, find_parts: FindParts) -> AsyncIterator[Installation]:
    helm = helm_for(plane, find_parts)
    async with installed(made.api, helm, Release(made.key, made.key)) as found:
        yield found


async def as_scheduler(release: Installation, plane: Plane) -> Access:
    authority = (plane.folder / "pki" / "ca.crt").read_bytes()
    return await release.access("scheduler", plane.server, authority)


async def test_gangs_start_evictions_happen_and_statuses_are_written_without_a_refusal(
    made: Scene, release: Installation, plane: Plane
) -> None:
    async with recording(await as_scheduler(release, plane)) as proxy:
        daemon = await made.leading(proxy)
        await made.pod("kept", 8, "ours", preemptible="false")
        await made.job("greedy", 1, 8, "ours", **{MODE: "file", BUDGET: "2s"})
        await made.job("named", 1, 8, "ours", **NAMED)
        await made.wait_running(("kept", 1), ("greedy", 1), ("named", 1))
        await made.gang("due", 2, 8, "theirs")  # its guarantee: both Jobs have to go
        await made.wait_running(("due", 2))
        await made.gang("late", 1, 8, "theirs")
        await made.wait_reasons("late", 1)
        await wait_until(lambda: wrote(proxy, "queues/status"), "the status of a queue is written")
        ann = await (await person(made.api, made.key, "ann")).token()
        assert (await Cast(made, "", daemon).told(ann, "jobs"))["running"] == []
        assert [str(call) for call in proxy.calls if call.status in (401, 403)] == []
        assert any(REQUEST.encode() in call.body for call in proxy.calls if call.is_write)
        used = {(call.verb, call.resource) for call in proxy.calls if call.is_write}
    assert used - {("patch", "gangs/status")} == {  # there may be Gangs of others
        ("create", "events"),
        ("create", "pods/binding"),
        ("create", "pods/eviction"),
        ("patch", "jobs"),
        ("patch", "pods/status"),
        ("patch", "queues/status"),
        ("patch", "secrets"),
        ("create", "subjectaccessreviews"),
        ("create", "tokenreviews"),
        ("update", "leases"),
    }


def test_nothing_is_granted_for_writing_but_what_is_used(find_parts: FindParts) -> None:
    find_parts(["helm"])
    made = render({})
    roles = [each for each in made if each["kind"] in ("ClusterRole", "Role")]
    mine = [each for each in roles if each["metadata"]["name"].endswith("-scheduler")]
    writes = {
        (verb, resource)
        for role in mine
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in ("get", "list", "watch")
    }
    assert writes == {
        ("create", "events"),
        ("create", "pods/binding"),
        ("create", "pods/eviction"),
        ("create", "subjectaccessreviews"),
        ("create", "tokenreviews"),
        ("delete", "pods"),  # where a disruption budget has to give way in the end
        *(("patch", row.path.rpartition("/")[2]) for row in KINDS.values() if row.suspend),
        ("patch", "gangs/status"),
        ("patch", "nodes/status"),  # that a node is kept out, and why
        ("patch", "persistentvolumeclaims"),  # the node for which a volume is to be made
        ("patch", "pods/status"),
        ("patch", "queues/status"),
        ("patch", "secrets"),  # the key with which it signs
        ("update", "leases"),
    }


async def test_the_scheduler_cannot_do_what_it_has_no_use_for(
    release: Installation, plane: Plane
) -> None:
    async with connect(await as_scheduler(release, plane)) as api:
        assert await may(api, verb="list", resource="pods")
        for verb, group, resource in USELESS:
            whole, _, part = resource.partition("/")
            asked = {"verb": verb, "group": group, "resource": whole, "subresource": part}
            where = {"namespace": "kube-system", "name": "anything"}
            assert not await may(api, **asked, **where), f"{verb} {resource}"


async def wrote(proxy: Proxy, resource: str) -> bool:
    return any(call.is_write and call.resource == resource for call in proxy.calls)
