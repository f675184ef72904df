"""The leader and its published settings, as read from the lease."""

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
def test_an_expired_lease_has_no_leader(later: int, leader: str):
    assert leader_of(lease(), SECOND + later) == leader


def test_the_leader_is_unknown_if_the_lease_may_not_be_read():
    assert leader_of(None, SECOND) is None
    assert leader_of(LeaseRecord(), SECOND) == ""


def test_settings_of_the_leader_complete_those_that_are_not_set():
    leader_config = Config(
        default_queue="everyone", namespaces=["a"], node_selector={"pool": "gpu"}
    )
    own = Config(namespaces=["b"], port=1)
    config = as_leader(own, lease(**{SETTINGS: published(leader_config)}))
    assert (config.default_queue, config.namespaces, config.port) == ("everyone", ["b"], 1)
    assert config.node_selector == {"pool": "gpu"}


@pytest.mark.parametrize("text", ["", "nonsense", '{"of_a_later_version": 1}', "[]"])
def test_settings_that_cannot_be_read_change_nothing(text: str):
    assert as_leader(Config(port=1), lease(**{SETTINGS: text})) == Config(port=1)


def test_secrets_and_local_settings_of_the_leader_are_not_published():
    text = published(Config(kubeconfig="x", replica="r", scheduler_names=["s"]))
    assert text == '{"scheduler_names":["s"]}'
