"""Install, upgrade and uninstall a release, by Helm and by requests to the API server.

Helm applies and deletes the objects of a release. What Helm does not do is done here: the namespace
and its label, the order of an uninstall, the definitions with all queues, and objects of the
release that Helm has no record of. Running pods of users are never touched.

    install     namespace -> Helm -> delete leftovers -> wait until definitions are served
    uninstall   webhook and policies -> deployments, until they are gone -> Helm -> the rest ->
                definitions -> namespace

The order of an uninstall matters: a webhook or policy without its server could block or refuse new
pods, and a scheduler that still runs would create its lease again.

Releases that Helm has no record of were made by versions of `windlass install` that did not call
Helm, or by `windlass install --print | kubectl apply -f -`. The next install makes Helm their
owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import msgspec

from windlass.install import chart
from windlass.install.chart import DEFINITION, INSTANCE, MANAGED_BY, MANAGER, Object, Release
from windlass.install.helm_program import HelmProgram, HelmRecord
from windlass.install.values import Tree
from windlass.kube.client import Api, Conflict, NotFound, Patch
from windlass.model.errors import WindlassError

Tell = Callable[[str], None]

PATIENCE_S = 60.0
"""Seconds to wait for an object to be served or gone."""
BACKGROUND = {"propagationPolicy": "Background"}
FOREGROUND = {"propagationPolicy": "Foreground"}
FIRST = ("MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "Deployment")
"""The kinds that are deleted first, in this order: what intercepts requests, then what runs."""
MANAGERS = (MANAGER, "Helm")
"""The values of the label `managed-by` on objects that we may change."""
OWNER = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
"""The annotations with which Helm marks the objects of a release."""
FIELD_MANAGER = "windlass-install"
"""The field manager with which versions that did not call Helm applied objects."""


class NotOurs(WindlassError):
    """Another tool manages the release, or it is a release of another chart."""


class NotDone(WindlassError):
    """A step failed. Completed steps stay, and it is safe to give the same command again."""


class NotServed(WindlassError):
    """The API server does not serve a definition in time."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A reference to an object."""

    api: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, thing: Object) -> Ref:
        """Return the reference to an object."""
        meta = thing["metadata"]
        return cls(thing["apiVersion"], thing["kind"], meta.get("namespace", ""), meta["name"])

    @property
    def path(self) -> str:
        """Return the API path of the object."""
        return f"{self.collection}/{self.name}"

    @property
    def collection(self) -> str:
        """Return the API path of the collection that the object is in."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        lower = self.kind.lower()
        plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
        return f"{root}{place}/{plural}"

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


async def install(api: Api, helm: HelmProgram, values: Tree, release: Release, tell: Tell) -> None:
    """Install a release, or upgrade it to this version and to these values over the defaults."""
    await _refuse_foreign_scheduler(api, release)
    before = await installed(api, release)
    record = await helm.record(release)
    _refuse_foreign(record, release, before)
    _refuse_pending(record, release)
    targets = {Ref.of(thing): thing for thing in await helm.render(values, release)}
    await _make_namespace(api, release, tell)
    definitions = [ref for ref in targets if ref.kind == DEFINITION]
    for ref in definitions:
        await _wait_left(api, ref, tell)
    for ref, thing in targets.items():
        if ref in before and _owner(before[ref]) is None:
            await _hand_over(api, thing)
    await helm.upgrade(values, release)
    for ref in targets:
        tell(f"applied {ref}")
    for ref in sorted(before.keys() - targets.keys()):
        await _delete(api, ref)  # if Helm has not deleted it already
        tell(f"deleted {ref}")
    for ref in definitions:
        await _wait_served(api, ref)


async def uninstall(
    api: Api, helm: HelmProgram, release: Release, tell: Tell, *, keep_queues: bool = False
) -> None:
    """Uninstall a release; our definitions go too, with all queues, unless `keep_queues` is set."""
    await _refuse_foreign_scheduler(api, release)
    before = await installed(api, release)
    _refuse_foreign(await helm.record(release), release, before)
    for ref in sorted((ref for ref in before if ref.kind in FIRST), key=_delete_order):
        await _delete(api, ref)
        tell(f"deleted {ref}")
        if ref.kind == "Deployment":
            await _wait_gone(api, ref, tell)
    await helm.uninstall(release)
    for ref in sorted(ref for ref in before if ref.kind not in FIRST):
        await _delete(api, ref)  # if Helm has not deleted it already
        tell(f"deleted {ref}")
    if not keep_queues:
        await _delete_definitions(api, tell)
    own = chart.namespace(release)
    live = await _get(api, Ref.of(own))
    if live and _labels(live).items() >= {INSTANCE: release.name, MANAGED_BY: MANAGER}.items():
        await _delete(api, Ref.of(own))
        tell(f"deleted {Ref.of(own)}")
        await _wait_gone(api, Ref.of(own), tell)


async def installed(api: Api, release: Release) -> dict[Ref, Object]:
    """Return the live objects of a release, without its namespace and the definitions."""
    managers = f"{MANAGED_BY} in ({','.join(MANAGERS)})"
    selector = {"labelSelector": f"{chart.PART_OF}=windlass,{INSTANCE}={release.name},{managers}"}
    objects: dict[Ref, Object] = {}
    for kind in _kinds(release):
        try:
            answer = msgspec.json.decode(await api.get(kind.collection, selector))
        except NotFound:  # the kind is not installed
            continue
        for thing in answer["items"]:
            name = thing["metadata"]["name"]
            objects[Ref(kind.api, kind.kind, kind.namespace, name)] = thing
    return objects


def _kinds(release: Release) -> Iterable[Ref]:
    """Yield all kinds of objects that the chart can make, as references without a name."""
    for api, kind in chart.CLUSTER_KINDS:
        yield Ref(api, kind, "", "")
    for api, kind in chart.NAMESPACE_KINDS:
        yield Ref(api, kind, release.namespace, "")


def _delete_order(ref: Ref) -> tuple[int, Ref]:
    return FIRST.index(ref.kind), ref


async def _refuse_foreign_scheduler(api: Api, release: Release) -> None:
    """Raise `NotOurs` if another tool manages the scheduler: both would undo each other's work."""
    ref = Ref("apps/v1", "Deployment", release.namespace, f"{release.name}-scheduler")
    live = await _get(api, ref)
    manager = _labels(live).get(MANAGED_BY, "nobody") if live else MANAGER
    if manager not in MANAGERS:
        raise NotOurs(
            f'release "{release.name}" in namespace {release.namespace} is managed by {manager}; '
            f"use {manager.lower()} for it, or another --name"
        )


def _refuse_foreign(
    record: HelmRecord | None, release: Release, objects: Mapping[Ref, Object]
) -> None:
    """Raise `NotOurs` if the release is of another chart, or its objects are of another release.

    Helm would replace or delete the objects of that chart, and would take objects over from that
    release.
    """
    if record and record.chart != chart.NAME:
        raise NotOurs(
            f'release "{release.name}" in namespace {release.namespace} is one of the chart '
            f"{record.chart}; use another --name"
        )
    for ref, thing in objects.items():
        owner = _owner(thing)
        if owner not in (None, release):
            raise NotOurs(
                f'{ref} belongs to release "{owner.name}" in namespace {owner.namespace}; '
                "use that --namespace, or another --name"
            )


def _refuse_pending(record: HelmRecord | None, release: Release) -> None:
    """Raise `NotDone` if Helm is working on the release, or was killed while it did."""
    if record and record.is_pending:
        secret = f"sh.helm.release.v1.{release.name}.v{record.revision}"
        raise NotDone(
            f'release "{release.name}" is in state {record.status}: wait if Helm is at work on it; '
            f"if Helm was killed, run `kubectl -n {release.namespace} delete secret {secret}` and "
            "give the same command again"
        )


async def _make_namespace(api: Api, release: Release, tell: Tell) -> None:
    """Create the namespace. An existing one is not changed, and an uninstall does not delete it."""
    own = chart.namespace(release)
    await _wait_left(api, Ref.of(own), tell)
    with suppress(Conflict):
        await api.post(Ref.of(own).collection, own)


async def _hand_over(api: Api, target: Object) -> None:
    """Apply the wanted state to an object that Helm has no record of, before Helm takes it over.

    Helm compares with its record, and has none: it would keep fields of the object that are no
    longer wanted. The API server knows which fields we applied before, and removes them.
    """
    how = {"fieldManager": FIELD_MANAGER, "force": "true"}
    await api.patch(Ref.of(target).path, target, kind=Patch.APPLY, params=how, timeout_s=PATIENCE_S)


async def _delete(api: Api, ref: Ref) -> bool:
    """Delete an object; return whether it existed."""
    try:
        await api.delete(ref.path, FOREGROUND if ref.kind == "Deployment" else BACKGROUND)
    except NotFound:
        return False
    return True


async def _delete_definitions(api: Api, tell: Tell) -> None:
    """Delete our definitions, unless another release uses them: they belong to all releases."""
    selector = {"labelSelector": f"{chart.PART_OF}=windlass"}
    roles = Ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "")
    others = msgspec.json.decode(await api.get(roles.collection, selector))["items"]
    if others:
        name = _labels(others[0]).get(INSTANCE, "")
        tell(f'kept the definitions of custom resources: release "{name}" uses them')
        return
    ours = [Ref.of(definition) for definition in chart.definitions()]
    for ref in ours:
        if await _delete(api, ref):
            tell(f"deleted {ref}")
    for ref in ours:  # a definition is gone only after all its objects are
        await _wait_gone(api, ref, tell)


async def _wait_served(api: Api, definition: Ref) -> None:
    async def is_served() -> bool:
        live = await _get(api, definition) or {}
        conditions: Iterable[Object] = live.get("status", {}).get("conditions", ())
        return any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in conditions
        )

    if not await _wait_until(is_served):
        raise NotServed(
            f"{definition.name} is not served after {PATIENCE_S:.0f} s; look at its conditions"
        )


async def _wait_left(api: Api, ref: Ref, tell: Tell) -> None:
    """Wait until an object that is being deleted is gone: until then it cannot be changed."""
    live = await _get(api, ref)
    if live and "deletionTimestamp" in live["metadata"]:
        await _wait_gone(api, ref, tell)


async def _wait_gone(api: Api, ref: Ref, tell: Tell) -> None:
    async def is_gone() -> bool:
        return await _get(api, ref) is None

    if not await _wait_until(is_gone):
        tell(f"{ref} is still going; going on without waiting for it")


async def _wait_until(is_true: Callable[[], Awaitable[bool]]) -> bool:
    """Wait until a condition is true; return False if it is not within `PATIENCE_S`."""
    deadline = monotonic() + PATIENCE_S
    while not await is_true():
        if monotonic() > deadline:
            return False
        await asyncio.sleep(0.2)
    return True


async def _get(api: Api, ref: Ref) -> Object | None:
    try:
        return msgspec.json.decode(await api.get(ref.path))
    except NotFound:
        return None


def _labels(thing: Object) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def _owner(thing: Object) -> Release | None:
    """Return the Helm release to which an object belongs, or None if it belongs to none."""
    annotations: dict[str, str] = thing["metadata"].get("annotations") or {}
    name, namespace = (annotations.get(key, "") for key in OWNER)
    return Release(name, namespace) if name else None
