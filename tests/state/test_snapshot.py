"""A snapshot holds everything that a decision depends on, and survives a file."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from tests.given import ask, cluster, job, node, queue, schedule, snapshot
from tests.support.strategies import recipes, snapshot_of
from windlass.engine.cycle import plan
from windlass.model.events import NodeSeen, QueueGone, QueueSeen
from windlass.model.settings import Packing, Settings
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot, SnapshotError, from_json, to_json


@given(recipes())
def test_a_snapshot_written_and_read_is_the_same(recipe):
    seen = snapshot_of(recipe)
    assert from_json(to_json(seen)) == seen


@given(recipes())
def test_a_cluster_made_from_a_snapshot_returns_the_same_snapshot(recipe):
    seen = snapshot_of(recipe)
    found = Cluster.of(seen).snapshot()
    assert Cluster.of(found).snapshot() == found
    assert found == replace(
        seen,
        nodes=tuple(sorted(seen.nodes, key=lambda each: each.name)),
        queues=tuple(sorted(seen.queues, key=lambda each: each.name)),
        gangs=tuple(sorted(seen.gangs, key=lambda each: each.id)),
        tasks=tuple(sorted(seen.tasks, key=lambda each: each.id)),
        broken=found.broken,
        arrived=found.arrived,
        arrived_since=found.arrived_since,
    )


def test_the_time_below_the_minimum_is_part_of_a_snapshot():
    half = job("a", 2, ask(gpus=1)).runs(0, on="n", devices=[0]).ended(1, succeeded=False)
    found = cluster(node("n", gpus=2), half, now=100)
    found.advance(150)
    again = Cluster.of(from_json(to_json(found.snapshot())))
    assert again.broken == {"a": 100}


@given(recipes())
def test_a_snapshot_that_went_through_a_file_gives_the_same_plan(recipe):
    seen = snapshot_of(recipe)
    assert plan(Cluster.of(from_json(to_json(seen)))) == plan(Cluster.of(seen))


@given(recipes())
def test_planning_leaves_the_cluster_as_it_was_found(recipe):
    seen = snapshot_of(recipe)
    found = Cluster.of(seen)
    before = found.snapshot()
    plan(found)
    assert found.snapshot() == before


def test_a_snapshot_is_sorted_whatever_the_order_of_events():
    jobs = job("q", queue="x"), job("p", queue="x")
    seen = cluster(node("b"), node("a"), queue("y"), queue("x"), *jobs).snapshot()
    assert [each.name for each in seen.nodes] == ["a", "b"]
    assert [each.name for each in seen.queues] == ["x", "y"]
    assert [each.id for each in seen.gangs] == ["p", "q"]


def test_a_snapshot_is_not_changed_by_what_happens_later():
    there = cluster(node("n1"))
    before = there.snapshot()
    there.apply(NodeSeen(node("n1", cordoned=True)))
    there.apply(NodeSeen(node("n2")))
    assert before == snapshot(node("n1"))


def test_settings_are_part_of_a_snapshot():
    settings = Settings(nodes=Packing.SPREAD, half_life_s=60)
    assert cluster(settings=settings).snapshot().settings == settings


def test_holds_are_part_of_a_snapshot():
    old = job("old", 1, ask(gpus=1), duration_s=20_000).runs(0, on="n1", devices=[0])
    waiting = job("a", 1, ask(gpus=1), created_at=0)
    outcome = schedule(node("n1", gpus=1), old, waiting, now=10_000)
    assert [each.gang for each in outcome.plan.holds] == ["a"]
    after = outcome.carried_out()
    assert from_json(to_json(after.snapshot())).holds == outcome.plan.holds


def test_the_file_is_json_that_people_can_read():
    text = to_json(snapshot(node("n1", gpus=1)))
    assert json.loads(text)["nodes"][0]["name"] == "n1"
    assert text.count(b"\n") > 10


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"nodes": 3}', b'{"now": "late"}', b"\xff"])
def test_bytes_that_are_no_snapshot_are_refused(data):
    with pytest.raises(SnapshotError):
        from_json(data)


def test_an_empty_object_is_an_empty_cluster():
    assert from_json(b"{}") == Snapshot()


def test_a_deleted_queue_is_gone_from_the_snapshot():
    there = cluster(queue("x"))
    there.apply(QueueSeen(queue("y", limit_gpus=1)))
    there.apply(QueueGone("x"))
    assert there.snapshot().queues == (queue("y", limit_gpus=1),)
