"""What a request asks for, read from its parameters: as it was meant, or refused."""

from __future__ import annotations

import re

from starlette.datastructures import QueryParams

from windlass.web.auth.authentication import AccessDenied
from windlass.web.documents.jobs import ListWindow

NUMBER = re.compile("[0-9]{1,12}")
ROWS = ("waiting", "running", "finished", "count")


def window_of(asked: QueryParams) -> ListWindow:
    """Which part of the lists of jobs."""
    only(asked, *ROWS, "find")
    rows = {name: number_of(name, asked[name]) for name in ROWS if name in asked}
    return ListWindow(**rows, find=asked.get("find", ""))


def gang_of(asked: QueryParams) -> str:
    """Which gang."""
    only(asked, "gang")
    if not asked.get("gang"):
        raise AccessDenied(400, "Name a gang, as in ?gang=NAME; /api/jobs lists them.")
    return asked["gang"]


def since_of(asked: QueryParams) -> str:
    """The tag of the document that the asker has; empty if it has none."""
    only(asked, "since")
    return asked.get("since", "")


def time_of(asked: QueryParams) -> tuple[int | None, int | None]:
    """From which second on, or up to which: one of the two."""
    only(asked, "since", "until")
    if len(asked) != 1:
        raise AccessDenied(400, "Say either since or until, in seconds since 1970.")
    since, until = (
        number_of(each, asked[each]) if each in asked else None for each in ("since", "until")
    )
    return since, until


def key_of(asked: QueryParams) -> str:
    """Which recorded cycle."""
    only(asked, "key")
    if not asked.get("key"):
        raise AccessDenied(400, "Name a cycle by its key, as /api/recorded lists them.")
    return asked["key"]


def number_of(name: str, text: str) -> int:
    """A whole number."""
    if not NUMBER.fullmatch(text):
        raise AccessDenied(400, f'{name} is "{text[:40]}" and must be a whole number, such as 12.')
    return int(text)


def only(asked: QueryParams, *known: str) -> None:
    """Refuse parameters that would have no effect: they are spelt wrongly, or meant for others."""
    if strange := sorted(set(asked) - set(known)):
        what = " and ".join(strange)[:80]
        raise AccessDenied(400, f"{what}: no such parameter here; there is {', '.join(known)}.")
