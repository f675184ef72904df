"""A small cluster with queues, nodes that a fake kubelet plays, and the daemon as a process.

Each scene has its own namespace, nodes, queues and lease, so that several can share one control
plane. Each daemon has its own proxy, which can tell what it did and do something to it.
"""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Before, Daemon, launch
from windlass.crds.definitions import API_VERSION, KINDS, QUEUE
from windlass.crds.manifest import manifests
from windlass.kube.client.auth import Access
from windlass.kube.client.client import Api, connect
from windlass.kube.client.errors import ApiError, Conflict, NotFound
from windlass_lab.api_proxy.proxy import Proxy, recording
from windlass_lab.control_plane.process import Keeper
from windlass_lab.fake_kubelet import Habits, Kubelet, Machine, playing
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.nodes import NODES

QUICK = Habits(kill_delay_s=0.1, restart_delay_s=0.5)
LABEL = "scene"
TIMES = {"lease_duration_s": 5, "lease_renew_deadline_s": 3, "lease_retry_s": 1}
"""Short, so that a successor need not wait for long."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@asynccontextmanager
async def scene(
    access: Access, folder: Path, *, nodes: int = 3, habits: Habits = QUICK, **queues: int
) -> AsyncIterator[Scene]:
    """A cluster of nodes with 8 GPUs each and queues with these guarantees; nobody leads yet."""
    key = f"s{uuid.uuid4().hex[:8]}"
    fleet = [Machine(f"{key}-{at}", labels={LABEL: key}) for at in range(nodes)]
    async with connect(access, timeout_s=60) as api:
        await _define(api)
        await make_namespace(api, key)
        for name, gpus in queues.items():
            await _make_queue(api, key, name, gpus)
        async with AsyncExitStack() as stack:
            kubelet = await stack.enter_async_context(playing(access, fleet, habits))
            made = Scene(key, access, api, kubelet, folder / key)
            made.folder.mkdir()
            try:
                yield made
            finally:
                await made.end()
        await _clean_up(api, key, [each.name for each in fleet], list(queues))


@dataclass(slots=True)
class Scene:
    """The cluster, what has been submitted to it, and the daemons that were started."""

    key: str
    """Its namespace, its label and the name of its lease."""
    access: Access
    api: Api
    kubelet: Kubelet
    folder: Path
    grace_s: int = 1
    """The termination grace of what is submitted from now on."""
    daemons: list[Daemon] = field(default_factory=list)
    before: Before | None = None
    """Changes the processes of daemons that are started from now on."""
    _keeper: Keeper = field(default_factory=lambda: Keeper(None))
    _proxies: AsyncExitStack = field(default_factory=AsyncExitStack)

    # --- daemons ---

    async def open_proxy(self) -> Proxy:
        """A proxy for the next daemon, to be prepared before that starts."""
        return await self._proxies.enter_async_context(recording(self.access))

    async def start(self, proxy: Proxy | None = None, **flags: Any) -> Daemon:
        """Start a daemon; it may have to wait for the lease."""
        proxy = proxy or await self.open_proxy()
        number = len(self.daemons)
        kubeconfig = proxy.write_kubeconfig(self.folder / f"kubeconfig-{number}")
        words = self._words(kubeconfig, f"r{number}", flags)
        log = self.folder / f"daemon-{number}.log"
        daemon = await launch(words, log, proxy, self._keeper, self.before)
        self.daemons.append(daemon)
        return daemon

    async def leading(self, proxy: Proxy | None = None, **flags: Any) -> Daemon:
        """Start a daemon and wait until it leads and has read all that is there."""
        daemon = await self.start(proxy, **flags)
        await daemon.wait_said("read")
        return daemon

    async def end(self) -> None:
        """End all daemons and their proxies."""
        for each in self.daemons:
            each.signal(signal.SIGKILL)
            await each.ended()
        self._keeper.close()
        await self._proxies.aclose()

    async def holder(self) -> str:
        """Who holds the lease; nobody: nothing."""
        with suppress(NotFound):
            return (await self.get(self.lease))["spec"].get("holderIdentity") or ""
        return ""

    async def let_pass(self) -> None:
        """As if a dead leader's lease had passed: nothing of it is under way, others may lead."""

        async def is_quiet() -> bool:
            return not any(each.proxy.under_way() for each in self.daemons)

        await wait_until(is_quiet, "what was sent has been carried out")
        with suppress(NotFound):
            await self.api.patch(self.lease, {"spec": {"holderIdentity": ""}})

    @property
    def lease(self) -> str:
        """Where the lease lies."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.key}/leases/{self.key}"

    # --- what is submitted ---

    async def gang(self, name: str, count: int, gpus: int, queue: str, **marks: str) -> list[str]:
        """Plain pods that start together; the uids."""
        labels = {"windlass.dev/gang": name, "windlass.dev/minimum": str(count)}
        return [
            await self.pod(f"{name}-{number}", gpus, queue, **labels, **marks)
            for number in range(count)
        ]

    async def pod(self, name: str, gpus: int, queue: str, **labels: str) -> str:
        """A plain pod; its uid."""
        body = {"apiVersion": "v1", "kind": "Pod", **self.template(gpus, queue, labels)}
        body["metadata"]["name"] = name
        return json.loads(await self.api.post(self.path(), body))["metadata"]["uid"]

    async def job(self, name: str, count: int, gpus: int, queue: str, **labels: str) -> None:
        """An Indexed Job: its pods start together and are made again."""
        spec = {
            "completionMode": "Indexed",
            "parallelism": count,
            "completions": count,
            "backoffLimit": 1000,
            "template": self.template(gpus, queue, labels),
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.api.post(f"/apis/batch/v1/namespaces/{self.key}/jobs", body)

    async def delete(self, name: str, uid: str = "", grace: int = 1) -> None:
        """Delete a pod, and wait until it is gone."""
        found = uid or (await self.get(self.path(name)))["metadata"]["uid"]
        await self.api.delete(self.path(name), {"gracePeriodSeconds": grace})
        await self.wait_gone(name, [found])

    def path(self, name: str = "") -> str:
        pods = f"/api/v1/namespaces/{self.key}/pods"
        return f"{pods}/{name}" if name else pods

    # --- what is there ---

    async def get(self, path: str) -> dict[str, Any]:
        return json.loads(await self.api.get(path))

    async def pods(self, prefix: str = "") -> list[dict[str, Any]]:
        """The pods whose names begin so, in order."""
        items = (await self.get(self.path()))["items"]
        found = [each for each in items if each["metadata"]["name"].startswith(prefix)]
        return sorted(found, key=lambda each: each["metadata"]["name"])

    async def wait_running(self, *gangs: tuple[str, int]) -> list[str]:
        """Wait until so many pods of each prefix run, and no others of it are there; the uids."""

        async def run() -> list[str] | None:
            found = await self.pods()
            chosen: list[str] = []
            for prefix, count in gangs:
                there = [each for each in found if each["metadata"]["name"].startswith(prefix)]
                live = [each for each in there if each["status"]["phase"] != "Failed"]
                if len(live) != count or not all(map(is_running, live)):
                    return None
                chosen += [each["metadata"]["uid"] for each in live]
            return chosen

        return await self._wait(run, f"{gangs} run")

    async def wait_there(self, prefix: str, count: int) -> list[str]:
        """Wait until so many pods have been made, by a Job say; the uids."""

        async def there() -> list[str] | None:
            found = await self.pods(prefix)
            return [each["metadata"]["uid"] for each in found] if len(found) == count else None

        return await self._wait(there, f"there are {count} pods of {prefix}")

    async def wait_daemons(self, count: int) -> None:
        """Wait until so many daemons have been started."""

        async def started() -> bool:
            return len(self.daemons) >= count

        await wait_until(started, f"{count} daemons were started")

    async def wait_condition(self, prefix: str, count: int, reason: str) -> None:
        """Wait until so many pods say why they wait."""

        async def say() -> bool:
            said = [reason_of(each) for each in await self.pods(prefix)]
            return said.count(reason) >= count

        await self._wait(say, f"{count} pods of {prefix} say {reason}")

    async def wait_reasons(self, prefix: str, count: int) -> None:
        """Wait until so many pods say why they wait, whatever it is."""

        async def say() -> bool:
            return sum(bool(reason_of(each)) for each in await self.pods(prefix)) >= count

        await self._wait(say, f"{count} pods of {prefix} say why they wait")

    async def wait_phase(self, name: str, phase: str) -> None:
        """Wait until a pod has come so far."""

        async def reached() -> bool:
            return (await self.get(self.path(name)))["status"]["phase"] == phase

        await self._wait(reached, f"{name} is {phase}")

    async def wait_gone(self, prefix: str, uids: Sequence[str]) -> None:
        """Wait until these pods are gone."""

        async def gone() -> bool:
            there = {each["metadata"]["uid"] for each in await self.pods(prefix)}
            return not there & set(uids)

        await self._wait(gone, f"the pods of {prefix} are gone")

    def check(self) -> None:
        """What the witness says: no device was given twice, and nothing was bound too much."""
        book = self.kubelet.book
        assert book.violations() == []
        assert book.overbooked() == []
        assert self.kubelet.writer.rejected == []

    async def _wait(self, what: Callable[[], Awaitable[Any]], sentence: str) -> Any:
        try:
            return await wait_until(what, sentence)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self._tell()}") from None

    async def _tell(self) -> str:
        pods = [
            f"{each['metadata']['name']} {each['status']['phase']}"
            f" {each['spec'].get('nodeName', '-')} {reason_of(each)}"
            for each in await self.pods()
        ]
        logs = [f"{each.log}:\n{each.log.read_text()[-2500:]}" for each in self.daemons]
        return "\n".join([*pods, *logs])

    def _words(self, kubeconfig: Path, replica: str, flags: dict[str, Any]) -> list[str]:
        told = {
            "kubeconfig": kubeconfig,
            "replica": replica,
            "namespaces": self.key,
            "node_selector": f"{LABEL}={self.key}",
            "lease_name": self.key,
            "lease_namespace": self.key,
            "address": "127.0.0.1",
            "port": 0,
            "dashboard_port": 0,
            "cycle_at_most_s": 1,
            **TIMES,
            **flags,
        }
        # None takes a flag back, so that its default counts
        chosen = {key: value for key, value in told.items() if value is not None}
        pairs = ((f"--{key.replace('_', '-')}", str(value)) for key, value in chosen.items())
        return [word for pair in pairs for word in pair]

    def template(
        self, gpus: int, queue: str, labels: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The pods of a job that waits in a queue."""
        labels = labels or {}
        marks = {
            key.replace("preemptible", "windlass.dev/preemptible"): labels[key] for key in labels
        }
        said = ("fake.", "windlass.dev/checkpoint", "karpenter.sh/")
        notes = {key: marks.pop(key) for key in list(marks) if key.startswith(said)}
        rank = {"priorityClassName": marks.pop("priority")} if "priority" in marks else {}
        container = {
            "name": "main",
            "image": "none",
            "resources": {"limits": {GPU: str(gpus)}},
        }
        return {
            "metadata": {
                "labels": {"windlass.dev/queue": f"{self.key}-{queue}", **marks},
                "annotations": notes,
            },
            "spec": {
                "schedulerName": "windlass",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": self.grace_s,
                "automountServiceAccountToken": False,
                "containers": [container],
                **rank,
            },
        }


def name_of(pod: dict[str, Any]) -> str:
    """Return what a pod is called."""
    return pod["metadata"]["name"]


def uid_of(pod: dict[str, Any]) -> str:
    """Return what tells a pod from its namesakes."""
    return pod["metadata"]["uid"]


def is_running(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def reason_of(pod: dict[str, Any]) -> str:
    """Why it waits, as its condition says."""
    conditions = pod["status"].get("conditions", [])
    return next(
        (each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), ""
    )


async def _define(api: Api) -> None:
    """The custom resources, if nobody has defined them yet."""
    for text in manifests().values():
        with suppress(Conflict):
            await api.post(DEFINITIONS, yaml.safe_load(text))

    async def served() -> bool:
        try:
            for kind in KINDS.values():
                await api.get(f"/apis/{API_VERSION}/{kind.plural}")
        except ApiError:
            return False
        return True

    await wait_until(served, "the custom resources are served")


async def make_namespace(api: Api, name: str) -> None:
    """A namespace in which pods can be created at once."""
    meta = {"name": name}
    await api.post("/api/v1/namespaces", {"metadata": meta})
    with suppress(Conflict):
        account = {"metadata": {"name": "default"}}
        await api.post(f"/api/v1/namespaces/{name}/serviceaccounts", account)


async def _make_queue(api: Api, key: str, name: str, gpus: int) -> None:
    spec = {"namespaces": [key], "guarantee": {"gpu": gpus}}
    meta = {"name": f"{key}-{name}"}
    body = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": meta, "spec": spec}
    await api.post(QUEUE.path(), body)


async def _clean_up(api: Api, key: str, nodes: list[str], queues: list[str]) -> None:
    paths = [f"{NODES}/{node}" for node in nodes]
    paths += [QUEUE.path(f"{key}-{name}") for name in queues]
    for path in [f"/apis/batch/v1/namespaces/{key}/jobs", f"/api/v1/namespaces/{key}/pods"]:
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await api.delete(path, options)
    for path in [*paths, f"/api/v1/namespaces/{key}"]:
        with suppress(NotFound):
            await api.delete(path)
