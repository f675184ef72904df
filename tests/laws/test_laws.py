"""What holds for every cluster: nothing overcommitted, gangs whole, limits kept, all explained."""

import pytest
from hypothesis import assume, given

from tests.given import outcome_of
from tests.laws.invariants import broken_laws, holdings
from tests.support.strategies import CONSTRAINED, recipes, running, snapshot_of, workload_of
from windlass.engine.cycle import plan
from windlass.engine.plan import Verdict
from windlass.model.gpu.resources import offered_milli
from windlass.model.jobs import TaskState
from windlass.model.queues import GPU, guaranteed
from windlass.sim.generate.week import generate
from windlass.sim.run import Simulation
from windlass.state.cluster import Cluster
from windlass_lab.oracle import fit

STARTS = {Verdict.PLACED, Verdict.GREW}


@given(recipes())
def test_a_plan_breaks_no_law(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    after = outcome.carried_out().snapshot()
    assert broken_laws(after, {each.task for each in outcome.plan.binds}) == []


@given(recipes(without=CONSTRAINED))
def test_a_plan_for_many_plain_gangs_breaks_no_law(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    after = outcome.carried_out().snapshot()
    assert broken_laws(after, {each.task for each in outcome.plan.binds}) == []


@given(recipes())
def test_every_bind_is_legal_in_its_turn(recipe):
    seen = snapshot_of(recipe)
    for bind in plan(Cluster.of(seen)).binds:
        task = next(each for each in seen.tasks if each.id == bind.task)
        node = next(each for each in seen.nodes if each.name == bind.node)
        ways = [sorted(each) for each in fit.choices(seen, node, task.shape.request.gpu)]
        assert fit.fits(seen, task, node)
        assert sorted(bind.devices) in ways
        seen = running(seen, task, bind.node, bind.devices)


@given(recipes())
def test_a_task_is_bound_once_and_only_if_it_waits(recipe):
    seen = snapshot_of(recipe)
    waiting = {each.id for each in seen.tasks if each.state == TaskState.WAITING}
    bound = [each.task for each in plan(Cluster.of(seen)).binds]
    assert len(bound) == len(set(bound))
    assert set(bound) <= waiting


@given(recipes())
def test_every_gang_with_waiting_tasks_gets_one_decision(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    decided = [each.gang for each in outcome.plan.decisions]
    assert len(decided) == len(set(decided))
    for gang in seen.gangs:
        there = [each for each in seen.tasks if each.gang == gang.id]
        runs = sum(each.state in {"Running", "Succeeded"} for each in there)
        if runs < gang.needed() and any(each.state == TaskState.WAITING for each in there):
            assert gang.id in decided


@given(recipes())
def test_a_decision_says_starts_exactly_if_something_starts(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    starting = {outcome.cluster.tasks[each.task].gang for each in outcome.plan.binds}
    assert {each.gang for each in outcome.plan.decisions if each.verdict in STARTS} == starting


@given(recipes())
def test_who_waits_is_told_why_and_where_it_stands(recipe):
    seen = snapshot_of(recipe)
    waiting = [each for each in plan(Cluster.of(seen)).decisions if each.verdict not in STARTS]
    assert all(each.reasons for each in waiting)
    assert all(str(reason) for each in waiting for reason in each.reasons)
    line = [each.position for each in waiting if each.verdict == Verdict.WAITS]
    assert sorted(line) == sorted(set(line))
    assert 0 not in line


@given(recipes(without=CONSTRAINED))
def test_replanning_a_carried_out_plan_starts_nothing_more(recipe):
    seen = snapshot_of(recipe)
    after = outcome_of(Cluster.of(seen)).carried_out()
    assert plan(after).actions == ()


@given(recipes())
def test_replanning_comes_to_rest_even_with_neighbours(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    for _ in seen.gangs:
        if outcome.plan.binds:
            outcome = outcome_of(outcome.carried_out())
    assert outcome.plan.binds == ()


@given(recipes(most_gangs=6))
def test_nobody_waits_for_nothing(recipe):
    seen = snapshot_of(recipe)
    outcome = outcome_of(Cluster.of(seen))
    assume(not outcome.plan.holds)
    after = outcome.carried_out().snapshot()
    for gang in after.gangs:
        tasks = [each for each in after.tasks if each.gang == gang.id]
        plain = len(tasks) == gang.needed() == 1 and not wishes(gang)
        bounded = any(q.limit or q.lend for q in after.queues) or not gang.preemptible
        if plain and not bounded and tasks[0].state == TaskState.WAITING:
            assert not any(fit.fits(after, tasks[0], node) for node in after.nodes)


@given(recipes())
def test_never_means_not_even_alone_in_an_empty_cluster(recipe):
    seen = snapshot_of(recipe)
    for decision in plan(Cluster.of(seen)).decisions:
        gang = next(each for each in seen.gangs if each.id == decision.gang)
        tasks = [each for each in seen.tasks if each.gang == gang.id]
        if decision.verdict == Verdict.NEVER and len(tasks) == 1 and not wishes(gang):
            alone = Alone(seen)
            room = any(fit.fits(alone, tasks[0], node) for node in seen.nodes)
            assert not room or any("queue" in each.values for each in decision.reasons)


def wishes(gang):
    """The domains that a gang or its groups ask for."""
    return [each for each in (gang.domain, *(g.domain for g in gang.groups)) if each]


class Alone:
    """The same cluster without any tasks."""

    def __init__(self, seen):
        self.nodes, self.gangs, self.tasks = seen.nodes, seen.gangs, ()


@given(recipes())
def test_shares_respect_guarantees_limits_and_the_parent(recipe):
    seen = snapshot_of(recipe)
    shares = plan(Cluster.of(seen)).shares
    for queue in seen.queues:
        share = shares[queue.name].get(GPU, 0)
        children = [each.name for each in seen.queues if each.parent == queue.name]
        assert share <= queue.limit.get(GPU, share)
        assert sum(shares[each].get(GPU, 0) for each in children) <= share


@given(recipes())
def test_top_shares_never_exceed_the_gpus_there_are(recipe):
    seen = snapshot_of(recipe)
    shares = plan(Cluster.of(seen)).shares
    there = sum(offered_milli(node) for node in seen.nodes if not node.cordoned)
    top = [each for each in seen.queues if not each.parent]
    assert sum(shares[each.name].get(GPU, 0) for each in top) <= there


@given(recipes())
def test_a_queue_within_its_guarantee_is_entitled_to_what_it_has(recipe):
    seen = snapshot_of(recipe)
    shares, held = plan(Cluster.of(seen)).shares, holdings(seen)
    there = 1000 * sum(gpu.healthy for n in seen.nodes if not n.cordoned for gpu in n.gpus)
    promised = sum(guaranteed(each, GPU) for each in seen.queues)
    for queue in seen.queues if promised <= there else ():
        least = min(held.get((queue.name, GPU), 0), guaranteed(queue, GPU))
        assert shares[queue.name].get(GPU, 0) >= min(least, queue.limit.get(GPU, least))


@given(recipes())
def test_the_next_wake_lies_in_the_future(recipe):
    seen = snapshot_of(recipe)
    wake_at = plan(Cluster.of(seen)).wake_at
    assert wake_at is None or wake_at > seen.now


# --- over time ------------------------------------------------------------------------------------


@given(recipes(most_gangs=20))
def test_no_law_is_broken_at_any_time(recipe):
    workload = workload_of(recipe)
    for moment in Simulation(workload).moments():
        bound = {each.task for each in moment.plan.binds}
        assert broken_laws(moment.cluster.snapshot(), bound) == []


@given(recipes(most_gangs=20))
def test_at_any_time_a_snapshot_gives_the_plan_of_the_living_cluster(recipe):
    workload = workload_of(recipe)
    for moment in Simulation(workload).moments():
        seen = moment.cluster.snapshot()
        assert plan(moment.cluster) == plan(Cluster.of(seen))
        assert moment.cluster.snapshot() == seen


@given(recipes(most_gangs=20))
def test_at_any_time_queues_are_charged_what_their_tasks_hold(recipe):
    workload = workload_of(recipe)
    for moment in Simulation(workload).moments():
        held = holdings(moment.cluster.snapshot())
        for queue in workload.queues:
            for dimension in (GPU, "gpu/T4", "cpu", "memory"):
                has = moment.cluster.allocated(queue.name, dimension)
                assert has == held.get((queue.name, dimension), 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_whole_day_breaks_no_law(seed):
    started = 0
    for moment in Simulation(generate(seed, hours=24, nodes=8)).moments():
        bound = {each.task for each in moment.plan.binds}
        started += len(bound)
        if bound:
            assert broken_laws(moment.cluster.snapshot(), bound) == []
    assert started > 100


def test_through_a_whole_day_a_snapshot_gives_the_plan_of_the_living_cluster():
    for number, moment in enumerate(Simulation(generate(3, hours=24, nodes=8)).moments()):
        if number % 20 == 0:
            assert plan(moment.cluster) == plan(Cluster.of(moment.cluster.snapshot()))
