"""The rights that the scheduler needs: exactly those that the chart grants it.

The rules of the chart are the only list of rights, and they are plain YAML, so that the doctor
needs no Helm. The API server is asked about each right, for the account of the scheduler or, if
there is none, for the user of the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.install.chart import Rule, scheduler_rules
from windlass.kube.client import Api
from windlass.model.viewers import Right

PART = "-scheduler"
"""The ending of the name of the scheduler's account, after the name of the release."""


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def needed(namespace: str, lease: str) -> list[Right]:
    """Return every right of the scheduler whose lease has this name and lies in this namespace."""
    rules = scheduler_rules(lease)
    cluster = [*rules["cluster"], *rules["dashboard"]]
    rights = [*_rights(cluster, ""), *_rights(rules["namespace"], namespace)]
    return list(dict.fromkeys(rights))


async def review(api: Api, rights: Sequence[Right], account: Account | None) -> dict[Right, bool]:
    """Return for each right whether the account has it; without one, the user of the command."""
    answers = await asyncio.gather(*(_ask(api, right, account) for right in rights))
    return dict(zip(rights, answers, strict=True))


def _rights(rules: Sequence[Rule], namespace: str) -> Iterator[Right]:
    """Yield each right that these rules grant, in this namespace or, if it is empty, everywhere."""
    for rule in rules:
        names = rule.get("resourceNames", [""])
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield from (Right(verb, resource, group, namespace, name) for name in names)


class _Answer(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Answer = msgspec.field(default_factory=_Answer)


async def _ask(api: Api, right: Right, account: Account | None) -> bool:
    resource, _, sub = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "namespace": right.namespace,
        "name": right.name,
    }
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if account:
        spec["user"] = f"system:serviceaccount:{account.namespace}:{account.name}"
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{account.namespace}"]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await api.post(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body)
    return msgspec.json.decode(answer, type=_Review).status.allowed
