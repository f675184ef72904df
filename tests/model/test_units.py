"""Units: durations, timestamps, Kubernetes quantities and amounts in our own files."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as parse_as_the_client_library

from windlass.model.units import (
    LARGEST_AMOUNT,
    count_rounded_down,
    count_rounded_up,
    duration_in_words,
    format_duration,
    format_memory,
    format_thousandths,
    format_timestamp,
    format_timestamp_micros,
    mib_rounded_down,
    mib_rounded_up,
    milli_rounded_down,
    milli_rounded_up,
    parse_cpus,
    parse_duration,
    parse_gpus,
    parse_memory,
    parse_quantity,
    parse_seconds,
    parse_timestamp,
    parse_timestamp_or_none,
)

# --- durations


@pytest.mark.parametrize(
    ("written", "expected"),
    [("90s", 90), ("45m", 2700), ("2h30m", 9000), ("1d", 86_400), ("1d1h1m1s", 90_061)],
)
def test_a_duration_is_read_in_seconds(written: str, expected: int):
    assert parse_duration(written) == expected


@pytest.mark.parametrize("written", ["", "90", "1m1h", "-5m", "1.5h", "9" * 99 + "s", "\u0665m"])
def test_text_that_is_no_duration_is_none(written: str):
    assert parse_duration(written) is None


@given(st.integers(0, LARGEST_AMOUNT))
@example(0)
@example(59)
@example(60)
@example(93784)
def test_a_duration_survives_being_written(seconds: int):
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (119, "119 s"), (120, "2 min"), (3599, "59 min"), (3600, "1 h"),
        (11_100, "3 h 5 min"), (90_000, "25 h"),
    ],
)  # fmt: skip
def test_a_duration_in_words_is_rounded_down_to_minutes(seconds: int, words: str):
    assert duration_in_words(seconds) == words


# --- timestamps


def test_a_timestamp_is_written_as_kubernetes_writes_it():
    assert format_timestamp(1_790_000_000) == "2026-09-21T14:13:20Z"
    assert format_timestamp(1_790_000_000.75) == "2026-09-21T14:13:20Z"
    assert format_timestamp_micros(1_790_000_000.75) == "2026-09-21T14:13:20.750000Z"


@given(st.integers(0, 253_402_300_799))
def test_a_timestamp_survives_being_written(at: int):
    assert parse_timestamp(format_timestamp(at)) == at
    assert parse_timestamp_or_none(format_timestamp(at)) == at


def test_a_timestamp_may_name_any_time_zone():
    assert parse_timestamp("2026-09-21T16:13:20.5+02:00") == 1_790_000_000


def test_a_timestamp_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        parse_timestamp("2026-09-21T14:13:20")


@pytest.mark.parametrize("written", [None, "", "yesterday", "2026-09-21T14:13:20", "2026-13-01"])
def test_an_unreadable_timestamp_is_none(written: str | None):
    assert parse_timestamp_or_none(written) is None


def test_a_timestamp_before_1970_counts_as_1970():
    assert parse_timestamp_or_none("1969-12-31T23:59:00Z") == 0
    assert parse_timestamp("1969-12-31T23:59:00Z") == -60


# --- Kubernetes quantities

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
digits = st.integers(0, 10**9).map(str)
numbers = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    digits,
    st.just("") | st.builds(".{}".format, digits),
)
exponents = st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-12, 12))
quantities = st.builds("{}{}".format, numbers, st.sampled_from(SUFFIXES) | exponents)


def is_close(number: Decimal, expected: Decimal) -> bool:
    """Return whether two numbers are equal to 25 digits.

    The client library computes 1000 ** -3 with 28 digits; we shift the decimal point, exactly.
    """
    return abs(number - expected) <= abs(expected) * Decimal("1e-25")


@given(quantities)
@example("1.")
@example(".5")
def test_a_quantity_is_the_number_that_the_client_library_reads(written: str):
    number = parse_quantity(written)
    assert number is not None
    assert is_close(number, parse_as_the_client_library(written))


@given(st.text(alphabet="0123456789.+-eEnumkKMGTPi ", max_size=8))
@example("1E100")
@example("-1e-999")
def test_any_text_that_we_read_means_the_same_to_the_client_library(written: str):
    number = parse_quantity(written)
    if number is not None:
        expected = parse_as_the_client_library(written.strip())
        if Decimal("1e-50") < abs(expected) < Decimal("1e50"):
            assert is_close(number, expected)
        else:  # exponents are cut, far beyond every bound
            assert number.is_signed() == expected.is_signed()
            assert abs(number) < Decimal("1e-40") or abs(number) > Decimal("1e40")


@given(quantities)
def test_requests_are_rounded_up_and_capacities_down(written: str):
    exact = parse_as_the_client_library(written)
    for scale, up, down in (
        (Decimal(1), count_rounded_up, count_rounded_down),
        (Decimal(1000), milli_rounded_up, milli_rounded_down),
        (1 / Decimal(1 << 20), mib_rounded_up, mib_rounded_down),
    ):
        least, most = down(written), up(written)
        if 0 <= exact * scale < LARGEST_AMOUNT:
            slack = Decimal("1e-12")  # of the library's own rounding
            assert least - slack <= exact * scale <= most + slack
            assert most - least <= 1
        else:
            assert least == most == (LARGEST_AMOUNT if exact > 0 else 0)


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
    assert milli_rounded_up(written) == milli_rounded_down(written) == thousandths


@pytest.mark.parametrize(
    ("written", "mebibytes"),
    [("1Gi", 1024), ("512Mi", 512), ("1048576", 1), ("1Ti", 1 << 20), ("2048Ki", 2), ("0", 0)],
)
def test_memory_is_counted_in_mebibytes(written: str, mebibytes: int):
    assert mib_rounded_up(written) == mib_rounded_down(written) == mebibytes


def test_a_gigabyte_is_not_a_gibibyte():
    assert (mib_rounded_up("1G"), mib_rounded_down("1G")) == (954, 953)


def test_a_small_request_is_at_least_one_and_a_small_capacity_is_zero():
    assert (milli_rounded_up("1n"), milli_rounded_down("1n")) == (1, 0)
    assert (mib_rounded_up("1"), mib_rounded_down("1")) == (1, 0)
    assert (count_rounded_up("1500m"), count_rounded_down("1500m")) == (2, 1)


@pytest.mark.parametrize("written", ["1e30", "1e999999", "9" * 4000, "8Ei"])
def test_an_absurd_quantity_is_cut_to_the_largest_amount(written: str):
    assert milli_rounded_up(written) == count_rounded_up(written) == LARGEST_AMOUNT
    assert count_rounded_down(written) == LARGEST_AMOUNT


def test_an_absurdly_small_request_is_not_zero():
    assert (milli_rounded_up("1e-999999"), milli_rounded_down("1e-999999")) == (1, 0)


@pytest.mark.parametrize("written", ["", "two", "1 Gi", "1GiB", "0x10", "NaN", "--1", "\u0661"])
def test_an_unreadable_quantity_counts_as_zero(written: str):
    assert milli_rounded_up(written) == mib_rounded_up(written) == count_rounded_down(written) == 0
    assert parse_quantity(written) is None


def test_a_negative_quantity_counts_as_zero():
    assert milli_rounded_up("-1") == mib_rounded_up("-5Gi") == count_rounded_down("-2") == 0


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "Ki", "Mi", "M", "u", "n"]))
def test_rounding_never_errs_by_a_whole_unit(number: int, suffix: str):
    quantity, factor = f"{number}{suffix}", {"": 1, "m": Decimal("0.001"), "k": 1000, "Ki": 1024}
    factor |= {"Mi": 1 << 20, "M": 10**6, "u": Decimal("1e-6"), "n": Decimal("1e-9")}
    exact = Decimal(number) * Decimal(factor[suffix])
    if exact < LARGEST_AMOUNT:
        assert count_rounded_down(quantity) <= exact <= count_rounded_up(quantity)
        assert count_rounded_up(quantity) - count_rounded_down(quantity) <= 1


@given(st.text(max_size=30))
def test_any_text_is_read_as_an_amount_within_bounds(written: str):
    for read in (milli_rounded_up, mib_rounded_up, count_rounded_up):
        assert 0 <= read(written) <= LARGEST_AMOUNT
    for read in (milli_rounded_down, mib_rounded_down, count_rounded_down):
        assert 0 <= read(written) <= LARGEST_AMOUNT


# --- amounts in our own files


@pytest.mark.parametrize(
    ("parse", "written", "expected"),
    [
        (parse_gpus, 8, 8000),
        (parse_gpus, 0.5, 500),
        (parse_gpus, 0.333, 333),
        (parse_gpus, 0, 0),
        (parse_cpus, 64, 64000),
        (parse_cpus, 0.5, 500),
        (parse_cpus, "500m", 500),
        (parse_memory, "512Gi", 512 * 1024),
        (parse_memory, "300Mi", 300),
        (parse_memory, "1.5Ti", 1536 * 1024),
        (parse_memory, 0, 0),
        (parse_seconds, "90s", 90),
        (parse_seconds, "20m", 1200),
        (parse_seconds, "1h30m", 5400),
        (parse_seconds, "2d", 172800),
        (parse_seconds, "1d2h3m4s", 93784),
        (parse_seconds, 0, 0),
    ],
)
def test_an_amount_is_read_exactly(parse: Any, written: Any, expected: int):
    assert parse(written) == expected


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        *((parse_gpus, written) for written in (-1, 0.0005, True, "8", None, [1], 10**30)),
        *((parse_cpus, written) for written in ("0.5m", "m", False)),
        *((parse_memory, written) for written in (512, "512", "1GB", "0.0001Mi", "-1Gi")),
        *((parse_seconds, written) for written in (90, "90", "", "1m1h", "-5s", False)),
        (parse_seconds, "9" * 40 + "d"),
    ],
)
def test_an_unclear_amount_is_refused_with_an_example(parse: Any, written: Any):
    with pytest.raises(ValueError, match="; write "):
        parse(written)


@pytest.mark.parametrize("at", [0, 1, 59, 60, 5400, 86400, 93784])
def test_a_written_duration_is_read_from_a_file(at: int):
    assert parse_seconds(format_duration(at)) == at


@given(st.integers(0, LARGEST_AMOUNT))
@example(0)
@example(1024)
@example(500)
def test_an_amount_survives_being_written(amount: int):
    assert Decimal(format_thousandths(amount)) * 1000 == amount
    assert parse_memory(format_memory(amount)) == amount
