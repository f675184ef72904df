"""Checks of shapes: that a request is possible and its constraints are well formed.

Paths are relative to the shape, so that every owner of a shape can use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.model.constraints import (
    Constraints,
    Expression,
    Operator,
    PodTerm,
    Spread,
    Term,
)
from windlass.model.gpu.mig import offered_by, profile_of
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import Shape
from windlass.model.validation.problems import InputProblem, Path, check_range, join_names

MOST_DEVICES = 64
MOST_WEIGHT = 100

_NEEDS_VALUES = (Operator.IN, Operator.NOT_IN)
_NEEDS_NUMBER = (Operator.GT, Operator.LT)


def check_shape(shape: Shape) -> Iterator[InputProblem]:
    """Yield the problems of a shape by itself."""
    request = shape.request
    yield from check_range(("request", "cpu_milli"), "cpu_milli", request.cpu_milli, 0)
    yield from check_range(("request", "memory_mib"), "memory_mib", request.memory_mib, 0)
    for index, (name, value) in enumerate(request.extra):
        yield from check_range(("request", "extra", index, 1), name, value, 0)
    if request.gpu is not None:
        yield from _gpu(("request", "gpu"), request.gpu)
    yield from _constraints(shape.constraints)


def check_profile(shape: Shape, models: Sequence[str]) -> Iterator[InputProblem]:
    """Yield a problem if no accepted GPU model offers the MIG profile of a shape."""
    gpu = shape.request.gpu
    if gpu is None or not gpu.profile:
        return
    allowed = gpu.models or tuple(models)
    if any(profile_of(model, gpu.profile) for model in allowed):
        return
    offers = [f"{model} offers {join_names(offered_by(model))}" for model in allowed]
    offers = [offer for offer, model in zip(offers, allowed, strict=True) if offered_by(model)]
    yield InputProblem(
        ("request", "gpu", "profile"),
        f'no GPU that will do offers the MIG profile "{gpu.profile}"; '
        + ("; ".join(offers[:3]) if offers else "none of them can be cut by MIG"),
        passing=True,
    )


def _gpu(path: Path, gpu: GpuRequest) -> Iterator[InputProblem]:
    yield from check_range((*path, "count"), "the number of GPUs", gpu.count, 1, MOST_DEVICES)
    yield from check_range((*path, "milli"), "thousandths of a GPU", gpu.milli, 1, WHOLE)
    yield from check_range((*path, "memory_mib"), "GPU memory in MiB", gpu.memory_mib, 0)
    kinds = {
        "a MIG profile": bool(gpu.profile),
        "GPU memory": gpu.memory_mib > 0,
        "a share of a GPU": gpu.milli != WHOLE,
    }
    given = [kind for kind, is_given in kinds.items() if is_given]
    if len(given) > 1:
        yield InputProblem(path, f"it asks for {' and '.join(given)} at once; keep one of them")
    if "" in gpu.models:
        yield InputProblem((*path, "models"), "a GPU model has no name; give it one or remove it")


def _constraints(constraints: Constraints) -> Iterator[InputProblem]:
    path = ("constraints",)
    for index, term in enumerate(constraints.affinity):
        yield from _term((*path, "affinity", index), term)
    for index, preference in enumerate(constraints.preferences):
        at = (*path, "preferences", index)
        weight = preference.weight
        yield from check_range((*at, "weight"), "a preference's weight", weight, 1, MOST_WEIGHT)
        yield from _term((*at, "term"), preference.term)
    for index, wish in enumerate(constraints.pod_preferences):
        at = (*path, "pod_preferences", index)
        weight = wish.weight
        yield from check_range(
            (*at, "weight"), "a wish's weight", weight, -MOST_WEIGHT, MOST_WEIGHT
        )
        yield from _pod_term((*at, "term"), wish.term)
    for field in ("near", "apart"):
        terms: tuple[PodTerm, ...] = getattr(constraints, field)
        for index, pod_term in enumerate(terms):
            yield from _pod_term((*path, field, index), pod_term)
    for index, spread in enumerate(constraints.spread):
        yield from _spread((*path, "spread", index), spread)
    for index, places in enumerate(constraints.reach):
        for at, place in enumerate(places):
            yield from _term((*path, "reach", index, at), place)


def _spread(path: Path, spread: Spread) -> Iterator[InputProblem]:
    yield from check_range((*path, "max_skew"), "the skew of a spread", spread.max_skew, 1)
    domains = spread.min_domains
    yield from check_range((*path, "min_domains"), "the fewest domains of a spread", domains, 1)
    yield from _label((*path, "topology_key"), spread.topology_key)
    yield from _term((*path, "selector"), spread.selector)


def _pod_term(path: Path, term: PodTerm) -> Iterator[InputProblem]:
    yield from _label((*path, "topology_key"), term.topology_key)
    yield from _term((*path, "selector"), term.selector)


def _term(path: Path, term: Term) -> Iterator[InputProblem]:
    for index, expression in enumerate(term):
        yield from _label((*path, index, "key"), expression.key)
        yield from _values((*path, index, "values"), expression)


def _label(path: Path, key: str) -> Iterator[InputProblem]:
    if not key:
        yield InputProblem(path, "a condition names no label; name the label it is about")


def _values(path: Path, expression: Expression) -> Iterator[InputProblem]:
    operator, values = expression.operator, expression.values
    fault = f'the condition "{expression.key} {operator.value}" has {len(values)} values'
    if operator in _NEEDS_NUMBER:
        if len(values) != 1 or not _is_integer(values[0]):
            yield InputProblem(path, f"{fault}; give exactly one, a whole number")
    elif operator in _NEEDS_VALUES:
        if not values:
            yield InputProblem(path, f"{fault}; give at least one")
    elif values:
        yield InputProblem(path, f"{fault}; it compares with none, so remove them")


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 19
