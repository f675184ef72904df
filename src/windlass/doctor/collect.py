"""Reads what the doctor looks at; what may not be read is noted, and the rest goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.config import Config
from windlass.crds.definitions import GROUP, KINDS, QUEUE
from windlass.daemon.serving.leader_info import as_leader, is_paused, leader_of, read_lease
from windlass.doctor.evidence import Evidence
from windlass.doctor.required_rights import PART, Account, needed, review
from windlass.install.chart import NAME, NAMESPACE
from windlass.kube.client.client import Api, list_all
from windlass.kube.client.errors import Forbidden, NotFound
from windlass.kube.client.object_cache import T
from windlass.model.viewers import Right
from windlass.workloads.objects import wire

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
Found = TypeVar("Found")


async def read(api: Api, config: Config, account: Account | None) -> Evidence:
    """Everything, one after the other: a doctor is in no hurry."""
    look = _Look(api)
    lease = await read_lease(api, config)
    config = as_leader(config, lease)
    if lease is None:
        look.hidden["leader"] = f"no right to get leases in namespace {config.lease.namespace}"
    now = int(time.time())
    return Evidence(
        now=now,
        version=await look.at("version", _version(api)) or "",
        definitions=await look.at("definitions", _definitions(api)) or {},
        rights=await look.at("rights", _rights(api, config, account)) or {},
        leader=leader_of(lease, now) or "",
        paused=is_paused(lease),
        schedulers=frozenset(config.scheduler_names),
        queues=await look.list("queues", QUEUE.path(), wire.Owner) or (),
        nodes=await look.list("nodes", "/api/v1/nodes", wire.NodeObject) or (),
        pods=await look.list("pods", "/api/v1/pods", wire.Pod) or (),
        daemons=await look.list("daemons", "/apis/apps/v1/daemonsets", wire.Owner) or (),
        deployments=await look.list("deployments", "/apis/apps/v1/deployments", wire.Owner) or (),
        policies=await look.list("policies", POLICIES, wire.Owner),
        hidden=look.hidden,
    )


class _Look:
    """Remembers what could not be read."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.hidden: dict[str, str] = {}

    async def list(self, what: str, path: str, kind: type[T]) -> Sequence[T] | None:
        """All objects at a path."""
        return await self.at(what, list_all(self._api, path, kind))

    async def at(self, what: str, reading: Awaitable[Found]) -> Found | None:
        """What is read, or None if the server hides it or does not know it."""
        try:
            return await reading
        except Forbidden as error:
            self.hidden[what] = error.message
        except NotFound:
            pass
        return None


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def _version(api: Api) -> str:
    return msgspec.json.decode(await api.get("/version"), type=_Version).git_version


async def _definitions(api: Api) -> dict[str, dict[str, Any] | None]:
    names = [f"{kind.plural}.{GROUP}" for kind in KINDS.values()]
    found = await asyncio.gather(*(_definition(api, name) for name in names))
    return dict(zip(names, found, strict=True))


async def _definition(api: Api, name: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(await api.get(f"{DEFINITIONS}/{name}"))
    except NotFound:
        return None


async def _rights(api: Api, config: Config, account: Account | None) -> dict[Right, bool]:
    account = account or await _installed(api)
    if account is None:
        return await review(api, needed(config.lease.namespace, config.lease.name), None)
    return await review(api, needed(account.namespace, NAME), account)


async def _installed(api: Api) -> Account | None:
    """The account of an installed scheduler, if there is one in the usual place."""
    try:
        await api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}{PART}")
    except (Forbidden, NotFound):
        return None
    return Account(NAMESPACE, NAME + PART)
