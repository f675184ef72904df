"""The queues of a cluster: do they make sense together, who may use them, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controllers.queue_status import QueueNumbers
from windlass.crds.ledger import LedgerEntry, read_ledger, write_ledger
from windlass.crds.queue import MOST_ENTRIES
from windlass.crds.queue_access import Doors, Namespace
from windlass.crds.queue_validation import QueueVerdict, condition, judge, mended
from windlass.crds.read import OwnedQueue, Users, read_queue
from windlass.crds.status import queue_status
from windlass.model import units
from windlass.model.constraints import Expression, Operator
from windlass.model.queues import Queue
from windlass.model.validation.queues import check_queues
from windlass.usage.ledger import Holder, Ledger

NOW = 1_790_000_000


def owned(name: str, *names: str, parent: str = "", term: Any = None) -> OwnedQueue:
    return OwnedQueue(Queue(name, parent), Users(frozenset(names), term))


# --- judging all queues together


def test_queues_that_make_sense_are_ready():
    found = judge([Queue("top", guarantee={"gpu": 8}), Queue("a", "top", guarantee={"gpu": 8})])
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
def test_a_queue_that_makes_no_sense_is_told_why(queue: Queue, reason: str, words: str):
    top = Queue("top", guarantee={"gpu": 8000, "gpu/H100-80GB": 8000})
    found = judge([top, queue])
    assert found["top"].ready
    assert (found["a"].ready, found["a"].reason) == (False, reason)
    assert words in found["a"].message


def test_of_queues_that_ask_too_much_together_the_last_is_told():
    queues = [
        Queue("top", guarantee={"gpu": 8000}),
        Queue("a", "top", {"gpu": 5000}),
        Queue("b", "top", {"gpu": 4000}),
    ]
    found = judge(queues)
    assert (found["a"].ready, found["b"].ready) == (True, False)
    assert 'the queues below "top" (a, b) are guaranteed 9 GPUs' in found["b"].message


def test_queues_below_a_broken_parent_are_told_which_one_to_mend():
    queues = [
        Queue("a", "b"),
        Queue("b", "a"),
        Queue("c", "a"),
        Queue("d", "gone"),
        Queue("e", "d"),
    ]
    found = judge(queues)
    assert {name: each.reason for name, each in found.items()} == {
        "a": "ParentCycle",
        "b": "ParentCycle",
        "c": "ParentNotReady",
        "d": "ParentUnknown",
        "e": "ParentNotReady",
    }
    assert found["e"].message.endswith('correct queue "d"')


def test_a_tree_that_is_too_deep_is_cut():
    chain = [Queue("q0"), *(Queue(f"q{at}", f"q{at - 1}") for at in range(1, 40))]
    assert judge(chain)["q39"].reason == "TooDeep"
    assert judge(chain)["q20"].ready


names = st.sampled_from("abcdef")
trees = st.dictionaries(
    names,
    st.tuples(st.sampled_from(["", *"abcdefz"]), st.integers(0, 3), st.none() | st.integers(0, 3)),
)


@given(trees)
def test_whatever_parents_are_written_the_engine_gets_a_tree(tree: dict[str, Any]):
    queues = [
        Queue(name, parent, {"gpu": own}, {} if limit is None else {"gpu": limit})
        for name, (parent, own, limit) in tree.items()
    ]
    after = mended(queues)
    assert [problem for problem in check_queues(after) if not problem.passing] == []
    assert [each.name for each in after] == list(tree)
    verdicts = judge(queues)
    assert set(verdicts) == set(tree)
    for before, now in zip(queues, after, strict=True):
        if verdicts[before.name].ready:
            assert now == before


def test_a_condition_keeps_its_time_while_its_status_stays():
    good, bad = judge([Queue("a")])["a"], judge([Queue("a", "gone")])["a"]
    first = condition(good, 1, "2026-01-01T00:00:00Z", None)
    same = condition(good, 2, "2026-01-02T00:00:00Z", first)
    other = condition(bad, 3, "2026-01-03T00:00:00Z", same)
    assert same.last_transition_time == "2026-01-01T00:00:00Z"
    assert (other.status, other.last_transition_time) == ("False", "2026-01-03T00:00:00Z")
    assert other.as_json()["observedGeneration"] == 3


# --- who may use which queue


@pytest.fixture
def doors() -> Doors:
    everyone = (Expression("gpu", Operator.IN, ("yes",)),)
    return Doors(
        [
            owned("top", "red"),
            owned("red", "red", parent="top"),
            owned("blue", "blue", "both", parent="top"),
            owned("green", "both", parent="top"),
            owned("open", term=everyone),
        ]
    )


def chosen(doors: Doors, asked: str, namespace: str, **labels: str) -> str:
    choice = doors.choose(asked, Namespace(namespace, labels))
    return choice.sentence or choice.queue


def test_a_pod_stands_in_the_queue_of_its_namespace(doors: Doors):
    assert chosen(doors, "", "red") == "red"
    assert chosen(doors, "", "other", gpu="yes") == "open"


def test_a_queue_that_names_a_namespace_goes_before_one_that_selects_it(doors: Doors):
    assert chosen(doors, "", "red", gpu="yes") == "red"
    assert chosen(doors, "open", "red", gpu="yes") == "open"


def test_a_namespace_of_a_queue_with_others_below_it_is_told_so_and_what_runs_is_charged_to_it():
    doors = Doors([owned("team", "ml"), owned("sub", "other", parent="team")])
    found = doors.choose("", Namespace("ml", {}))
    assert found.queue == "team", "what runs already is not charged to nobody"
    told = 'queue "team" has queues below it and takes no jobs; add namespace "ml" to one of those'
    assert found.sentence == told
    assert doors.choose("team", Namespace("other", {})).queue == "", "it is not theirs"


def test_queues_that_are_each_others_parent_stand_at_the_top_and_take_jobs():
    doors = Doors([owned("a", "ml", parent="b"), owned("b", "other", parent="a")])
    assert chosen(doors, "", "ml") == "a"


def test_a_pod_may_name_any_queue_that_is_open_to_its_namespace(doors: Doors):
    assert chosen(doors, "green", "both") == "green"
    assert "may use several queues (blue, green); name one of them" in chosen(doors, "", "both")


def test_a_queue_of_another_namespace_is_refused_in_a_sentence(doors: Doors):
    found = chosen(doors, "blue", "red")
    assert found.startswith('namespace "red" may not use queue "blue"; add it to')


def test_a_queue_that_does_not_exist_or_has_others_below_it_is_refused(doors: Doors):
    assert chosen(doors, "bleu", "red") == 'queue "bleu" does not exist; did you mean "blue"?'
    assert "takes no jobs; name one of those" in chosen(doors, "top", "red")


def test_a_namespace_without_a_queue_waits_unless_there_is_a_default():
    queues = [owned("a", "red")]
    assert 'no queue names namespace "new"' in chosen(Doors(queues), "", "new")
    assert chosen(Doors(queues, default="a"), "", "new") == "a"
    assert chosen(Doors(queues, default="a"), "a", "new") == "a"
    assert 'no queue names namespace "new"' in chosen(Doors(queues, default="gone"), "", "new")


def test_pods_that_went_past_us_are_charged_to_one_queue_of_their_namespace(doors: Doors):
    assert doors.charged(Namespace("both", {})) == "blue"
    assert doors.charged(Namespace("new", {})) == ""


def test_an_empty_selector_means_every_namespace():
    everyone = read_queue("a", {"namespaceSelector": {}}).noun
    nobody = read_queue("b", {}).noun
    assert everyone is not None
    assert nobody is not None
    assert chosen(Doors([everyone, nobody]), "", "any") == "a"


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
        numbers, NOW, 3, [condition(QueueVerdict(), 3, units.format_timestamp(NOW), None)]
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


def test_moments_are_written_as_kubernetes_writes_them():
    assert units.format_timestamp(NOW) == "2026-09-21T14:13:20Z"
    assert units.parse_timestamp(units.format_timestamp(NOW)) == NOW
    with pytest.raises(ValueError, match="no time zone"):
        units.parse_timestamp("2026-09-21T14:13:20")


def test_usage_survives_a_restart_as_if_there_had_been_none():
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


def test_of_too_many_entries_the_smallest_are_put_together_and_nothing_is_lost():
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
