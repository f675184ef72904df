"""Objects -> the cluster: install, upgrade, uninstall.

Installing applies every object on the server's side and then deletes what an earlier version of
the same release left behind; installing again is an upgrade. Uninstalling deletes what carries the
label of the release. Running pods are no part of it: nobody touches them.

    install     namespace -> definitions, until they are served -> objects -> leftovers go
    uninstall   webhook and policies -> deployments, until they are gone -> the rest -> definitions
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec

from windlass.install import chart
from windlass.install.chart import INSTANCE, MANAGED_BY, MANAGER, Release
from windlass.install.values import Tree, defaults, merged
from windlass.kube.client.client import Api, Patch
from windlass.kube.client.errors import Conflict, NotFound
from windlass.model.errors import WindlassError

Tell = Callable[[str], None]
Object = dict[str, Any]

PATIENCE_S = 60.0
BACKGROUND = {"propagationPolicy": "Background"}
FOREGROUND = {"propagationPolicy": "Foreground"}
FIRST = ("MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "Deployment")
"""What goes before all else: first nobody is asked any more, then nobody runs any more."""


class NotOurs(WindlassError):
    """The release was installed by somebody else."""


class NotDone(WindlassError):
    """The API server refuses a step; what was done so far stays, and is done again without harm."""


class NotServed(WindlassError):
    """The API server does not take a definition up."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Which object is meant."""

    api: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, found: Object) -> Ref:
        """The reference to an object."""
        meta = found["metadata"]
        return cls(found["apiVersion"], found["kind"], meta.get("namespace", ""), meta["name"])

    @property
    def path(self) -> str:
        """Where the object lies."""
        return f"{self.collection}/{self.name}"

    @property
    def collection(self) -> str:
        """Where objects of its kind lie."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        lower = self.kind.lower()
        plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
        return f"{root}{place}/{plural}"

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


async def install(api: Api, values: Tree, release: Release, tell: Tell) -> None:
    """Install a release, or bring it to this version and these values."""
    await _refuse_foreign(api, release)
    await _make_namespace(api, release, tell)
    for each in chart.definitions(values):
        await _wait_left(api, Ref.of(each), tell)
        await _apply(api, each, tell)
    for each in chart.definitions(values):
        await _wait_served(api, each)
    wanted = chart.objects(values, release)
    for each in wanted:
        await _apply(api, each, tell)
    leftovers = set(await installed(api, release)) - {Ref.of(each) for each in wanted}
    for ref in sorted(leftovers):
        await _delete(api, ref, tell)


async def uninstall(api: Api, release: Release, tell: Tell, *, keep_queues: bool = False) -> None:
    """Take a release off the cluster; with our definitions go all queues, unless they are kept."""
    await _refuse_foreign(api, release)
    there = sorted(await installed(api, release), key=_leaving)
    for ref in there:
        await _delete(api, ref, tell)
        if ref.kind == "Deployment":
            await _wait_gone(api, ref, tell)
    if not keep_queues:
        await _delete_definitions(api, tell)
    own = chart.namespace(release)
    found = await _get(api, Ref.of(own))
    if found and _labels(found).items() >= {INSTANCE: release.name, MANAGED_BY: MANAGER}.items():
        await _delete(api, Ref.of(own), tell)
        await _wait_gone(api, Ref.of(own), tell)


async def installed(api: Api, release: Release) -> list[Ref]:
    """What is there of a release, but for namespace and definitions."""
    chosen = {"labelSelector": f"{INSTANCE}={release.name},{MANAGED_BY}={MANAGER}"}
    found: list[Ref] = []
    for kind in sorted(_kinds(release)):
        try:
            listed = msgspec.json.decode(await api.get(kind.collection, chosen))
        except NotFound:  # nobody has installed that kind
            continue
        names = [each["metadata"]["name"] for each in listed["items"]]
        found += [Ref(kind.api, kind.kind, kind.namespace, name) for name in names]
    return found


def _kinds(release: Release) -> set[Ref]:
    """All kinds of objects that the chart can make, with no name."""
    everything: Tree = {"serviceMonitor": {"enabled": True}, "rbac": {"extraRules": [{}]}}
    made = chart.objects(merged(defaults(), everything), release)
    return {Ref(ref.api, ref.kind, ref.namespace, "") for ref in map(Ref.of, made)}


def _leaving(ref: Ref) -> tuple[int, Ref]:
    return (FIRST.index(ref.kind) if ref.kind in FIRST else len(FIRST)), ref


async def _refuse_foreign(api: Api, release: Release) -> None:
    """Two hands on one release would undo each other's work."""
    ref = Ref("apps/v1", "Deployment", release.namespace, f"{release.name}-scheduler")
    found = await _get(api, ref)
    manager = _labels(found).get(MANAGED_BY, "nobody") if found else MANAGER
    if manager != MANAGER:
        raise NotOurs(
            f'release "{release.name}" in namespace {release.namespace} is managed by {manager}; '
            f"use {manager.lower()} for it, or another --name"
        )


async def _make_namespace(api: Api, release: Release, tell: Tell) -> None:
    """A namespace that is there already stays as it is, and stays when we go."""
    own = chart.namespace(release)
    await _wait_left(api, Ref.of(own), tell)
    with suppress(Conflict):
        await api.post(Ref.of(own).collection, own)


async def _apply(api: Api, wanted: Object, tell: Tell) -> None:
    ref = Ref.of(wanted)
    how = {"fieldManager": "windlass-install", "force": "true"}
    await api.patch(ref.path, wanted, kind=Patch.APPLY, params=how, timeout_s=PATIENCE_S)
    tell(f"applied {ref}")


async def _delete(api: Api, ref: Ref, tell: Tell) -> None:
    try:
        await api.delete(ref.path, FOREGROUND if ref.kind == "Deployment" else BACKGROUND)
    except NotFound:
        return
    tell(f"deleted {ref}")


async def _delete_definitions(api: Api, tell: Tell) -> None:
    """They belong to all releases: the last one takes them along."""
    chosen = {"labelSelector": "app.kubernetes.io/name=windlass"}
    roles = Ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "")
    others = msgspec.json.decode(await api.get(roles.collection, chosen))["items"]
    if others:
        name = _labels(others[0]).get(INSTANCE, "")
        tell(f'kept the definitions of custom resources: release "{name}" uses them')
        return
    ours = [Ref.of(each) for each in chart.definitions(defaults())]
    for ref in ours:
        await _delete(api, ref, tell)
    for ref in ours:  # their objects go first
        await _wait_gone(api, ref, tell)


async def _wait_served(api: Api, definition: Object) -> None:
    async def is_served() -> bool:
        found = await _get(api, Ref.of(definition)) or {}
        conditions: Iterable[Object] = found.get("status", {}).get("conditions", ())
        return any(e["type"] == "Established" and e["status"] == "True" for e in conditions)

    if not await _comes_about(is_served):
        name = definition["metadata"]["name"]
        raise WindlassError(
            f"{name} is not served after {PATIENCE_S:.0f} s; look at its conditions"
        )


async def _wait_left(api: Api, ref: Ref, tell: Tell) -> None:
    """What is being deleted takes nothing in any more: let it go first."""
    found = await _get(api, ref)
    if found and "deletionTimestamp" in found["metadata"]:
        await _wait_gone(api, ref, tell)


async def _wait_gone(api: Api, ref: Ref, tell: Tell) -> None:
    async def is_gone() -> bool:
        return await _get(api, ref) is None

    if not await _comes_about(is_gone):
        tell(f"{ref} is still going; going on without waiting for it")


async def _comes_about(what: Callable[[], Awaitable[bool]]) -> bool:
    deadline = monotonic() + PATIENCE_S
    while not await what():
        if monotonic() > deadline:
            return False
        await asyncio.sleep(0.2)
    return True


async def _get(api: Api, ref: Ref) -> Object | None:
    try:
        return msgspec.json.decode(await api.get(ref.path))
    except NotFound:
        return None


def _labels(found: Object) -> dict[str, str]:
    return found["metadata"].get("labels") or {}
