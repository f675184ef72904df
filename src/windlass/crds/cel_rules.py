"""Validation rules in CEL, which the API server evaluates; each message says what to correct.

A rule sees one object. Faults that involve a second one, such as cycles, unknown parents and
guarantees above the parent's, are found later and reported in the conditions of the object
(`queue_validation.py`). So are guarantees per GPU model whose sum is too large, because CEL cannot
add over a map.
"""

from __future__ import annotations

from pydantic import JsonValue

PLAIN = ("gpu", "cpu", "memory")
"""The dimensions of an amount that are one number; `gpuModels` is a map."""


def _guarantee_and_limit(dimension: str) -> JsonValue:
    guarantee, limit = f"self.guarantee.{dimension}", f"self.limit.{dimension}"
    return {
        "rule": f"!({_given(guarantee)} && {_given(limit)} && {_above(guarantee, limit)})",
        "messageExpression": f"'guarantee of {dimension} is ' + {_text(guarantee)} + "
        f"', above its limit of ' + {_text(limit)} + '; {_LOWER}'",
        "message": f"guarantee of {dimension} is above its limit; {_LOWER}",
    }


def _lend_and_guarantee(dimension: str) -> JsonValue:
    lend, guarantee = f"self.lend.{dimension}", f"self.guarantee.{dimension}"
    excuses = [_given("self.guarantee.gpuModels")] if dimension == "gpu" else []
    too_much = f"{_given(guarantee)} ? {_above(lend, guarantee)} : {_above_zero(lend)}"
    wrong = " && ".join([_given(lend), *(f"!({excuse})" for excuse in excuses), f"({too_much})"])
    return {
        "rule": f"!({wrong})",
        "message": f"lend of {dimension} is above its guarantee; {_LEND_LESS}",
    }


def _of_models(less: str, more: str, unnamed: str, advice: str) -> JsonValue:
    """Return the rule that per GPU model the amount `less` is not above the amount `more`.

    `unnamed` is the CEL expression that decides for a model that `more` does not name.
    """
    lower, upper = f"self.{less}.gpuModels", f"self.{more}.gpuModels"
    above = _above(f"{lower}[model]", f"{upper}[model]")
    wrong = f"{_given(upper)} && model in {upper} ? {above} : {unnamed}"
    return {
        "rule": f"!({_given(lower)} && {lower}.exists(model, {wrong}))",
        "message": f"{less} of a GPU model is above its {more}; {advice}",
    }


def _given(path: str) -> str:
    """Return the CEL expression that a nested field is set; its parent may be missing too."""
    outer, _, _ = path.rpartition(".")
    return f"has({outer}) && has({path})"


def _above(one: str, other: str) -> str:
    return f"{_quantity(one)}.isGreaterThan({_quantity(other)})"


def _above_zero(field: str) -> str:
    return f"{_quantity(field)}.isGreaterThan(quantity('0'))"


def _quantity(field: str) -> str:
    return f"quantity({_text(field)})"


def _text(field: str) -> str:
    # Numbers are converted to text. A field that is text already must not be converted: the API
    # server would lose its maximum length, and reject the rule as too costly.
    return field if field.endswith(".memory") else f"string({field})"


_LOWER = "lower the guarantee or raise the limit"
_LENDS = _above_zero("self.lend.gpuModels[model]")
_LEND_LESS = "lower lend or raise the guarantee"

QUEUE_AMOUNTS: list[JsonValue] = [
    *map(_guarantee_and_limit, PLAIN),
    _of_models("guarantee", "limit", "false", _LOWER),
    *map(_lend_and_guarantee, PLAIN),
    _of_models("lend", "guarantee", _LENDS, _LEND_LESS),
]
"""Rules on the spec of a queue: guarantee <= limit, and lend <= guarantee."""

QUEUE: list[JsonValue] = [
    {
        "rule": "!has(self.spec) || !has(self.spec.parent) || "
        "self.spec.parent != self.metadata.name",
        "message": "a queue cannot be its own parent; name another queue, or none",
    },
    {
        "rule": "size(self.metadata.name) <= 63",
        "message": "the name of a queue is also the value of a label; "
        "shorten it to at most 63 characters",
    },
]
"""Rules on the whole Queue object; only these can see its name."""

POLICY: list[JsonValue] = [
    {
        "rule": "self.metadata.name == 'default'",
        "message": 'one policy counts for the whole cluster; name it "default"',
    }
]
"""Rules on the whole Policy object."""

GANG: list[JsonValue] = [
    {
        "rule": "has(self.minimum) || "
        "has(self.groups) && self.groups.exists(group, group.minimum > 0)",
        "message": "the gang would start with no task at all; "
        "give minimum, or groups with a minimum from 1 on",
    }
]
"""Rules on the spec of a gang."""
