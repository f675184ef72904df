"""Placeholders of suspended gangs: equal ones share one object, and are rarely made again."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.kube_given import Reading, container, job, marked, node
from windlass.workloads.kinds.suspension import SuspensionMark
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import MINIMUM

GPU = container("main", **{"nvidia.com/gpu": "1"})


def away(count: int = 3, notes: dict[str, str] | None = None, **fields: Any) -> wire.Owner:
    """Return a suspended Job of pods with a GPU each."""
    template = {"spec": {"containers": [GPU]}}
    said = marked("away-uid", SuspensionMark(at=1)) | (notes or {})
    return job("away", count, suspend=True, template=template, annotations=said, **fields)


def objects(there: Reading) -> set[int]:
    """Return the identities of the pods behind all tasks."""
    return {id(there.translator.pod(task)) for task in there.cluster.tasks}


def test_equal_placeholders_share_one_pod_object():
    there = Reading(node("n1", gpus=1), away(40))
    assert len(objects(there)) == 1
    assert {f"away-0-{index}" for index in range(40)} == there.names
    shapes = {id(task.shape) for task in there.cluster.tasks.values()}
    assert len(shapes) == 1


def test_an_unrelated_edit_of_the_owner_keeps_the_placeholders():
    there = Reading(away())
    before = objects(there)
    there.see(away(notes={"example.com/note": "1"}))
    there.see(away(notes={"example.com/note": "2"}, status={"active": 1}))
    assert objects(there) == before


def test_a_succeeded_pod_of_the_owner_reduces_the_placeholders():
    there = Reading(away())
    there.see(away(status={"succeeded": 1}))
    assert len(there.cluster.tasks) == 2


def test_a_changed_minimum_counts_at_once():
    there = Reading(away())
    there.see(away(notes={MINIMUM: "2"}))
    (gang,) = there.cluster.gangs.values()
    assert gang.needed() == 2


def test_a_job_of_independent_pods_has_no_placeholders():
    assert not Reading(away(completionMode="NonIndexed")).cluster.tasks


def test_a_priority_class_observed_later_counts_with_the_next_change():
    named = {"spec": {"containers": [GPU], "priorityClassName": "top"}}
    owner = away()
    there = Reading(msgspec.structs.replace(owner, spec={**owner.spec, "template": named}))
    there.apply(
        there.translator.gangs.priority_seen(wire.PriorityClass(wire.ObjectMeta(name="top"), 20))
    )
    there.see(msgspec.structs.replace(owner, spec={**owner.spec, "template": named}))
    assert [gang.priority for gang in there.cluster.gangs.values()] == [20]
