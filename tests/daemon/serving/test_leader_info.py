"""Who leads, and with which settings, as others learn it from the lease."""

from __future__ import annotations

import pytest

from windlass.config import Config
from windlass.daemon.serving.leader_info import (
    CLOCKS_APART_S,
    SETTINGS,
    as_leader,
    leader_of,
    published,
)
from windlass.kube.client.leader_election import LeaseRecord, LeaseSpec
from windlass.workloads.objects.wire import ObjectMeta

AT = "2026-11-16T04:10:00.000000Z"
SECOND = 1794802200


def lease(**notes: str) -> LeaseRecord:
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time=AT)
    return LeaseRecord(ObjectMeta(annotations=notes), spec)


@pytest.mark.parametrize(("later", "leader"), [(0, "a"), (15 + CLOCKS_APART_S, "a"), (60, "")])
def test_a_lease_that_was_not_renewed_in_time_is_nobodys(later: int, leader: str):
    assert leader_of(lease(), SECOND + later) == leader


def test_a_lease_that_may_not_be_read_says_nothing():
    assert leader_of(None, SECOND) is None
    assert leader_of(LeaseRecord(), SECOND) == ""


def test_settings_of_the_leader_complete_those_that_nobody_has_set():
    theirs = Config(default_queue="everyone", namespaces=["a"], node_selector={"pool": "gpu"})
    mine = Config(namespaces=["b"], port=1)
    seen = as_leader(mine, lease(**{SETTINGS: published(theirs)}))
    assert (seen.default_queue, seen.namespaces, seen.port) == ("everyone", ["b"], 1)
    assert seen.node_selector == {"pool": "gpu"}


@pytest.mark.parametrize("text", ["", "nonsense", '{"of_a_later_version": 1}', "[]"])
def test_settings_that_cannot_be_read_change_nothing(text: str):
    assert as_leader(Config(port=1), lease(**{SETTINGS: text})) == Config(port=1)


def test_secrets_and_places_of_the_leader_are_not_published():
    told = published(Config(kubeconfig="x", replica="r", scheduler_names=["s"]))
    assert told == '{"scheduler_names":["s"]}'
