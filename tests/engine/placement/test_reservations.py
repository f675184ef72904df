"""Reservations do not harm others; guarantees that are not lent stay free; caches are not stale."""

from __future__ import annotations

from tests.given import (
    ask,
    cluster,
    group,
    grouped,
    job,
    node,
    outcome_of,
    queue,
    rack,
    schedule,
    snapshot,
    within,
)
from windlass.model.events import GangGone, GangSeen, TaskSeen
from windlass.model.jobs import GangId
from windlass.model.nodes import Topology
from windlass.model.reasons import ReasonCode
from windlass.state.snapshot import to_json

RACKS = Topology("net", ("zone", "rack"))
HOURS = 3600


def service(name: str, on: str, started_at: int):
    """Return a running task without an end that holds one GPU."""
    return job(name, 1, ask(gpus=1)).runs(0, on=on, devices=[0]).become(0, started_at=started_at)


def test_no_reservation_waits_for_the_end_of_a_service():
    things = node("n1", gpus=2), service("web", "n1", 0), job("big", 1, ask(gpus=2))
    assert schedule(*things, now=3 * HOURS).plan.holds == ()


def test_work_of_unknown_length_is_expected_to_end_while_it_is_young():
    things = node("n1", gpus=2), service("young", "n1", 2 * HOURS), job("big", 1, ask(gpus=2))
    (hold,) = schedule(*things, now=3 * HOURS).plan.holds
    assert (hold.gang, hold.starts_at) == ("big", 4 * HOURS)


def test_a_guarantee_is_served_before_the_reservation_of_a_borrower():
    old = job("old", 1, ask(gpus=1), queue="loan", duration_s=9 * HOURS)
    things = [
        *(queue("mine", gpus=1), queue("loan")),
        *(node("n1", gpus=2), old.runs(0, on="n1", devices=[0])),
        job("big", 1, ask(gpus=2), queue="loan"),
    ]
    state = schedule(*things, now=3 * HOURS).carried_out()
    assert [hold.gang for hold in state.holds.values()] == ["big"]
    late = job("due", 1, ask(gpus=1), queue="mine", created_at=3 * HOURS)
    state.apply(GangSeen(late.gang))
    state.apply(TaskSeen(late.tasks[0]))
    assert outcome_of(state).started("due") == 1


def test_capacity_that_is_not_lent_stays_free():
    things = node("n1", gpus=4), queue("owner", gpus=2, lend_gpus=0), queue("other")
    outcome = schedule(*things, *(job(f"j{i}", 1, ask(gpus=1), queue="other") for i in range(4)))
    assert len(outcome.places) == 2
    assert outcome.whys("j3") == {ReasonCode.NOT_LENT}


def test_capacity_of_one_model_that_is_not_lent_stays_free():
    model = "gpu/H100-80GB"
    owner = queue("owner", guarantee={model: 2000}, lend={model: 0})
    nodes = node("h", gpus=2, model="H100-80GB"), node("a", gpus=1)
    jobs = [job(f"j{i}", 1, ask(gpus=1), queue="other") for i in range(3)]
    assert schedule(*nodes, owner, queue("other"), *jobs).places == {"j0-0": "a"}


def test_a_gang_that_returns_under_its_old_name_is_not_served_from_a_cache():
    state = cluster(node("n1", gpus=8), queue("team"), job("a", 1, ask(gpus=16)))
    assert outcome_of(state).started("a") == 0
    state.apply(GangGone(GangId("a")))
    again = job("a", 1, ask(gpus=1))
    state.apply(GangSeen(again.gang))
    state.apply(TaskSeen(again.tasks[0]))
    assert outcome_of(state).started("a") == 1


def test_a_group_may_have_a_wider_domain_than_its_gang():
    parts = group("x", 2, ask(gpus=1), domain=within("zone")), group("y", 1, ask(gpus=1))
    gang = grouped("a", *parts, domain=within("rack"))
    outcome = schedule(RACKS, *rack("r1", "n1", gpus=1), *rack("r2", "n2", gpus=3), gang)
    assert set(outcome.places.values()) == {"n2"}


def test_a_model_limit_of_the_queue_is_named_as_the_reason():
    limited = queue("team", limit={"gpu/A100-80GB": 1000})
    outcome = schedule(node("n1", gpus=2), limited, job("a", 2, ask(gpus=1)))
    assert ReasonCode.NEVER_LIMIT in outcome.whys("a") or ReasonCode.AT_LIMIT in outcome.whys("a")


def test_a_snapshot_contains_no_cached_hashes():
    state = snapshot(node("n1"), job("a"))
    assert hash(state.tasks[0].shape)
    assert b"_hash" not in to_json(state)
