"""The preemption preview: the victims of a waiting gang, and the rules that block it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.given import Job, Thing, ask, cluster, job, node, queue
from windlass.engine.cycle import plan
from windlass.engine.explain.preemption_preview import (
    Blocker,
    PreemptionPreview,
    QueueComparison,
    QueueSide,
    preview_preemption,
)
from windlass.engine.plan import Verdict
from windlass.model.actions import EvictionRule
from windlass.model.jobs import GangId
from windlass.model.settings import Displacing, Settings
from windlass.sim.generate.week import generate
from windlass.sim.run import Simulation

HOUR = 3600
QUIET = Settings(usage_effect=0)


def running(name: str, *devices: int, **fields: object) -> Job:
    """Return a gang with one task per device that has run on node n since time 0."""
    found = job(name, len(devices), ask(gpus=1), **fields)
    for index, device in enumerate(devices):
        found = found.runs(index, on="n", devices=[device])
    return found


def preview_of(*things: Thing, settings: Settings = QUIET, gpus: int = 4) -> PreemptionPreview:
    """Return the preview for gang `new`, an hour after all others started on one node."""
    found = preview_preemption(
        cluster(node("n", gpus=gpus), *things, now=HOUR, settings=settings), GangId("new")
    )
    assert found is not None
    return found


def side(found: PreemptionPreview, name: str) -> QueueSide:
    return next(each for each in found.sides if each.queue == name)


def new(tasks: int, **fields: object) -> Job:
    fields = {"queue": "a", "created_at": HOUR} | fields
    return job("new", tasks, ask(gpus=1), **fields)


def test_a_queue_may_take_no_more_than_its_guarantee_or_share():
    found = preview_of(queue("a"), queue("b"), running("old", 0, 1, 2, 3, queue="b"), new(3))
    assert (found.need, found.free, found.may_take) == (3000, 0, 0)
    assert side(found, "b").bar == Blocker.GAINER
    assert side(found, "b").gainer == QueueComparison("a", has=3000, guarantee=0, share=2000)


def test_a_queue_keeps_its_entitlement():
    queues = queue("a", gpus=2), queue("b", gpus=2)
    held = running("mine", 0, queue="a"), running("old", 1, 2, queue="b")
    found = preview_of(*queues, *held, running("c", 3, queue="c"), queue("c"), new(1))
    assert side(found, "b").bar == Blocker.LOSER
    assert side(found, "b").loser == QueueComparison("b", has=2000, guarantee=2000, share=2000)
    assert (side(found, "c").rule, side(found, "c").may_lose) == (EvictionRule.GUARANTEE, 1000)


def test_equal_priorities_in_a_queue_do_not_preempt_each_other():
    found = preview_of(queue("a"), running("old", 0, 1, 2, 3, queue="a"), new(1))
    assert side(found, "a").bar == Blocker.RANK


def test_lower_priorities_of_the_own_queue_may_be_preempted():
    low = [running(f"low{at}", at, queue="a") for at in range(4)]
    found = preview_of(queue("a"), *low, new(2, priority=1))
    assert (side(found, "a").rule, side(found, "a").may_lose) == (EvictionRule.PRIORITY, 4000)


def test_work_that_is_not_preemptible_blocks_the_preemption():
    queues = queue("a", gpus=2), queue("b", gpus=2)
    firm = running("firm", 0, 1, 2, 3, queue="b", preemptible=False)
    assert side(preview_of(*queues, firm, new(1)), "b").bar == Blocker.FIRM


def test_work_below_its_minimum_run_time_is_protected_until_then():
    queues = queue("a", gpus=2), queue("b", gpus=2, min_run_s=2 * HOUR)
    old = [running(f"old{at}", at, queue="b") for at in range(4)]
    found = side(preview_of(*queues, *old, new(1)), "b")
    assert (found.bar, found.until) == (Blocker.PROTECTED, 2 * HOUR)


@pytest.mark.parametrize(("way", "name"), [(Displacing.RECLAIM, "b"), (Displacing.PREEMPT, "a")])
def test_kinds_of_preemption_that_the_settings_forbid_are_blocked(way: Displacing, name: str):
    ways = tuple(each for each in Displacing if each != way)
    things = queue("a"), queue("b"), running("x", 0, queue="a"), running("y", 1, 2, 3, queue="b")
    found = preview_of(*things, new(1, priority=1), settings=replace(QUIET, displacing=ways))
    assert side(found, name).bar == Blocker.OFF


def test_queues_are_compared_below_the_lowest_common_ancestor():
    tree = queue("lab"), queue("a", "lab"), queue("x", "lab"), queue("shop"), queue("b", "shop")
    held = running("lab-job", 0, 1, queue="x"), running("shop-job", 2, 3, queue="b")
    found = preview_of(*tree, *held, new(1))
    assert side(found, "b").bar == Blocker.GAINER
    assert side(found, "b").gainer == QueueComparison("lab", has=3000, guarantee=0, share=2000)
    assert (side(found, "x").rule, side(found, "x").may_lose) == (EvictionRule.SHARE, 2000)


def test_below_a_full_queue_only_its_own_branch_counts():
    tree = queue("lab", limit_gpus=2), queue("a", "lab"), queue("x", "lab"), queue("b")
    held = running("lab-job", 0, 1, queue="x"), running("other", 2, 3, queue="b")
    found = preview_of(*tree, *held, new(1))
    assert found.full == "lab"
    assert [each.queue for each in found.sides] == ["x"]


def test_a_gang_that_may_not_borrow_sees_what_it_could_reclaim():
    tree = queue("owner", gpus=2, lend_gpus=0), queue("a"), queue("b")
    found = preview_of(*tree, running("one", 0, queue="b"), running("two", 1, queue="b"), new(1))
    assert (found.lent, found.free, found.may_take) == (False, 2000, 1000)
    assert [way.rule for way in found.ways] == [EvictionRule.SHARE]


def test_a_gang_that_may_not_preempt_yet_sees_its_later_victims():
    low = running("low", 0, 1, 2, 3, queue="a")
    found = preview_of(queue("a"), low, new(1, priority=1, displaces_after_s=60))
    assert found.ready_at == HOUR + 60
    assert [(way.gang, way.rule, way.tasks) for way in found.ways] == [
        ("low", EvictionRule.PRIORITY, 4)
    ]
    assert preview_of(queue("a"), low, new(1, priority=1, displaces_after_s=None)).ready_at is None


def test_a_preemption_far_larger_than_the_need_waits_until_a_stated_time():
    big = running("big", 0, 1, 2, 3, queue="b")
    found = preview_of(queue("a", gpus=1), queue("b"), big, new(1, created_at=HOUR - 60))
    assert (found.patient_until, found.ways) == (HOUR - 60 + QUIET.patience_s, ())


def test_moves_that_cost_more_than_the_wait_are_too_expensive():
    others = [job(name, 1, ask(gpus=2), queue="a") for name in ("one", "two")]
    one = others[0].runs(0, on="n", devices=[0, 1])
    two = others[1].runs(0, on="m", devices=[0, 1])
    large = job("new", 1, ask(gpus=4), queue="a", created_at=HOUR - 10)
    found = preview_of(queue("a"), node("m", gpus=4), one, two, large)
    assert (found.too_dear, found.ways) == (True, ())


def test_a_gang_that_lacks_something_else_than_room_has_no_preview():
    lacking = new(2)
    absent = cluster(node("n", gpus=1), queue("a"), Job(lacking.gang, lacking.tasks[:1]))
    assert preview_preemption(absent, GangId("new")) is None
    assert preview_preemption(cluster(node("n", gpus=1), queue("b"), new(1)), GangId("new")) is None


def test_the_preview_agrees_with_the_search_and_leaves_the_cluster_unchanged():
    simulation = Simulation(generate(5, nodes=8))
    for hour in (10, 15, 17):
        simulation.run(until=hour * HOUR)
        seen, found = simulation.cluster, plan(simulation.cluster)
        before = seen.snapshot()
        held = {hold.gang for hold in found.holds if hold.firm}
        waits = [each.gang for each in found.decisions if each.verdict == Verdict.WAITS]
        answers = [preview_preemption(seen, gang) for gang in waits if gang not in held]
        assert any(answers)
        assert not any(each.ways for each in answers if each and not found.searched)
        assert seen.snapshot() == before
