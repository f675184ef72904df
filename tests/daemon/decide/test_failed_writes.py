"""Failed binds and refused evictions: places are held for their gang, and promises end."""

from __future__ import annotations

from typing import Any

from tests.support.kube_given import Stage, crew, made_by, node, pod, queue, task_id
from windlass.kube.writes import EvictRefused
from windlass.model.events import BindFailed
from windlass.model.jobs import TaskState
from windlass.workloads.objects.annotations import PREEMPTIBLE

BORROWS: dict[str, Any] = {"labels": {PREEMPTIBLE: "true"}}


def test_the_place_of_a_failed_bind_is_held_during_the_backoff_of_its_gang() -> None:
    there = Stage(queue("team", "ml"), *nodes(3), *crew("w", 3, 8, **BORROWS))
    there.step()
    there.see(*(pod(f"w-{i}", 8, gang=("w", 3), node=at, **BORROWS) for i, at in placed(there)))
    there.see(BindFailed(task_id("w-0"), "the server said no"))
    there.see(pod("other", 8, **BORROWS))
    assert there.step().bound == {}
    assert set(there.step(1).bound) == {"w-0"}


def test_the_backoff_of_a_gang_ends_when_its_other_binds_are_confirmed() -> None:
    queues = queue("team", "ml", guarantee={"gpu": 12}), queue("other", "ml", guarantee={"gpu": 12})
    there = Stage(*queues, *nodes(3), *crew("w", 3, 8, queue="other", **BORROWS))
    there.step()
    there.see(BindFailed(task_id("w-0"), "the server said no"))
    for number, at in placed(there):
        there.see(pod(f"w-{number}", 8, gang=("w", 3), queue="other", node=at, **BORROWS))
    assert set(there.step(1).bound) == {"w-0"}


def test_no_place_is_held_for_a_gang_whose_binds_all_failed() -> None:
    there = Stage(queue("team", "ml"), *nodes(2), *crew("w", 2, 8, **BORROWS))
    there.step()
    there.see(*(BindFailed(task_id(f"w-{i}"), "the server said no") for i in range(2)))
    there.see(pod("other", 8, **BORROWS))
    assert set(there.step().bound) == {"other"}


def test_a_promise_ends_when_an_eviction_for_it_is_refused() -> None:
    runs = {"node": "n1", "phase": "Running", **BORROWS}
    running = [
        pod(f"b-{i}", 1, queue="loan", owner=made_by("ReplicaSet", name=f"b{i}"), **runs)
        for i in range(2)
    ]
    queues = queue("team", "ml", guarantee={"gpu": 2}), queue("loan", "ml")
    there = Stage(*queues, node("n1", 2), *running, *crew("w", 2, queue="team"), now=1_800_000_000)
    victims = [each.pod.task for each in there.step().work.evictions[0].victims]
    there.brain.pause(True)
    there.see(*(EvictRefused(each, "evictions are paused") for each in victims))
    (written,) = [text for _, text in there.step().work.promises]
    assert "evicts" not in written
    assert {there.cluster.tasks[each].state for each in victims} == {TaskState.RUNNING}
    there.brain.pause(False)
    assert len(there.step(31).work.evictions) == 1


def nodes(count: int) -> list[Any]:
    return [node(f"n{number}", 8) for number in range(count)]


def placed(there: Stage) -> list[tuple[int, str]]:
    """Return the pods of the gang but the first, each on its node."""
    return [(number, there.task(f"w-{number}").node) for number in (1, 2)]
