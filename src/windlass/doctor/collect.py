"""Read the evidence for the checks; parts that may not be read are noted and left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.config import Config
from windlass.crds.definitions import GROUP, KINDS, QUEUE
from windlass.daemon.serving import as_leader, is_paused, leader_of, read_lease
from windlass.doctor.evidence import Evidence
from windlass.doctor.required_rights import PART, Account, needed, review
from windlass.install.chart import NAME, NAMESPACE
from windlass.kube.client import Api, Forbidden, NotFound, T, list_all
from windlass.model.viewers import Right
from windlass.workloads.objects import wire

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
Found = TypeVar("Found")


async def read(api: Api, config: Config, account: Account | None) -> Evidence:
    """Read all evidence, one part after the other, to keep the load on the API server low.

    `account` is the account of the scheduler; None: find it by itself.
    """
    reader = _EvidenceReader(api)
    lease = await read_lease(api, config)
    config = as_leader(config, lease)
    if lease is None:
        reader.hidden["leader"] = f"no right to get leases in namespace {config.lease.namespace}"
    now = int(time.time())
    return Evidence(
        now=now,
        version=await reader.at("version", _version(api)) or "",
        definitions=await reader.at("definitions", _definitions(api)) or {},
        rights=await reader.at("rights", _rights(api, config, account)) or {},
        leader=leader_of(lease, now) or "",
        paused=is_paused(lease),
        schedulers=frozenset(config.scheduler_names),
        queues=await reader.list("queues", QUEUE.path(), wire.Owner) or (),
        nodes=await reader.list("nodes", "/api/v1/nodes", wire.NodeObject) or (),
        pods=await reader.list("pods", "/api/v1/pods", wire.Pod) or (),
        daemons=await reader.list("daemons", "/apis/apps/v1/daemonsets", wire.Owner) or (),
        deployments=await reader.list("deployments", "/apis/apps/v1/deployments", wire.Owner) or (),
        policies=await reader.list("policies", POLICIES, wire.Owner),
        hidden=reader.hidden,
    )


class _EvidenceReader:
    """Reads parts of the evidence, and notes those that may not be read."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.hidden: dict[str, str] = {}
        """The error message by the name of each part that may not be read."""

    async def list(self, what: str, path: str, kind: type[T]) -> Sequence[T] | None:
        """Return all objects of a collection; None as in `at`."""
        return await self.at(what, list_all(self._api, path, kind))

    async def at(self, what: str, reading: Awaitable[Found]) -> Found | None:
        """Return the result of a read; None if it is forbidden (noted) or does not exist."""
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
    answers = await asyncio.gather(*(_definition(api, name) for name in names))
    return dict(zip(names, answers, strict=True))


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
    """Return the account of a scheduler that is installed under the default name, or None."""
    try:
        await api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}{PART}")
    except (Forbidden, NotFound):
        return None
    return Account(NAMESPACE, NAME + PART)
