"""The parameters of requests: read strictly, or refused with a sentence."""

from __future__ import annotations

import re

from starlette.datastructures import QueryParams

from windlass.web.auth import AccessDenied
from windlass.web.documents import ListWindow

NUMBER = re.compile("[0-9]{1,12}")
ROWS = ("waiting", "running", "finished", "count")


def window_of(params: QueryParams) -> ListWindow:
    """Return the requested window of the lists of jobs."""
    refuse_unknown(params, *ROWS, "find")
    rows = {name: number_of(name, params[name]) for name in ROWS if name in params}
    return ListWindow(**rows, find=params.get("find", ""))


def gang_of(params: QueryParams) -> str:
    """Return the requested gang."""
    refuse_unknown(params, "gang")
    if not params.get("gang"):
        raise AccessDenied(400, "Name a gang, as in ?gang=NAME; /api/jobs lists them.")
    return params["gang"]


def since_of(params: QueryParams) -> str:
    """Return the tag of the document that the viewer has; empty if it has none."""
    refuse_unknown(params, "since")
    return params.get("since", "")


def time_of(params: QueryParams) -> tuple[int | None, int | None]:
    """Return the first or the last second of a window; the other is None."""
    refuse_unknown(params, "since", "until")
    if len(params) != 1:
        raise AccessDenied(400, "Say either since or until, in seconds since 1970.")
    since, until = (
        number_of(name, params[name]) if name in params else None for name in ("since", "until")
    )
    return since, until


def key_of(params: QueryParams) -> str:
    """Return the key of the requested recorded cycle."""
    refuse_unknown(params, "key")
    if not params.get("key"):
        raise AccessDenied(400, "Name a cycle by its key, as /api/recorded lists them.")
    return params["key"]


def number_of(name: str, text: str) -> int:
    """Return a whole number; raise AccessDenied for anything else."""
    if not NUMBER.fullmatch(text):
        raise AccessDenied(400, f'{name} is "{text[:40]}" and must be a whole number, such as 12.')
    return int(text)


def refuse_unknown(params: QueryParams, *allowed: str) -> None:
    """Refuse unknown parameters: they are misspelt, or belong to another address."""
    if unknown := sorted(set(params) - set(allowed)):
        names = " and ".join(unknown)[:80]
        raise AccessDenied(400, f"{names}: no such parameter here; there is {', '.join(allowed)}.")
