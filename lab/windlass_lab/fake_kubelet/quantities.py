"""Quantities as Kubernetes writes them ("500m", "2Gi", "1e3"), as integers, rounded up."""

from __future__ import annotations

from functools import lru_cache

_SUFFIXES = {
    "n": (1, 10**9), "u": (1, 10**6), "m": (1, 10**3), "": (1, 1),
    "k": (10**3, 1), "M": (10**6, 1), "G": (10**9, 1), "T": (10**12, 1),
    "P": (10**15, 1), "E": (10**18, 1),
    "Ki": (2**10, 1), "Mi": (2**20, 1), "Gi": (2**30, 1), "Ti": (2**40, 1),
    "Pi": (2**50, 1), "Ei": (2**60, 1),
}  # fmt: skip
"""Suffix -> multiplier, divisor."""

_MOST = 2**63 - 1
"""The API server stores no larger number; an exponent may still spell one."""


@lru_cache(maxsize=4096)
def whole(text: str) -> int:
    """The quantity in units (bytes, devices), rounded up."""
    return _scaled(text, 1)


@lru_cache(maxsize=4096)
def milli(text: str) -> int:
    """The quantity in thousandths (of a core), rounded up."""
    return _scaled(text, 1000)


def _scaled(text: str, scale: int) -> int:
    digits = text.rstrip("numkMGTPEi")
    suffix = text[len(digits) :]
    mantissa, exponent = _split_exponent(digits)
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} is no quantity: its suffix must be one of {list(_SUFFIXES)}")
    times, by = _SUFFIXES[suffix]
    integer, _, fraction = mantissa.partition(".")
    number = int((integer + fraction) or "0") * times * scale
    by *= 10 ** len(fraction)
    if exponent >= 0:
        number *= 10 ** min(exponent, 40)
    else:
        by *= 10 ** min(-exponent, 40)
    return min(-(-number // by), _MOST)


def _split_exponent(digits: str) -> tuple[str, int]:
    for letter in "eE":
        mantissa, found, exponent = digits.partition(letter)
        if found and exponent:
            return mantissa, int(exponent)
    return digits, 0
