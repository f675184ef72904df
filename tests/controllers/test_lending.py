"""The GPUs that queues lend, at every level of the tree, and on the dashboard."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.given import node, queue, snapshot
from tests.support.preemption_given import runs
from windlass.controllers.lending import lent_gpus
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU, Queue, guaranteed
from windlass.state.cluster import Cluster
from windlass.web.documents.queues import flows, lent_by
from windlass.web.schema.documents import QueueRow


def cluster_of(gpus: int, queues: list[Queue], **has: int) -> Cluster:
    """One node, and in each queue a gang that has so many GPUs."""
    jobs, first = [], 0
    for name, count in has.items():
        if count:
            jobs.append(runs(f"job-{name}", *range(first, first + count), queue=name))
        first += count
    return Cluster.of(snapshot(node("n1", gpus=gpus), *queues, *jobs, now=100))


def told(gpus: int, *queues: Queue, **has: int) -> dict[str, int]:
    found = lent_gpus(cluster_of(gpus, list(queues), **has))
    return {name: milli // WHOLE for name, milli in found.items() if milli}


TREE = (
    queue("org", gpus=8),
    queue("lab", "org", gpus=4),
    queue("one", "lab", gpus=2),
    queue("two", "lab", gpus=2),
    queue("shop", "org", gpus=4),
    queue("web", "shop", gpus=4),
    queue("guests"),
)
"""Three levels: org above lab and shop, lab above one and two, shop above web."""


def test_lending_to_a_sibling_does_not_count_for_the_parent():
    assert told(12, *TREE, one=4) == {"two": 2}


def test_lending_to_another_branch_counts_for_the_parent():
    assert told(12, *TREE, one=6) == {"two": 2, "shop": 2, "web": 2}


def test_lending_to_a_top_queue_counts_at_every_level():
    assert told(8, *TREE, guests=8) == {
        "org": 8,
        "lab": 4,
        "one": 2,
        "two": 2,
        "shop": 4,
        "web": 4,
    }


def test_gpus_without_a_guarantee_are_used_before_any_is_lent():
    assert told(12, *TREE, guests=4) == {}
    assert told(12, *TREE, guests=5, web=4, one=2)["org"] == 1


def test_a_queue_lends_no_more_than_its_lend_limit():
    keeps, gives = queue("keeps", gpus=4, lend_gpus=0), queue("gives", gpus=4)
    assert told(8, keeps, gives, queue("guests"), guests=4) == {"gives": 4}


def test_a_parent_lends_the_guarantee_that_no_child_has():
    half = (queue("lab", gpus=4), queue("one", "lab", gpus=1), queue("guests"))
    assert told(4, *half, one=3) == {}
    assert told(4, *half, guests=4) == {"lab": 4, "one": 1}


@settings(deadline=None, max_examples=60)
@given(
    tops=st.lists(st.integers(0, 6), min_size=2, max_size=3),
    below=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=5),
    has=st.lists(st.integers(0, 4), min_size=8, max_size=8),
    spare=st.integers(1, 6),
)
def test_the_dashboard_shows_the_same_lent_gpus(
    tops: list[int], below: list[tuple[int, int]], has: list[int], spare: int
):
    queues = [queue(f"q{i}", gpus=gpus) for i, gpus in enumerate(tops)]
    for i, (above, gpus) in enumerate(below):
        parent = queues[above % len(tops)]
        taken = sum(guaranteed(each, GPU) for each in queues if each.parent == parent.name)
        most = (guaranteed(parent, GPU) - taken) // WHOLE
        queues.append(queue(f"q{len(tops) + i}", parent.name, gpus=min(gpus, most)))
    parents = {each.parent for each in queues}
    leaves = [each.name for each in queues if each.name not in parents]
    held = dict(zip(leaves, has, strict=False))
    cluster = cluster_of(sum(held.values()) + spare, queues, **held)
    free = cluster.columns.free_gpu()
    rows = [_row(cluster, each) for each in queues]
    ours, theirs = lent_gpus(cluster), lent_by(rows, flows(rows, free))
    assert all(abs(ours[name] - theirs[name]) <= 50 for name in ours), (ours, theirs)


def _row(cluster: Cluster, queue: Queue) -> QueueRow:
    has, guarantee = cluster.allocated(queue.name, GPU), guaranteed(queue, GPU)
    above = max(0, has - guarantee)
    return QueueRow(
        queue.name, queue.parent, 0, guarantee, 0, has, above, 0, None, 1, 0, 0, 0
    )  # fmt: skip
