"""Nodes that the fake kubelet plays on the test's control plane, and pods bound to them by hand."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from windlass.kube.client.auth import Access
from windlass.kube.client.client import Api, connect
from windlass.kube.client.errors import NotFound
from windlass_lab.fake_kubelet import Habits, Kubelet, Machine, playing
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.nodes import LEASES, NODES

Found = TypeVar("Found")
FAKE = "fake.windlass.dev/"
QUICK = Habits(lease_period_s=0.5, kill_delay_s=0.2, restart_delay_s=0.5)
PATIENCE_S = 90.0


@asynccontextmanager
async def open_lab(access: Access, namespace: str) -> AsyncIterator[Lab]:
    """A lab in the namespace; its nodes are deleted at the end."""
    async with connect(access) as api:
        lab = Lab(access, api, namespace)
        yield lab
        for node in lab.made:
            with suppress(NotFound):
                await api.delete(f"{NODES}/{node}")


@dataclass
class Lab:
    """Nodes that the fake kubelet plays, and pods bound to them by hand."""

    access: Access
    api: Api
    namespace: str
    made: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def nodes(
        self, count: int = 1, habits: Habits = QUICK, **machine: Any
    ) -> AsyncIterator[tuple[Kubelet, list[str]]]:
        """So many nodes with four GPUs each, played meanwhile."""
        prefix = f"n-{uuid.uuid4().hex[:8]}"
        described: dict[str, Any] = {"gpus": 4} | machine
        fleet = [Machine(f"{prefix}-{number}", **described) for number in range(count)]
        self.made += [machine.name for machine in fleet]
        async with playing(self.access, fleet, habits) as kubelet:
            yield kubelet, [machine.name for machine in fleet]
            assert kubelet.writer.rejected == []
            assert kubelet.book.violations() == []

    async def bind(self, name: str, node: str, *, gpus: int = 1, **notes: str) -> str:
        """Create a pod that is bound already; its uid."""
        annotations = {FAKE + key.replace("_", "-"): value for key, value in notes.items()}
        return await self.create(name, {"nodeName": node}, annotations, gpus)

    async def create(
        self, name: str, spec: dict[str, Any], annotations: dict[str, str], gpus: int = 1
    ) -> str:
        limits = {GPU: str(gpus)} if gpus else {}
        container = {"name": "main", "image": "none", "resources": {"limits": limits}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [container], "restartPolicy": "Never"} | spec,
        }
        return json.loads(await self.api.post(self.path(), pod))["metadata"]["uid"]

    async def delete(self, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        await self.api.delete(self.path(name), {"kind": "DeleteOptions", **options})

    async def get(self, path: str) -> dict[str, Any]:
        return json.loads(await self.api.get(path))

    async def status(self, name: str) -> dict[str, Any]:
        return (await self.get(self.path(name)))["status"]

    async def allocatable(self, node: str) -> str:
        return (await self.get(f"{NODES}/{node}"))["status"]["allocatable"][GPU]

    async def renewed(self, node: str) -> str:
        return (await self.get(f"{LEASES}/{node}"))["spec"]["renewTime"]

    async def wait_phase(self, name: str, *phases: str) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            status = await self.status(name)
            return status if status["phase"] in phases else None

        return await wait_until(reached, f"pod {name} is {' or '.join(phases)}")

    async def wait_gone(self, path: str) -> None:
        async def gone() -> bool:
            with suppress(NotFound):
                await self.api.get(path)
                return False
            return True

        await wait_until(gone, f"{path} is gone")

    def path(self, name: str = "") -> str:
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        return f"{pods}/{name}" if name else pods


async def wait_until(what: Callable[[], Awaitable[Found | None]], sentence: str) -> Found:
    """What the condition returns once it holds."""
    for _ in range(int(PATIENCE_S / 0.05)):
        if found := await what():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"In {PATIENCE_S:g} s it did not come about that {sentence}.")


async def wait_held(kubelet: Kubelet, uid: str, count: int) -> None:
    async def holds() -> bool:
        return len(kubelet.book.held_by(uid)) == count

    await wait_until(holds, f"pod {uid} holds {count} devices")
