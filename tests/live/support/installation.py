"""Windlass installed on the test's control plane, and its programs run as the chart's accounts."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live.support.controllers import FindParts
from tests.support.rendered_chart import usable_helm
from windlass.certificates import write_secret
from windlass.install.apply import install, uninstall
from windlass.install.chart import Release
from windlass.install.helm_program import HelmProgram
from windlass.install.values import overrides
from windlass.kube.client.auth import Access
from windlass.kube.client.client import Api
from windlass_lab.control_plane.plane import Plane

TOKEN_S = 3600


def helm_for(plane: Plane, find_parts: FindParts) -> HelmProgram:
    """The Helm that `windlass install` uses, for the administrator of a plane; built if need be."""
    find_parts(["helm"])
    return usable_helm(str(plane.kubeconfig))


@asynccontextmanager
async def installed(
    api: Api, helm: HelmProgram, release: Release, *pairs: str
) -> AsyncIterator[Installation]:
    """A release whose definitions are there already; it goes at the end."""
    made = Installation(api, helm, release)
    await made.install("crds.install=false", *pairs)
    try:
        yield made
    finally:
        await uninstall(api, helm, release, made.said.append, keep_queues=True)


@dataclass(slots=True)
class Installation:
    """One release, and what was said while it was installed."""

    api: Api
    helm: HelmProgram
    release: Release
    said: list[str] = field(default_factory=list)

    async def install(self, *pairs: str) -> None:
        """Install, or upgrade to these values."""
        values = overrides(pairs=pairs)
        await install(self.api, self.helm, values, self.release, self.said.append)

    async def token(self, account: str) -> str:
        """A token of one of the chart's accounts, as a pod would have it."""
        name = f"{self.release.name}-{account}"
        path = f"/api/v1/namespaces/{self.release.namespace}/serviceaccounts/{name}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_S},
        }
        return json.loads(await self.api.post(path, body))["status"]["token"]

    async def access(self, account: str, server: str, authority: bytes) -> Access:
        """The way to the API server as one of the chart's accounts."""
        token = await self.token(account)
        trust = ssl.create_default_context(cadata=authority.decode())

        async def headers() -> Mapping[str, str]:
            return {"Authorization": f"Bearer {token}"}

        return Access(server, trust, headers)

    async def kubeconfig(self, account: str, server: str, authority: bytes, path: Path) -> Path:
        """The same as a file."""
        cluster = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": await self.token(account)}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        write_secret(path, json.dumps(config).encode())
        return path


async def may(access_api: Api, **asked: Any) -> bool:
    """Does the API server allow this to whoever asks?"""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return json.loads(await access_api.post(path, body))["status"]["allowed"]
