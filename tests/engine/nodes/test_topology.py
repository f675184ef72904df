"""Topology: whole gangs inside one domain of a fast network."""

from tests.given import RACKS, ask, group, grouped, job, node, rack, schedule, within
from windlass.model.jobs import Domain
from windlass.model.nodes import Topology

IN_RACK, IN_ZONE = within("rack"), within("zone")
NEAR_RACK = within("rack", required=False)


def racks_of(outcome):
    return {outcome.cluster.nodes[name].labels["rack"] for name in outcome.places.values()}


def test_a_required_rack_keeps_the_whole_gang_in_one_rack():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", "n3", gpus=2)
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=IN_RACK))
    assert outcome.started("a") == 4
    assert racks_of(outcome) == {"r2"}


def test_a_required_rack_is_never_split_over_two():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=2)
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=IN_RACK))
    assert outcome.nothing_of("a")


def test_a_required_zone_may_span_racks_but_not_zones():
    nodes = rack("r1", "n1", gpus=2, zone="y") + rack("r2", "n2", gpus=2, zone="z")
    more = rack("r3", "n3", gpus=2, zone="z")
    outcome = schedule(RACKS, *nodes, *more, job("a", 4, ask(gpus=1), domain=IN_ZONE))
    assert sorted(set(outcome.places.values())) == ["n2", "n3"]


def test_racks_of_one_name_in_two_zones_are_two_racks():
    nodes = rack("r1", "n1", gpus=2, zone="y") + rack("r1", "n2", gpus=2, zone="z")
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=IN_RACK))
    assert outcome.nothing_of("a")


def test_a_node_without_the_labels_is_in_no_domain():
    outcome = schedule(RACKS, node("n1", gpus=4), job("a", 1, ask(gpus=1), domain=IN_RACK))
    assert outcome.nothing_of("a")


def test_the_tightest_rack_that_fits_is_taken_so_that_large_gangs_still_fit():
    nodes = rack("r1", "n1", "n2", gpus=4) + rack("r2", "n3", gpus=4)
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=IN_RACK))
    assert racks_of(outcome) == {"r2"}


def test_replacements_return_to_the_rack_where_the_gang_runs():
    nodes = rack("r1", "n1", gpus=4) + rack("r2", "n2", gpus=2)
    hurt = job("a", 2, ask(gpus=1), domain=IN_RACK).runs(0, on="n1", devices=[0])
    assert schedule(RACKS, *nodes, hurt).places == {"a-1": "n1"}


def test_a_replacement_waits_if_its_rack_is_full():
    nodes = rack("r1", "n1", gpus=1) + rack("r2", "n2", gpus=4)
    hurt = job("a", 2, ask(gpus=1), domain=IN_RACK).runs(0, on="n1", devices=[0])
    assert schedule(RACKS, *nodes, hurt).nothing_of("a")


def test_elastic_tasks_stay_in_the_required_rack_too():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=1)
    outcome = schedule(RACKS, *nodes, job("a", 3, ask(gpus=1), minimum=1, domain=IN_RACK))
    assert len(racks_of(outcome)) == 1


def test_a_preferred_rack_is_used_where_it_fits():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=4)
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=NEAR_RACK))
    assert racks_of(outcome) == {"r2"}


def test_a_preferred_rack_that_does_not_fit_widens_to_the_zone():
    nodes = rack("r1", "n1", gpus=3, zone="y") + rack("r2", "n2", gpus=2, zone="z")
    more = rack("r3", "n3", gpus=2, zone="z")
    outcome = schedule(RACKS, *nodes, *more, job("a", 4, ask(gpus=1), domain=NEAR_RACK))
    assert racks_of(outcome) == {"r2", "r3"}


def test_a_preferred_rack_never_keeps_a_gang_waiting():
    nodes = rack("r1", "n1", gpus=2, zone="y") + rack("r2", "n2", gpus=2, zone="z")
    outcome = schedule(RACKS, *nodes, job("a", 4, ask(gpus=1), domain=NEAR_RACK))
    assert outcome.started("a") == 4


def test_each_group_may_require_a_rack_of_its_own():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=2)
    parts = [group(name, 2, ask(gpus=1), domain=IN_RACK) for name in ("x", "y")]
    outcome = schedule(RACKS, *nodes, grouped("a", *parts))
    assert outcome.places["a-0"] == outcome.places["a-1"]
    assert outcome.places["a-2"] == outcome.places["a-3"] != outcome.places["a-0"]


def test_groups_in_racks_stay_inside_the_zone_of_their_gang():
    nodes = rack("r1", "n1", gpus=2, zone="y") + rack("r2", "n2", gpus=2, zone="z")
    parts = [group(name, 2, ask(gpus=1), domain=IN_RACK) for name in ("x", "y")]
    assert schedule(RACKS, *nodes, grouped("a", *parts, domain=IN_ZONE)).nothing_of("a")
    more = rack("r3", "n3", gpus=2, zone="z")
    outcome = schedule(RACKS, *nodes, *more, grouped("a", *parts, domain=IN_ZONE))
    assert racks_of(outcome) == {"r2", "r3"}


def test_a_group_with_a_rack_leaves_the_other_groups_free():
    nodes = rack("r1", "n1", gpus=2) + rack("r2", "n2", gpus=1)
    parts = group("x", 2, ask(gpus=1), domain=IN_RACK), group("y", 1, ask(gpus=1))
    assert schedule(RACKS, *nodes, grouped("a", *parts)).started("a") == 3


def test_the_room_of_a_rack_is_counted_in_tasks_that_fit_not_in_gpus():
    nodes = rack("r1", "n1", "n2", gpus=3) + rack("r2", "n3", gpus=4)
    outcome = schedule(RACKS, *nodes, job("a", 2, ask(gpus=2), domain=IN_RACK))
    assert outcome.started("a") == 2
    three = job("b", 3, ask(gpus=2), domain=IN_RACK)
    assert schedule(RACKS, *nodes, three).nothing_of("b")


def test_a_gang_may_name_any_of_several_topologies():
    power = Topology("power", ("feed",))
    nodes = [node(f"n{i}", gpus=1, labels={"feed": f"f{i % 2}"}) for i in range(4)]
    asked = job("a", 2, ask(gpus=1), domain=Domain("power", "feed"))
    outcome = schedule(RACKS, power, *nodes, asked)
    assert sorted(outcome.places.values()) in (["n0", "n2"], ["n1", "n3"])


def test_a_required_domain_of_an_undeclared_topology_is_never_satisfied():
    nodes = rack("r1", "n1", gpus=4)
    asked = job("a", 1, ask(gpus=1), domain=Domain("nowhere", "rack"))
    assert schedule(RACKS, *nodes, asked).nothing_of("a")


def test_a_lost_group_returns_to_the_rack_where_the_other_groups_run():
    nodes = rack("r1", "n1", gpus=4) + rack("r2", "n2", gpus=1)
    parts = group("x", 1, ask(gpus=1)), group("y", 1, ask(gpus=1))
    hurt = grouped("a", *parts, domain=IN_RACK).runs(0, on="n1", devices=[0])
    assert schedule(RACKS, *nodes, hurt).places == {"a-1": "n1"}


def test_elastic_tasks_of_one_group_stay_in_the_rack_of_the_others():
    nodes = rack("r1", "n1", gpus=4) + rack("r2", "n2", gpus=1)
    parts = group("x", 1, ask(gpus=1)), group("y", 1, ask(gpus=1), minimum=0)
    running = grouped("a", *parts, domain=IN_RACK).runs(0, on="n1", devices=[0])
    assert schedule(RACKS, *nodes, running).places == {"a-1": "n1"}


def test_groups_without_a_domain_share_the_rack_of_their_gang():
    nodes = rack("r1", "n1", gpus=3) + rack("r2", "n2", gpus=4)
    parts = group("x", 1, ask(gpus=2)), group("y", 2, ask(gpus=1))
    outcome = schedule(RACKS, *nodes, grouped("a", *parts, domain=IN_RACK))
    assert set(outcome.places.values()) == {"n2"}
