"""People who look at a cluster: accounts with certain rights, and their tokens, good and bad."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from windlass.kube.client.client import Api

RBAC = "rbac.authorization.k8s.io"
Rule = dict[str, Any]
PODS: Rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
NODES: Rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
SHORTEST_S = 600
"""The API server makes no token for less."""


def queues(*names: str) -> Rule:
    """The right to get these queues; without names, to list them all."""
    rule = {"apiGroups": ["windlass.dev"], "resources": ["queues"]}
    if names:
        return rule | {"verbs": ["get"], "resourceNames": list(names)}
    return rule | {"verbs": ["list"]}


@dataclass(frozen=True, slots=True)
class Person:
    """An account in a namespace."""

    api: Api
    namespace: str
    name: str

    async def token(self, *audiences: str) -> str:
        """A token of theirs, for the API server or for others."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        spec = {"expirationSeconds": SHORTEST_S, "audiences": list(audiences)}
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        return json.loads(await self.api.post(path, kind | {"spec": spec}))["status"]["token"]

    async def may(self, namespace: str, *rules: Rule) -> None:
        """Give them rights in a namespace; without one, in the whole cluster."""
        kind = "Role" if namespace else "ClusterRole"
        inside = f"/namespaces/{namespace}" if namespace else ""
        path = f"/apis/{RBAC}/v1{inside}"
        meta = {"name": f"{self.namespace}-{self.name}"}
        await self.api.post(f"{path}/{kind.lower()}s", {"metadata": meta, "rules": rules})
        who = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        role = {"apiGroup": RBAC, "kind": kind, "name": meta["name"]}
        binding = {"metadata": meta, "subjects": [who], "roleRef": role}
        await self.api.post(f"{path}/{kind.lower()}bindings", binding)

    async def leave(self) -> None:
        """Take back what reaches beyond the namespaces."""
        for kind in ("clusterroles", "clusterrolebindings"):
            only = {"fieldSelector": f"metadata.name={self.namespace}-{self.name}"}
            await self.api.delete(f"/apis/{RBAC}/v1/{kind}", params=only)


async def person(api: Api, namespace: str, name: str) -> Person:
    """Somebody without any rights."""
    body = {"metadata": {"name": name}}
    await api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", body)
    return Person(api, namespace, name)


def altered(token: str, key: Path, lasts_s: float) -> str:
    """The same token, signed anew by a key, with another time to last; negative: it is over."""
    head, body, _ = token.split(".")
    now = time.time()
    claims = json.loads(urlsafe_b64decode(body + "=="))
    claims |= {"iat": int(now - 700), "nbf": int(now - 700), "exp": int(now + lasts_s)}
    text = f"{head}.{_part(json.dumps(claims).encode())}"
    return f"{text}.{_part(_signature(text.encode(), key))}"


def _signature(text: bytes, key: Path) -> bytes:
    private = load_pem_private_key(key.read_bytes(), None)
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(text, padding.PKCS1v15(), hashes.SHA256())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(private.sign(text, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _part(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
