"""Deltas: a viewer that has a document is sent the changes, and then has the newest one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.given import Job, ask, cluster, job, node
from windlass.engine.plan import Plan
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.events import GangGone, GangSeen, NodeGone, NodeSeen, TaskGone, TaskSeen
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.state.cluster import Cluster
from windlass.web.auth.authorization import VisibleScope
from windlass.web.documents.gpu_map import GpuMap, cluster_document
from windlass.web.feed.deltas import MOST_STEPS, DeltaTrail, change
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.view import ClusterView, take_view
from windlass.web.redact.view import ViewRedactor
from windlass.web.schema.documents import ClusterDocument, Stamp

NODES, GPUS = 3, 4
scalars = st.none() | st.integers(0, 5) | st.sampled_from("ab")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abcd"), inner),
    max_leaves=20,
)


def applied(old: Any, found: Any) -> Any:
    """Apply a delta as the page does (`ui/src/wire.ts`)."""
    if found is None:
        return old
    if "is" in found:
        return found["is"]
    if "size" in found:
        new = old[: found["size"]]
        for at, value in zip(found["at"], found["to"], strict=True):
            new[at:] = [value, *new[at + 1 :]]
        return new
    inside = {name: applied(old.get(name), each) for name, each in found["in"].items()}
    return {name: each for name, each in {**old, **inside}.items() if name not in found["out"]}


@given(values, values)
def test_applying_the_delta_gives_the_new_value(old: Any, new: Any):
    assert applied(old, change(old, new)) == new


@given(st.integers(0, 2999))
def test_a_small_difference_is_a_small_delta(at: int):
    old = list(range(3000))
    new = [*old[:at], -1, *old[at + 1 :]]
    assert change(old, new) == {"size": 3000, "at": [at], "to": [-1]}


@dataclass(frozen=True)
class RandomEvent:
    """A random event for the job or node of that number."""

    what: str
    number: int
    device: int


random_events = st.lists(
    st.builds(
        RandomEvent,
        st.sampled_from(["starts", "starts", "starts", "leaves", "held", "cordoned", "gone"]),
        st.integers(0, 7),
        st.integers(0, GPUS - 1),
    ),
    min_size=1,
    max_size=12,
)


def drawn_map(gpu_map: GpuMap, view: ClusterView) -> ClusterDocument:
    gpu_map.follow(view)
    return gpu_map.draw(view)


def moments(events: list[RandomEvent]) -> Iterator[ClusterView]:
    """Random work comes and goes on three nodes, some of which do too."""
    there = cluster(*(node(f"n{i}", gpus=GPUS) for i in range(NODES)))
    plan = Plan()
    for version, event in enumerate(events, 1):
        plan = apply_event(there, plan, event)
        yield take_view(there, plan, Stamp("run", version, version, 0, True))


def apply_event(there: Cluster, plan: Plan, event: RandomEvent) -> Plan:
    made = job_of(event)
    name = made.tasks[0].id
    match event.what:
        case "starts":
            if name not in there.tasks and made.tasks[0].node in there.nodes:
                there.apply(GangSeen(made.gang))
                there.apply(TaskSeen(made.tasks[0]))
        case "leaves":
            if name in there.tasks:
                there.apply(TaskGone(name))
                there.apply(GangGone(made.gang.id))
        case "held":
            claim = PlaceClaim(
                TaskId("x"), f"n{event.number % NODES}", (Slice(event.device, 1000),)
            )
            return Plan(holds=(Hold(GangId(f"j{event.number}"), (claim,), starts_at=60),))
        case "cordoned":
            there.apply(NodeSeen(node(f"n{event.number % NODES}", gpus=GPUS, cordoned=True)))
        case _:
            there.apply(NodeGone(f"n{event.number % NODES}"))
    return plan


def job_of(event: RandomEvent) -> Job:
    on, first = f"n{event.number % NODES}", event.device
    devices = range(first, min(GPUS, first + 1 + event.number % 3))
    asks = ask(gpus=len(devices))
    made = job(f"j{event.number}", 1, asks, user=f"u{event.number % 3}")
    return made.runs(0, on=on, devices=devices)


@given(random_events)
def test_a_map_that_follows_equals_a_new_map(events: list[RandomEvent]):
    drawn = GpuMap()
    for view in moments(events):
        assert unordered(drawn_map(drawn, view)) == unordered(cluster_document(view))


scopes = st.builds(
    VisibleScope,
    st.sampled_from([None, frozenset[str]()]),
    st.sampled_from([None, frozenset[str]()]),
    st.booleans(),
)


@given(random_events, scopes)
def test_a_map_that_follows_draws_a_redacted_view_as_a_new_map_does(
    events: list[RandomEvent], scope: VisibleScope
):
    following, redactor = GpuMap(), ViewRedactor()
    for view in moments(events):
        following.follow(view)
        anew = GpuMap()
        anew.follow(view)
        seen = redactor.redact_view(view, scope)
        drawn = following.draw(seen)
        assert unordered(drawn) == unordered(anew.draw(seen))
        if scope.nodes:
            assert drawn.given.gpu == following.draw(view).given.gpu


def unordered(shown: ClusterDocument) -> Any:
    """Return the map in a form that does not depend on the order of its rows."""
    named = shown.gangs
    gangs = [
        (named.name[i], shown.queues[named.queue[i]], shown.users[named.user[i]])
        for i in range(len(named.name))
    ]
    tasks = [
        (name, gangs[gang]) for name, gang in zip(shown.tasks.name, shown.tasks.gang, strict=True)
    ]
    given = shown.given
    places = zip(given.gpu, given.count, given.milli, given.left, given.task, strict=True)
    held = zip(shown.held.gpu, shown.held.gang, shown.held.later, strict=True)
    return (
        shown.nodes,
        sorted(gangs),
        sorted(tasks),
        sorted((*place, tasks[task]) for *place, task in places),
        sorted((gpu, gangs[gang], later) for gpu, gang, later in held),
    )


@given(random_events, st.integers(0, 12))
def test_a_viewer_that_applies_deltas_has_the_newest_document(events: list[RandomEvent], late: int):
    """One viewer comes at the beginning and asks each time, another comes later and asks seldom."""
    trail, drawn = DeltaTrail(), GpuMap()
    viewers: list[tuple[str, Any]] = [("", None), ("", None)]
    for number, view in enumerate(moments(events)):
        trail.put(view.stamp.tag, drawn_map(drawn, view))
        for viewer, (tag, seen) in enumerate(viewers):
            if viewer == 0 or (number >= late and number % 3 == late % 3):
                viewers[viewer] = view.stamp.tag, apply_answer(seen, trail.answer(tag))
                assert viewers[viewer][1] == msgspec.json.decode(trail.answer())


def apply_answer(seen: Any, answer: bytes) -> Any:
    document = msgspec.json.decode(answer)
    if "changes" not in document:
        return document
    for delta in document["changes"]:
        seen = applied(seen, delta)
    return seen


def test_a_viewer_too_far_behind_is_sent_the_whole_document():
    trail = DeltaTrail()
    for version in range(MOST_STEPS + 2):
        trail.put(f"run-{version}", {"version": version})
    whole = b'{"version":%d}' % (MOST_STEPS + 1)
    assert [trail.answer(tag) for tag in ("", "run-0", "other-5")] == [whole] * 3
    assert b"changes" in trail.answer("run-1")


def test_an_unchanged_column_is_not_in_the_delta():
    trail = DeltaTrail()
    trail.put("run-1", {"rows": [1] * 1000, "now": 1})
    trail.put("run-2", {"rows": [1] * 1000, "now": 2})
    delta = msgspec.json.decode(trail.answer("run-1"))
    assert delta == {"since": "run-1", "changes": [{"in": {"now": {"is": 2}}, "out": []}]}
    assert msgspec.json.decode(trail.answer("run-2")) == {"since": "run-2", "changes": []}


@given(random_events)
def test_a_member_index_that_follows_equals_a_new_one(events: list[RandomEvent]):
    followed = GangMemberIndex()
    for view in moments(events):
        followed.follow(view)
        fresh = GangMemberIndex()
        fresh.follow(view)
        assert followed.running == fresh.running
        for gang in view.gangs:
            assert set(followed.of(gang)) == set(fresh.of(gang))


def test_a_view_does_not_change_with_the_cluster():
    there = cluster(node("n", gpus=1), job("a", 1, ask(gpus=1)).runs(0, on="n", devices=[0]))
    view = take_view(there, Plan(), Stamp("run", 1, 1, 0, True))
    there.apply(TaskGone(TaskId("a-0")))
    there.apply(NodeGone("n"))
    assert len(cluster_document(view).tasks.name) == 1
