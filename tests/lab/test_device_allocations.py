"""The device book: no GPU is given twice, whatever is asked; it would notice if one were."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass_lab.fake_kubelet.allocation_audit import (
    AllocationEntry,
    AllocationEvent,
    Cause,
    audit,
)
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations, Unavailable

GPUS = 4
NODES = ("a", "b")


def ids(node: str) -> tuple[str, ...]:
    return tuple(f"GPU-{node}-{index}" for index in range(GPUS))


def book_of(*nodes: str) -> DeviceAllocations:
    book = DeviceAllocations()
    for node in nodes:
        book.add(node, ids(node))
    return book


def test_a_device_is_held_until_it_is_given_back() -> None:
    book = book_of("a")
    assert book.hand_out("a", "first", 3) == ("GPU-a-0", "GPU-a-1", "GPU-a-2")
    with pytest.raises(Unavailable, match="2 devices were asked for, but 1 are free"):
        book.hand_out("a", "second", 2)
    book.give_back("a", "first")
    assert len(book.hand_out("a", "second", 2)) == 2
    assert book.violations() == []


def test_who_asks_again_is_given_what_it_already_has() -> None:
    book = book_of("a")
    assert book.hand_out("a", "pod", 2) == book.hand_out("a", "pod", 2)
    assert sum(entry.kind is AllocationEvent.HANDED_OUT for entry in book.history) == 2


def test_a_failed_device_is_not_handed_out_until_it_is_healed() -> None:
    book = book_of("a")
    book.fail("a", "GPU-a-0")
    assert (book.healthy("a"), book.free("a")) == (3, ids("a")[1:])
    book.heal("a", "GPU-a-0")
    assert book.free("a") == ids("a")


def test_a_device_that_fails_stays_with_its_holder() -> None:
    book = book_of("a")
    book.hand_out("a", "pod", 4)
    book.fail("a", "GPU-a-0")
    assert book.held("a") == {"pod": ids("a")}
    book.give_back("a", "pod")
    assert book.free("a") == ids("a")[1:]


def test_a_node_that_is_taken_away_takes_its_holders_along() -> None:
    book = book_of("a")
    book.hand_out("a", "pod", 4)
    book.remove("a")
    book.add("a", ids("a"))
    assert (book.held("a"), book.violations()) == ({}, [])


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="node a has no device GPU-x: it has GPU-a-0, GPU-a-1"):
        book_of("a").fail("a", "GPU-x")


def test_only_a_double_booking_speaks_against_the_scheduler() -> None:
    book = book_of("a")
    for cause in Cause:
        book.refuse("a", f"pod-{cause}", "OutOfnvidia.com/gpu", cause)
    assert [refusal.holder for refusal in book.overbooked()] == ["pod-overbooked"]


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (
            [(AllocationEvent.HANDED_OUT, "one"), (AllocationEvent.HANDED_OUT, "two")],
            "given to two while one held it",
        ),
        (
            [(AllocationEvent.FAILED, ""), (AllocationEvent.HANDED_OUT, "one")],
            "given to one although it had failed",
        ),
        (
            [(AllocationEvent.REMOVED, ""), (AllocationEvent.HANDED_OUT, "one")],
            "given to one but is not there",
        ),
        (
            [(AllocationEvent.HANDED_OUT, "one"), (AllocationEvent.GIVEN_BACK, "two")],
            "back from two, but one held it",
        ),
        (
            [(AllocationEvent.HANDED_OUT, "one"), (AllocationEvent.REMOVED, "")],
            "removed while one held it",
        ),
    ],
)
def test_the_auditor_notices_every_kind_of_violation(
    story: list[tuple[AllocationEvent, str]], fault: str
) -> None:
    lines = [(AllocationEvent.ADDED, ""), *story]
    history = [
        AllocationEntry(n, kind, "a", "GPU-a-0", holder)
        for n, (kind, holder) in enumerate(lines, 1)
    ]
    [found] = audit(history)
    assert fault in found


class AnyUse(RuleBasedStateMachine):
    """Whatever is asked of the book, in whatever order, against a ledger kept by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.book = book_of(*NODES)
        self.held: dict[tuple[str, str], tuple[str, ...]] = {}
        self.failed: set[str] = set()

    @rule(node=st.sampled_from(NODES), pod=st.integers(0, 9), count=st.integers(1, GPUS))
    def a_pod_asks(self, node: str, pod: int, count: int) -> None:
        key = (node, f"pod-{pod}")
        taken = {device for devices in self.held.values() for device in devices}
        free = [one for one in ids(node) if one not in taken | self.failed]
        if key in self.held:
            assert self.book.hand_out(*key, count) == self.held[key]
        elif count > len(free):
            with pytest.raises(Unavailable):
                self.book.hand_out(*key, count)
        else:
            given = self.held[key] = self.book.hand_out(*key, count)
            assert len(given) == count
            assert set(given) <= set(free)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        assert self.book.give_back(*key) == self.held.pop(key)

    @rule(node=st.sampled_from(NODES), index=st.integers(0, GPUS - 1), heals=st.booleans())
    def health_changes(self, node: str, index: int, heals: bool) -> None:
        device = ids(node)[index]
        (self.book.heal if heals else self.book.fail)(node, device)
        (self.failed.discard if heals else self.failed.add)(device)

    @rule(node=st.sampled_from(NODES))
    def a_machine_is_replaced(self, node: str) -> None:
        self.book.remove(node)
        self.book.add(node, ids(node))
        self.held = {key: devices for key, devices in self.held.items() if key[0] != node}
        self.failed -= set(ids(node))

    @rule()
    def the_kubelet_restarts(self) -> None:
        self.book = DeviceAllocations.restored(self.book.checkpoint())

    @invariant()
    def nothing_is_given_twice(self) -> None:
        assert self.book.violations() == []

    @invariant()
    def the_book_says_who_holds_what(self) -> None:
        for node in NODES:
            mine = {pod: devices for (where, pod), devices in self.held.items() if where == node}
            assert self.book.held(node) == mine

    @invariant()
    def every_device_is_free_or_held_or_failed(self) -> None:
        for node in NODES:
            free = set(self.book.free(node))
            held = {one for devices in self.book.held(node).values() for one in devices}
            assert free | held | (self.failed & set(ids(node))) == set(ids(node))
            assert not free & (held | self.failed)
            assert self.book.healthy(node) == GPUS - len(self.failed & set(ids(node)))

    @invariant()
    def the_history_is_numbered_without_gaps(self) -> None:
        numbers = [entry.number for entry in self.book.history]
        assert numbers == sorted(set(numbers))


TestAnyUse = AnyUse.TestCase
