"""The termination grace of a deleted pod is shortened to what the Policy allows."""

from __future__ import annotations

import msgspec

from tests.support.kube_given import Stage, node, pod, policy, queue
from windlass.daemon.decide.stuck_pods import AGAIN_S
from windlass.model.units import parse_timestamp
from windlass.workloads.objects import wire

TEN_YEARS_S = 315_360_000
NOW = parse_timestamp("2026-01-01T00:00:00Z")
DELETED = "2036-01-01T00:00:00Z"


def ending(name: str = "a", grace_s: int = TEN_YEARS_S, **fields: str) -> wire.Pod:
    """Return a deleted pod with this grace in seconds."""
    found = pod(name, 1, node="n1", phase="Running", deleted=DELETED, **fields)
    meta = msgspec.structs.replace(found.metadata, deletion_grace_period_seconds=grace_s)
    return msgspec.structs.replace(found, metadata=meta)


def given(*pods: wire.Pod, **spec: int) -> Stage:
    return Stage(queue("team", "ml"), policy(**spec), node("n1", 8), *pods, now=NOW)


def shortened(there: Stage, later_s: int = 0) -> list[tuple[str, int]]:
    return [
        (each.pod.name, each.grace_s) for each in there.step(later_s).work.overlong_terminations
    ]


def test_a_long_grace_is_shortened_to_the_longest_of_the_policy():
    assert shortened(given(ending())) == [("a", 600)]
    assert shortened(given(ending(), longestGraceSeconds=20)) == [("a", 20)]


def test_a_grace_within_the_policy_is_kept():
    assert shortened(given(ending(grace_s=600), ending("b", 30))) == []


def test_foreign_pods_and_pods_that_do_not_terminate_are_left_alone():
    other = ending("other", schedulerName="default-scheduler")
    assert shortened(given(other, pod("b", 1, node="n1", phase="Running"))) == []


def test_shortening_is_retried_while_the_grace_is_too_long():
    there = given(ending())
    assert shortened(there) == [("a", 600)]
    assert shortened(there, 1) == []
    assert shortened(there, AGAIN_S) == [("a", 600)]
    there.see(ending(grace_s=600))
    assert shortened(there, AGAIN_S) == []


def test_no_grace_is_shortened_while_paused():
    there = given(ending())
    there.brain.pause(True)
    assert shortened(there) == []
