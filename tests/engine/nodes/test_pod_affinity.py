"""Where a task may run and where it would rather: taints, labels, neighbours, even spread."""

from dataclasses import replace

import pytest

from tests.given import GIB, ask, group, grouped, job, node, pods, rack, schedule, where
from windlass.model.constraints import (
    CORDON,
    HOSTNAME,
    Constraints,
    Effect,
    Operator,
    PodPreference,
    PodTerm,
    Preference,
    Spread,
    Taint,
    Toleration,
)
from windlass.model.jobs import Shape, TaskState
from windlass.model.nodes import Node

WEB = {"app": "web"}
EVEN = Constraints(spread=(Spread("zone", 1, where("app", "web")),))
HERE, THERE = node("here", labels={"zone": "a"}), node("there", labels={"zone": "b"})


# --- taints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [Effect.NO_SCHEDULE, Effect.NO_EXECUTE])
def test_a_taint_keeps_away_tasks_that_do_not_tolerate_it(effect):
    tainted = node("n1", taints=(Taint("gpu", "yes", effect),))
    assert schedule(tainted, job("a")).nothing_of("a")


def test_a_soft_taint_keeps_away_nobody_who_has_no_other_place():
    tainted = node("n1", taints=(Taint("gpu", "yes", Effect.PREFER_NO_SCHEDULE),))
    assert schedule(tainted, job("a")).places == {"a-0": "n1"}


def test_a_soft_taint_is_avoided_where_there_is_another_place():
    tainted = node("n1", taints=(Taint("gpu", "yes", Effect.PREFER_NO_SCHEDULE),))
    assert schedule(tainted, node("n2"), job("a")).places == {"a-0": "n2"}


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("gpu", "yes"),
        Toleration("gpu", exists=True),
        Toleration("gpu", "yes", effect=Effect.NO_SCHEDULE),
        Toleration(exists=True),
    ],
    ids=["equal", "key exists", "this effect", "everything"],
)
def test_a_toleration_opens_a_tainted_node(toleration):
    tolerant = Constraints(tolerations=(toleration,))
    tainted = node("n1", taints=(Taint("gpu", "yes"),))
    assert schedule(tainted, job("a", constraints=tolerant)).started("a") == 1


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("gpu", "no"),
        Toleration("cpu", exists=True),
        Toleration("gpu", "yes", effect=Effect.NO_EXECUTE),
    ],
    ids=["other value", "other key", "other effect"],
)
def test_a_toleration_of_something_else_opens_nothing(toleration):
    tolerant = Constraints(tolerations=(toleration,))
    tainted = node("n1", taints=(Taint("gpu", "yes"),))
    assert schedule(tainted, job("a", constraints=tolerant)).nothing_of("a")


def test_every_taint_of_a_node_must_be_tolerated():
    tolerant = Constraints(tolerations=(Toleration("gpu", exists=True),))
    tainted = node("n1", taints=(Taint("gpu"), Taint("down")))
    assert schedule(tainted, job("a", constraints=tolerant)).nothing_of("a")


# --- labels ---------------------------------------------------------------------------------------


def test_a_selector_needs_every_label_it_names():
    picky = Constraints(selector=(("disk", "ssd"), ("pool", "1")))
    half = node("n1", labels={"disk": "ssd"})
    whole = node("n2", labels={"disk": "ssd", "pool": "1"})
    assert schedule(half, whole, job("a", constraints=picky)).places == {"a-0": "n2"}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (where("pool", "1", "2"), True),
        (where("pool", "3"), False),
        (where("pool", "3", operator=Operator.NOT_IN), True),
        (where("none", "3", operator=Operator.NOT_IN), True),
        (where("pool", operator=Operator.EXISTS), True),
        (where("none", operator=Operator.EXISTS), False),
        (where("none", operator=Operator.DOES_NOT_EXIST), True),
        (where("pool", operator=Operator.DOES_NOT_EXIST), False),
        (where("pool", "0", operator=Operator.GT), True),
        (where("pool", "1", operator=Operator.GT), False),
        (where("pool", "2", operator=Operator.LT), True),
        (where("none", "2", operator=Operator.LT), False),
    ],
)
def test_affinity_compares_labels(term, expected):
    picky = Constraints(affinity=(term,))
    outcome = schedule(node("n1", labels={"pool": "1"}), job("a", constraints=picky))
    assert outcome.started("a") == expected


def test_one_affinity_term_is_enough_but_all_its_expressions_must_hold():
    both = where("zone", "a") + where("pool", "2")
    picky = Constraints(affinity=(both, where("zone", "b")))
    outcome = schedule(HERE, THERE, job("a", constraints=picky))
    assert outcome.places == {"a-0": "there"}


def test_a_preference_decides_between_nodes_that_fit():
    wish = Constraints(preferences=(Preference(100, where("zone", "b")),))
    assert schedule(HERE, THERE, job("a", constraints=wish)).places == {"a-0": "there"}


def test_a_preference_forbids_nothing():
    wish = Constraints(preferences=(Preference(100, where("zone", "b")),))
    assert schedule(HERE, job("a", constraints=wish)).places == {"a-0": "here"}


def test_the_heavier_preference_wins():
    wish = Constraints(
        preferences=(Preference(10, where("zone", "a")), Preference(90, where("zone", "b")))
    )
    assert schedule(HERE, THERE, job("a", constraints=wish)).places == {"a-0": "there"}


# --- neighbours -----------------------------------------------------------------------------------


def test_a_task_that_wants_to_be_near_another_joins_it():
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    near = Constraints(near=(pods("db", per="zone"),))
    assert schedule(HERE, THERE, db, job("a", constraints=near)).places == {"a-0": "there"}


def test_a_task_that_wants_to_be_near_nobody_there_waits():
    near = Constraints(near=(pods("db", per="zone"),))
    assert schedule(HERE, job("a", constraints=near)).nothing_of("a")


def test_the_first_of_its_kind_need_not_wait_for_itself():
    near = Constraints(near=(pods("web", per="zone"),))
    outcome = schedule(HERE, THERE, job("a", 3, ask(cpu=1), labels=WEB, constraints=near))
    assert len(set(outcome.places.values())) == 1
    assert outcome.started("a") == 3


def test_the_next_of_its_kind_joins_the_first():
    first = job("old", labels=WEB).runs(0, on="there")
    near = Constraints(near=(pods("web", per="zone"),))
    late = job("a", labels=WEB, constraints=near)
    assert schedule(HERE, THERE, first, late).places == {"a-0": "there"}


def test_workers_that_seek_the_server_of_their_gang_come_after_it_however_large_they_are():
    near = Constraints(near=(pods("server", per="zone"),))
    server = group("server", 1, ask(cpu=1), labels=(("app", "server"),))
    workers = group("workers", 2, ask(2, cpu=8), constraints=near)
    nodes = (node("n1", 4, labels={"zone": "a"}), node("n2", labels={"zone": "b"}, cpu_milli=0))
    for parts in ((server, workers), (workers, server)):
        outcome = schedule(*nodes, grouped("a", *parts))
        assert outcome.started("a") == 3
        assert set(outcome.places.values()) == {"n1"}


def test_a_server_goes_where_there_is_room_for_the_workers_that_seek_it():
    near = Constraints(near=(pods("server", per="zone"),))
    server = group("server", 1, ask(cpu=1), labels=(("app", "server"),))
    workers = group("workers", 2, ask(2, cpu=8), constraints=near)
    tempting = node("n2", labels={"zone": "b"}, cpu_milli=1)
    wide = [node(f"n{at}", 2, labels={"zone": "a"}) for at in (3, 4)]
    outcome = schedule(tempting, *wide, grouped("a", server, workers))
    assert outcome.started("a") == 3
    assert "n2" not in outcome.places.values()


def test_servers_apart_leave_the_last_free_gpu_of_a_node_and_go_where_their_workers_fit():
    near = Constraints(near=(pods("server"),), apart=(pods("worker"),))
    alone = Constraints(apart=(pods("server"),))
    server = group("server", 2, ask(1), constraints=alone, labels=(("app", "server"),))
    worker = group("worker", 2, ask(7), constraints=near, labels=(("app", "worker"),))
    fill = job("fill", 1, ask(7)).runs(0, on="n1", devices=range(7))
    nodes = [node(name, 8) for name in ("n1", "n2", "n3")]
    outcome = schedule(*nodes, fill, grouped("a", server, worker))
    assert outcome.started("a") == 4
    assert "n1" not in outcome.places.values()


def test_members_of_one_group_that_seek_each_other_are_placed_in_their_turn():
    near = Constraints(near=(pods("web", per="zone"),))
    crew = job("a", 2, ask(1))
    first = Shape(ask(2), near)
    crew = crew.become(0, shape=first).become(1, labels=tuple(WEB.items()))
    outcome = schedule(node("n1", 4, labels={"zone": "a"}), crew)
    assert outcome.places == {"a-0": "n1", "a-1": "n1"}


def test_who_seeks_nobody_of_its_gang_still_keeps_all_of_it_waiting():
    near = Constraints(near=(pods("db", per="zone"),))
    server, workers = group("server", 1), group("workers", 2, constraints=near)
    assert schedule(HERE, THERE, grouped("a", workers, server)).nothing_of("a")


def test_a_node_without_the_label_is_near_nothing():
    near = Constraints(near=(pods("web", per="zone"),))
    assert schedule(node("n1"), job("a", labels=WEB, constraints=near)).nothing_of("a")


def test_a_task_stays_apart_from_those_it_names():
    db = job("db", labels={"app": "db"}).runs(0, on="here")
    apart = Constraints(apart=(pods("db"),))
    assert schedule(HERE, THERE, db, job("a", constraints=apart)).places == {"a-0": "there"}


def test_a_running_task_that_wants_to_be_apart_keeps_newcomers_away():
    loner = job("old", constraints=Constraints(apart=(pods("web", per="zone"),)))
    outcome = schedule(HERE, loner.runs(0, on="here"), job("a", labels=WEB))
    assert outcome.nothing_of("a")


def test_members_of_one_gang_keep_apart_from_each_other():
    apart = Constraints(apart=(pods("web"),))
    trio = job("a", 3, ask(cpu=1), labels=WEB, constraints=apart)
    assert schedule(HERE, THERE, trio).nothing_of("a")
    outcome = schedule(HERE, THERE, node("more"), trio)
    assert sorted(outcome.places.values()) == ["here", "more", "there"]


def test_gangs_of_one_cycle_keep_apart_from_each_other():
    loner = Constraints(apart=(pods("web"),))
    first = job("a", created_at=1, constraints=loner)
    outcome = schedule(HERE, first, job("b", created_at=2, labels=WEB))
    assert outcome.places == {"a-0": "here"}


def test_neighbours_are_sought_in_the_own_namespace():
    db = job("db", labels={"app": "db"}, namespace="other").runs(0, on="here")
    own, named, all_ = (
        Constraints(apart=(pods("db", namespaces=names),)) for names in ((), ("other",), ("*",))
    )
    assert schedule(HERE, db, job("a", constraints=own)).started("a") == 1
    assert schedule(HERE, db, job("a", constraints=named)).nothing_of("a")
    assert schedule(HERE, db, job("a", constraints=all_)).nothing_of("a")


def test_a_waiting_task_repels_nobody():
    loner = Constraints(apart=(pods("web"),), selector=(("zone", "nowhere"),))
    outcome = schedule(HERE, job("old", constraints=loner), job("a", labels=WEB))
    assert outcome.started("a") == 1


@pytest.mark.parametrize(("weight", "place"), [(100, "there"), (-100, "here")])
def test_a_wish_about_neighbours_decides_between_nodes_that_fit(weight, place):
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    wish = Constraints(pod_preferences=(PodPreference(weight, pods("db")),))
    assert schedule(HERE, THERE, db, job("a", constraints=wish)).places == {"a-0": place}


# --- even spread ----------------------------------------------------------------------------------


def test_spread_goes_to_the_emptier_domain():
    old = job("old", labels=WEB).runs(0, on="here")
    outcome = schedule(HERE, THERE, old, job("a", labels=WEB, constraints=EVEN))
    assert outcome.places == {"a-0": "there"}


def test_spread_refuses_a_domain_that_is_ahead_already():
    old = job("old", labels=WEB).runs(0, on="here")
    full = node("there", labels={"zone": "b"}, cordoned=False, cpu_milli=0)
    web = job("a", 1, ask(cpu=1), labels=WEB, constraints=EVEN)
    assert schedule(HERE, full, old, web).nothing_of("a")


def test_a_wider_skew_allows_more_in_one_domain():
    old = job("old", labels=WEB).runs(0, on="here")
    full = node("there", labels={"zone": "b"}, cpu_milli=0)
    loose = Constraints(spread=(Spread("zone", 2, where("app", "web")),))
    web = job("a", 1, ask(cpu=1), labels=WEB, constraints=loose)
    assert schedule(HERE, full, old, web).places == {"a-0": "here"}


def test_a_gang_spreads_evenly_over_domains():
    web = job("a", 4, ask(cpu=1), labels=WEB, constraints=EVEN)
    places = list(schedule(HERE, THERE, web).places.values())
    assert places.count("here") == places.count("there") == 2


def test_spread_does_not_count_domains_the_task_may_not_use():
    old = job("old", labels=WEB).runs(0, on="here")
    tied = Constraints(spread=EVEN.spread, selector=(("zone", "a"),))
    outcome = schedule(HERE, THERE, old, job("a", labels=WEB, constraints=tied))
    assert outcome.places == {"a-0": "here"}


def test_spread_counts_tainted_nodes_unless_it_heeds_taints():
    old = job("old", labels=WEB).runs(0, on="here")
    shut = node("there", labels={"zone": "b"}, taints=(Taint("gpu"),))
    even = EVEN.spread[0]
    assert schedule(HERE, shut, old, job("a", labels=WEB, constraints=EVEN)).nothing_of("a")
    heedful = Constraints(spread=(replace(even, heeds_taints=True),))
    assert schedule(HERE, shut, old, job("a", labels=WEB, constraints=heedful)).started("a") == 1


def test_spread_counts_nodes_outside_the_selector_only_if_it_does_not_heed_it():
    old = job("old", labels=WEB).runs(0, on="here")
    heedless = replace(EVEN.spread[0], heeds_affinity=False)
    tied = Constraints(spread=(heedless,), selector=(("zone", "a"),))
    assert schedule(HERE, THERE, old, job("a", labels=WEB, constraints=tied)).nothing_of("a")


def test_spread_counts_no_tasks_on_nodes_that_do_not_count():
    old = job("old", labels=WEB).runs(0, on="other")
    other = node("other", labels={"zone": "a", "disk": "hdd"})
    tied = Constraints(spread=EVEN.spread, selector=(("disk", "ssd"),))
    ssd = [node(n, labels={"zone": z, "disk": "ssd"}) for n, z in (("n1", "a"), ("n2", "b"))]
    full = job("full").runs(0, on="n2")
    nodes = ssd[0], replace(ssd[1], pods=1), other
    found = schedule(*nodes, old, full, job("a", labels=WEB, constraints=tied))
    assert found.places == {"a-0": "n1"}


def test_spread_over_too_few_domains_takes_the_emptiest_as_empty():
    old = job("old", labels=WEB).runs(0, on="here")
    wide = Constraints(spread=(replace(EVEN.spread[0], min_domains=2),))
    assert schedule(HERE, old, job("a", labels=WEB, constraints=EVEN)).started("a") == 1
    assert schedule(HERE, old, job("a", labels=WEB, constraints=wide)).nothing_of("a")


def test_spread_does_not_count_what_is_on_its_way_out():
    old = job("old", labels=WEB).runs(0, on="here").become(0, state=TaskState.RELEASING)
    full = node("there", labels={"zone": "b"}, cpu_milli=0)
    web = job("a", 1, ask(cpu=1), labels=WEB, constraints=EVEN)
    assert schedule(HERE, full, old, web).places == {"a-0": "here"}


def test_a_node_must_have_the_labels_of_all_spreads_to_count_for_one():
    rack = Spread("rack", 1, where("app", "web"))
    both = Constraints(spread=(*EVEN.spread, rack))
    old = job("old", labels=WEB).runs(0, on="n1")
    n1 = node("n1", labels={"zone": "a", "rack": "r"})
    found = schedule(n1, THERE, old, job("a", labels=WEB, constraints=both))
    assert found.places == {"a-0": "n1"}  # zone b has no rack, so nobody could be there


def test_a_wished_spread_forbids_nothing():
    old = job("old", labels=WEB).runs(0, on="here")
    wish = Constraints(spread=(Spread("zone", 1, where("app", "web"), required=False),))
    assert schedule(HERE, old, job("a", labels=WEB, constraints=wish)).started("a") == 1
    both = schedule(HERE, THERE, old, job("a", labels=WEB, constraints=wish))
    assert both.places == {"a-0": "there"}


def test_a_node_without_the_label_takes_no_part_in_a_required_spread():
    assert schedule(node("n1"), job("a", labels=WEB, constraints=EVEN)).nothing_of("a")


def test_constraints_and_size_must_hold_on_the_same_node():
    picky = Constraints(selector=(("rack", "r1"),))
    nodes = rack("r1", "n1", gpus=1) + rack("r2", "n2", gpus=8)
    big = job("a", 1, ask(gpus=2, memory=GIB), constraints=picky)
    assert schedule(*nodes, big).nothing_of("a")


def test_every_node_is_a_domain_of_its_own_even_without_the_label():
    pair = job("a", 2, labels=WEB, constraints=Constraints(apart=(pods("web", per=HOSTNAME),)))
    assert schedule(Node("n1"), Node("n2"), pair).started("a") == 2
    assert schedule(Node("n1"), pair).nothing_of("a")


def test_a_node_that_is_both_full_and_forbidden_is_never_chosen():
    loner = job("old", 1, ask(gpus=1), labels=WEB).runs(0, on="n1", devices=[0])
    apart = Constraints(apart=(pods("web"),))
    assert schedule(node("n1", gpus=1), loner, job("a", 1, ask(1), constraints=apart)).places == {}


def test_a_gang_that_others_keep_away_does_not_stand_for_gangs_of_equal_size():
    loner = job("old", constraints=Constraints(apart=(pods("web"),))).runs(0, on="here")
    web = job("a", 1, ask(cpu=1), labels=WEB, created_at=1)
    plain = job("b", 1, ask(cpu=1), created_at=2)
    assert schedule(HERE, loner, web, plain).places == {"b-0": "here"}


def test_who_seeks_several_kinds_seeks_one_task_that_is_all_of_them():
    web, db = where("app", "web"), where("tier", "db")
    both = Constraints(near=(PodTerm(web, "zone"), PodTerm(db, "zone")))
    apart = job("w", labels=WEB).runs(0, on="here"), job("d", labels={"tier": "db"})
    assert schedule(
        HERE, apart[0], apart[1].runs(0, on="here"), job("a", constraints=both)
    ).nothing_of("a")
    one = job("w", labels=WEB | {"tier": "db"}).runs(0, on="there")
    assert schedule(HERE, THERE, one, job("a", constraints=both)).places == {"a-0": "there"}


def test_a_cordon_keeps_away_all_but_those_who_tolerate_it():
    shut = node("n1", cordoned=True, taints=(CORDON,))
    tolerant = Constraints(tolerations=(Toleration(exists=True),))
    assert schedule(shut, job("a")).nothing_of("a")
    assert schedule(shut, job("a", constraints=tolerant)).started("a") == 1
    unwell = node("n1", cordoned=True)  # for another reason, such as not being ready
    assert schedule(unwell, job("a", constraints=tolerant)).nothing_of("a")


def test_neighbours_of_several_kinds_are_told_apart():
    web = job("web", labels=WEB).runs(0, on="here")
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    picky = Constraints(near=(pods("web", per="zone"),), apart=(pods("db", per="zone"),))
    assert schedule(HERE, THERE, web, db, job("a", constraints=picky)).places == {"a-0": "here"}


def test_spread_counts_a_newcomer_only_if_it_is_of_the_kind_it_counts():
    old = job("old", labels=WEB).runs(0, on="here")
    full = node("there", labels={"zone": "b"}, cpu_milli=0)
    other = job("a", 1, ask(cpu=1), labels={"app": "db"}, constraints=EVEN)
    assert schedule(HERE, full, old, other).places == {"a-0": "here"}


def test_a_wished_spread_never_opens_a_node_that_refuses():
    old = job("old", labels=WEB).runs(0, on="here")
    wish = Constraints(spread=(Spread("zone", 1, where("app", "web"), required=False),))
    full, shut = node("here", labels={"zone": "a"}, pods=1), node("n1", cordoned=True)
    assert schedule(full, shut, old, job("a", labels=WEB, constraints=wish)).places == {}


def test_a_wished_spread_prefers_a_domain_to_a_node_in_none():
    old = job("old", labels=WEB).runs(0, on="here")
    wish = Constraints(spread=(Spread("zone", 1, where("app", "web"), required=False),))
    outcome = schedule(HERE, THERE, node("nowhere"), old, job("a", labels=WEB, constraints=wish))
    assert outcome.places == {"a-0": "there"}
