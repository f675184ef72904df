"""Constraints on nodes: taints, labels, pod affinity and topology spread."""

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


def test_a_soft_taint_does_not_exclude_the_only_node():
    tainted = node("n1", taints=(Taint("gpu", "yes", Effect.PREFER_NO_SCHEDULE),))
    assert schedule(tainted, job("a")).places == {"a-0": "n1"}


def test_a_soft_taint_is_avoided_if_another_node_fits():
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
def test_a_toleration_of_another_taint_does_not_help(toleration):
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


def test_a_preference_excludes_no_node():
    wish = Constraints(preferences=(Preference(100, where("zone", "b")),))
    assert schedule(HERE, job("a", constraints=wish)).places == {"a-0": "here"}


def test_the_heavier_preference_wins():
    wish = Constraints(
        preferences=(Preference(10, where("zone", "a")), Preference(90, where("zone", "b")))
    )
    assert schedule(HERE, THERE, job("a", constraints=wish)).places == {"a-0": "there"}


# --- pod affinity ---------------------------------------------------------------------------------


def test_required_pod_affinity_places_a_task_beside_its_match():
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    near = Constraints(near=(pods("db", per="zone"),))
    assert schedule(HERE, THERE, db, job("a", constraints=near)).places == {"a-0": "there"}


def test_a_task_without_a_match_of_its_pod_affinity_waits():
    near = Constraints(near=(pods("db", per="zone"),))
    assert schedule(HERE, job("a", constraints=near)).nothing_of("a")


def test_the_first_task_with_affinity_to_itself_may_go_anywhere():
    near = Constraints(near=(pods("web", per="zone"),))
    outcome = schedule(HERE, THERE, job("a", 3, ask(cpu=1), labels=WEB, constraints=near))
    assert len(set(outcome.places.values())) == 1
    assert outcome.started("a") == 3


def test_the_next_task_with_affinity_to_itself_joins_the_first():
    first = job("old", labels=WEB).runs(0, on="there")
    near = Constraints(near=(pods("web", per="zone"),))
    late = job("a", labels=WEB, constraints=near)
    assert schedule(HERE, THERE, first, late).places == {"a-0": "there"}


def test_affinity_targets_in_a_gang_are_placed_before_larger_dependents():
    near = Constraints(near=(pods("server", per="zone"),))
    server = group("server", 1, ask(cpu=1), labels=(("app", "server"),))
    workers = group("workers", 2, ask(2, cpu=8), constraints=near)
    nodes = (node("n1", 4, labels={"zone": "a"}), node("n2", labels={"zone": "b"}, cpu_milli=0))
    for parts in ((server, workers), (workers, server)):
        outcome = schedule(*nodes, grouped("a", *parts))
        assert outcome.started("a") == 3
        assert set(outcome.places.values()) == {"n1"}


def test_an_affinity_target_goes_where_its_dependents_fit():
    near = Constraints(near=(pods("server", per="zone"),))
    server = group("server", 1, ask(cpu=1), labels=(("app", "server"),))
    workers = group("workers", 2, ask(2, cpu=8), constraints=near)
    tempting = node("n2", labels={"zone": "b"}, cpu_milli=1)
    wide = [node(f"n{at}", 2, labels={"zone": "a"}) for at in (3, 4)]
    outcome = schedule(tempting, *wide, grouped("a", server, workers))
    assert outcome.started("a") == 3
    assert "n2" not in outcome.places.values()


def test_affinity_targets_with_anti_affinity_go_where_their_dependents_fit():
    near = Constraints(near=(pods("server"),), apart=(pods("worker"),))
    alone = Constraints(apart=(pods("server"),))
    server = group("server", 2, ask(1), constraints=alone, labels=(("app", "server"),))
    worker = group("worker", 2, ask(7), constraints=near, labels=(("app", "worker"),))
    fill = job("fill", 1, ask(7)).runs(0, on="n1", devices=range(7))
    nodes = [node(name, 8) for name in ("n1", "n2", "n3")]
    outcome = schedule(*nodes, fill, grouped("a", server, worker))
    assert outcome.started("a") == 4
    assert "n1" not in outcome.places.values()


def test_affinity_targets_are_placed_before_dependents_of_the_same_group():
    near = Constraints(near=(pods("web", per="zone"),))
    crew = job("a", 2, ask(1))
    first = Shape(ask(2), near)
    crew = crew.become(0, shape=first).become(1, labels=tuple(WEB.items()))
    outcome = schedule(node("n1", 4, labels={"zone": "a"}), crew)
    assert outcome.places == {"a-0": "n1", "a-1": "n1"}


def test_gang_waits_when_one_member_has_unsatisfied_pod_affinity():
    near = Constraints(near=(pods("db", per="zone"),))
    server, workers = group("server", 1), group("workers", 2, constraints=near)
    assert schedule(HERE, THERE, grouped("a", workers, server)).nothing_of("a")


def test_a_node_without_the_topology_label_satisfies_no_pod_affinity():
    near = Constraints(near=(pods("web", per="zone"),))
    assert schedule(node("n1"), job("a", labels=WEB, constraints=near)).nothing_of("a")


def test_anti_affinity_keeps_a_task_apart_from_its_matches():
    db = job("db", labels={"app": "db"}).runs(0, on="here")
    apart = Constraints(apart=(pods("db"),))
    assert schedule(HERE, THERE, db, job("a", constraints=apart)).places == {"a-0": "there"}


def test_anti_affinity_of_a_running_task_excludes_new_tasks():
    loner = job("old", constraints=Constraints(apart=(pods("web", per="zone"),)))
    outcome = schedule(HERE, loner.runs(0, on="here"), job("a", labels=WEB))
    assert outcome.nothing_of("a")


def test_anti_affinity_holds_between_members_of_one_gang():
    apart = Constraints(apart=(pods("web"),))
    trio = job("a", 3, ask(cpu=1), labels=WEB, constraints=apart)
    assert schedule(HERE, THERE, trio).nothing_of("a")
    outcome = schedule(HERE, THERE, node("more"), trio)
    assert sorted(outcome.places.values()) == ["here", "more", "there"]


def test_anti_affinity_holds_between_gangs_of_one_cycle():
    loner = Constraints(apart=(pods("web"),))
    first = job("a", created_at=1, constraints=loner)
    outcome = schedule(HERE, first, job("b", created_at=2, labels=WEB))
    assert outcome.places == {"a-0": "here"}


def test_pod_affinity_matches_only_the_own_namespace():
    db = job("db", labels={"app": "db"}, namespace="other").runs(0, on="here")
    own, named, all_ = (
        Constraints(apart=(pods("db", namespaces=names),)) for names in ((), ("other",), ("*",))
    )
    assert schedule(HERE, db, job("a", constraints=own)).started("a") == 1
    assert schedule(HERE, db, job("a", constraints=named)).nothing_of("a")
    assert schedule(HERE, db, job("a", constraints=all_)).nothing_of("a")


def test_anti_affinity_of_a_waiting_task_has_no_effect():
    loner = Constraints(apart=(pods("web"),), selector=(("zone", "nowhere"),))
    outcome = schedule(HERE, job("old", constraints=loner), job("a", labels=WEB))
    assert outcome.started("a") == 1


@pytest.mark.parametrize(("weight", "place"), [(100, "there"), (-100, "here")])
def test_preferred_pod_affinity_decides_between_nodes_that_fit(weight, place):
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    wish = Constraints(pod_preferences=(PodPreference(weight, pods("db")),))
    assert schedule(HERE, THERE, db, job("a", constraints=wish)).places == {"a-0": place}


# --- topology spread ------------------------------------------------------------------------------


def test_spread_goes_to_the_emptier_domain():
    old = job("old", labels=WEB).runs(0, on="here")
    outcome = schedule(HERE, THERE, old, job("a", labels=WEB, constraints=EVEN))
    assert outcome.places == {"a-0": "there"}


def test_spread_refuses_a_domain_beyond_the_maximum_skew():
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


def test_spread_counts_tainted_nodes_unless_node_taints_policy_is_honor():
    old = job("old", labels=WEB).runs(0, on="here")
    shut = node("there", labels={"zone": "b"}, taints=(Taint("gpu"),))
    even = EVEN.spread[0]
    assert schedule(HERE, shut, old, job("a", labels=WEB, constraints=EVEN)).nothing_of("a")
    heedful = Constraints(spread=(replace(even, heeds_taints=True),))
    assert schedule(HERE, shut, old, job("a", labels=WEB, constraints=heedful)).started("a") == 1


def test_spread_counts_nodes_outside_the_selector_only_if_node_affinity_policy_is_ignore():
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


def test_spread_with_fewer_domains_than_min_domains_takes_the_minimum_as_zero():
    old = job("old", labels=WEB).runs(0, on="here")
    wide = Constraints(spread=(replace(EVEN.spread[0], min_domains=2),))
    assert schedule(HERE, old, job("a", labels=WEB, constraints=EVEN)).started("a") == 1
    assert schedule(HERE, old, job("a", labels=WEB, constraints=wide)).nothing_of("a")


def test_spread_does_not_count_terminating_tasks():
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


def test_a_preferred_spread_excludes_no_node():
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


def test_a_gang_excluded_by_anti_affinity_does_not_make_gangs_of_equal_size_fail():
    loner = job("old", constraints=Constraints(apart=(pods("web"),))).runs(0, on="here")
    web = job("a", 1, ask(cpu=1), labels=WEB, created_at=1)
    plain = job("b", 1, ask(cpu=1), created_at=2)
    assert schedule(HERE, loner, web, plain).places == {"b-0": "here"}


def test_several_affinity_terms_must_be_matched_by_one_task():
    web, db = where("app", "web"), where("tier", "db")
    both = Constraints(near=(PodTerm(web, "zone"), PodTerm(db, "zone")))
    apart = job("w", labels=WEB).runs(0, on="here"), job("d", labels={"tier": "db"})
    assert schedule(
        HERE, apart[0], apart[1].runs(0, on="here"), job("a", constraints=both)
    ).nothing_of("a")
    one = job("w", labels=WEB | {"tier": "db"}).runs(0, on="there")
    assert schedule(HERE, THERE, one, job("a", constraints=both)).places == {"a-0": "there"}


def test_a_cordon_excludes_tasks_that_do_not_tolerate_it():
    shut = node("n1", cordoned=True, taints=(CORDON,))
    tolerant = Constraints(tolerations=(Toleration(exists=True),))
    assert schedule(shut, job("a")).nothing_of("a")
    assert schedule(shut, job("a", constraints=tolerant)).started("a") == 1
    unwell = node("n1", cordoned=True)  # for another reason, such as not being ready
    assert schedule(unwell, job("a", constraints=tolerant)).nothing_of("a")


def test_pod_affinity_distinguishes_labels():
    web = job("web", labels=WEB).runs(0, on="here")
    db = job("db", labels={"app": "db"}).runs(0, on="there")
    picky = Constraints(near=(pods("web", per="zone"),), apart=(pods("db", per="zone"),))
    assert schedule(HERE, THERE, web, db, job("a", constraints=picky)).places == {"a-0": "here"}


def test_spread_counts_the_new_task_only_if_it_matches_the_selector():
    old = job("old", labels=WEB).runs(0, on="here")
    full = node("there", labels={"zone": "b"}, cpu_milli=0)
    other = job("a", 1, ask(cpu=1), labels={"app": "db"}, constraints=EVEN)
    assert schedule(HERE, full, old, other).places == {"a-0": "here"}


def test_a_preferred_spread_never_admits_an_excluded_node():
    old = job("old", labels=WEB).runs(0, on="here")
    wish = Constraints(spread=(Spread("zone", 1, where("app", "web"), required=False),))
    full, shut = node("here", labels={"zone": "a"}, pods=1), node("n1", cordoned=True)
    assert schedule(full, shut, old, job("a", labels=WEB, constraints=wish)).places == {}


def test_a_preferred_spread_prefers_nodes_with_the_topology_label():
    old = job("old", labels=WEB).runs(0, on="here")
    wish = Constraints(spread=(Spread("zone", 1, where("app", "web"), required=False),))
    outcome = schedule(HERE, THERE, node("nowhere"), old, job("a", labels=WEB, constraints=wish))
    assert outcome.places == {"a-0": "there"}
