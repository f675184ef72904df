"""Kinds that others install: a definition for each that accepts any spec."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import DEFINITIONS
from windlass.kube.client.client import Api, connect
from windlass.kube.client.errors import ApiError, Conflict, NotFound
from windlass_lab.control_plane.plane import Plane

FOREIGN = {
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "PyTorchJob": "kubeflow.org/v1",
    "TFJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}
"""Kinds that the plane does not know by itself."""


@contextmanager
def installed(plane: Plane, kinds: Mapping[str, str] = FOREIGN) -> Iterator[None]:
    """These kinds are there meanwhile; it takes a while, so once for many tests."""

    async def do(what: Callable[[Api, Mapping[str, str]], Awaitable[None]]) -> None:
        async with connect(plane.api_access()) as api:
            await what(api, kinds)

    asyncio.run(do(install))
    yield
    asyncio.run(do(remove))


async def install(api: Api, kinds: Mapping[str, str] = FOREIGN) -> None:
    """Define these kinds, unless somebody has, and wait until they are served."""
    for kind, version in kinds.items():
        with suppress(Conflict):
            await api.post(DEFINITIONS, _definition(kind, version))
    for kind, version in kinds.items():

        async def served(path: str = f"/apis/{version}/{plural(kind)}") -> bool:
            with suppress(ApiError):
                await api.get(path)
                return True
            return False

        await wait_until(served, f"{kind} is served")


async def remove(api: Api, kinds: Mapping[str, str] = FOREIGN) -> None:
    """Take the definitions away, and all objects with them."""
    for kind, version in kinds.items():
        with suppress(NotFound):
            await api.delete(f"{DEFINITIONS}/{plural(kind)}.{version.partition('/')[0]}")


def plural(kind: str) -> str:
    """As in the paths of its API."""
    return f"{kind.lower()}s"


def _definition(kind: str, version: str) -> dict[str, Any]:
    group, _, name = version.partition("/")
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(kind)}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural(kind), "singular": kind.lower()},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
