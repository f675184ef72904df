"""Repeated failures: nodes are quarantined, gangs are not retried, both for a while."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.given import ask, cluster, job, node, outcome_of
from windlass.controllers.quarantine import quarantine_changes
from windlass.model.events import NodeSeen, NodeTrusted, TaskEnded, WorkEnded
from windlass.model.jobs import GangId, TaskId
from windlass.model.nodes import Node, Quarantine
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.failures import FailureLog
from windlass.state.snapshot import from_json, to_json

NOW = 10_000
HOUR = 3600


def failed(gang: str, on: str, at: int = NOW, since: int | None = None) -> WorkEnded:
    return WorkEnded(GangId(gang), on, at - 5 if since is None else since, at, succeeded=False)


def went_well(gang: str, on: str, at: int = NOW) -> WorkEnded:
    return replace(failed(gang, on, at), succeeded=True)


def machines(count: int = 4) -> list[Node]:
    return [node(f"n{i}", gpus=2) for i in range(count)]


def after(*ends: WorkEnded | NodeTrusted, nodes: int = 4, **settings: int) -> Cluster:
    chosen = replace(Settings(), **settings)
    there = cluster(*machines(nodes), job("a", 1, ask(gpus=1)), now=NOW, settings=chosen)
    for each in ends:
        there.apply(each)
    return there


def kept_out(there: Cluster) -> list[str]:
    return [each.name for each in quarantine_changes(there) if each.quarantine]


THREE = failed("x", "n0"), failed("y", "n0"), failed("z", "n0")


# --- nodes


def test_a_node_on_which_three_different_gangs_failed_is_quarantined():
    assert kept_out(after(*THREE[:2])) == []
    (found,) = quarantine_changes(after(*THREE))
    assert found.quarantine == Quarantine("3 gangs failed there within 1 h", NOW + HOUR)


def test_repeated_failures_of_one_gang_do_not_quarantine_a_node():
    again = [failed("x", "n0", at) for at in range(NOW - 90, NOW, 10)]
    assert kept_out(after(*again)) == []


def test_a_gang_that_fails_everywhere_does_not_count_against_nodes():
    blames = [failed("x", f"n{i}", NOW - 90 + 10 * i) for i in range(3)]
    assert kept_out(after(*THREE[1:], *blames)) == []


def test_a_success_forgives_the_failures_of_its_node():
    assert kept_out(after(*THREE[:2], went_well("w", "n0"), failed("z", "n0", NOW + 1))) == []
    assert kept_out(after(*THREE, went_well("w", "n1"))) == ["n0"]


def test_old_failures_do_not_count():
    there = after(failed("x", "n0", NOW - 60), *THREE[1:])
    there.advance(NOW + HOUR - 61)
    assert kept_out(there) == ["n0"]
    there.advance(NOW + HOUR - 60)
    assert kept_out(there) == []


def test_failures_of_a_gang_at_the_same_time_count_once_where_the_first_was():
    ranks = [failed("x", f"n{i}", NOW + i, since=NOW - 100) for i in range(4)]
    for order in permutations(ranks):
        known = after(*order).failures.now()
        assert [(each.node, each.at) for each in known] == [("n0", NOW)]


def test_at_most_a_tenth_of_the_nodes_is_quarantined_the_worst_first():
    worse = [failed(f"g{i}", "n1") for i in range(4)]
    assert kept_out(after(*THREE, *worse)) == ["n1"]
    assert kept_out(after(*THREE, *worse, nodes=20)) == ["n1", "n0"]


def test_quarantine_can_be_switched_off():
    assert kept_out(after(*THREE, quarantine_after=0)) == []


def test_a_quarantined_node_takes_no_new_tasks_and_gives_a_reason():
    there = after(*THREE, nodes=1)
    for each in quarantine_changes(there):
        there.apply(NodeSeen(each))
    outcome = outcome_of(there)
    assert outcome.nothing_of("a")
    said = "1 node: quarantined: 3 gangs failed there within 1 h"
    assert str(outcome.reason("a", ReasonCode.REFUSED_BY)) == said
    assert outcome.plan.wake_at is not None
    assert outcome.plan.wake_at <= NOW + HOUR


def test_a_quarantine_ends_after_its_time():
    there = after(*THREE, nodes=1)
    (out,) = quarantine_changes(there)
    there.apply(NodeSeen(out))
    there.advance(NOW + HOUR - 1)
    assert quarantine_changes(there) == []
    there.advance(NOW + HOUR)
    (back,) = quarantine_changes(there)
    assert back.quarantine is None


def test_failures_before_a_node_was_trusted_again_do_not_count_even_if_told_later():
    trusted = NodeTrusted("n0", NOW)
    assert kept_out(after(*THREE, trusted)) == kept_out(after(trusted, *THREE)) == []
    later = [failed(f"g{i}", "n0", NOW + 1) for i in range(3)]
    assert kept_out(after(*THREE, trusted, *later)) == ["n0"]


def test_a_quarantine_by_a_person_does_not_expire():
    by_hand = replace(node("n0"), quarantine=Quarantine("the fan is loud"))
    assert quarantine_changes(cluster(by_hand, now=NOW)) == []


# --- gangs


def times(count: int, nodes: int) -> list[WorkEnded]:
    """Failures of gang a, one every ten seconds, on so many nodes in turn."""
    return [failed("a", f"n{i % nodes}", NOW - 100 + 10 * i) for i in range(count)]


@pytest.mark.parametrize(("count", "nodes", "waits"), [(5, 3, False), (6, 2, False), (6, 3, True)])
def test_a_gang_that_failed_often_on_many_nodes_is_not_retried(count: int, nodes: int, waits: bool):
    outcome = outcome_of(after(*times(count, nodes)))
    assert outcome.started("a") == (0 if waits else 1)
    if waits:
        said = "it failed 6 times on 3 different nodes; mend it and submit it anew, or it is tried "
        assert str(outcome.reason("a", ReasonCode.FAILS_EVERYWHERE)) == f"{said}again in 58 min"


def test_a_gang_is_retried_when_its_failures_are_old():
    there = after(*times(6, 3))
    wake = outcome_of(there).plan.wake_at
    assert wake == NOW - 100 + HOUR
    there.advance(wake)
    assert outcome_of(there).started("a") == 1


def test_a_success_forgives_the_failures_of_its_gang():
    assert outcome_of(after(*times(6, 3), went_well("a", "n3"))).started("a") == 1


def test_successes_of_other_gangs_do_not_forgive_a_gang():
    others = [went_well("w", f"n{i}") for i in range(3)]
    assert outcome_of(after(*times(6, 3), *others)).nothing_of("a")


def test_the_limit_of_retries_can_be_switched_off():
    assert outcome_of(after(*times(9, 3), give_up_after=0)).started("a") == 1


# --- what is remembered


def test_failures_are_part_of_a_snapshot():
    there = cluster(node("n1", gpus=1), job("a", 1, ask(gpus=1)).runs(0, on="n1"), now=NOW)
    there.apply(TaskEnded(TaskId("a-0"), succeeded=False))
    (noted,) = there.failures
    assert (noted.gang, noted.node, noted.since, noted.at) == ("a", "n1", 0, NOW)
    again = Cluster.of(from_json(to_json(there.snapshot())))
    assert again.failures.now() == there.failures.now()


ends = st.builds(
    WorkEnded,
    st.sampled_from([GangId("x"), GangId("y")]),
    st.sampled_from(["n0", "n1"]),
    st.integers(0, 9),
    st.integers(10, 20),
    st.booleans(),
)


@given(st.lists(ends, max_size=6))
@example(
    [
        WorkEnded(GangId("x"), "n0", 0, 10, succeeded=False),
        WorkEnded(GangId("x"), "n0", 0, 11, succeeded=False),
        WorkEnded(GangId("x"), "n0", 0, 10, succeeded=True),
    ]
)
def test_an_event_that_is_told_again_changes_nothing(told: list[WorkEnded]):
    known = FailureLog()
    for each in told:
        known.take(each)
    before = known.now(), known.forgiven()
    for each in told:
        news = known.is_news(each)
        known.take(each)
        assert not news
    assert (known.now(), known.forgiven()) == before


@given(st.lists(st.tuples(ends, st.integers(0, 25)), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_decide_which_failures_count(
    drawn: list[tuple[WorkEnded, int]], random: Random
):
    told = [replace(ended, since=min(since, ended.at)) for ended, since in drawn]
    ordered, shuffled = FailureLog(), FailureLog()
    for ended in told:
        ordered.take(ended)
    random.shuffle(told)
    for ended in told:
        shuffled.take(ended)
    assert ordered.now() == shuffled.now()
    assert ordered.forgiven() == shuffled.forgiven()
