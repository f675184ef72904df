"""The flows between queues: siblings lend first, evenly, and never more than they have idle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.web.documents.queues import flows, lent_by
from windlass.web.schema.documents import Flow, QueueRow


def row(name: str, guarantee: int, allocated: int, parent: str = "") -> QueueRow:
    borrowed = max(0, allocated - guarantee)
    return QueueRow(
        name=name,
        parent=parent,
        depth=int(bool(parent)),
        guarantee=guarantee,
        share=0,
        allocated=allocated,
        borrowed=borrowed,
        lent=0,
        limit=None,
        weight=1,
        waiting_gangs=0,
        waiting=0,
        usage=0,
    )


def test_borrowing_is_split_in_proportion_to_idle_guarantees():
    rows = [row("a", 1000, 5000), row("b", 3000, 0), row("c", 1000, 0)]
    assert flows(rows, free=0) == [Flow("b", "a", 3000), Flow("c", "a", 1000)]


def test_gpus_outside_all_guarantees_are_borrowed_first():
    rows = [row("a", 0, 3000), row("b", 2000, 0)]
    assert flows(rows, free=1000) == [Flow("b", "a", 1000), Flow("", "a", 2000)]


def test_siblings_lend_before_other_queues():
    rows = [
        row("lab", 4000, 4000),
        row("one", 2000, 4000, "lab"),
        row("two", 2000, 0, "lab"),
        row("other", 4000, 0),
    ]
    found = flows(rows, free=4000)
    assert found == [Flow("two", "one", 2000)]
    assert lent_by(rows, found) == {"lab": 0, "one": 0, "two": 2000, "other": 0}


amounts = st.integers(0, 9) | st.integers(0, 9000)
trees = st.lists(st.tuples(st.integers(-1, 2), amounts, amounts), min_size=3, max_size=8)


@given(trees, amounts)
def test_flows_cover_all_borrowing_and_no_queue_lends_more_than_its_idle_guarantee(
    tree: list[tuple[int, int, int]], free: int
):
    """The first three stand at the top, the others below one of them or beside them."""
    rows = [
        row(f"q{i}", guarantee, has, f"q{above}" if i > 2 and above >= 0 else "")
        for i, (above, guarantee, has) in enumerate(tree)
    ]
    parents = {each.parent for each in rows}
    found = flows(rows, free)
    for each in rows:
        had = sum(flow.milli for flow in found if flow.borrower == each.name)
        lent = sum(flow.milli for flow in found if flow.lender == each.name)
        assert had == (0 if each.name in parents else each.borrowed)
        assert lent <= max(0, each.guarantee - (0 if each.name in parents else each.allocated))
