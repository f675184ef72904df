"""Units: text that people and Kubernetes write, and the integers that Windlass counts in.

    written                          inside                          read by
    2h30m, 90s                       seconds                         parse_duration
    2026-11-16T04:10:00Z             seconds since 1970 (UTC)        parse_timestamp
    1500m, 2Gi, 1e3 (Kubernetes)     thousandths, MiB or a count     milli_rounded_up, ...
    8, 0.5 GPUs (in our own files)   thousandths                     parse_gpus
    64, 0.5, 500m CPUs               thousandths                     parse_cpus
    512Gi, 1.5Ti of memory           MiB                             parse_memory

Two families read amounts, because their callers need opposite behaviour. Kubernetes quantities come
from objects that an API server has accepted: they are rounded, and unreadable text counts as zero.
Amounts in our own files come from a person: they must be exact, and unreadable ones raise a
ValueError whose sentence says what to write instead.

This module imports the standard library only, not even the rest of the model: it also runs inside
training images, as a part of `windlass.checkpoint`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor

LARGEST_AMOUNT = 10**12
"""The largest amount or time that is accepted. Sums over a whole cluster then fit into 64 bits."""

_MILLI = 1000
_MIB = 2**20


# --- durations ------------------------------------------------------------------------------------

_DURATION_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_DURATION = re.compile("".join(rf"(?:(\d{{1,12}}){unit})?" for _, unit in _DURATION_UNITS), re.A)


def parse_duration(text: str) -> int | None:
    """Return the seconds of a duration such as `90s` or `2h30m`; None if the text is not one.

    Units stand in falling order, each at most once, with whole numbers.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    numbers = zip(match.groups(), _DURATION_UNITS, strict=True)
    return sum(int(number or 0) * unit_s for number, (unit_s, _) in numbers)


def format_duration(seconds: int) -> str:
    """Return a duration as `parse_duration` reads it, largest unit first: `1d2h`, `0s`."""
    text = ""
    for unit_s, unit in _DURATION_UNITS:
        number, seconds = divmod(seconds, unit_s)
        text += f"{number}{unit}" if number else ""
    return text or "0s"


def duration_in_words(seconds: int) -> str:
    """Return a rounded duration for sentences, such as "45 s", "12 min" or "3 h 5 min"."""
    if seconds < 120:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


# --- timestamps -----------------------------------------------------------------------------------


def parse_timestamp(text: str) -> int:
    """Return the seconds since 1970 of an RFC 3339 timestamp, fractions cut off.

    Raises ValueError if the text is no timestamp or names no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} names no time zone; write it like 2026-11-16T04:10:00Z")
    return int(moment.timestamp())


def parse_timestamp_or_none(text: str | None) -> int | None:
    """Return the seconds since 1970, at least 0; None for no text and for an unreadable one."""
    try:
        return max(0, parse_timestamp(text)) if text else None
    except (ValueError, OverflowError):
        return None


def format_timestamp(at: float) -> str:
    """Return a timestamp as Kubernetes writes it, to the second: 2026-11-16T04:10:00Z."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_timestamp_micros(at: float) -> str:
    """Return a timestamp as Kubernetes writes it in leases, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- Kubernetes quantities ------------------------------------------------------------------------
#
# Requests are rounded up and capacities down, so that a pod that fits by our integers also fits by
# the exact numbers of the kubelet. Amounts above LARGEST_AMOUNT are cut to it: no node has as much,
# so such a request fits nowhere, and no sum overflows. Below zero counts as zero.

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,9})?"
)
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LARGEST_EXPONENT = 60
"""Exponents are cut to this: the amount is beyond every bound anyway, and Decimal stays fast."""


def parse_quantity(text: str) -> Decimal | None:
    """Return a Kubernetes quantity as an exact number; None if the text is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    exponent = _DECIMAL.get(suffix)
    if exponent is None:
        exponent = max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, int(suffix[1:])))
    return number.scaleb(exponent)


@lru_cache(maxsize=1 << 14)
def milli_rounded_up(quantity: str) -> int:
    """Return the thousandths that a request asks for."""
    return _rounded_up(_quantity_or_zero(quantity) * _MILLI)


@lru_cache(maxsize=1 << 14)
def mib_rounded_up(quantity: str) -> int:
    """Return the MiB that a request, written in bytes, asks for."""
    return _rounded_up(_quantity_or_zero(quantity) / _MIB)


@lru_cache(maxsize=1 << 14)
def count_rounded_up(quantity: str) -> int:
    """Return the whole pieces that a request asks for."""
    return _rounded_up(_quantity_or_zero(quantity))


@lru_cache(maxsize=1 << 12)
def milli_rounded_down(quantity: str) -> int:
    """Return the thousandths that a capacity offers."""
    return _rounded_down(_quantity_or_zero(quantity) * _MILLI)


@lru_cache(maxsize=1 << 12)
def mib_rounded_down(quantity: str) -> int:
    """Return the MiB that a capacity, written in bytes, offers."""
    return _rounded_down(_quantity_or_zero(quantity) / _MIB)


@lru_cache(maxsize=1 << 12)
def count_rounded_down(quantity: str) -> int:
    """Return the whole pieces that a capacity offers."""
    return _rounded_down(_quantity_or_zero(quantity))


def _quantity_or_zero(quantity: str) -> Decimal:
    """Return the number of a quantity; 0 for unreadable text, as in Kubernetes."""
    return parse_quantity(quantity) or Decimal(0)


def _rounded_up(number: Decimal) -> int:
    return LARGEST_AMOUNT if number >= LARGEST_AMOUNT else max(0, ceil(number))


def _rounded_down(number: Decimal) -> int:
    return LARGEST_AMOUNT if number >= LARGEST_AMOUNT else max(0, floor(number))


# --- amounts in our own files ---------------------------------------------------------------------
#
# The argument is a value as YAML or JSON gives it. Custom resources have a narrower grammar, which
# their schemas state to the API server (`crds/amounts.py`); the helpers below are shared.

_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Mi|Gi|Ti)")
_MEMORY_UNITS_MIB = {"Mi": 1, "Gi": 2**10, "Ti": 2**20}
_MILLICORES = re.compile(r"([0-9]+)m")


def parse_gpus(value: object) -> int:
    """Return the thousandths of a number of GPUs, such as 8 or 0.5."""
    return _parse_number(value, "a number of GPUs, like 8 or 0.5")


def parse_cpus(value: object) -> int:
    """Return the thousandths of a number of CPUs, such as 64, 0.5 or "500m"."""
    expected = "a number of CPUs, like 64, 0.5 or 500m"
    if not isinstance(value, str):
        return _parse_number(value, expected)
    match = _MILLICORES.fullmatch(value)
    if not match:
        raise unreadable_value(value, expected)
    return exact_amount(Decimal(match[1]), value, expected)


def parse_memory(value: object) -> int:
    """Return the MiB of an amount of memory, such as "512Gi", "1.5Ti" or 0."""
    expected = "an amount of memory with its unit, like 512Gi or 300Mi"
    if _is_zero(value):
        return 0
    match = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise unreadable_value(value, expected)
    return exact_amount(Decimal(match[1]) * _MEMORY_UNITS_MIB[match[2]], value, expected)


def parse_seconds(value: object) -> int:
    """Return the seconds of a duration, such as "1h30m" or 0."""
    expected = "a time with its unit, like 90s, 20m, 1h30m or 2d"
    if _is_zero(value):
        return 0
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        raise unreadable_value(value, expected)
    return exact_amount(Decimal(seconds), value, expected)


def format_thousandths(milli: int) -> str:
    """Return thousandths as a decimal number: 8000 is "8", 500 is "0.5"."""
    return f"{milli // _MILLI}.{milli % _MILLI:03}".rstrip("0").rstrip(".")


def format_memory(mib: int) -> str:
    """Return memory with its unit: 512Gi if it is whole GiB, else 300Mi."""
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"


def exact_amount(number: Decimal, value: object, expected: str) -> int:
    """Return a number in its unit as an integer; `value` is how it was written.

    Raises ValueError if it is negative, not whole in its unit, or above LARGEST_AMOUNT.
    """
    if number < 0 or number != number.to_integral_value():
        fault = "below zero" if number < 0 else "too fine"
        raise ValueError(f"{shown_value(value)} is {fault}; write {expected}")
    if number > LARGEST_AMOUNT:
        raise ValueError(f"{shown_value(value)} is more than any cluster has; write {expected}")
    return int(number)


def unreadable_value(value: object, expected: str) -> ValueError:
    """Return the error for a value of the wrong form; the caller raises it."""
    return ValueError(f"{shown_value(value)} is not understood; write {expected}")


def shown_value(value: object) -> str:
    """Return a value for an error message as it was written, cut to 40 characters."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _parse_number(value: object, expected: str) -> int:
    """Return the thousandths of an integer or a float; of a float, as it was written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unreadable_value(value, expected)
    # repr() and not the float itself: 0.1 is a tenth to its writer, though no float is.
    return exact_amount(Decimal(repr(value)) * _MILLI, value, expected)


def _is_zero(value: object) -> bool:
    """Return whether a value is the number 0, which needs no unit. False is not."""
    return value == 0 and not isinstance(value, bool)
