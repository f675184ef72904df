"""Custom resources on a real API server: it takes them, fills in, refuses and explains."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.live.support.kubectl import Kubectl
from windlass.controllers.queue_status import QueueNumbers
from windlass.crds.definitions import API_VERSION, GROUP, KINDS, QUEUE
from windlass.crds.manifest import manifests
from windlass.crds.queue_status import LedgerEntry, queue_status, read_ledger
from windlass.crds.queue_validation import ready_condition, validate_queues
from windlass.crds.read import read_queue, read_settings
from windlass.model import units
from windlass.model.queues import Queue
from windlass.model.settings import Settings

NOW = 1_790_000_000


@pytest.fixture(scope="module", autouse=True)
def _definitions(kubectl: Kubectl) -> None:
    """The definitions, established; nothing is removed, since other tests may use them too."""
    for text in manifests().values():
        kubectl("apply", "--server-side", "-f", "-", given=yaml.safe_load(text))
    names = [f"crd/{kind.plural}.{GROUP}" for kind in KINDS.values()]
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


@pytest.fixture(autouse=True)
def _nothing_left(kubectl: Kubectl) -> Iterator[None]:
    """Others schedule on the same plane: queues that stay would keep their guarantees from them."""
    yield
    kubectl("delete", "queues,policies,topologies", "-l", "test=crds")


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"queue-{uuid.uuid4().hex[:12]}"


def an_object(kind: str, name: str, spec: Any, namespace: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": {"test": "crds"}}
    meta |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def refused(kubectl: Kubectl, kind: str, name: str, spec: Any, namespace: str = "") -> str:
    return kubectl.refuses("create", "-f", "-", given=an_object(kind, name, spec, namespace))


def created(kubectl: Kubectl, kind: str, name: str, spec: Any, namespace: str = "") -> Any:
    made = kubectl("create", "-o", "json", "-f", "-", given=an_object(kind, name, spec, namespace))
    return json.loads(made)


def test_the_definitions_are_structural(kubectl: Kubectl):
    for kind in KINDS.values():
        found = kubectl.get("crd", f"{kind.plural}.{GROUP}")
        states = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert states["Established"] == "True"
        assert "NonStructuralSchema" not in states


def test_what_is_not_said_is_filled_in(kubectl: Kubectl, name: str, namespace: str):
    queue = created(kubectl, "Queue", name, {"guarantee": {"gpu": 8}})
    assert queue["spec"] == {"guarantee": {"gpu": 8}, "weight": 1, "tier": 0}
    spec = {"groups": [{"name": "a", "domain": {"level": "rack"}}]}
    gang = created(kubectl, "Gang", "train", spec, namespace)["spec"]
    assert gang["groups"] == [
        {"name": "a", "minimum": 1, "domain": {"level": "rack", "required": True}}
    ]
    assert gang["displacesAfterSeconds"] == 0
    assert "preemptible" not in gang  # as its pods say


def test_a_queue_without_a_spec_is_a_queue(kubectl: Kubectl, name: str):
    bare = an_object("Queue", name, None)
    del bare["spec"]
    kubectl("create", "-f", "-", given=bare)
    assert kubectl.get("wq", name)["spec"] == {"weight": 1, "tier": 0}


def test_an_empty_policy_comes_back_as_the_engines_own_settings(kubectl: Kubectl):
    kubectl("apply", "-f", "-", given=an_object("Policy", "default", {}))
    spec = kubectl.get("wpol", "default")["spec"]
    kubectl("delete", "wpol", "default")
    assert read_settings("default", spec).value == Settings()


def test_a_queue_means_to_us_what_was_written(kubectl: Kubectl, name: str):
    spec = {
        "parent": "top",
        "namespaces": ["a", "b"],
        "guarantee": {
            "gpu": "1.5",
            "gpuModels": {"H100-80GB": 1},
            "cpu": "500m",
            "memory": "1.5Ti",
        },
        "limit": {"gpu": 8},
        "lend": {"gpu": "0.5", "cpu": "250m", "memory": "1Gi", "gpuModels": {"H100-80GB": "0.5"}},
        "minRunSeconds": 60,
    }
    found = read_queue(name, created(kubectl, "Queue", name, spec)["spec"]).value
    assert found is not None
    assert found.users.names == {"a", "b"}
    assert found.queue == Queue(
        name,
        "top",
        {"gpu": 1500, "gpu/H100-80GB": 1000, "cpu": 500, "memory": 3 * 512 * 1024},
        {"gpu": 8000},
        {"gpu": 500, "gpu/H100-80GB": 500, "cpu": 250, "memory": 1024},
        min_run_s=60,
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"guarantee": {"gpu": 16}, "limit": {"gpu": "8"}},
            "guarantee of gpu is 16, above its limit of 8; lower the guarantee or raise the limit",
        ),
        (
            {"guarantee": {"cpu": "1500m"}, "limit": {"cpu": 1}},
            "guarantee of cpu is 1500m, above its limit of 1;",
        ),
        (
            {"guarantee": {"memory": "1Ti"}, "limit": {"memory": "1023Gi"}},
            "guarantee of memory is 1Ti, above its limit of 1023Gi;",
        ),
        (
            {"guarantee": {"gpuModels": {"L4-24GB": 2}}, "limit": {"gpuModels": {"L4-24GB": 1}}},
            "guarantee of a GPU model is above its limit;",
        ),
        ({"lend": {"gpu": 1}}, "lend of gpu is above its guarantee; lower lend"),
        ({"lend": {"cpu": 2}, "guarantee": {"cpu": 1}}, "lend of cpu is above its guarantee;"),
        ({"lend": {"memory": "1Gi"}}, "lend of memory is above its guarantee;"),
        ({"lend": {"gpuModels": {"A": 1}}}, "lend of a GPU model is above its guarantee;"),
        ({"guarantee": {"gpuModels": {"an H100": 1}}}, "a GPU model is named by letters, digits"),
        ({"guarantee": {"gpu": -1}}, "spec.guarantee.gpu"),
        ({"guarantee": {"gpu": 0.5}}, "spec.guarantee.gpu"),
        ({"guarantee": {"gpu": "half"}}, "spec.guarantee.gpu"),
        ({"guarantee": {"memory": "64G"}}, "spec.guarantee.memory"),
        ({"guarantee": {"gpus": 8}}, 'unknown field "spec.guarantee.gpus"'),
        ({"weight": -1}, "spec.weight"),
        ({"weight": 1.5}, "spec.weight"),
        ({"tier": 1001}, "spec.tier"),
        ({"namespaces": ["a", "a"]}, "spec.namespaces[1]: Duplicate value"),
        ({"namespaces": ["*"]}, "spec.namespaces[0]"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "operator",
        ),
        ({"parent": "Top Queue"}, "spec.parent"),
    ],
)
def test_a_bad_queue_is_refused_with_a_sentence(kubectl: Kubectl, name: str, spec: Any, words: str):
    assert words in refused(kubectl, "Queue", name, spec)


def test_a_queue_lends_what_its_guarantees_per_model_add_up_to(kubectl: Kubectl, name: str):
    spec = {"guarantee": {"gpuModels": {"A": 4}}, "lend": {"gpu": 4}}
    assert created(kubectl, "Queue", name, spec)["spec"]["lend"] == {"gpu": 4}


def test_a_queue_is_not_its_own_parent(kubectl: Kubectl, name: str):
    sentence = "a queue cannot be its own parent; name another queue, or none"
    assert sentence in refused(kubectl, "Queue", name, {"parent": name})
    created(kubectl, "Queue", name, {})
    change = ["-p", json.dumps({"spec": {"parent": name}}), "--type=merge"]
    assert sentence in kubectl.refuses("patch", "wq", name, *change)


def test_the_name_of_a_queue_fits_into_a_label(kubectl: Kubectl):
    assert "shorten it to at most 63 characters" in refused(kubectl, "Queue", "q" * 64, {})


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("Gang", {}, "the gang would start with no task at all; give minimum, or groups"),
        ("Gang", {"groups": [{"name": "a", "minimum": 0}]}, "the gang would start with no task"),
        ("Gang", {"minimum": 0}, "spec.minimum"),
        ("Gang", {"groups": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
        ("Gang", {"minimum": 1, "domain": {}}, "spec.domain.level: Required value"),
        ("Topology", {"levels": []}, "spec.levels"),
        ("Topology", {"levels": ["rack", "rack"]}, "Duplicate value"),
        ("Topology", {"levels": ["a rack"]}, "spec.levels[0]"),
        ("Topology", {}, "spec.levels: Required value"),
        ("Policy", {}, 'one policy counts for the whole cluster; name it "default"'),
    ],
)
def test_other_bad_objects_are_refused_with_a_sentence(
    kubectl: Kubectl, kind: str, spec: Any, words: str
):
    where = "default" if KINDS[kind].namespaced else ""
    assert words in refused(kubectl, kind, "bad", spec, where)


def test_the_status_is_a_part_of_its_own(kubectl: Kubectl, name: str):
    queue = created(kubectl, "Queue", name, {"parent": "gone"})
    generation = queue["metadata"]["generation"]
    verdict = validate_queues([Queue(name, "gone")])[name]
    numbers = QueueNumbers(
        share={"gpu": 1500, "gpu/H100-80GB": 1500},
        allocated={"gpu": 8000, "cpu": 500, "memory": 300},
        waiting_gangs=2,
        waiting_milli=500,
        used=[LedgerEntry("ada", "H100-80GB", 10**13), LedgerEntry("", "", 5)],
    )
    status = queue_status(
        numbers, NOW, generation, [ready_condition(verdict, 1, units.format_timestamp(NOW), None)]
    )
    change = json.dumps({"status": status.as_json(), "spec": {"weight": 7}})
    kubectl("patch", "wq", name, "--subresource=status", "--type=merge", "-p", change)
    found = kubectl.get("wq", name)
    assert found["spec"]["weight"] == 1
    assert found["metadata"]["generation"] == generation
    assert found["status"]["waiting"] == {"gangs": 2, "tasks": 0, "gpu": "0.5"}
    assert list(read_ledger(found["status"]["ledger"], 60, NOW)) == [
        LedgerEntry("", "", 5),
        LedgerEntry("ada", "H100-80GB", 10**13),
    ]
    shown = kubectl("get", "wq", name, "-o", "wide")
    assert "PARENT" in shown
    assert "1.5" in shown
    assert 'its parent "gone" does not exist' in shown


def test_a_status_cannot_be_written_with_the_object(kubectl: Kubectl, name: str):
    given = an_object("Queue", name, {}) | {"status": {"waiting": {"gangs": 3}}}
    kubectl("create", "-f", "-", given=given)
    assert "status" not in kubectl.get(QUEUE.plural + "." + GROUP, name)


def test_all_our_kinds_are_listed_together_and_explained(kubectl: Kubectl, name: str):
    created(kubectl, "Queue", name, {})
    assert f"queue.{GROUP}/{name}" in kubectl("get", "windlass", "-A", "-o", "name")
    told = kubectl("explain", f"queues.{GROUP}.spec.lend")
    assert "The part of its idle guarantee that other queues may use" in told
