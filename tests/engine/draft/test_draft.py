"""Attempts on a draft: an attempt that is not kept is undone."""

from __future__ import annotations

from tests.given import Thing, ask, cluster, job, node
from windlass.engine.draft.draft import Draft
from windlass.model.actions import PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import TaskId

ONE = ask(gpus=1)


def draft(*things: Thing) -> Draft:
    """Return a draft of one node with two GPUs and the given waiting gangs."""
    return Draft(cluster(node("n", gpus=2), *things))


def bind(on: Draft, task: str, device: int) -> bool:
    """Place a task on a device."""
    here = on.cluster.tasks[TaskId(task)]
    claim = PlaceClaim(here.id, "n", (Slice(device, 1000),), here.shape.request)
    return on.bind_at(here, on.cluster.gangs[here.gang], claim)


def bound(on: Draft) -> list[tuple[str, int]]:
    """Return the bound tasks with their devices."""
    return [(each.task, each.devices[0].device) for each in on.binds]


def free(on: Draft) -> list[int]:
    """Return the free thousandths of each device."""
    return [device.milli for device in on.columns.devices[0]]


def test_an_attempt_that_is_kept_stays_and_another_is_undone():
    there = draft(job("a", 1, ONE), job("b", 1, ONE))
    with there.attempt() as keep:
        assert bind(there, "a-0", 0)
        keep()
    with there.attempt():
        assert bind(there, "b-0", 1)
    assert (bound(there), free(there)) == ([("a-0", 0)], [0, 1000])


def test_an_undone_unbind_replaces_what_was_bound_meanwhile():
    there = draft(job("a", 1, ONE), job("b", 2, ONE))
    assert bind(there, "a-0", 0)
    with there.attempt():
        there.unbind(0)
        assert bind(there, "b-0", 0)
        assert bind(there, "b-1", 1)
    assert (bound(there), free(there)) == ([("a-0", 0)], [0, 1000])
