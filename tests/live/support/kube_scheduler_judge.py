"""kube-scheduler as the judge of our placements.

A batch of cases is created on one control plane. We decide about each pod from the objects as the
API server returns them. Then kube-scheduler is asked one question per case: does it take the pod to
the node that we chose, with the other nodes out of reach; or, if ours waits, does it wait too?

The other nodes are tainted. For a pod that looks at taints in other ways (it tolerates them all, or
its spread does not count tainted nodes) they stop offering the resource that it asks for instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from tests.live.support.bound_pods import wait_until
from tests.live.support.judge_cases import HEAVY, Case, fence, name_of
from tests.live.support.judge_storage import CASE, PATHS, Json
from tests.support.kube_given import queue
from windlass.daemon.decide.step import SchedulerStep
from windlass.daemon.loop.watches import NEEDED
from windlass.kube.client.client import Api, Patch
from windlass.kube.client.request import Params
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import ObjectObserved
from windlass.workloads.objects import wire
from windlass.workloads.objects.storage_wire import PersistentVolumeClaim
from windlass.workloads.pods.volumes import SELECTED
from windlass_lab.control_plane.plane import Options

OPTIONS = Options(
    controllers=False,
    scheduler=True,
    # nobody makes accounts or watches over nodes here
    flags={"kube-apiserver": ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]},
)
NODES = "/api/v1/nodes"
ASKED = "asked"
"""What kube-scheduler's copy of a pod is called."""
AWAY = {"key": "judge.example.com/away", "effect": "NoSchedule"}


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Answer:
    """Where a scheduler puts a pod; without a node, why it does not."""

    node: str
    why: str = ""

    def __str__(self) -> str:
        return f"to {self.node}" if self.node else f"waits: {self.why}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both answers about a case."""

    case: Case
    ours: Answer
    theirs: Answer

    @property
    def agree(self) -> bool:
        return self.ours.node == self.theirs.node

    def __str__(self) -> str:
        case = self.case
        stored = [each for _, each in case.stored]
        parts = [*case.namespaces, *case.nodes, *stored, *case.running, case.pod]
        told = f"windlass: {self.ours}\nkube-scheduler: {self.theirs}\nleaving: {case.leaving}\n"
        return told + yaml.safe_dump_all(parts, sort_keys=False)


async def judge(api: Api, cases: Sequence[Case]) -> list[Verdict]:
    """Ask both about all cases at once."""
    await _create(api, cases)
    answers = await _ask_windlass(api, cases)
    await _gather(_steer(api, each, answers[each.key]) for each in cases)
    await _wait_for_scheduler(api, f"{cases[0].key}-last")
    theirs = await _ask_scheduler(api, cases)
    await api.delete(NODES, params={"labelSelector": CASE})
    return [Verdict(each, answers[each.key], theirs[each.key]) for each in cases]


async def prepare(api: Api) -> None:
    """What all cases share."""
    heavy = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": HEAVY},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "600m", "memory": "500Mi"}},
    }
    await api.post("/apis/node.k8s.io/v1/runtimeclasses", heavy)


# --- what is there -------------------------------------------------------------------------------


async def _create(api: Api, cases: Sequence[Case]) -> None:
    namespaces = [each for case in cases for each in case.namespaces]
    await _gather(api.post("/api/v1/namespaces", each) for each in namespaces)
    await _gather(api.post(NODES, each) for case in cases for each in case.nodes)
    await _gather(api.post(path, each) for case in cases for path, each in case.stored)
    await _gather(_create_pods(api, case) for case in cases)


async def _create_pods(api: Api, case: Case) -> None:
    for each in case.running:
        leaves = name_of(each) in case.leaving
        held = {"metadata": each["metadata"] | {"finalizers": ["judge.example.com/stay"]}}
        await api.post(_pods_of(each), each | held if leaves else each)
        if leaves:
            await api.delete(f"{_pods_of(each)}/{name_of(each)}")
    ours = deepcopy(case.pod)
    ours["spec"]["schedulerName"] = "windlass"
    await api.post(_pods_of(ours), ours)


def _pods_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


# --- what we say ---------------------------------------------------------------------------------


async def _ask_windlass(api: Api, cases: Sequence[Case]) -> dict[str, Answer]:
    pieces: dict[str, list[ObjectObserved]] = {each.key: [queue("all", each.key)] for each in cases}
    for kind in ("namespaces", *PATHS, "nodes", "pods"):
        path, struct = NEEDED[kind]
        for each in await _list(api, path, struct):
            key = (each.metadata.labels or {}).get(CASE, "")
            if key in pieces:
                pieces[key].append(ObjectObserved(kind, each))
    return {each.key: _decide(pieces[each.key]) for each in cases}


def _decide(pieces: list[ObjectObserved]) -> Answer:
    """One step of the daemon in a cluster where nothing else is."""
    brain = SchedulerStep(Scope(), now=1_800_000_000)
    brain.take(pieces)
    found = brain.step(1_800_000_000).plan
    if found.binds:
        return Answer(found.binds[0].node)
    return Answer("", "; ".join(str(why) for each in found.decisions for why in each.reasons))


# --- what kube-scheduler says --------------------------------------------------------------------


async def _steer(api: Api, case: Case, ours: Answer) -> None:
    """Put all nodes but the chosen one out of the pod's reach; none was chosen: leave them."""
    if not ours.node:
        return
    for node in case.nodes:
        if name_of(node) != ours.node:
            path = f"{NODES}/{name_of(node)}"
            if _overlooks_taints(case.pod):
                nothing = {"status": {"allocatable": {fence(case.key): "0"}}}
                await api.patch(f"{path}/status", nothing, kind=Patch.STRATEGIC)
            else:
                tainted = {"spec": {"taints": [*node["spec"]["taints"], AWAY]}}
                await api.patch(path, tainted)


def _overlooks_taints(pod: Json) -> bool:
    spreads = pod["spec"].get("topologySpreadConstraints", [])
    return any("key" not in each for each in pod["spec"]["tolerations"]) or any(
        each.get("nodeTaintsPolicy") == "Honor" for each in spreads
    )


async def _wait_for_scheduler(api: Api, name: str) -> None:
    """Whoever binds a pod to the node that was made last has seen all that was written before."""
    offered = {fence(name): "1", "pods": "1"}
    status = {"capacity": offered, "allocatable": offered}
    await api.post(NODES, {"metadata": {"name": name, "labels": {CASE: name}}, "status": status})
    limits = {"limits": {fence(name): "1"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": limits}]}
    meta = {"name": name, "namespace": "default"}
    await api.post("/api/v1/namespaces/default/pods", {"metadata": meta, "spec": spec})

    async def is_bound() -> bool:
        pod = msgspec.json.decode(
            await api.get(f"/api/v1/namespaces/default/pods/{name}"), type=wire.Pod
        )
        return bool(pod.spec.node_name)

    await wait_until(is_bound, "kube-scheduler has caught up")


async def _ask_scheduler(api: Api, cases: Sequence[Case]) -> dict[str, Answer]:
    asked = [deepcopy(each.pod) for each in cases]
    for pod in asked:
        pod["metadata"]["name"] = ASKED
    await _gather(api.post(_pods_of(pod), pod) for pod in asked)
    keys, answers = {each.key for each in cases}, dict[str, Answer]()

    async def have_answered() -> bool:
        named = {"fieldSelector": f"metadata.name={ASKED}"}
        found = [*await _list(api, "/api/v1/pods", wire.Pod, named)]
        found += await _list(api, *NEEDED["claims"])
        told = [(each.metadata.namespace, _answer_of(each)) for each in found]
        answers.update({key: each for key, each in told if each and key in keys})
        if len(answers) < len(keys):
            await asyncio.sleep(0.5)  # such lists are long
        return len(answers) == len(keys)

    await wait_until(have_answered, "kube-scheduler has answered about every case")
    return answers


def _answer_of(pod: wire.Pod | PersistentVolumeClaim) -> Answer | None:
    if isinstance(pod, PersistentVolumeClaim):
        # a pod is bound after its claims are, but nobody makes volumes here: this says enough
        selected = (pod.metadata.annotations or {}).get(SELECTED, "")
        return Answer(selected) if selected else None
    if pod.spec.node_name:
        return Answer(pod.spec.node_name)
    found = wire.condition(pod, "PodScheduled")
    return Answer("", found.message) if found and found.reason == "Unschedulable" else None


async def _list(api: Api, path: str, struct: Any, params: Params | None = None) -> list[Any]:
    found = msgspec.json.decode(await api.get(path, params), type=_Items)
    return [msgspec.json.decode(each, type=struct) for each in found.items]


async def _gather(writes: Iterable[Awaitable[object]]) -> None:
    await asyncio.gather(*writes)
