"""The daemon's configuration: flags before environment before file before defaults.

    file          windlass.yaml: `lease: {duration_s: 15}`
    environment   WINDLASS_LEASE_DURATION_S=15
    flags         --lease-duration-s 15, handed over as {"lease.duration_s": 15}

An unknown key, or a value of another kind, is refused in one sentence that says where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from windlass.model.errors import InputError, close_names
from windlass.model.problems import listed

PREFIX = "WINDLASS_"

# A Service named "windlass" puts WINDLASS_PORT=tcp://... and the like into every pod beside it.
_SERVICE_LINK = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
_Place: TypeAlias = tuple[str, int | None]
Seconds: TypeAlias = Annotated[int, Field(ge=1, le=86_400)]


class Section(BaseModel):
    """What all parts share: nothing is guessed, and unknown keys are errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class Lease(Section):
    """Leadership; the names are those of kube-scheduler."""

    name: Text = "windlass"
    """The Lease by which one of several replicas leads."""
    namespace: Text = "kube-system"
    """Where the Lease lies."""
    duration_s: Seconds = 15
    """Another replica takes over when the Lease was not renewed for so long."""
    renew_deadline_s: Seconds = 10
    """A leader that could not renew for so long writes nothing more."""
    retry_s: Seconds = 2
    """How often a Lease is renewed, or asked for."""

    @model_validator(mode="after")
    def _in_order(self) -> Lease:
        if not self.retry_s < self.renew_deadline_s < self.duration_s:
            found = f"{self.retry_s}, {self.renew_deadline_s} and {self.duration_s}"
            names = "retry_s, renew_deadline_s and duration_s"
            raise ValueError(f"{names} are {found}; each must be above the one before it")
        return self


class Writes(Section):
    """How hard the API server is pressed."""

    concurrency: Annotated[int, Field(ge=1, le=1024)] = 16
    """So many writes are in flight at most."""
    per_second: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """So many writes begin in a second at most; 0: as many as there are."""


class Cycle(Section):
    """How often decisions are made."""

    at_least_ms: Annotated[int, Field(ge=0, le=60_000)] = 20
    """Changes are gathered for so long before they are decided on."""
    at_most_s: Seconds = 5
    """A decision is made at least so often, even if nothing has changed."""


class Log(Section):
    """What is logged, on stderr."""

    format: Literal["json", "text"] = "json"
    """One JSON object per line, or text for people."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is told."""


class Config(Section):
    """All that a daemon is told from outside."""

    scheduler_names: Annotated[list[Text], Field(min_length=1, max_length=16)] = ["windlass"]
    """The schedulerName of pods that it answers to."""
    kubeconfig: str = ""
    """The kubeconfig file; empty: $KUBECONFIG, the pod's own account, or ~/.kube/config."""
    context: str = ""
    """The context of the kubeconfig; empty: its current one."""
    namespaces: list[Text] = []
    """Only pods of these namespaces are scheduled; empty: all."""
    node_selector: dict[Text, str] = {}
    """Only nodes with these labels are used; empty: all."""
    default_queue: str = ""
    """The queue of namespaces that no queue names; empty: their pods are refused with a reason."""
    shadow: bool = False
    """Decide and report, but write nothing."""
    replica: str = ""
    """What this replica calls itself in the Lease; empty: the name of its host."""
    address: Text = "0.0.0.0"
    """Where health, readiness and metrics are served."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 10259
    """Health, readiness and metrics are served here; 0: any free port."""
    evictions_per_queue_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 600
    """So many pods of one queue are evicted in a minute at most; 0: none."""
    snapshot_folder: str = ""
    """Where SIGUSR1 writes a snapshot for a bug report; empty: the working folder."""
    lease: Lease = Lease()
    writes: Writes = Writes()
    cycle: Cycle = Cycle()
    log: Log = Log()


@dataclass(frozen=True, slots=True)
class Option:
    """One key (lease.duration_s), for flags and for the documentation."""

    key: str
    default: Any
    meaning: str

    @property
    def variable(self) -> str:  # in the environment
        return PREFIX + self.key.replace(".", "_").upper()

    @property
    def flag(self) -> str:  # on the command line
        return "--" + self.key.replace(".", "-").replace("_", "-")


def read_config(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Config:
    """The configuration; InputError if it cannot be used. A flag of None is one not given."""
    told = _Told()
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


def options(section: type[BaseModel] = Config, above: str = "") -> Iterator[Option]:
    """Every key, in the order of the documentation."""
    for name, field in section.model_fields.items():
        if isinstance(field.default, Section):
            yield from options(type(field.default), f"{name}.")
        else:
            yield Option(above + name, field.default, " ".join((field.description or "").split()))


class _Told:
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


def _take_file(told: _Told, file: str) -> None:
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


def _take_environment(told: _Told, environment: Mapping[str, str]) -> None:
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
    return tuple(step for step in error["loc"] if isinstance(step, str) and step != "[key]")


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
    known = list(type(cast(Section, section)).model_fields)
    close = close_names("".join(path[-1:]), known)
    hint = f'did you mean "{close[0]}"?' if close else f"known are {listed(known, most=30)}"
    return f'the key "{".".join(path)}" is not known; {hint}'


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else f'"{str(value)[:40]}"'
