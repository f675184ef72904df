"""Kubernetes quantities as integers: `1500m`, `2Gi`, `1e3`, `0.5`.

Requests are rounded up and offers down, so that what fits here fits there. Absurd amounts are cut
at a bound that no cluster reaches, and so fit nowhere instead of overflowing.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor

from windlass.model.validation.problems import MOST

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,9})?"
)
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MIB = 2**20
_FAR = 60
"""An exponent beyond this makes an amount absurd or nothing, whatever its digits."""


@lru_cache(maxsize=1 << 14)
def milli(quantity: str) -> int:
    """Thousandths, rounded up."""
    return _up(_number(quantity) * 1000)


@lru_cache(maxsize=1 << 14)
def mib(quantity: str) -> int:
    """Mebibytes, rounded up."""
    return _up(_number(quantity) / _MIB)


@lru_cache(maxsize=1 << 14)
def whole(quantity: str) -> int:
    """A plain count, rounded up."""
    return _up(_number(quantity))


@lru_cache(maxsize=1 << 12)
def milli_offered(quantity: str) -> int:
    """Thousandths, rounded down."""
    return _down(_number(quantity) * 1000)


@lru_cache(maxsize=1 << 12)
def mib_offered(quantity: str) -> int:
    """Mebibytes, rounded down."""
    return _down(_number(quantity) / _MIB)


@lru_cache(maxsize=1 << 12)
def whole_offered(quantity: str) -> int:
    """A plain count, rounded down."""
    return _down(_number(quantity))


def amount(quantity: str) -> Decimal | None:
    """The quantity as a number; None if it is none."""
    found = _QUANTITY.fullmatch(quantity.strip())
    if not found:
        return None
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    exponent = _DECIMAL.get(suffix)
    if exponent is None:
        exponent = max(-_FAR, min(_FAR, int(suffix[1:])))
    return number.scaleb(exponent)


def _number(quantity: str) -> Decimal:
    """What cannot be read counts as nothing, as it does in Kubernetes."""
    return amount(quantity) or Decimal(0)


def _up(number: Decimal) -> int:
    if number >= MOST:
        return MOST
    return max(0, ceil(number))


def _down(number: Decimal) -> int:
    return MOST if number >= MOST else max(0, floor(number))
