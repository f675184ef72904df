"""A fresh control plane with nodes and queues, for one measurement.

Without kube-controller-manager, so that no other process works meanwhile: what it would do for pods
and nodes (service accounts, taints of new nodes) is not needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from windlass.crds.definitions import API_VERSION, KINDS
from windlass.crds.manifest import definition
from windlass.kube.client import Access, Api, Conflict, NotFound, ServerFault, TooMany, connect
from windlass_lab.control_plane.plane import Options, Plane
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_nodes.machines import Fleet
from windlass_lab.fake_nodes.register_nodes import register
from windlass_lab.live_bench.observer import Eyes, watching

QUEUES = "/apis/windlass.dev/v1alpha1/queues"
NOT_NEEDED = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
POLL_S = 0.05

Queues = Mapping[str, Mapping[str, Any]]
"""The spec of each queue by name; parents first."""


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """A control plane, a client of it, and an observer."""

    plane: Plane
    access: Access
    api: Api
    eyes: Eyes
    fleet: Fleet


@asynccontextmanager
async def opened(
    fleet: Fleet, queues: Queues, *, with_nodes: bool = True
) -> AsyncGenerator[BenchEnvironment]:
    """Open a control plane with these queues and nodes; kube-scheduler is available and does not
    run."""
    flags = {"kube-apiserver": [NOT_NEEDED]}
    async with Plane(Options(controllers=False, scheduler=True, flags=flags)) as plane:
        await asyncio.to_thread(plane.stop, "kube-scheduler", at_once=True)
        access = plane.api_access()
        async with connect(access) as api:
            await make_queues(api, queues)
            if with_nodes:
                await register(api, ((each, each.gpus) for each in fleet), Habits())
            async with watching(api) as eyes:
                yield BenchEnvironment(plane, access, api, eyes, fleet)


async def make_queues(api: Api, queues: Queues) -> None:
    """Define the custom resources, and make the queues and their namespaces."""
    for kind in KINDS.values():
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await api.post(path, definition(kind))
    for kind in KINDS.values():
        await _wait_served(api, kind.path())
    for name, spec in queues.items():
        await _make_namespaces(api, spec.get("namespaces", ()))
        body = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}}
        await api.post(QUEUES, body | {"spec": spec})


async def _wait_served(api: Api, path: str) -> None:
    while True:
        with suppress(NotFound, ServerFault, TooMany):  # not yet
            await api.get(path)
            return
        await asyncio.sleep(POLL_S)


async def _make_namespaces(api: Api, names: list[str]) -> None:
    for name in names:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(Conflict):
            await api.post("/api/v1/namespaces", body)
