"""The part of a controller: objects and pods as it would make them, in a namespace of its own.

Jobs, Deployments, ReplicaSets and StatefulSets are made into pods by the real controllers of the
plane.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.live.support.bound_pods import wait_until
from tests.live.support.definitions import FOREIGN, plural
from tests.live.support.scene import Scene, is_running, make_namespace
from windlass.kube.client.client import Api
from windlass.kube.client.errors import Conflict, Forbidden, NotFound
from windlass_lab.fake_nodes.labels import GPU

Json = dict[str, Any]
KNOWN = {
    "Pod": "v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ResourceQuota": "v1",
    "Gang": "windlass.dev/v1alpha1",
}


@dataclass(frozen=True, slots=True)
class Troupe:
    """A namespace, and what is made in it."""

    scene: Scene
    namespace: str
    versions: Mapping[str, str]

    @property
    def api(self) -> Api:
        return self.scene.api

    async def make(
        self, kind: str, name: str, spec: Json, above: Json | None = None, **labels: str
    ) -> Json:
        """An object; a quota that is full is waited for, as controllers do."""
        body = {
            "apiVersion": self.versions[kind],
            "kind": kind,
            "metadata": {"name": name, "labels": labels} | _owned(above),
            "spec": spec,
        }
        while True:
            with suppress(Forbidden):
                return json.loads(await self.api.post(self.path(kind), body))
            await asyncio.sleep(0.2)

    async def pod(self, name: str, above: Json | None = None, **labels: str) -> Json:
        """A pod that its controller makes itself."""
        return await self.make("Pod", name, self.template()["spec"], above, **labels)

    def template(self, restart: str = "Never", /, **labels: str) -> Json:
        """What pods of other makers look like: one GPU each."""
        container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
        return {
            "metadata": {"labels": labels},
            "spec": {
                "schedulerName": self.scene.key,
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [container],
            },
        }

    def indexed(self, count: int) -> Json:
        """The spec of an Indexed Job."""
        return {
            "completionMode": "Indexed",
            "parallelism": count,
            "completions": count,
            "template": self.template(),
        }

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object and, in time, what it owns."""
        await self.api.delete(self.path(kind, name), {"propagationPolicy": "Background"})

    async def remove(self, kind: str, name: str) -> None:
        """Delete an object that may be going already, and wait; another one may have its name."""
        with suppress(NotFound):
            uid = (await self.scene.get(self.path(kind, name)))["metadata"]["uid"]
            await self.delete(kind, name)
            await self.wait_gone(kind, name, uid)

    async def change(self, kind: str, name: str, spec: Json) -> None:
        """Change a spec."""
        await self.api.patch(self.path(kind, name), {"spec": spec})

    async def allow(self, pods: int) -> None:
        """Let so many pods be made at most, from now on."""
        hard = {"hard": {"pods": str(pods)}}
        with suppress(Conflict):
            await self.make("ResourceQuota", "pods", hard)
        await self.change("ResourceQuota", "pods", hard)

        async def counted() -> bool:
            found = await self.scene.get(self.path("ResourceQuota", "pods"))
            return found.get("status", {}).get("hard") == hard["hard"]

        await wait_until(counted, "the quota counts")

    def path(self, kind: str, name: str = "") -> str:
        version = self.versions[kind]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        place = f"{root}/namespaces/{self.namespace}/{plural(kind)}"
        return f"{place}/{name}" if name else place

    # --- what is there

    async def pods(self) -> list[Json]:
        """All pods that have not ended, in order."""
        items = (await self.scene.get(self.path("Pod")))["items"]
        live = [each for each in items if each["status"]["phase"] not in ("Failed", "Succeeded")]
        return sorted(live, key=lambda each: each["metadata"]["name"])

    async def wait_running(self, count: int) -> list[str]:
        """Wait until so many pods run and no others are there; the uids."""

        async def run() -> list[str] | None:
            found = await self.pods()
            if len(found) != count or not all(map(is_running, found)):
                return None
            return [each["metadata"]["uid"] for each in found]

        return await self._wait(run, f"{count} pods run")

    async def wait_empty(self) -> None:
        """Wait until no pod is left."""

        async def is_empty() -> bool:
            return not await self.pods()

        await self._wait(is_empty, "no pod is left")

    async def wait_others(self, count: int, before: list[str]) -> None:
        """Wait until so many pods run, not all of them those that did before."""

        async def run() -> bool:
            found = {each["metadata"]["uid"] for each in await self.pods() if is_running(each)}
            return len(found) == count and found != set(before)

        await self._wait(run, f"{count} pods run, with new ones among them")

    async def wait_told(self, count: int, words: str) -> None:
        """Wait until so many pods are there, and each says these words about why it waits."""

        async def say() -> bool:
            said = [message_of(each) for each in await self.pods()]
            return len(said) == count and all(words in each for each in said)

        await self._wait(say, f'{count} pods say "{words}"')

    async def wait_some_told(self, words: str) -> None:
        """Wait until there are pods, and each says these words about why it waits."""

        async def say() -> bool:
            said = [message_of(each) for each in await self.pods()]
            return bool(said) and all(words in each for each in said)

        await self._wait(say, f'all pods say "{words}"')

    async def wait_pod(self, name: str) -> Json:
        """Wait until a pod of this name is there and stays; the pod."""

        async def there() -> Json | None:
            with suppress(NotFound):
                found = await self.scene.get(self.path("Pod", name))
                return found if "deletionTimestamp" not in found["metadata"] else None
            return None

        return await self._wait(there, f"pod {name} is there")

    async def wait_gone(self, kind: str, name: str, uid: str = "") -> None:
        """Wait until an object is gone."""

        async def gone() -> bool:
            with suppress(NotFound):
                found = (await self.scene.get(self.path(kind, name)))["metadata"]["uid"]
                return bool(uid) and found != uid
            return True

        await self._wait(gone, f"{kind} {name} is gone")

    async def wait_succeeded(self, job: str) -> None:
        """Wait until a Job has done its work."""

        async def done() -> bool:
            found = await self.scene.get(self.path("Job", job))
            return bool(found["status"].get("succeeded"))

        await self._wait(done, f"Job {job} has succeeded")

    async def wait_event(self, words: str) -> None:
        """Wait until there is an Event that says this."""

        async def said() -> bool:
            path = f"/api/v1/namespaces/{self.namespace}/events"
            items = (await self.scene.get(path))["items"]
            return any(words in each.get("message", "") for each in items)

        await self._wait(said, f'an Event says "{words}"')

    async def _wait(self, what: Any, sentence: str) -> Any:
        try:
            return await wait_until(what, sentence)
        except AssertionError as error:
            told = [
                f"{each['metadata']['name']} {each['status']['phase']} {message_of(each)}"
                for each in await self.pods()
            ]
            raise AssertionError("\n".join([f"{self.namespace}: {error}", *told])) from None


async def open_troupe(scene: Scene, name: str) -> Troupe:
    """A troupe in a fresh namespace."""
    namespace = f"{scene.key}-{name.lower()}"
    await make_namespace(scene.api, namespace)
    return Troupe(scene, namespace, KNOWN | FOREIGN)


def message_of(pod: Json) -> str:
    """Why it waits, in words."""
    conditions = pod["status"].get("conditions", [])
    return next(
        (each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), ""
    )


def reference(owner: Json) -> Json:
    """How an object names the one who made it."""
    meta = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
    return named | {"uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}


def _owned(above: Json | None) -> Json:
    return {"ownerReferences": [reference(above)]} if above else {}
