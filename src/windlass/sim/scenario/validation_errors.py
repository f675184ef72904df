"""The errors of pydantic as one sentence that names the object and the word.

queue "b": weight: expected a whole number, found "two"; correct it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic_core import ErrorDetails

from windlass.model.errors import close_names
from windlass.model.units import shown_value
from windlass.model.validation import join_names
from windlass.sim.scenario import schema
from windlass.sim.scenario.yaml_lines import Spot

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_THINGS = {
    "topologies": "topology",
    "nodes": "node",
    "queues": "queue",
    "jobs": "job",
    "groups": "group",
}
_WORDS: dict[str, type[schema.ScenarioModel]] = {
    "settings": schema.SettingsWords,
    "topologies": schema.TopologyWords,
    "nodes": schema.NodeWords,
    "queues": schema.QueueWords,
    "jobs": schema.JobWords,
    "events": schema.EventWords,
    "groups": schema.GroupWords,
    "gpus": schema.GpusWords,
    "taints": schema.TaintWords,
    "domain": schema.DomainWords,
    "mig": schema.MigWords,
    "affinity": schema.ConditionWords,
    "term": schema.ConditionWords,
    "preferences": schema.PreferenceWords,
    "tolerations": schema.TolerationWords,
    "near": schema.NeighbourWords,
    "apart": schema.NeighbourWords,
    "spread": schema.SpreadWords,
    "job expectation": schema.JobExpectation,
    "queue expectation": schema.QueueExpectation,
    "node expectation": schema.NodeExpectation,
}
"""The model of each word that opens a mapping."""


def complaint(error: ErrorDetails, spot: Spot) -> str:
    """Return one error of pydantic as a sentence that names the object it is in."""
    return ": ".join([*_subject(error["loc"], spot.value), _sentence(error)])


def _subject(loc: tuple[str | int, ...], value: object) -> Iterable[str]:
    """Return the named object that the error is in, and the word in it."""
    told: list[str] = []
    for step, following in zip(loc, (*loc[1:], ""), strict=True):
        value = _inside(value, step)
        name = _inside(_inside(value, following), "name")
        if step in _THINGS and isinstance(following, int):
            number = f"number {following + 1}"
            told.append(f"{_THINGS[str(step)]} {_quoted(name) or number}")
        elif isinstance(step, str) and " " not in step:
            told.append(shown_value(step))
    return told


def _inside(value: object, step: object) -> object:
    """Return the value that a step leads to; a variant (its name has a space) leads nowhere."""
    if isinstance(value, dict):
        if isinstance(step, str) and " " in step:
            return cast(object, value)
        return cast(dict[object, object], value).get(step)
    if isinstance(value, list) and isinstance(step, int):
        items = cast(list[object], value)
        return items[step] if step < len(items) else None
    return None


def _quoted(name: object) -> str:
    return f'"{shown_value(name)}"' if isinstance(name, str) and name else ""


def _sentence(error: ErrorDetails) -> str:
    kind, found, context = error["type"], shown_value(error["input"]), error.get("ctx", {})
    match kind:
        case "missing":
            return "it is missing; add it"
        case "extra_forbidden":
            return _unknown_word(error["loc"])
        case "value_error":
            return str(context["error"])
        case "literal_error" | "enum":
            return f"expected {context['expected']}, found {found}; correct it"
        case "union_tag_not_found":
            return "it names no job, queue or node; say what it is about"
        case _ if kind in _EXPECTED:
            quote = ", in quotes" if _EXPECTED[kind] == "text" else ""
            return f"expected {_EXPECTED[kind]}{quote}, found {found}; correct it"
        case _:
            return _bounds(error, found, context)


def _bounds(error: ErrorDetails, found: str, context: Mapping[str, Any]) -> str:
    match error["type"]:
        case "greater_than_equal":
            return f"{found} is too small; give at least {context['ge']}"
        case "less_than_equal":
            return f"{found} is too large; give at most {context['le']}"
        case "too_short":
            return "it is empty; give at least one"
        case "string_too_short":
            return "it is empty; give it a name"
        case "string_too_long":
            return f"it is too long; shorten it to {context['max_length']} characters"
        case _:
            return f"{error['msg'].lower()}, found {found}; correct it"


def _unknown_word(loc: tuple[str | int, ...]) -> str:
    openers = [step for step in loc[:-1] if step in _WORDS]
    known = (_WORDS[str(openers[-1])] if openers else schema.ScenarioWords).model_fields
    close = close_names(str(loc[-1]), known)
    if close:
        return f'this word is not known here; did you mean "{close[0]}"?'
    return f"this word is not known here; known are {join_names(known, most=30)}"
