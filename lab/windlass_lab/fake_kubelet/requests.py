"""The request of a pod (containers, init containers, sidecars, overhead), and its quantities.

Quantities ("500m", "2Gi", "1e3") are read here on their own, not with the scheduler's parser, so
that the fake kubelet does not repeat its mistakes. Amounts are rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from windlass_lab.fake_kubelet.wire import Container, PodSpec

Amounts = dict[str, int]
"""Amounts by resource; CPU in milli-CPU, memory in bytes, devices as a count."""

_OF_WHOLE_PODS = ("cpu", "memory")
"""The resources that a pod may request as a whole, whatever its containers say."""


def requested(spec: PodSpec) -> Amounts:
    """Return the pod's effective request.

    Containers and sidecars (init containers that restart) run together and add up. A plain init
    container runs before them, beside the sidecars started so far, so the pod needs the larger.
    """
    together = _sum(amounts(container.resources.requests) for container in spec.containers)
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.init_containers:
        own = amounts(container.resources.requests)
        at_once = _sum((sidecars, own))
        highest = _larger(highest, at_once)
        if _is_sidecar(container):
            sidecars = at_once
    total = _larger(_sum((together, sidecars)), highest)
    if spec.resources:
        pod = amounts(spec.resources.requests)
        total |= {name: pod[name] for name in _OF_WHOLE_PODS if name in pod}
    return _sum((total, amounts(spec.overhead)))


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return a resource list as integers."""
    return {
        name: milli(quantity) if name == "cpu" else whole(quantity)
        for name, quantity in quantities.items()
    }


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


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
