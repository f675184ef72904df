"""Kubernetes quantities: requests are rounded up and offers down, and nothing is too absurd."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model.durations import seconds
from windlass.model.validation.problems import MOST
from windlass.workloads.objects.quantities import (
    mib,
    mib_offered,
    milli,
    milli_offered,
    whole,
    whole_offered,
)


@pytest.mark.parametrize(
    ("written", "thousandths"),
    [
        ("1", 1000),
        ("1500m", 1500),
        ("0.5", 500),
        (".5", 500),
        ("1.", 1000),
        ("2k", 2_000_000),
        ("1e2", 100_000),
        ("1E2", 100_000),
        ("25e-3", 25),
        ("+3", 3000),
    ],
)
def test_cpu_is_counted_in_thousandths(written: str, thousandths: int):
    assert milli(written) == milli_offered(written) == thousandths


@pytest.mark.parametrize(
    ("written", "mebibytes"),
    [("1Gi", 1024), ("512Mi", 512), ("1048576", 1), ("1Ti", 1 << 20), ("2048Ki", 2), ("0", 0)],
)
def test_memory_is_counted_in_mebibytes(written: str, mebibytes: int):
    assert mib(written) == mib_offered(written) == mebibytes


def test_a_gigabyte_is_not_a_gibibyte():
    assert (mib("1G"), mib_offered("1G")) == (954, 953)


def test_what_is_asked_for_is_rounded_up_and_what_is_offered_down():
    assert (milli("1n"), milli_offered("1n")) == (1, 0)
    assert (mib("1"), mib_offered("1")) == (1, 0)
    assert (whole("1500m"), whole_offered("1500m")) == (2, 1)


@pytest.mark.parametrize("written", ["1e30", "1e999999", "9" * 4000, "8Ei"])
def test_an_absurd_amount_is_cut_where_no_cluster_reaches(written: str):
    assert milli(written) == whole(written) == whole_offered(written) == MOST


def test_an_absurdly_small_amount_is_still_something_to_ask_for():
    assert (milli("1e-999999"), milli_offered("1e-999999")) == (1, 0)


@pytest.mark.parametrize("written", ["", "two", "1 Gi", "1GiB", "0x10", "NaN", "--1", "\u0661"])
def test_what_cannot_be_read_counts_as_nothing(written: str):
    assert milli(written) == mib(written) == whole_offered(written) == 0


def test_less_than_nothing_is_nothing():
    assert milli("-1") == mib("-5Gi") == whole_offered("-2") == 0


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "Ki", "Mi", "M", "u", "n"]))
def test_rounding_never_errs_by_a_whole_unit(number: int, suffix: str):
    quantity, factor = f"{number}{suffix}", {"": 1, "m": Decimal("0.001"), "k": 1000, "Ki": 1024}
    factor |= {"Mi": 1 << 20, "M": 10**6, "u": Decimal("1e-6"), "n": Decimal("1e-9")}
    exact = Decimal(number) * Decimal(factor[suffix])
    if exact < MOST:
        assert whole_offered(quantity) <= exact <= whole(quantity)
        assert whole(quantity) - whole_offered(quantity) <= 1


@given(st.text(max_size=30))
def test_no_text_is_too_strange_to_be_read(written: str):
    for read in (milli, mib, whole, milli_offered, mib_offered, whole_offered):
        assert 0 <= read(written) <= MOST


@pytest.mark.parametrize(
    ("written", "expected"),
    [("90s", 90), ("45m", 2700), ("2h30m", 9000), ("1d", 86_400), ("1d1h1m1s", 90_061)],
)
def test_times_are_read_as_people_write_them(written: str, expected: int):
    assert seconds(written) == expected


@pytest.mark.parametrize("written", ["", "90", "1m1h", "-5m", "1.5h", "9" * 99 + "s", "\u0665m"])
def test_other_times_are_not_guessed(written: str):
    assert seconds(written) is None
