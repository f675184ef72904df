"""The definitions of the custom resources, and the conversion of objects to the model."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checkout import ROOT
from windlass.cli.commands.crds import command
from windlass.crds.amounts import (
    LONGEST,
    DimensionAmounts,
    amounts_of,
    dimensions,
    write_memory,
    write_thousandths,
)
from windlass.crds.definitions import GANG, KINDS, POLICY, QUEUE, CustomResource
from windlass.crds.manifest import definition, manifests
from windlass.crds.policy import PolicySpec
from windlass.crds.queue_validation import unreadable_verdict
from windlass.crds.read import (
    apply_gang_spec,
    read_gang,
    read_queue,
    read_settings,
    read_topology,
)
from windlass.model.constraints import Expression, Operator
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId
from windlass.model.nodes import Topology
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.sim.scenario.read import read_scenario

DEPLOYED = ROOT / "deploy/crds"


def schema_of(kind: CustomResource) -> dict[str, Any]:
    return definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def all_parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and every schema inside it."""
    yield schema
    for part in (schema.get("properties") or {}).values():
        yield from all_parts(part)
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from all_parts(schema[word])


# --- definitions


def test_the_committed_definitions_are_the_generated_ones():
    committed = {path.name: path.read_text() for path in DEPLOYED.glob("*.yaml")}
    assert committed == manifests(), "run: windlass crds --out deploy/crds"


def test_the_command_prints_every_definition_for_kubectl():
    done = CliRunner().invoke(command)
    found = list(yaml.safe_load_all(done.output))
    assert [each["spec"]["names"]["kind"] for each in found] == [
        "Gang",
        "Policy",
        "Queue",
        "Topology",
    ]


def test_the_command_writes_one_file_per_kind(tmp_path: Path):
    done = CliRunner().invoke(command, ["--out", str(tmp_path)])
    assert done.exit_code == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == manifests()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_schema_is_structural(kind: CustomResource):
    refused = {"$ref", "$defs", "title", "const", "anyOf", "allOf", "oneOf", "propertyNames"}
    for part in all_parts(schema_of(kind)):
        assert not refused & set(part)
        assert part.get("additionalProperties") is not False
        assert part.get("uniqueItems") is not True
        assert "type" in part or part.get("x-kubernetes-int-or-string")
        assert "default" not in part or part["default"] is not None


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_lists_and_maps_are_bounded_so_that_rules_stay_cheap(kind: CustomResource):
    spec = schema_of(kind)["properties"]["spec"]
    for part in all_parts(spec):
        assert part.get("type") != "array" or "maxItems" in part
        assert "additionalProperties" not in part or "maxProperties" in part


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_status_and_shows_its_ready_condition(kind: CustomResource):
    version = definition(kind)["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}}
    columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
    assert columns["Ready"] == '.status.conditions[?(@.type=="Ready")].status'


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_column_shows_a_field_that_exists(kind: CustomResource):
    for column in kind.columns:
        at = schema_of(kind)
        for step in re.findall(r"\.(\w+)", column.path.partition("[")[0]):
            if step == "creationTimestamp":
                break
            assert step in at["properties"]
            at = at["properties"][step]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_field_of_a_spec_is_in_the_reference(kind: CustomResource):
    page = (ROOT / f"docs/reference/{kind.name.lower()}.md").read_text()
    for part in all_parts(schema_of(kind)["properties"]["spec"]):
        for name in part.get("properties", {}):
            assert f"`{name}`" in page
    for name in schema_of(kind)["properties"]["status"]["properties"]:
        assert f"`{name}`" in page


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_examples_of_the_reference_can_be_read(kind: CustomResource):
    page = (ROOT / f"docs/reference/{kind.name.lower()}.md").read_text()
    documents = [
        document
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        for document in yaml.safe_load_all(block)
    ]
    assert documents
    for document in documents:
        assert document["apiVersion"] == "windlass.dev/v1alpha1"
        kind.spec.model_validate(document.get("spec", {}))
        assert_known(
            document.get("spec", {}), schema_of(KINDS[document["kind"]])["properties"]["spec"]
        )


def assert_known(value: Any, schema: dict[str, Any]) -> None:
    """Assert that the schema names every field; the API server silently drops others."""
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) <= set(schema["properties"])
        for name, part in value.items():
            assert_known(part, schema["properties"][name])


def test_a_field_with_alternatives_has_no_structural_schema():
    from pydantic import BaseModel

    from windlass.crds.structural_schema import structural

    class Either(BaseModel):
        either: int | str

    with pytest.raises(TypeError, match="no alternatives"):
        structural(Either)


def test_api_paths_of_collections_objects_and_status():
    assert QUEUE.path() == "/apis/windlass.dev/v1alpha1/queues"
    assert QUEUE.path("a", sub="status") == "/apis/windlass.dev/v1alpha1/queues/a/status"
    assert GANG.path("g", "team") == "/apis/windlass.dev/v1alpha1/namespaces/team/gangs/g"


# --- amounts


@pytest.mark.parametrize(
    ("written", "inside"),
    [
        ({"gpu": 8}, {"gpu": 8000}),
        ({"gpu": "8"}, {"gpu": 8000}),
        ({"gpu": "0.25"}, {"gpu": 250}),
        (
            {"gpuModels": {"H100-80GB": 2, "L4-24GB": "0.5"}},
            {"gpu/H100-80GB": 2000, "gpu/L4-24GB": 500},
        ),
        ({"cpu": 64}, {"cpu": 64000}),
        ({"cpu": "500m"}, {"cpu": 500}),
        ({"cpu": "1.5"}, {"cpu": 1500}),
        ({"memory": "512Gi"}, {"memory": 512 * 1024}),
        ({"memory": "300Mi"}, {"memory": 300}),
        ({"memory": "1.5Ti"}, {"memory": 3 * 512 * 1024}),
        ({"memory": "0"}, {"memory": 0}),
        ({}, {}),
    ],
)
def test_amounts_are_read_as_in_a_scenario(written: Any, inside: Any):
    assert dimensions(DimensionAmounts.model_validate(written)) == inside


@pytest.mark.parametrize("write", [write_thousandths, write_memory])
def test_an_amount_beyond_the_schema_is_written_as_the_largest_valid_one(
    write: Callable[[int], str],
):
    assert len(write(10**20)) <= LONGEST


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"gpu": 0.5}, 'queue "a": guarantee.gpu: 0.5 is not understood; write a number'),
        ({"gpu": True}, "true is not understood"),
        ({"gpu": -1}, "-1 is below zero"),
        ({"gpu": "0.1234"}, "0.1234 is not understood"),
        ({"gpu": "500m"}, "500m is not understood"),
        ({"gpu": 10**10}, "more than any cluster has"),
        ({"cpu": "0.5m"}, "0.5m is not understood"),
        ({"memory": 64}, "64 is not understood; write an amount of memory with its unit"),
        ({"memory": "64G"}, "64G is not understood"),
        ({"memory": "0.001Gi"}, "0.001Gi is too fine"),
        ({"gpuModels": 3}, "guarantee.gpuModels: it should be a valid dictionary"),
    ],
)
def test_an_unreadable_amount_gives_a_sentence(written: Any, words: str):
    found = read_queue("a", {"guarantee": written})
    assert found.value is None
    assert words in found.complaints[0]


amount_maps = st.dictionaries(
    st.sampled_from(["gpu", "cpu", "memory", "gpu/H100-80GB", "gpu/L4-24GB"]),
    st.integers(0, 10**9),
)


@given(amount_maps)
def test_amounts_survive_writing_and_reading(amounts: dict[str, int]):
    written = json.loads(json.dumps(amounts_of(amounts).as_json()))
    assert dimensions(DimensionAmounts.model_validate(written)) == amounts


def test_a_queue_is_read_as_in_a_scenario_file():
    said = {"guarantee": {"gpu": 8, "cpu": "500m", "memory": "1.5Ti"}, "weight": 3, "tier": -1}
    scenario = f"""
        name: one
        nodes: [{{name: n}}]
        queues: [{{name: a, {json.dumps(said)[1:-1]}, limit: {{gpu/H100-80GB: 8.5}}, min_run: 10m}}]
    """
    theirs = read_scenario(scenario.encode(), "one.yaml").workload.queues[0]
    spec = said | {"limit": {"gpuModels": {"H100-80GB": "8.5"}}, "minRunSeconds": 600}
    ours = read_queue("a", spec).value
    assert ours is not None
    assert ours.queue == theirs


# --- objects and nouns


def test_the_users_of_a_queue_are_read_by_name_and_by_label():
    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}],
    }
    spec = {"parent": "top", "namespaces": ["x", "y"], "namespaceSelector": selector}
    found = read_queue("a", spec).value
    assert found is not None
    assert found.queue == Queue("a", "top")
    assert found.users.names == {"x", "y"}
    assert found.users.term == (
        Expression("team", Operator.IN, ("a",)),
        Expression("env", Operator.NOT_IN, ("test",)),
    )


def test_unknown_fields_of_a_newer_version_are_ignored():
    assert read_queue("a", {"colour": "red", "weight": 2}).value is not None


def test_every_complaint_names_the_object_and_the_field():
    found = read_queue("a", {"weight": "two", "tier": 5000})
    assert found.complaints == (
        'queue "a": weight: it should be a valid integer, but it is two; correct it',
        'queue "a": tier: it should be less than or equal to 1000, but it is 5000; correct it',
    )
    verdict = unreadable_verdict(found.complaints)
    assert (verdict.ready, verdict.reason) == (False, "Invalid")
    assert verdict.message.endswith("correct it (and 1 more)")


def test_an_empty_policy_gives_the_default_settings():
    assert read_settings("default", {}).value == Settings()


def test_a_policy_has_a_field_for_every_setting():
    def camel(name: str) -> str:
        head, *rest = re.sub("_s$", "_seconds", name).split("_")
        return head + "".join(map(str.capitalize, rest))

    fields = {camel(field.name) for field in dataclasses.fields(Settings)}
    assert set(PolicySpec.model_json_schema()["properties"]) == fields


def test_a_policy_changes_the_settings_that_it_names():
    spec = {
        "nodes": "spread",
        "usageEffect": "0.5",
        "displacing": [],
        "victims": "youngest",
        "staleAfterSeconds": -1,
        "searchSteps": 7,
    }
    found = read_settings("default", spec).value
    assert found is not None
    assert (found.nodes.value, found.usage_effect, found.displacing) == ("spread", 500, ())
    assert (found.victims.value, found.stale_after_s, found.search_steps) == ("youngest", -1, 7)


def test_the_defaults_in_the_schema_are_those_of_the_settings():
    spec = schema_of(POLICY)["properties"]["spec"]["properties"]
    defaults = {name: part["default"] for name, part in spec.items()}
    assert read_settings("default", defaults).value == Settings()


def test_a_topology_lists_its_levels():
    assert read_topology("net", {"levels": ["zone", "rack"]}).value == Topology(
        "net", ("zone", "rack")
    )
    assert read_topology("net", {}).complaints == ('topology "net": levels is missing; add it',)


def a_gang() -> Gang:
    return Gang(GangId("team/1"), "a", JobId("1"), user="ada", priority=7)


def test_a_gang_object_sets_minimum_and_domain():
    spec = {"minimum": 4, "domain": {"level": "rack"}, "expectedSeconds": 60, "preemptible": False}
    words = read_gang("g", spec).value
    assert words is not None
    found = apply_gang_spec(a_gang(), words, only_topology="net")
    assert found.groups == (Group(minimum=4),)
    assert (found.needed(), found.domain) == (4, Domain("net", "rack"))
    assert (found.duration_s, found.preemptible, found.displaces_after_s) == (60, False, 0)
    assert (found.queue, found.user, found.priority) == ("a", "ada", 7)


def test_a_gang_object_with_groups_sets_their_minimums_and_its_own():
    near = {"topology": "net", "level": "rack", "required": False}
    spec = {
        "minimum": 5,
        "groups": [{"name": "lead"}, {"name": "work", "minimum": 2, "domain": near}],
        "displacesAfterSeconds": -1,
    }
    words = read_gang("g", spec).value
    assert words is not None
    found = apply_gang_spec(a_gang(), words)
    near_each_other = Domain("net", "rack", required=False)
    assert found.groups == (Group("lead", 1), Group("work", 2, near_each_other))
    assert (found.needed(), found.displaces_after_s) == (5, None)
