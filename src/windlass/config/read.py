"""Reading flags, environment and file; what cannot be used is refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.config.job_kinds import OwnKind
from windlass.config.schema import KINDS, PREFIX, Config, Option, options
from windlass.config.strict_section import ConfigSection
from windlass.model.errors import InputError, close_names
from windlass.model.validation.problems import listed

# A Service named "windlass" puts WINDLASS_PORT=tcp://... and the like into every pod beside it.
_SERVICE_LINK = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")

_Place: TypeAlias = tuple[str, int | None]


def read_config(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Config:
    """The configuration; InputError if it cannot be used. A flag of None is one not given."""
    told = _ConfigSource()
    if file is not None:
        _take_file(told, file)
    _take_environment(told, environment)
    for key, value in flags.items():
        if value is not None:
            told.say(key, value, (Option(key, None, "").flag, None))
    try:
        return Config.model_validate(told.values)
    except ValidationError as error:
        found = error.errors(include_url=False)
        where, line = told.place(_path(found[0]))
        raise InputError(where, line, _complaint(found[0]), len(found) - 1) from None


class _ConfigSource:
    """What was said so far, and where."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.places: dict[str, _Place] = {}

    def say(self, key: str, value: Any, place: _Place) -> None:
        """Take over one key; a later word replaces an earlier one."""
        section, _, name = key.rpartition(".")
        inside = self.values.setdefault(section, {}) if section else self.values
        if isinstance(inside, dict):  # else the file has text for a section: refused later
            inside[name] = value
            self.places.pop(key, None)  # so that what was said last stands last
            self.places[key] = place

    def place(self, path: tuple[str, ...]) -> _Place:
        """Where a key, or a part of it, was said last; else what stands around it."""
        for end in range(len(path), 0, -1):
            key = ".".join(path[:end])
            if found := [self.places[at] for at in self.places if f"{at}.".startswith(f"{key}.")]:
                return found[-1]
        return self.places.get("", ("configuration", None))


def _take_file(told: _ConfigSource, file: str) -> None:
    told.places[""] = (file, None)
    root, told.values = _loaded(file)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(file, None, "it holds no mapping; write lines like port: 10259")
    told.places.update(_lines(root, "", file))


def _loaded(file: str) -> tuple[yaml.Node, Any]:
    """The document of a file, as nodes that know their lines and as plain values."""
    try:
        with open(file, encoding="utf-8-sig") as stream:
            loader: Any = yaml.SafeLoader(stream.read() or "{}")
        root = loader.get_single_node() or yaml.MappingNode("", [])  # only comments
        return root, loader.construct_document(root) if root.value else {}
    except yaml.YAMLError as error:
        mark, why = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        line = mark.line + 1 if mark else None
        raise InputError(file, line, f"this is not YAML: {why}; correct the line") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(file, None, f"it cannot be read ({why}); check it") from None


def _lines(node: yaml.MappingNode, above: str, file: str) -> Iterator[tuple[str, _Place]]:
    """The line of every key, sections included; a key that stands twice is refused."""
    seen: dict[str, int] = {}
    for name, value in cast(list[tuple[yaml.Node, yaml.Node]], node.value):
        line, key = name.start_mark.line + 1, above + str(name.value)
        if key in seen:
            raise InputError(file, line, f'"{key}" stands in line {seen[key]} already; keep one')
        seen[key] = line
        yield key, (file, line)
        if isinstance(value, yaml.MappingNode) and not above:
            yield from _lines(value, f"{key}.", file)
        elif key == KINDS and isinstance(value, yaml.SequenceNode):
            for number, item in enumerate(cast(list[yaml.Node], value.value)):
                yield f"{key}.{number}", (file, item.start_mark.line + 1)
                if isinstance(item, yaml.MappingNode):
                    yield from _lines(item, f"{key}.{number}.", file)


def _take_environment(told: _ConfigSource, environment: Mapping[str, str]) -> None:
    known = {option.variable: option for option in options()}
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or _SERVICE_ADDRESS.fullmatch(text):
            continue
        if name in known:
            told.say(known[name].key, _from_text(text, known[name].default), (name, None))
            continue
        rest = name.removeprefix(PREFIX)
        close = close_names(rest, (each.removeprefix(PREFIX) for each in known))
        if close and not _SERVICE_LINK.fullmatch(rest):
            raise InputError(name, None, f'it is not known; did you mean "{PREFIX}{close[0]}"?')


def _from_text(text: str, like: Any) -> Any:
    """A variable's text as a value of the kind that is expected; left as it is if it is not one."""
    if isinstance(like, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if isinstance(like, int):
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
    if isinstance(like, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(like, dict):
        pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
        return {key: value for key, _, value in pairs} if all(p[1] for p in pairs) else text
    return text


_EXPECTED = dict.fromkeys(("dict", "model"), "a mapping") | {
    "bool": "true or false",
    "int": "a whole number",
    "invalid_key": "text",
    "list": "a list",
    "string": "text, in quotes",
}


def _path(error: ErrorDetails) -> tuple[str, ...]:
    """The keys on the way to a value; of lists, only rows have keys inside and so a number."""
    steps = list(error["loc"])
    rows = steps[:2] if steps[:1] == [KINDS] else []
    keys = [step for step in steps[len(rows) :] if isinstance(step, str) and step != "[key]"]
    return (*map(str, rows), *keys)


def _complaint(error: ErrorDetails) -> str:
    path, kind = _path(error), error["type"].removesuffix("_type")
    if kind == "extra_forbidden" and path:
        return _unknown(path)
    if kind == "value_error":
        return f"{'.'.join(path)}: {error.get('ctx', {})['error']}"
    expected = _EXPECTED.get(kind, error["msg"].removeprefix("Input should be "))
    found = _shown(error["input"])
    return f"{'.'.join(path) or 'keys'}: expected {expected}, found {found}; correct it"


def _unknown(path: tuple[str, ...]) -> str:
    section = Config.model_fields[path[0]].default if len(path) > 1 else Config()
    kind = OwnKind if section == [] else type(cast(ConfigSection, section))
    known = list(kind.model_fields)
    close = close_names("".join(path[-1:]), known)
    hint = f'did you mean "{close[0]}"?' if close else f"known are {listed(known, most=30)}"
    return f'the key "{".".join(path)}" is not known; {hint}'


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else f'"{str(value)[:40]}"'
