"""Job kinds that users declare: their gangs, and the errors for invalid declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.kube_given import made_by, pod
from windlass.config import read_config
from windlass.config.job_kinds import OwnKind, kinds_of
from windlass.model.errors import InputError
from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.table import Key, Membership, membership
from windlass.workloads.objects import wire

Json = dict[str, Any]
RUN: Json = {"kind": "Run", "group": "ml.example.com", "version": "v1", "plural": "runs"}
_owner = msgspec.json.Decoder(wire.Owner)


def member(row: Json, spec: Json, **labels: str) -> Membership:
    """Return the gang of a pod of a Run, by a declared row."""
    meta = {"name": "maker", "namespace": "ml", "uid": "maker-uid"}
    owner = _owner.decode(json.dumps({"metadata": meta, "spec": spec}))
    made = pod("p", owner=made_by("Run", "ml.example.com/v1"), labels=labels)
    kinds = kinds_of([OwnKind.model_validate(RUN | row)])
    return membership(made, lambda _ref, _namespace: owner, kinds)


def test_the_size_is_the_sum_of_paths_and_numbers():
    spec = {"groups": [{"replicas": 2}, {"replicas": 3}], "head": {"replicas": 1}}
    row = {"size": [1, "spec.groups.*.replicas", "spec.head.replicas"]}
    assert member(row, spec).minimum == 7


def test_items_of_a_mapping_are_counted_like_those_of_a_list():
    spec = {"roles": {"a": {"replicas": 2}, "b": {"replicas": 3}}}
    assert member({"size": ["spec.roles.*.replicas"]}, spec).minimum == 5


def test_a_missing_last_field_counts_one_and_a_missing_parent_zero():
    row = {"size": [2, "spec.groups.*.replicas", "spec.nowhere.replicas"]}
    assert member(row, {"groups": [{}, {"replicas": 3}]}).minimum == 6


def test_the_minimum_replaces_the_size_if_it_is_set():
    row = {"size": ["spec.replicas"], "minimum": "spec.policy.least"}
    assert member(row, {"replicas": 8, "policy": {"least": 3}}).minimum == 3
    assert member(row, {"replicas": 8}).minimum == 8


def test_without_a_size_each_pod_is_a_gang():
    assert member({}, {"replicas": 8}).minimum == 1


def test_a_label_separates_the_gangs_of_an_owner():
    row = {"size": ["spec.size"], "part": "group"}
    assert member(row, {"size": 2}, group="a").gang == "ml/maker.a~maker-ui"
    assert member(row, {"size": 2}, group="b").gang == "ml/maker.b~maker-ui"


def test_pods_with_the_alone_labels_are_each_a_gang():
    row = {"size": ["spec.size"], "alone": {"role": "launcher"}}
    assert member(row, {"size": 4}, role="launcher").minimum == 1
    assert member(row, {"size": 4}, role="worker").minimum == 4


def test_a_row_sets_survival_and_priority_class():
    row = {"survives": "lost", "priority": "spec.class", "size": [2]}
    found = member(row, {"class": "high"})
    assert (found.survives, found.priority_class) == (Survives.LOST, "high")


def test_malformed_specs_give_gangs_of_at_least_one_pod():
    row = {"size": ["spec.a.*.b", "spec.c"], "minimum": "spec.d.e"}
    for spec in ({}, {"a": 7}, {"a": [None, 3], "c": "x"}, {"a": {"b": []}, "d": {"e": True}}):
        assert member(row, spec).minimum >= 1


def test_a_declared_row_replaces_the_built_in_one():
    row = OwnKind(kind="Job", group="batch", version="v1", plural="jobs", size=[5])
    found = kinds_of([row])
    assert found[Key("Job", "batch")].path == "/apis/batch/v1/jobs"
    assert len(found) == len(kinds_of([]))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("siz: [1]", 'windlass.yaml:6: the key "kinds.0.siz" is not known; did you mean "size"?'),
        (
            "size: [workers]",
            'windlass.yaml:6: kinds.0.size: "workers" is no path; '
            "write one like spec.groups.*.replicas",
        ),
        (
            "size: [-1]",
            "windlass.yaml:6: kinds.0.size: -1 is no number of pods; write one from 0 to 100000",
        ),
        (
            "survives: maybe",
            "windlass.yaml:6: kinds.0.survives: expected 'recreated' or 'lost', "
            'found "maybe"; correct it',
        ),
    ],
)
def test_an_invalid_declaration_is_refused_with_its_line(tmp_path: Path, line: str, sentence: str):
    file = tmp_path / "windlass.yaml"
    rows = [f"    {key}: {value}" for key, value in RUN.items()]
    rows[0] = f"  - {rows[0].strip()}"
    file.write_text("\n".join(["kinds:", *rows, f"    {line}"]))
    with pytest.raises(InputError) as caught:
        read_config(str(file), {}, {})
    assert str(caught.value).removeprefix(f"{tmp_path}/") == sentence
