"""Reading and merging file, environment and flags, in rising order of precedence.

Input that cannot be used is refused in one sentence that names its place.
"""

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
from windlass.model.validation import join_names

# A Service named "windlass" puts WINDLASS_PORT=tcp://... and the like into every pod beside it.
_SERVICE_LINK = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")

_Place: TypeAlias = tuple[str, int | None]
"""A file with a line, or the name of a flag or variable without one."""


def read_config(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Config:
    """Return the configuration; raise InputError if it cannot be used.

    A flag with the value None was not given.
    """
    source = _ConfigSource()
    if file is not None:
        _take_file(source, file)
    _take_environment(source, environment)
    for key, value in flags.items():
        if value is not None:
            source.set(key, value, (Option(key, None, "").flag, None))
    try:
        return Config.model_validate(source.values)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        where, line = source.place(_path(problems[0]))
        raise InputError(where, line, _sentence(problems[0]), len(problems) - 1) from None


class _ConfigSource:
    """The values of the configuration so far, and the place of each."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """The values as `Config` takes them: sections are mappings."""
        self.places: dict[str, _Place] = {}
        """The place of each dotted key, the latest last; "" is the file as a whole."""

    def set(self, key: str, value: Any, place: _Place) -> None:
        """Set a dotted key; a later value replaces an earlier one."""
        section, _, name = key.rpartition(".")
        inside = self.values.setdefault(section, {}) if section else self.values
        # If the file has text where a section is expected, `Config` refuses it later.
        if isinstance(inside, dict):
            inside[name] = value
            self.places.pop(key, None)  # keep the latest last
            self.places[key] = place

    def place(self, path: tuple[str, ...]) -> _Place:
        """Return the latest place of a key or of anything inside it, else of what encloses it."""
        for end in range(len(path), 0, -1):
            key = ".".join(path[:end])
            places = [self.places[at] for at in self.places if f"{at}.".startswith(f"{key}.")]
            if places:
                return places[-1]
        return self.places.get("", ("configuration", None))


def _take_file(source: _ConfigSource, file: str) -> None:
    source.places[""] = (file, None)
    root, source.values = _loaded(file)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(file, None, "it holds no mapping; write lines like port: 10259")
    source.places.update(_lines(root, "", file))


def _loaded(file: str) -> tuple[yaml.Node, Any]:
    """Return the YAML document of a file, as nodes that know their lines and as plain values."""
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
    """Yield the line of every key, sections included; raise InputError for a repeated key."""
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


def _take_environment(source: _ConfigSource, environment: Mapping[str, str]) -> None:
    known = {option.variable: option for option in options()}
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or _SERVICE_ADDRESS.fullmatch(text):
            continue
        if name in known:
            source.set(known[name].key, _from_text(text, known[name].default), (name, None))
            continue
        rest = name.removeprefix(PREFIX)
        close = close_names(rest, (variable.removeprefix(PREFIX) for variable in known))
        if close and not _SERVICE_LINK.fullmatch(rest):
            raise InputError(name, None, f'it is not known; did you mean "{PREFIX}{close[0]}"?')


def _from_text(text: str, like: Any) -> Any:
    """Return the text of a variable as a value of the same type as `like`.

    Text that cannot be converted is returned as it is; `Config` then refuses it.
    """
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
    """Return the keys that lead to a faulty value; indexes only for the rows of `kinds`."""
    steps = list(error["loc"])
    rows = steps[:2] if steps[:1] == [KINDS] else []
    keys = [step for step in steps[len(rows) :] if isinstance(step, str) and step != "[key]"]
    return (*map(str, rows), *keys)


def _sentence(error: ErrorDetails) -> str:
    """Return the sentence for a problem that pydantic has found."""
    path, kind = _path(error), error["type"].removesuffix("_type")
    if kind == "extra_forbidden" and path:
        return _unknown(path)
    if kind == "value_error":
        return f"{'.'.join(path)}: {error.get('ctx', {})['error']}"
    expected = _EXPECTED.get(kind, error["msg"].removeprefix("Input should be "))
    given = _shown(error["input"])
    return f"{'.'.join(path) or 'keys'}: expected {expected}, found {given}; correct it"


def _unknown(path: tuple[str, ...]) -> str:
    """Return the sentence for a key that does not exist."""
    section = Config.model_fields[path[0]].default if len(path) > 1 else Config()
    kind = OwnKind if section == [] else type(cast(ConfigSection, section))
    known = list(kind.model_fields)
    close = close_names("".join(path[-1:]), known)
    hint = f'did you mean "{close[0]}"?' if close else f"known are {join_names(known, most=30)}"
    return f'the key "{".".join(path)}" is not known; {hint}'


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else f'"{str(value)[:40]}"'
