"""The few words of Helm's language that the chart uses, so that no Helm is needed to install.

    {{ .Values.image.tag }}                    the value
    {{ .Values.a | default .Chart.AppVersion }}
    {{ toJson .Values.resources }}             as JSON, which is YAML wherever it stands
    {{ toJson .Values.config | sha256sum }}
    {{ join "," .Values.webhook.controllers }}
    {{ include "windlass.labels" . }}          one of the lines in _lines.tpl
    {{- if .Values.webhook.enabled }}          on a line of its own, up to {{- else }} or {{- end }}

Anything else is refused: the chart must stay within what both Helm and this file understand.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

Scope = Mapping[str, Any]
"""What `.` is: Values, Release, Chart."""
Lines = Mapping[str, str]

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_ALONE = re.compile(r"\s*\{\{-?\s*(?:(if)\s+(\S+)|(else)|(end))\s*\}\}\s*")
_LINE = re.compile(r'\{\{- define "(\S+)" -\}\}\n(.*)\n\{\{- end \}\}')
_FORMS = tuple(
    (name, re.compile(pattern))
    for name, pattern in {
        "value": r"(\.\S+)",
        "default": r"(\.\S+) \| default (\.\S+)",
        "json": r"toJson (\.\S+)",
        "digest": r"toJson (\.\S+) \| sha256sum",
        "join": r'join "(\S+)" (\.\S+)',
        "include": r'include "(\S+)" \.',
    }.items()
)


class NotInChart(Exception):
    """A template uses a word that is not understood here: a mistake of ours, not of a user."""


def lines_of(text: str) -> dict[str, str]:
    """The lines that a file of definitions names."""
    return dict(_LINE.findall(text))


def render(text: str, scope: Scope, lines: Lines) -> str:
    """The template with everything filled in."""
    kept: list[str] = []
    shown = [True]
    for line in text.splitlines():
        if not (found := _ALONE.fullmatch(line)):
            if all(shown):
                kept.append(_fill(line, scope, lines))
        elif found[1]:
            shown.append(bool(_look_up(found[2], scope)))
        elif found[3]:
            shown[-1] = not shown[-1]
        else:
            shown.pop()
    if len(shown) != 1:
        raise NotInChart("there are more ifs than ends")
    return "\n".join(kept) + "\n"


def _fill(line: str, scope: Scope, lines: Lines) -> str:
    return _ACTION.sub(lambda found: _say(found[1], scope, lines), line)


def _say(words: str, scope: Scope, lines: Lines) -> str:
    for name, form in _FORMS:
        if found := form.fullmatch(words):
            return _said(name, list(found.groups()), scope, lines)
    raise NotInChart(f"{{{{ {words} }}}} is not understood")


def _said(form: str, given: list[str], scope: Scope, lines: Lines) -> str:
    match form:
        case "value":
            return str(_look_up(given[0], scope))
        case "default":
            return str(_look_up(given[0], scope) or _look_up(given[1], scope))
        case "json":
            return _as_json(_look_up(given[0], scope))
        case "digest":
            return hashlib.sha256(_as_json(_look_up(given[0], scope)).encode()).hexdigest()
        case "join":
            return given[0].join(_look_up(given[1], scope))
        case _:
            return _fill(lines[given[0]], scope, lines)


def _look_up(path: str, scope: Scope) -> Any:
    found: Any = scope
    for step in path.removeprefix(".").split("."):
        found = cast(Mapping[str, Any], found)[step]
    return found


def _as_json(value: Any) -> str:
    """JSON to the letter as Helm writes it, since digests are made of it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
