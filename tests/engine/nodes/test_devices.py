"""The choice of devices: whole GPUs, fractions, GPU memory, models."""

import pytest

from tests.given import GIB, ask, job, node, schedule
from windlass.model.gpus import Gpu, Slice, milli_of_memory
from windlass.model.settings import Packing, Settings

SPREAD = Settings(gpus=Packing.SPREAD)
A100, T4 = Gpu("A100-80GB", 80 * GIB), Gpu("T4", 16 * GIB)


def mixed(*cards):
    return node("n1", cards=cards)


def test_a_whole_gpu_is_an_unshared_device():
    outcome = schedule(node("n1", gpus=2), job("a", 1, ask(1)), job("b", 1, ask(1)))
    assert sorted(outcome.devices.values()) == [(Slice(0, 1000),), (Slice(1, 1000),)]


def test_a_device_with_a_fraction_in_use_is_not_whole():
    half = job("old", 1, ask(1, milli=500)).runs(0, on="n1", devices=[Slice(0, 500)])
    assert schedule(node("n1", gpus=1), half, job("a", 1, ask(1))).nothing_of("a")


def test_two_halves_of_different_devices_are_not_one_gpu():
    halves = job("old", 2, ask(1, milli=500))
    halves = halves.runs(0, on="n1", devices=[Slice(0, 500)])
    halves = halves.runs(1, on="n1", devices=[Slice(1, 500)])
    assert schedule(node("n1", gpus=2), halves, job("a", 1, ask(1))).nothing_of("a")


def test_fractions_share_a_device_until_it_is_full():
    outcome = schedule(node("n1", gpus=1), *(job(f"j{i}", 1, ask(1, milli=400)) for i in range(3)))
    assert sorted(outcome.devices) == ["j0-0", "j1-0"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_fraction_does_not_fit_if_one_thousandth_lacks(count):
    old = job("old", 1, ask(count, milli=501))
    old = old.runs(0, on="n1", devices=[Slice(i, 501) for i in range(count)])
    fits, too_large = job("a", 1, ask(count, milli=499)), job("a", 1, ask(count, milli=500))
    assert schedule(node("n1", gpus=count), old, fits).started("a") == 1
    assert schedule(node("n1", gpus=count), old, too_large).nothing_of("a")


def test_packing_puts_a_fraction_on_the_fullest_device_that_has_room():
    old = job("old", 2, ask(1, milli=500))
    old = old.runs(0, on="n1", devices=[Slice(1, 700)]).runs(1, on="n1", devices=[Slice(2, 300)])
    outcome = schedule(node("n1", gpus=3), old, job("a", 1, ask(1, milli=500)))
    assert outcome.devices["a-0"] == (Slice(2, 500),)


def test_spreading_puts_a_fraction_on_the_emptiest_device():
    old = job("old", 1, ask(1, milli=300)).runs(0, on="n1", devices=[Slice(0, 300)])
    outcome = schedule(node("n1", gpus=2), old, job("a", 1, ask(1, milli=500)), settings=SPREAD)
    assert outcome.devices["a-0"] == (Slice(1, 500),)


def test_several_fractions_of_one_task_are_on_different_devices():
    outcome = schedule(node("n1", gpus=2), job("a", 1, ask(2, milli=300)))
    assert {each.device for each in outcome.devices["a-0"]} == {0, 1}


def test_several_fractions_never_fall_back_to_one_device():
    assert schedule(node("n1", gpus=1), job("a", 1, ask(2, milli=300))).nothing_of("a")


@pytest.mark.parametrize(
    ("asked_mib", "device_mib", "milli"),
    [(8 * GIB, 16 * GIB, 500), (1, 16 * GIB, 1), (16 * GIB, 16 * GIB, 1000), (1000, 3000, 334)],
)
def test_gpu_memory_becomes_thousandths_rounded_up(asked_mib, device_mib, milli):
    assert milli_of_memory(asked_mib, device_mib) == milli


def test_the_same_memory_is_a_larger_share_of_a_smaller_device():
    asked = ask(1, memory_mib=8 * GIB)
    on_t4 = schedule(node("n1", gpus=1, model="T4"), job("a", 1, asked))
    on_a100 = schedule(node("n1", gpus=1), job("a", 1, asked))
    assert on_t4.devices["a-0"] == (Slice(0, 500),)
    assert on_a100.devices["a-0"] == (Slice(0, 100),)


def test_memory_beyond_that_of_the_device_does_not_fit():
    asked = ask(1, memory_mib=17 * GIB)
    assert schedule(node("n1", gpus=1, model="T4"), job("a", 1, asked)).nothing_of("a")


def test_memory_and_fractions_share_one_device():
    half = job("old", 1, ask(1, milli=500)).runs(0, on="n1", devices=[Slice(0, 500)])
    fits = job("a", 1, ask(1, memory_mib=8 * GIB))
    assert schedule(node("n1", gpus=1, model="T4"), half, fits).started("a") == 1


def test_a_task_runs_only_on_the_models_it_accepts():
    outcome = schedule(
        node("n1", gpus=1, model="T4"),
        node("n2", gpus=1, model="V100"),
        job("a", 1, ask(1, models=("A100-80GB", "V100"))),
    )
    assert outcome.places == {"a-0": "n2"}


def test_on_a_mixed_node_only_devices_of_the_model_are_given():
    outcome = schedule(mixed(T4, A100, T4, A100), job("a", 1, ask(2, models=("A100-80GB",))))
    assert {each.device for each in outcome.devices["a-0"]} == {1, 3}


def test_a_mixed_node_converts_memory_device_by_device():
    outcome = schedule(mixed(T4, A100), job("a", 1, ask(2, memory_mib=8 * GIB)))
    assert sorted(outcome.devices["a-0"]) == [Slice(0, 500), Slice(1, 100)]


def test_an_unhealthy_device_is_not_allocated():
    broken = Gpu("T4", 16 * GIB, healthy=False)
    outcome = schedule(mixed(broken, T4), job("a", 1, ask(1)), job("b", 1, ask(1)))
    assert outcome.devices == {"a-0": (Slice(1, 1000),)}


def test_a_fraction_avoids_breaking_a_whole_gpu_on_another_node():
    half = job("old", 1, ask(1, milli=500)).runs(0, on="n2", devices=[Slice(0, 500)])
    outcome = schedule(node("n1", gpus=1), node("n2", gpus=1), half, job("a", 1, ask(1, milli=500)))
    assert outcome.places == {"a-0": "n2"}


def test_tasks_of_two_fractions_each_fill_three_devices_evenly():
    outcome = schedule(node("n1", gpus=3), job("a", 4, ask(2, milli=300)))
    assert outcome.started("a") == 4


@pytest.mark.parametrize("packing", Packing)
def test_a_task_that_accepts_any_model_gets_the_cheapest(packing):
    nodes = node("n1", gpus=2, model="H100-80GB"), node("n2", gpus=2, model="T4")
    outcome = schedule(*nodes, job("a", 1, ask(1)), settings=Settings(nodes=packing))
    assert outcome.places == {"a-0": "n2"}
