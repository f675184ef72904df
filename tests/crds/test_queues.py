"""The queues of a cluster: validation, access of namespaces, status and usage ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controllers.queue_status import QueueNumbers
from windlass.crds.queue import MOST_ENTRIES
from windlass.crds.queue_access import Namespace, QueueAccess
from windlass.crds.queue_status import LedgerEntry, queue_status, read_ledger, write_ledger
from windlass.crds.queue_validation import (
    QueueVerdict,
    ready_condition,
    validate_queues,
    with_usable_parents,
)
from windlass.crds.read import OwnedQueue, QueueUsers, read_queue
from windlass.model import units
from windlass.model.constraints import Expression, Operator
from windlass.model.queues import Queue
from windlass.model.validation.queues import check_queues
from windlass.usage.ledger import Holder, Ledger

NOW = 1_790_000_000


def owned(name: str, *names: str, parent: str = "", term: Any = None) -> OwnedQueue:
    return OwnedQueue(Queue(name, parent), QueueUsers(frozenset(names), term))


# --- judging all queues together


def test_valid_queues_are_ready():
    found = validate_queues(
        [Queue("top", guarantee={"gpu": 8}), Queue("a", "top", guarantee={"gpu": 8})]
    )
    assert [(name, each.ready) for name, each in found.items()] == [("top", True), ("a", True)]


@pytest.mark.parametrize(
    ("queue", "reason", "words"),
    [
        (
            Queue("a", "tip"),
            "ParentUnknown",
            'did you mean "top"? (until then it stands at the top)',
        ),
        (Queue("a", "a"), "ParentCycle", "it is above itself (a < a)"),
        (Queue("a", "top", {"gpu": 9000}), "GuaranteeTooLarge", "above its parent's 8 GPUs"),
        (
            Queue("a", "top", {"gpu/H100-80GB": 2000}, {"gpu": 1000}),
            "GuaranteeTooLarge",
            "guarantee 2 GPUs is above its limit of 1 GPU",
        ),
        (Queue("a", lend={"gpu": 1}), "LendTooLarge", "but is guaranteed only 0 GPUs"),
        (Queue("a", weight=-1), "Invalid", "weight is -1; give a number from 0"),
    ],
)
def test_an_invalid_queue_gets_a_reason_and_a_message(queue: Queue, reason: str, words: str):
    top = Queue("top", guarantee={"gpu": 8000, "gpu/H100-80GB": 8000})
    found = validate_queues([top, queue])
    assert found["top"].ready
    assert (found["a"].ready, found["a"].reason) == (False, reason)
    assert words in found["a"].message


def test_of_siblings_whose_guarantees_exceed_the_parent_the_last_is_not_ready():
    queues = [
        Queue("top", guarantee={"gpu": 8000}),
        Queue("a", "top", {"gpu": 5000}),
        Queue("b", "top", {"gpu": 4000}),
    ]
    found = validate_queues(queues)
    assert (found["a"].ready, found["b"].ready) == (True, False)
    assert 'the queues below "top" (a, b) are guaranteed 9 GPUs' in found["b"].message


def test_queues_below_an_invalid_queue_name_the_one_to_correct():
    queues = [
        Queue("a", "b"),
        Queue("b", "a"),
        Queue("c", "a"),
        Queue("d", "gone"),
        Queue("e", "d"),
    ]
    found = validate_queues(queues)
    assert {name: each.reason for name, each in found.items()} == {
        "a": "ParentCycle",
        "b": "ParentCycle",
        "c": "ParentNotReady",
        "d": "ParentUnknown",
        "e": "ParentNotReady",
    }
    assert found["e"].message.endswith('correct queue "d"')


def test_a_queue_that_is_too_deep_is_not_ready():
    chain = [Queue("q0"), *(Queue(f"q{at}", f"q{at - 1}") for at in range(1, 40))]
    assert validate_queues(chain)["q39"].reason == "TooDeep"
    assert validate_queues(chain)["q20"].ready


names = st.sampled_from("abcdef")
trees = st.dictionaries(
    names,
    st.tuples(st.sampled_from(["", *"abcdefz"]), st.integers(0, 3), st.none() | st.integers(0, 3)),
)


@given(trees)
def test_arbitrary_parents_give_the_engine_a_valid_tree(tree: dict[str, Any]):
    queues = [
        Queue(name, parent, {"gpu": own}, {} if limit is None else {"gpu": limit})
        for name, (parent, own, limit) in tree.items()
    ]
    after = with_usable_parents(queues)
    assert [problem for problem in check_queues(after) if not problem.passing] == []
    assert [each.name for each in after] == list(tree)
    verdicts = validate_queues(queues)
    assert set(verdicts) == set(tree)
    for before, now in zip(queues, after, strict=True):
        if verdicts[before.name].ready:
            assert now == before


def test_a_condition_keeps_its_transition_time_while_its_status_is_the_same():
    good, bad = validate_queues([Queue("a")])["a"], validate_queues([Queue("a", "gone")])["a"]
    first = ready_condition(good, 1, "2026-01-01T00:00:00Z", None)
    same = ready_condition(good, 2, "2026-01-02T00:00:00Z", first)
    other = ready_condition(bad, 3, "2026-01-03T00:00:00Z", same)
    assert same.last_transition_time == "2026-01-01T00:00:00Z"
    assert (other.status, other.last_transition_time) == ("False", "2026-01-03T00:00:00Z")
    assert other.as_json()["observedGeneration"] == 3


# --- who may use which queue


@pytest.fixture
def doors() -> QueueAccess:
    everyone = (Expression("gpu", Operator.IN, ("yes",)),)
    return QueueAccess(
        [
            owned("top", "red"),
            owned("red", "red", parent="top"),
            owned("blue", "blue", "both", parent="top"),
            owned("green", "both", parent="top"),
            owned("open", term=everyone),
        ]
    )


def chosen(doors: QueueAccess, asked: str, namespace: str, **labels: str) -> str:
    choice = doors.choose(asked, Namespace(namespace, labels))
    return choice.sentence or choice.queue


def test_a_pod_gets_the_queue_of_its_namespace(doors: QueueAccess):
    assert chosen(doors, "", "red") == "red"
    assert chosen(doors, "", "other", gpu="yes") == "open"


def test_a_queue_that_names_a_namespace_wins_over_one_that_selects_it(doors: QueueAccess):
    assert chosen(doors, "", "red", gpu="yes") == "red"
    assert chosen(doors, "open", "red", gpu="yes") == "open"


def test_a_queue_with_children_takes_no_pods_but_is_charged_for_running_ones():
    doors = QueueAccess([owned("team", "ml"), owned("sub", "other", parent="team")])
    found = doors.choose("", Namespace("ml", {}))
    assert found.queue == "team", "what runs already is not charged to nobody"
    told = 'queue "team" has queues below it and takes no jobs; add namespace "ml" to one of those'
    assert found.sentence == told
    assert doors.choose("team", Namespace("other", {})).queue == "", "it is not theirs"


def test_queues_in_a_parent_cycle_are_put_at_the_top_and_take_jobs():
    doors = QueueAccess([owned("a", "ml", parent="b"), owned("b", "other", parent="a")])
    assert chosen(doors, "", "ml") == "a"


def test_a_pod_may_name_any_queue_that_its_namespace_may_use(doors: QueueAccess):
    assert chosen(doors, "green", "both") == "green"
    assert "may use several queues (blue, green); name one of them" in chosen(doors, "", "both")


def test_a_queue_of_another_namespace_is_refused_with_a_sentence(doors: QueueAccess):
    found = chosen(doors, "blue", "red")
    assert found.startswith('namespace "red" may not use queue "blue"; add it to')


def test_a_queue_that_is_unknown_or_has_children_is_refused(doors: QueueAccess):
    assert chosen(doors, "bleu", "red") == 'queue "bleu" does not exist; did you mean "blue"?'
    assert "takes no jobs; name one of those" in chosen(doors, "top", "red")


def test_a_pod_of_a_namespace_without_a_queue_waits_unless_there_is_a_default_queue():
    queues = [owned("a", "red")]
    assert 'no queue names namespace "new"' in chosen(QueueAccess(queues), "", "new")
    assert chosen(QueueAccess(queues, default="a"), "", "new") == "a"
    assert chosen(QueueAccess(queues, default="a"), "a", "new") == "a"
    assert 'no queue names namespace "new"' in chosen(
        QueueAccess(queues, default="gone"), "", "new"
    )


def test_pods_of_other_schedulers_are_charged_to_one_queue_of_their_namespace(doors: QueueAccess):
    assert doors.charged(Namespace("both", {})) == "blue"
    assert doors.charged(Namespace("new", {})) == ""


def test_an_empty_namespace_selector_matches_every_namespace():
    everyone = read_queue("a", {"namespaceSelector": {}}).value
    nobody = read_queue("b", {}).value
    assert everyone is not None
    assert nobody is not None
    assert chosen(QueueAccess([everyone, nobody]), "", "any") == "a"


# --- status


def test_a_status_is_written_in_the_units_of_the_spec():
    numbers = QueueNumbers(
        share={"gpu": 1500, "gpu/H100-80GB": 1000, "cpu": 500, "memory": 2048},
        waiting_gangs=2,
        waiting_tasks=9,
        waiting_milli=72_000,
        milli_seconds=3600 * 12_345,
        used=[LedgerEntry("ada", "L4-24GB", 7)],
    )
    status = queue_status(
        numbers, NOW, 3, [ready_condition(QueueVerdict(), 3, units.format_timestamp(NOW), None)]
    )
    found = json.loads(json.dumps(status.as_json()))
    assert found["share"] == {
        "gpu": "1.5",
        "gpuModels": {"H100-80GB": "1"},
        "cpu": "0.5",
        "memory": "2Gi",
    }
    assert found["allocated"] == {}
    assert found["waiting"] == {"gangs": 2, "tasks": 9, "gpu": "72"}
    assert found["usage"] == {"gpuHours": "12.345"}
    assert found["ledger"] == {
        "at": units.format_timestamp(NOW),
        "entries": [{"user": "ada", "model": "L4-24GB", "milliSeconds": 7}],
    }
    assert (found["conditions"][0]["status"], found["observedGeneration"]) == ("True", 3)


def test_times_are_written_as_kubernetes_writes_them():
    assert units.format_timestamp(NOW) == "2026-09-21T14:13:20Z"
    assert units.parse_timestamp(units.format_timestamp(NOW)) == NOW
    with pytest.raises(ValueError, match="no time zone"):
        units.parse_timestamp("2026-09-21T14:13:20")


def test_usage_is_the_same_with_and_without_a_restart():
    half_life = 3600
    ledger = Ledger(half_life)
    ledger.change(Holder("a", "ada", "H100-80GB"), 8000, NOW)
    ledger.change(Holder("a", "ada", "H100-80GB"), -8000, NOW + 600)
    saved = write_ledger(
        (LedgerEntry(*holder[1:], value) for holder, value in ledger.at(NOW + 900)), NOW + 900
    )
    kept = json.loads(json.dumps(saved.as_json()))
    [found] = read_ledger(kept, half_life, NOW + 4000)
    [(_, expected)] = ledger.at(NOW + 4000)
    assert (found.user, found.model) == ("ada", "H100-80GB")
    assert abs(found.milli_seconds - expected) <= 1


def test_the_smallest_of_too_many_ledger_entries_are_added_up_without_loss():
    used = [
        LedgerEntry(f"user-{at}", f"model-{at % 3}", at + 1) for at in range(MOST_ENTRIES + 100)
    ]
    saved = write_ledger(used, NOW)
    assert len(saved.entries) <= MOST_ENTRIES
    assert sum(each.milli_seconds for each in saved.entries) == sum(each[2] for each in used)
    assert saved.entries[0].user == ""
    assert len(json.dumps(saved.as_json())) < 1_000_000


@pytest.mark.parametrize(
    "bad", [None, {}, {"at": "yesterday"}, {"at": units.format_timestamp(NOW), "entries": 3}]
)
def test_a_ledger_that_cannot_be_read_counts_as_empty(bad: Any):
    assert list(read_ledger(bad, 60, NOW)) == []
