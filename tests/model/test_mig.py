"""MIG: instances at legal places, and nowhere else."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.given import GIB, ask, job, node, schedule
from windlass.model.gpu.mig import (
    GEOMETRIES,
    Instance,
    legal_starts,
    milli_of_profile,
    offered_by,
    profile_of,
    with_kept,
)
from windlass.model.gpus import Gpu, Slice
from windlass_lab.oracle import fit

A100 = "A100-80GB"
CUT = Gpu(A100, 80 * GIB, mig=True)


def cut(name="n1", gpus=1, **fields):
    return node(name, gpus, A100, mig=True, **fields)


def instance(profile, count=1):
    return ask(count, profile=profile)


def old(profile, start, device=0, name="old"):
    given = Slice(device, milli_of_profile(A100, profile), profile, start)
    return job(name, 1, instance(profile)).runs(0, on="n1", devices=[given])


def test_an_instance_is_cut_from_a_mig_device():
    outcome = schedule(cut(), job("a", 1, instance("3g.40gb")))
    (given_,) = outcome.devices["a-0"]
    assert (given_.device, given_.profile) == (0, "3g.40gb")
    assert given_.start in (0, 4)


def test_an_instance_is_not_cut_from_a_device_without_mig():
    assert schedule(node("n1", gpus=1), job("a", 1, instance("1g.10gb"))).nothing_of("a")


@pytest.mark.parametrize("request_", [ask(1), ask(1, milli=100), ask(1, memory_mib=GIB)])
def test_a_mig_device_serves_nothing_but_instances(request_):
    assert schedule(cut(), job("a", 1, request_)).nothing_of("a")


def test_a_profile_the_model_does_not_offer_never_fits():
    assert schedule(cut(), job("a", 1, instance("1g.6gb"))).nothing_of("a")


def test_seven_small_instances_fill_a_device():
    jobs = [job(f"j{i}", 1, instance("1g.10gb")) for i in range(8)]
    outcome = schedule(cut(), *jobs)
    assert sorted(given_.start for (given_,) in outcome.devices.values()) == list(range(7))


def test_a_large_instance_needs_a_legal_place_not_only_free_slices():
    in_the_way = old("1g.10gb", start=0)
    assert schedule(cut(), in_the_way, job("a", 1, instance("4g.40gb"))).nothing_of("a")


def test_four_slices_and_three_slices_share_a_device():
    outcome = schedule(cut(), old("3g.40gb", start=4), job("a", 1, instance("4g.40gb")))
    assert outcome.devices["a-0"][0].start == 0


def test_two_halves_use_up_the_memory_so_the_seventh_slice_is_lost():
    halves = old("3g.40gb", 0), old("3g.40gb", 4, name="older")
    assert schedule(cut(), *halves, job("a", 1, instance("1g.10gb"))).nothing_of("a")


def test_only_one_instance_of_a_device_has_the_media_engines():
    jobs = [job(f"j{i}", 1, instance("1g.10gb+me")) for i in range(3)]
    outcome = schedule(cut(gpus=2), *jobs)
    assert sorted(given_.device for (given_,) in outcome.devices.values()) == [0, 1]


def test_several_instances_of_one_task_may_share_a_device():
    outcome = schedule(cut(), job("a", 1, instance("3g.40gb", count=2)))
    assert sorted(each.start for each in outcome.devices["a-0"]) == [0, 4]


def test_instances_of_one_task_spill_over_to_the_next_device():
    outcome = schedule(cut(gpus=2), old("3g.40gb", 0), job("a", 1, instance("3g.40gb", count=3)))
    assert sorted(each.device for each in outcome.devices["a-0"]) == [0, 1, 1]


def test_an_instance_joins_the_device_that_is_cut_already():
    outcome = schedule(cut(gpus=2), old("3g.40gb", 0, device=1), job("a", 1, instance("2g.20gb")))
    assert outcome.devices["a-0"][0].device == 1


def test_mig_and_whole_devices_live_on_one_node():
    cards = (Gpu(A100, 80 * GIB), CUT)
    outcome = schedule(
        node("n1", cards=cards), job("a", 1, ask(1)), job("b", 1, instance("1g.10gb"))
    )
    assert {k: v[0].device for k, v in outcome.devices.items()} == {"a-0": 0, "b-0": 1}


def test_an_instance_is_charged_the_larger_of_its_compute_and_memory():
    assert milli_of_profile(A100, "1g.10gb") == 143
    assert milli_of_profile(A100, "1g.20gb") == 250
    assert milli_of_profile(A100, "3g.40gb") == 500
    assert milli_of_profile(A100, "7g.80gb") == 1000


def test_a_broken_mig_device_serves_nothing():
    broken = Gpu(A100, 80 * GIB, mig=True, healthy=False)
    assert schedule(node("n1", cards=(broken,)), job("a", 1, instance("1g.10gb"))).nothing_of("a")


@pytest.mark.parametrize("model", sorted(GEOMETRIES))
def test_every_profile_of_the_catalogue_lies_inside_its_device(model):
    for name in offered_by(model):
        profile = profile_of(model, name)
        assert profile is not None
        assert max(profile.starts) + profile.size <= GEOMETRIES[model].units
        assert profile.compute <= GEOMETRIES[model].compute


@given(st.sampled_from(sorted(GEOMETRIES)), st.data())
def test_cutting_one_by_one_at_legal_starts_always_gives_a_legal_device(model, data):
    gpu, there = Gpu(model, 80 * GIB, mig=True), []
    for _ in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from(offered_by(model)))
        cuts = tuple(Instance(each.start, each.profile) for each in there)
        free = legal_starts(model, cuts, name)
        for start in range(GEOMETRIES[model].units):
            assert fit.is_legal(gpu, [*there, Slice(0, 0, name, start)]) == (start in free)
        if free:
            there.append(Slice(0, 0, name, data.draw(st.sampled_from(free))))
    assert fit.is_legal(gpu, there)


def test_the_a100_has_the_fourteen_full_layouts_that_its_driver_allows():
    plain = [p for p in offered_by(A100) if "+" not in p and p != "1g.20gb"]
    cuts = {()}
    for _ in range(7):
        cuts |= {
            tuple(sorted((*cut_, Instance(start, name))))
            for cut_, name in product(cuts, plain)
            for start in legal_starts(A100, cut_, name)
        }
    full = [c for c in cuts if not any(legal_starts(A100, c, name) for name in plain)]
    assert len({tuple(sorted(each.profile for each in c)) for c in full}) == 14


def test_an_instance_joins_the_node_that_is_cut_already():
    busy = old("3g.40gb", 0).become(0, node="n2")
    outcome = schedule(cut("n1"), cut("n2"), busy, job("a", 1, instance("2g.20gb")))
    assert outcome.places == {"a-0": "n2"}


# --- places that are kept


@pytest.mark.parametrize(
    ("there", "kept", "filled"),
    [
        ((), ("4g.40gb", 0), {("4g.40gb", 0)}),
        ((("1g.20gb", 0),), ("4g.40gb", 0), {("2g.20gb", 2)}),
        ((("1g.10gb", 1),), ("4g.40gb", 0), {("1g.10gb", 0), ("2g.20gb", 2)}),
        ((("4g.40gb", 0),), ("4g.40gb", 0), set()),
    ],
)
def test_the_free_rest_of_a_held_place_is_not_given_to_other_tasks(
    there: tuple[tuple[str, int], ...], kept: tuple[str, int], filled: set[tuple[str, int]]
):
    lie = tuple(sorted(Instance(start, name) for name, start in there))
    found = with_kept("A100-80GB", lie, Slice(0, 0, kept[0], kept[1]))
    starts = {each.start for each in found if each not in lie}
    assert starts == {start for _, start in filled}
    free = {start for start in range(4) if start in legal_starts("A100-80GB", found, "1g.10gb")}
    assert free == set(), "not even the smallest fits into it"
