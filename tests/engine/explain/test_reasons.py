"""Every waiting gang has reasons, with numbers that can be checked."""

import pytest

from tests.given import RACKS, ask, job, node, pods, queue, rack, schedule, within
from windlass.engine.plan import Verdict
from windlass.model.constraints import HOSTNAME, Constraints, Taint
from windlass.model.reasons import SENTENCES, Reason, ReasonCode


def holding(name, devices, **fields):
    running = job(name, len(devices), ask(gpus=1), **fields)
    for index, device in enumerate(devices):
        running = running.runs(index, on="n1", devices=[device])
    return running


def test_a_gang_without_all_its_tasks_says_how_many_exist():
    whole = job("a", 3, ask(gpus=1))
    outcome = schedule(node("n1", gpus=4), type(whole)(whole.gang, whole.tasks[:2]))
    assert outcome.verdict("a") == Verdict.WAITS
    assert outcome.reason("a", ReasonCode.INCOMPLETE).values == {"seen": 2, "needed": 3}


@pytest.mark.parametrize("name", ["nowhere", "dept"])
def test_a_gang_must_name_a_leaf_queue(name):
    tree = queue("dept"), queue("team", "dept")
    outcome = schedule(node("n1"), *tree, job("a", queue=name))
    assert outcome.nothing_of("a")
    assert outcome.reason("a", ReasonCode.UNKNOWN_QUEUE).values == {"queue": name}


def test_anti_affinity_is_a_reason_with_the_number_of_nodes():
    apart = Constraints(apart=(pods("web", per=HOSTNAME),))
    old = job("old", labels={"app": "web"}).runs(0, on="n1")
    full = job("full", 1, ask(gpus=1)).runs(0, on="n2", devices=[0])
    there = node("n1", gpus=1), node("n2", gpus=1)
    outcome = schedule(*there, old, full, job("a", 1, ask(gpus=1), constraints=apart))
    assert outcome.reason("a", ReasonCode.NO_ROOM).values["room"] == 0
    told = [str(each) for each in outcome.decision("a").reasons[1:]]
    assert told == [
        "1 node: too little GPU free",
        "1 node: other tasks keep it away, or those that it seeks are not there",
    ]


def test_a_gang_above_the_limit_of_its_queue_can_never_run():
    outcome = schedule(node("n1", gpus=8), queue("team", limit_gpus=2), job("a", 3, ask(gpus=1)))
    assert outcome.verdict("a") == Verdict.NEVER
    assert str(outcome.reason("a", ReasonCode.NEVER_LIMIT)) == (
        "it needs 3 GPUs and queue team may never have more than 2"
    )


def test_a_gang_above_the_limit_of_its_department_can_never_run():
    tree = queue("dept", limit_gpus=2), queue("team", "dept")
    outcome = schedule(node("n1", gpus=8), *tree, job("a", 3, ask(gpus=1)))
    assert outcome.reason("a", ReasonCode.NEVER_LIMIT).values["queue"] == "dept"


def test_work_that_cannot_be_preempted_never_outgrows_the_guarantee():
    firm = job("a", 3, ask(gpus=1), preemptible=False)
    outcome = schedule(node("n1", gpus=8), queue("team", gpus=2), firm)
    assert outcome.verdict("a") == Verdict.NEVER
    values = outcome.reason("a", ReasonCode.NEVER_GUARANTEE).values
    assert (values["need"], values["guarantee"]) == ("3", "2")


def test_a_task_larger_than_every_node_can_never_run():
    outcome = schedule(node("n1", gpus=4), node("n2", gpus=4), job("a", 1, ask(gpus=8)))
    assert outcome.verdict("a") == Verdict.NEVER
    assert outcome.whys("a") >= {ReasonCode.NEVER_NODE}


def test_a_gang_larger_than_the_empty_cluster_can_never_run():
    outcome = schedule(node("n1", gpus=3), node("n2", gpus=3), job("a", 4, ask(gpus=2)))
    assert outcome.verdict("a") == Verdict.NEVER
    values = outcome.reason("a", ReasonCode.NEVER_ROOM).values
    assert (values["need"], values["room"]) == (4, 2)


def test_a_gang_larger_than_every_rack_can_never_run_in_one():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=3)
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=within("rack")))
    assert outcome.verdict("a") == Verdict.NEVER
    values = outcome.reason("a", ReasonCode.NEVER_DOMAIN).values
    assert (values["need"], values["level"], values["room"]) == (4, "rack", 3)


def test_a_full_cluster_is_a_reason_to_wait_and_not_a_never():
    outcome = schedule(node("n1", gpus=2), holding("old", [0]), job("a", 2, ask(gpus=1)))
    assert outcome.verdict("a") == Verdict.WAITS
    values = outcome.reason("a", ReasonCode.NO_ROOM).values
    assert (values["need"], values["room"]) == (2, 1)


def test_a_queue_at_its_limit_says_what_it_holds():
    limited = queue("team", limit_gpus=2)
    outcome = schedule(node("n1", gpus=4), limited, holding("old", [0, 1]), job("a", 1, ask(1)))
    assert outcome.verdict("a") == Verdict.WAITS
    values = outcome.reason("a", ReasonCode.AT_LIMIT).values
    assert (values["held"], values["limit"], values["need"]) == ("2", "2", "1")


def test_a_guarantee_in_use_says_how_much_of_it():
    firm = holding("old", [0], preemptible=False)
    newcomer = job("a", 1, ask(gpus=1), preemptible=False)
    outcome = schedule(node("n1", gpus=4), queue("team", gpus=1), firm, newcomer)
    assert outcome.verdict("a") == Verdict.WAITS
    assert outcome.whys("a") == {ReasonCode.BEYOND_GUARANTEE}


def test_a_full_rack_says_how_much_the_best_one_has():
    nodes = rack("r1", "n1", gpus=3) + rack("r2", "n2", gpus=2)
    asked = job("a", 3, ask(gpus=1), domain=within("rack"))
    outcome = schedule(RACKS, *nodes, holding("old", [0]), asked)
    assert outcome.verdict("a") == Verdict.WAITS
    values = outcome.reason("a", ReasonCode.NO_DOMAIN).values
    assert (values["need"], values["level"], values["room"]) == (3, "rack", 2)


def test_refusing_nodes_are_counted_by_cause():
    nodes = node("n1", gpus=1, cordoned=True), node("n2", gpus=1, taints=(Taint("gpu"),))
    outcome = schedule(
        *nodes,
        node("n3", gpus=1),
        holding("old", [0]).runs(0, on="n3", devices=[0]),
        job("a", 1, ask(gpus=1)),
    )
    counted = [each for each in outcome.decision("a").reasons if each.why == ReasonCode.REFUSED_BY]
    assert sum(int(each.values["nodes"]) for each in counted) == 3


def test_a_selector_that_no_node_satisfies_is_a_never():
    picky = Constraints(selector=(("disk", "ssd"),))
    outcome = schedule(node("n1"), job("a", constraints=picky))
    assert outcome.nothing_of("a")
    assert outcome.whys("a") >= {ReasonCode.NEVER_NODE}


def test_waiting_gangs_have_a_position():
    jobs = [job(f"j{i}", 1, ask(gpus=1), created_at=i) for i in range(3)]
    outcome = schedule(node("n1", gpus=1), *jobs)
    assert [outcome.decision(f"j{i}").position for i in range(3)] == [0, 1, 2]


def test_gangs_that_start_need_no_reason():
    decision = schedule(node("n1"), job("a")).decision("a")
    assert (decision.verdict, decision.reasons, decision.position) == (Verdict.PLACED, (), 0)


def test_an_empty_cluster_has_no_node_for_anything():
    outcome = schedule(job("a", 1, ask(gpus=1)))
    assert outcome.whys("a") >= {ReasonCode.NEVER_NODE}


def test_every_kind_of_reason_has_a_sentence():
    assert set(SENTENCES) == set(ReasonCode)


@pytest.mark.parametrize("why", ReasonCode)
def test_every_sentence_names_what_it_needs(why):
    class Anything(dict):
        def __missing__(self, key):
            return f"<{key}>"

    sentence = str(Reason(why, Anything()))
    assert sentence[0].islower() or sentence[0] == "<"
    assert not sentence.endswith(".")
