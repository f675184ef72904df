"""Rules that the API server itself applies (CEL), each with a sentence that says what to do.

A rule sees one object. Whatever needs a second one, such as cycles, unknown parents and guarantees
above the parent's, is judged afterwards and stands in the object's conditions (`judge.py`); so are
guarantees per model that only add up to too much, since CEL does not add over a map.
"""

from __future__ import annotations

from pydantic import JsonValue

PLAIN = ("gpu", "cpu", "memory")


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
    named = f"{_given(guarantee)} ? {_above(lend, guarantee)} : {_above_zero(lend)}"
    wrong = " && ".join([_given(lend), *(f"!({each})" for each in excuses), f"({named})"])
    return {
        "rule": f"!({wrong})",
        "message": f"lend of {dimension} is above its guarantee; {_LEND_LESS}",
    }


def _of_models(less: str, more: str, unnamed: str, advice: str) -> JsonValue:
    """For GPU models; `unnamed` says when one is wrong that the other amount does not name."""
    mine, theirs = f"self.{less}.gpuModels", f"self.{more}.gpuModels"
    above = _above(f"{mine}[model]", f"{theirs}[model]")
    wrong = f"{_given(theirs)} && model in {theirs} ? {above} : {unnamed}"
    return {
        "rule": f"!({_given(mine)} && {mine}.exists(model, {wrong}))",
        "message": f"{less} of a GPU model is above its {more}; {advice}",
    }


def _given(path: str) -> str:
    """Is a field of a field there? Both may be left out."""
    outer, _, _ = path.rpartition(".")
    return f"has({outer}) && has({path})"


def _above(one: str, other: str) -> str:
    return f"{_quantity(one)}.isGreaterThan({_quantity(other)})"


def _above_zero(field: str) -> str:
    return f"{_quantity(field)}.isGreaterThan(quantity('0'))"


def _quantity(field: str) -> str:
    return f"quantity({_text(field)})"


def _text(field: str) -> str:
    # Whole numbers become text. What is text already must not be converted: the API server would
    # forget how long it can be, and find the rule too costly.
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
"""Of a queue's spec: what is guaranteed lies within the limit, what is lent in the guarantee."""

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
"""Of a whole queue; rules there may look at the name."""

POLICY: list[JsonValue] = [
    {
        "rule": "self.metadata.name == 'default'",
        "message": 'one policy counts for the whole cluster; name it "default"',
    }
]

GANG: list[JsonValue] = [
    {
        "rule": "has(self.minimum) || "
        "has(self.groups) && self.groups.exists(group, group.minimum > 0)",
        "message": "the gang would start with no task at all; "
        "give minimum, or groups with a minimum from 1 on",
    }
]
"""Of a gang's spec."""
